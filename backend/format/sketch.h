/*
 * sketch.h - count-min sketches: sizes, places of counters and bytes; pure functions.
 *
 *             width
 *          ┌─────────────────┐
 *   depth  │ . . 3 . . . . . │ ◄─ item_mix(hash, 0)      an item has one counter in each row. Others may increment it
 *          │ . . . . . 5 . . │ ◄─ item_mix(hash, 1)      too, so the item's count is at most the least of them.
 *          └─────────────────┘
 *
 * The rows lie one behind the other, and are cut into pages of 128 counters of 32 bits, big-endian. Pages without counts are not
 * stored. So an increment writes at most `depth` pages, however wide the sketch is.
 *
 * The bytes after version and size in the metadata row: u64 sum of all increments │ u32 width │ u32 depth
 */
#pragma once

#include "shared/arena.h"
#include "shared/bytes.h"

enum {
    SKETCH_PAGE_COUNTERS = 128,
    SKETCH_PAGE_BYTES = SKETCH_PAGE_COUNTERS * 4,
    SKETCH_COUNTERS_MAX = 1 << 24, /* width x depth */
    SKETCH_DEPTH_MAX = 64,         /* pages that an increment may write */
    SKETCH_SUB_BYTES = 4,          /* of a page's row: u32 page */
};

struct sketch {
    uint64_t count; /* sum of all increments; at most INT64_MAX */
    uint32_t width;
    uint32_t depth;
};

bool sketch_size_ok(uint64_t width, uint64_t depth);
/* The width for an error of `error` x count, and the depth for a probability of exceeding it; 0: there is no such depth. */
double sketch_width(double error);
double sketch_depth(double probability);

/* The number of the item's counter in a row of the sketch. */
uint32_t sketch_place(const struct sketch *sketch, uint32_t row, uint64_t hash);
/* Only the last page may have less than SKETCH_PAGE_BYTES. */
size_t sketch_page_bytes(const struct sketch *sketch, uint32_t page);
uint64_t sketch_bytes(const struct sketch *sketch);

/* The bytes of the metadata row. */
struct bytes sketch_encode(struct arena *arena, const struct sketch *sketch);
bool sketch_decode(struct bytes data, struct sketch *sketch);
/* The sub key of a page, and back. False: the sketch has no such page. */
struct bytes sketch_sub(struct arena *arena, uint32_t page);
bool sketch_sub_decode(const struct sketch *sketch, struct bytes sub, uint32_t *page);
