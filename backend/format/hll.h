/*
 * hll.h - HyperLogLogs in strings, in Redis' format: estimates of the number of different elements.
 *
 *   ┌──────┬──────────┬───┬────────────────────────┬───────────────────────────┐
 *   │ HYLL │ encoding │ 0 │ cardinality            │ 16384 registers           │
 *   │ 4    │ u8       │ 3 │ u64 little-endian;     │ dense:  6 bits each       │
 *   │      │          │   │ bit 63 = not valid     │ sparse: runs              │
 *   └──────┴──────────┴───┴────────────────────────┴───────────────────────────┘
 *
 *   dense register i: bits 6 i … 6 i + 5 of the bytes, counted from the lowest bit of each byte
 *   sparse run        00llllll               l + 1 registers are 0
 *                     01llllll llllllll      l + 1 registers are 0
 *                     1vvvvvll               l + 1 registers are v + 1
 *
 * An element's hash chooses a register (low 14 bits) and a rank (1 + zeros after them, 51 at most); a register keeps
 * its greatest rank. Sparse registers become dense when a rank exceeds 32 or their bytes exceed a limit.
 * Pure functions on bytes.
 *
 * Estimator: O. Ertl, New cardinality estimation algorithms for HyperLogLog sketches, arXiv:1702.01284. Hash:
 * MurmurHash64A by A. Appleby.
 */
#pragma once

#include "shared/arena.h"
#include "shared/bytes.h"

enum {
    HLL_REGISTERS = 16384,
    HLL_HEADER_BYTES = 16,
    HLL_DENSE_BYTES = HLL_HEADER_BYTES + HLL_REGISTERS * 6 / 8,
    HLL_CACHE_AT = 8, /* offset of the cached cardinality in the header */
    HLL_CACHE_BYTES = 8,
};

enum hll_encoding { HLL_DENSE = 0, HLL_SPARSE = 1 };

/* Does a string of `len` bytes that begins with this header look like a HyperLogLog? */
bool hll_is_header(const char header[HLL_HEADER_BYTES], uint64_t len);
static inline enum hll_encoding hll_encoding(const char *header)
{
    return (enum hll_encoding)header[4];
}
/* The cached cardinality; false: the cache is not valid. */
bool hll_cached(const char *header, uint64_t *cardinality);
void hll_cache(char *header, uint64_t cardinality);
/* Invalidates the cached cardinality. */
void hll_uncache(char *header);

/* The register of an element, and its rank. */
void hll_hash(struct bytes element, uint32_t *index, uint8_t *rank);

/* A dense register spans one or two bytes after the header. */
struct hll_place {
    uint32_t byte; /* offset in the whole string */
    uint8_t shift;
    uint8_t bytes;
};
struct hll_place hll_place(uint32_t index);
uint8_t hll_place_get(const char *bytes, struct hll_place place);
void hll_place_set(char *bytes, struct hll_place place, uint8_t rank);

/* A HyperLogLog in memory, for changes. */
struct hll {
    struct arena *arena;
    char *data;
    size_t len;
    size_t cap;
};

enum hll_change { HLL_SAME, HLL_CHANGED, HLL_BAD };

/* Makes an empty sparse HyperLogLog with a valid cached cardinality. */
void hll_init(struct hll *hll, struct arena *arena);
/* Copies a value that passed hll_is_header. */
void hll_init_copy(struct hll *hll, struct arena *arena, struct bytes value);
static inline struct bytes hll_bytes(const struct hll *hll)
{
    return (struct bytes){hll->data, hll->len};
}
/* Raises a register to `rank`; HLL_BAD: the runs are damaged. Does not change the cache. */
enum hll_change hll_raise(struct hll *hll, uint32_t index, uint8_t rank, uint64_t sparse_bytes_max);
/* Converts the registers to the dense form. False: the runs are damaged. */
bool hll_make_dense(struct hll *hll);

/* Raises 16384 registers, one byte each, to those of a value that passed hll_is_header. False: its runs are damaged. */
bool hll_merge(uint8_t *registers, struct bytes value);
uint64_t hll_count(const uint8_t *registers);

/* Iterates over sparse runs; *at starts at HLL_HEADER_BYTES. A run of two bytes whose second byte is missing is read with
 * 0 in its place, because Redis reads the zero byte behind a string there. */
struct hll_run {
    char kind; /* 'z' and 'Z': zeros, in one byte or two; 'v': a value */
    uint8_t bytes;
    uint8_t value;
    uint32_t length;
};
bool hll_run_next(struct bytes value, size_t *at, struct hll_run *run);
