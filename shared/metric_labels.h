/*
 * metric_labels.h - metrics that come once for each shard, command, namespace …: a row of words for each value of the
 * label and each thread.
 *
 *   "get" ─► cell of worker 0 │calls│errors│histogram …│     each is written by its own thread only,
 *        └─► cell of worker 1 │calls│errors│histogram …│     with relaxed loads and stores
 *   labels_print ─► for each value, the sum over its cells
 *
 * A cell is looked for once and kept (a mutex); counting takes no lock and no locked instruction. Values are never
 * forgotten, so there is a bound: what comes later counts under "other".
 */
#pragma once

#include "shared/out.h"

#include <stdatomic.h>

enum {
    HISTOGRAM_BUCKETS = 28, /* up to 1, 2, 4 … 2^26, and above */
    HISTOGRAM_WORDS = HISTOGRAM_BUCKETS + 1,
    LABEL_WORDS_MAX = 256,
};

struct metric_cell {
    struct metric_cell *next; /* of the same value, of another thread */
    uint32_t thread;
    _Atomic uint64_t words[];
};

/* Only the cell's thread. */
static inline void cell_add(struct metric_cell *cell, uint32_t word, uint64_t amount)
{
    uint64_t value = atomic_load_explicit(&cell->words[word], memory_order_relaxed);
    atomic_store_explicit(&cell->words[word], value + amount, memory_order_relaxed);
}
static inline void cell_set(struct metric_cell *cell, uint32_t word, uint64_t value)
{
    atomic_store_explicit(&cell->words[word], value, memory_order_relaxed);
}
/* Adds to the histogram of HISTOGRAM_WORDS that begins at `word`. */
static inline void cell_observe(struct metric_cell *cell, uint32_t word, uint64_t value)
{
    uint32_t bucket = value <= 1 ? 0 : 64 - (uint32_t)__builtin_clzll(value - 1);
    if (bucket >= HISTOGRAM_BUCKETS)
        bucket = HISTOGRAM_BUCKETS - 1;
    cell_add(cell, word + bucket, 1);
    cell_add(cell, word + HISTOGRAM_BUCKETS, value);
}

enum label_kind {
    LABEL_COUNTER,
    LABEL_GAUGE,
    LABEL_HISTOGRAM,
    LABEL_COUNT, /* a counter: how often a histogram was added to */
};

/* One metric made of the words. */
struct label_family {
    enum label_kind kind;
    uint32_t word;
    const char *name;
    const char *help;
    double unit;   /* a word is divided by it: 1e6 for µs; 0: as it is */
    uint8_t first; /* of a histogram: the buckets shown, as powers of two */
    uint8_t last;
};

struct labels;

/* A set for at most `values_max` values besides "other". */
struct labels *labels_new(uint32_t words, size_t values_max);
void labels_free(struct labels *labels); /* NULL is allowed */
/* Any thread: its cell for the value, zero at first; stays until labels_free. */
struct metric_cell *labels_cell(struct labels *labels, struct bytes value, uint32_t thread);
/* All families of the values that were counted at all; of more than `shown` values only those with the most in
 * word 0, the rest as "other". One thread at a time. */
void labels_print(struct labels *labels, struct out *out, const char *label,
                  const struct label_family *families, size_t count, size_t shown);
/* The sums of one value, in the order in which values came; false: there are not so many. */
bool labels_read(struct labels *labels, size_t index, uint64_t sums[LABEL_WORDS_MAX]);
/* What `part` of a histogram's values did not exceed, as Prometheus' histogram_quantile says it: evenly spread within a
 * bucket. 0: there are none. */
double histogram_quantile(const uint64_t words[HISTOGRAM_BUCKETS], double part);
/* The sums of this value; false: nobody has counted it. */
bool labels_find(struct labels *labels, struct bytes value, uint64_t sums[LABEL_WORDS_MAX]);
