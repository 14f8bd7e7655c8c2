#include "backend/format/sketch.h"

#include "backend/format/item_hash.h"
#include "shared/byte_order.h"

#include <math.h>

enum { SKETCH_META_BYTES = 8 + 4 + 4 };

bool sketch_size_ok(uint64_t width, uint64_t depth)
{
    return width && depth && depth <= SKETCH_DEPTH_MAX && width <= SKETCH_COUNTERS_MAX / depth;
}

double sketch_width(double error)
{
    return ceil(2 / error);
}

/* In single precision, as in RedisBloom, so that the depth is the same. */
double sketch_depth(double probability)
{
    return ceil((double)(log10f((float)probability) / log10f(0.5f)));
}

static uint32_t sketch_counters(const struct sketch *sketch)
{
    return sketch->width * sketch->depth;
}

uint32_t sketch_place(const struct sketch *sketch, uint32_t row, uint64_t hash)
{
    return item_place(hash, row, sketch->width);
}

size_t sketch_page_bytes(const struct sketch *sketch, uint32_t page)
{
    uint32_t left = sketch_counters(sketch) - page * SKETCH_PAGE_COUNTERS;
    return left < SKETCH_PAGE_COUNTERS ? (size_t)left * 4 : SKETCH_PAGE_BYTES;
}

uint64_t sketch_bytes(const struct sketch *sketch)
{
    return (uint64_t)sketch_counters(sketch) * 4;
}

struct bytes sketch_encode(struct arena *arena, const struct sketch *sketch)
{
    char *data = arena_alloc(arena, SKETCH_META_BYTES);
    put_be64(data, sketch->count);
    put_be32(data + 8, sketch->width);
    put_be32(data + 12, sketch->depth);
    return (struct bytes){data, SKETCH_META_BYTES};
}

bool sketch_decode(struct bytes data, struct sketch *sketch)
{
    if (data.len != SKETCH_META_BYTES)
        return false;
    *sketch = (struct sketch){
        .count = get_be64(data.data),
        .width = get_be32(data.data + 8),
        .depth = get_be32(data.data + 12),
    };
    return sketch->count <= INT64_MAX && sketch_size_ok(sketch->width, sketch->depth);
}

struct bytes sketch_sub(struct arena *arena, uint32_t page)
{
    char *sub = arena_alloc(arena, SKETCH_SUB_BYTES);
    put_be32(sub, page);
    return (struct bytes){sub, SKETCH_SUB_BYTES};
}

bool sketch_sub_decode(const struct sketch *sketch, struct bytes sub, uint32_t *page)
{
    if (sub.len != SKETCH_SUB_BYTES)
        return false;
    *page = get_be32(sub.data);
    return *page < (sketch_counters(sketch) + SKETCH_PAGE_COUNTERS - 1) / SKETCH_PAGE_COUNTERS;
}
