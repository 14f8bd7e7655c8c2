/*
 * bloom.h - Bloom filters with layers: sizes, hashes and bytes; pure functions.
 *
 *   filter ── layer 0: 100 items, error e/2 ── layer 1: 200 items, error e/4 ── …      a full layer gets a bigger one behind it
 *                │
 *                ├── page 0, page 1, page 2 …      512 bytes each; a filter that needs less has one smaller page
 *                │
 *   item ── XXH3 ── 64 bits: which page; and mixed again and again: which bits in this page
 *
 * All bits of an item are in one page, so adding an item writes one row of a layer and a look-up reads one. Pages do not get
 * equally many items, which makes false positives more frequent than in a filter without pages; a layer gets more bits to make
 * up for this. The error rates of the layers are halved from layer to layer, so their sum stays below that of the filter.
 *
 * The bytes after version and size in the metadata row of a filter; integers are big-endian:
 *   8 error rate, a double │ u32 expansion, 0: the filter does not grow │ u8 layers │ of each layer:
 *   u64 capacity │ u64 items │ u32 pages │ u16 bits of a page │ u8 hashes
 */
#pragma once

#include "shared/arena.h"
#include "shared/bytes.h"

enum {
    BLOOM_PAGE_BYTES = 512,
    BLOOM_LAYERS_MAX = 32,
    BLOOM_SUB_BYTES = 5, /* of a page's row: u8 layer, u32 page */
};

/* The most items of a layer. With it the pages of a layer have numbers of 32 bits. */
static const uint64_t BLOOM_CAPACITY_MAX = UINT64_C(1) << 33;
static const uint64_t BLOOM_FIRST_CAPACITY_MAX = UINT64_C(1) << 30;
static const double BLOOM_ERROR_MIN = 1e-9;

struct bloom_layer {
    uint64_t capacity;
    uint64_t items; /* that were added, and were not in the filter before */
    uint32_t pages;
    uint16_t page_bits; /* a multiple of 8 */
    uint8_t hashes;
};

struct bloom {
    double error;
    uint32_t expansion; /* capacity of a layer by that of the layer before; 0: there is one layer */
    uint8_t count;
    struct bloom_layer layers[BLOOM_LAYERS_MAX];
};

/* A filter with one layer. */
void bloom_init(struct bloom *bloom, double error, uint64_t capacity, uint32_t expansion);
/* Adds a layer. False: the filter has as many as it may have, or the layer would be too big. */
bool bloom_grow(struct bloom *bloom);

/* Sums over all layers of a filter. */
struct bloom_sums {
    uint64_t capacity;
    uint64_t items;
    uint64_t bytes; /* of pages, also of those without a row */
};

struct bloom_sums bloom_sums(const struct bloom *bloom);

static inline size_t bloom_page_bytes(const struct bloom_layer *layer)
{
    return layer->page_bits / 8;
}
/* The expected rate of false positives of a full layer. */
double bloom_layer_rate(const struct bloom_layer *layer);

/* The bytes of the metadata row. */
struct bytes bloom_encode(struct arena *arena, const struct bloom *bloom);
bool bloom_decode(struct bytes data, struct bloom *bloom);
/* The sub key of a page, and back. False: the filter has no such page. */
struct bytes bloom_sub(struct arena *arena, uint8_t layer, uint32_t page);
bool bloom_sub_decode(const struct bloom *bloom, struct bytes sub, uint8_t *layer, uint32_t *page);

/* The page of an item with this item_hash. */
uint32_t bloom_page(const struct bloom_layer *layer, uint64_t hash);
/* Are all bits of the item set in its page? */
bool bloom_has(const struct bloom_layer *layer, const char *page, uint64_t hash);
void bloom_add(const struct bloom_layer *layer, char *page, uint64_t hash);
