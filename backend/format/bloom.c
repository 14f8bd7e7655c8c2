#include "backend/format/bloom.h"

#include "backend/format/item_hash.h"
#include "shared/byte_order.h"
#include "shared/check.h"

#include <math.h>

enum {
    PAGE_BITS = BLOOM_PAGE_BYTES * 8,
    PAGE_BITS_MIN = 64,
    HEAD_BYTES = 8 + 4 + 1,
    LAYER_BYTES = 8 + 8 + 4 + 2 + 1,
    HASHES_MAX = 100,
    DEVIATIONS =
        9, /* pages with more or fewer items than this many standard deviations do not matter */
};

/* ---- sizes ---- */

/* The rate of false positives in a page with this many items. */
static double page_rate(const struct bloom_layer *layer, double items)
{
    double set = 1 - exp(items * layer->hashes * log1p(-1.0 / layer->page_bits));
    return pow(set, layer->hashes);
}

/* The mean over pages, whose numbers of items have a Poisson distribution. */
double bloom_layer_rate(const struct bloom_layer *layer)
{
    double mean = (double)layer->capacity / layer->pages;
    if (layer->pages == 1)
        return page_rate(layer, mean);
    double spread = DEVIATIONS * sqrt(mean) + DEVIATIONS;
    double items = floor(mean > spread ? mean - spread : 0);
    double chance = exp(items * log(mean) - mean - lgamma(items + 1));
    double rate = 0;
    for (; items <= mean + spread; items++) {
        rate += chance * page_rate(layer, items);
        chance *= mean / (items + 1);
    }
    return rate;
}

/* Gives the layer about this many bits. */
static void set_bits(struct bloom_layer *layer, double bits)
{
    if (bits <= PAGE_BITS) {
        layer->pages = 1;
        layer->page_bits = (uint16_t)(8 * ceil(bits / 8));
        if (layer->page_bits < PAGE_BITS_MIN)
            layer->page_bits = PAGE_BITS_MIN;
    } else {
        layer->pages = (uint32_t)ceil(bits / PAGE_BITS);
        layer->page_bits = PAGE_BITS;
    }
}

static void layer_init(struct bloom_layer *layer, double error, uint64_t capacity)
{
    const double ln2 = log(2);
    double bits = ceil((double)capacity * -log(error) / (ln2 * ln2));
    int hashes = (int)ceil(-log2(error));
    CHECK(capacity && capacity <= BLOOM_CAPACITY_MAX);
    *layer = (struct bloom_layer){.capacity = capacity};
    layer->hashes = (uint8_t)(hashes < 1 ? 1 : hashes > HASHES_MAX ? HASHES_MAX : hashes);
    do {
        set_bits(layer, bits);
        bits = bits * 1.02 + 8;
    } while (bloom_layer_rate(layer) > error);
}

/* The error rate of a layer. That of a filter which does not grow is the filter's. */
static double layer_error(const struct bloom *bloom, uint8_t layer)
{
    return bloom->expansion ? ldexp(bloom->error, -(layer + 1)) : bloom->error;
}

void bloom_init(struct bloom *bloom, double error, uint64_t capacity, uint32_t expansion)
{
    *bloom = (struct bloom){.error = error, .expansion = expansion, .count = 1};
    layer_init(&bloom->layers[0], layer_error(bloom, 0), capacity);
}

bool bloom_grow(struct bloom *bloom)
{
    uint64_t capacity;
    CHECK(bloom->expansion && bloom->count);
    if (bloom->count == BLOOM_LAYERS_MAX ||
        __builtin_mul_overflow(bloom->layers[bloom->count - 1].capacity, bloom->expansion,
                               &capacity) ||
        capacity > BLOOM_CAPACITY_MAX)
        return false;
    layer_init(&bloom->layers[bloom->count], layer_error(bloom, bloom->count), capacity);
    bloom->count++;
    return true;
}

struct bloom_sums bloom_sums(const struct bloom *bloom)
{
    struct bloom_sums sums = {0};
    for (uint8_t i = 0; i < bloom->count; i++) {
        const struct bloom_layer *layer = &bloom->layers[i];
        sums.capacity += layer->capacity;
        sums.items += layer->items;
        sums.bytes += (uint64_t)layer->pages * bloom_page_bytes(layer);
    }
    return sums;
}

/* ---- bytes ---- */

struct bytes bloom_encode(struct arena *arena, const struct bloom *bloom)
{
    size_t size = HEAD_BYTES + (size_t)bloom->count * LAYER_BYTES;
    char *data = arena_alloc(arena, size);
    uint64_t error;
    memcpy(&error, &bloom->error, sizeof error);
    put_be64(data, error);
    put_be32(data + 8, bloom->expansion);
    data[12] = (char)bloom->count;
    char *to = data + HEAD_BYTES;
    for (uint8_t i = 0; i < bloom->count; i++, to += LAYER_BYTES) {
        const struct bloom_layer *layer = &bloom->layers[i];
        put_be64(to, layer->capacity);
        put_be64(to + 8, layer->items);
        put_be32(to + 16, layer->pages);
        put_be16(to + 20, layer->page_bits);
        to[22] = (char)layer->hashes;
    }
    return (struct bytes){data, size};
}

static bool layer_decode(const char *data, struct bloom_layer *layer)
{
    *layer = (struct bloom_layer){
        .capacity = get_be64(data),
        .items = get_be64(data + 8),
        .pages = get_be32(data + 16),
        .page_bits = get_be16(data + 20),
        .hashes = (uint8_t)data[22],
    };
    return layer->capacity && layer->capacity <= BLOOM_CAPACITY_MAX &&
           layer->items <= layer->capacity && layer->pages && layer->page_bits >= PAGE_BITS_MIN &&
           layer->page_bits <= PAGE_BITS && layer->page_bits % 8 == 0 && layer->hashes &&
           layer->hashes <= HASHES_MAX;
}

bool bloom_decode(struct bytes data, struct bloom *bloom)
{
    if (data.len < HEAD_BYTES)
        return false;
    uint64_t error = get_be64(data.data);
    memcpy(&bloom->error, &error, sizeof error);
    bloom->expansion = get_be32(data.data + 8);
    bloom->count = (uint8_t)data.data[12];
    if (!(bloom->error >= BLOOM_ERROR_MIN && bloom->error < 1) || !bloom->count ||
        bloom->count > (bloom->expansion ? BLOOM_LAYERS_MAX : 1) ||
        data.len != HEAD_BYTES + (size_t)bloom->count * LAYER_BYTES)
        return false;
    for (uint8_t i = 0; i < bloom->count; i++)
        if (!layer_decode(data.data + HEAD_BYTES + (size_t)i * LAYER_BYTES, &bloom->layers[i]))
            return false;
    return true;
}

struct bytes bloom_sub(struct arena *arena, uint8_t layer, uint32_t page)
{
    char *sub = arena_alloc(arena, BLOOM_SUB_BYTES);
    sub[0] = (char)layer;
    put_be32(sub + 1, page);
    return (struct bytes){sub, BLOOM_SUB_BYTES};
}

bool bloom_sub_decode(const struct bloom *bloom, struct bytes sub, uint8_t *layer, uint32_t *page)
{
    if (sub.len != BLOOM_SUB_BYTES)
        return false;
    *layer = (uint8_t)sub.data[0];
    *page = get_be32(sub.data + 1);
    return *layer < bloom->count && *page < bloom->layers[*layer].pages;
}

/* ---- items ---- */

uint32_t bloom_page(const struct bloom_layer *layer, uint64_t hash)
{
    return item_scale(hash, layer->pages);
}

/* `number`: one half of item_mix, which serves two hash functions. */
static uint32_t page_bit(const struct bloom_layer *layer, uint32_t number)
{
    return (uint32_t)((uint64_t)number * layer->page_bits >> 32);
}

bool bloom_has(const struct bloom_layer *layer, const char *page, uint64_t hash)
{
    uint64_t mixed = 0;
    for (uint32_t i = 0; i < layer->hashes; i++) {
        mixed = i % 2 ? mixed >> 32 : item_mix(hash, i / 2);
        uint32_t bit = page_bit(layer, (uint32_t)mixed);
        if (!(page[bit / 8] & 1 << bit % 8))
            return false;
    }
    return true;
}

void bloom_add(const struct bloom_layer *layer, char *page, uint64_t hash)
{
    uint64_t mixed = 0;
    for (uint32_t i = 0; i < layer->hashes; i++) {
        mixed = i % 2 ? mixed >> 32 : item_mix(hash, i / 2);
        uint32_t bit = page_bit(layer, (uint32_t)mixed);
        page[bit / 8] = (char)(page[bit / 8] | 1 << bit % 8);
    }
}
