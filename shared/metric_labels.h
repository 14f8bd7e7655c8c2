/*
 * metric_labels.h - metrics with a label (shard, command, namespace …): a cell of counters per label value and thread.
 *
 *   "get" ─► cell of worker 0 │calls│errors│histogram …│     written only by the cell's own thread,
 *        └─► cell of worker 1 │calls│errors│histogram …│     with relaxed loads and stores
 *   labels_print ─► for each value, the sum over its cells
 *
 * A thread looks a cell up once, under a mutex, and keeps the pointer; counting takes no lock and no locked
 * instruction. Values are never removed, so their number is bounded: further values count under "other".
 */
#pragma once

#include "shared/out.h"

#include <stdatomic.h>

enum {
    HISTOGRAM_BUCKETS = 28, /* up to 1, 2, 4 … 2^26, and one for all greater values */
    HISTOGRAM_WORDS = HISTOGRAM_BUCKETS + 1,
    LABEL_WORDS_MAX = 256,
};

struct metric_cell {
    struct metric_cell *next; /* another thread's cell of the same value */
    uint32_t thread;
    _Atomic uint64_t words[];
};

/* Only the cell's own thread may call these. */
static inline void cell_add(struct metric_cell *cell, uint32_t word, uint64_t amount)
{
    uint64_t value = atomic_load_explicit(&cell->words[word], memory_order_relaxed);
    atomic_store_explicit(&cell->words[word], value + amount, memory_order_relaxed);
}
static inline void cell_set(struct metric_cell *cell, uint32_t word, uint64_t value)
{
    atomic_store_explicit(&cell->words[word], value, memory_order_relaxed);
}
/* The histogram's bucket of a value. */
static inline uint32_t cell_bucket(uint64_t value)
{
    uint32_t bucket = value <= 1 ? 0 : 64 - (uint32_t)__builtin_clzll(value - 1);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}
/* Values of one bucket. */
struct cell_values {
    uint64_t one; /* any one of them */
    uint64_t count;
    uint64_t sum;
};
/* Adds to the histogram whose HISTOGRAM_WORDS begin at `word`. */
static inline void cell_observe_many(struct metric_cell *cell, uint32_t word,
                                     const struct cell_values *values)
{
    cell_add(cell, word + cell_bucket(values->one), values->count);
    cell_add(cell, word + HISTOGRAM_BUCKETS, values->sum);
}
static inline void cell_observe(struct metric_cell *cell, uint32_t word, uint64_t value)
{
    cell_observe_many(cell, word, &(struct cell_values){value, 1, value});
}

enum label_kind {
    LABEL_COUNTER,
    LABEL_GAUGE,
    LABEL_HISTOGRAM,
    LABEL_COUNT, /* a counter: number of values in a histogram */
};

/* One metric and the words that it is printed from. */
struct label_family {
    enum label_kind kind;
    uint32_t word;
    const char *name;
    const char *help;
    double unit;   /* words are divided by this: 1e6 for µs; 0: printed unchanged */
    uint8_t first; /* first and last printed bucket of a histogram, as powers of two */
    uint8_t last;
};

struct labels;

/* A set for at most `values_max` values plus "other". */
struct labels *labels_new(uint32_t words, size_t values_max);
void labels_free(struct labels *labels); /* NULL is allowed */
/* The calling thread's cell for the value, zero at first; valid until labels_free. Any thread may call it. */
struct metric_cell *labels_cell(struct labels *labels, struct bytes value, uint32_t thread);
/* For each of the thread's cells: sets word `rate` to how much word `counter` has grown a second since the last call, `elapsed_ms` ago.
 * Word `seen` keeps the counter. The calling thread is the one of the cells. */
void labels_set_rates(struct labels *labels, uint32_t thread, uint32_t counter, uint32_t seen,
                      uint32_t rate, uint64_t elapsed_ms);
/* Calls the function with the sums of each value, under the lock: it must not call labels_…. */
typedef void labels_fn(void *owner, struct bytes value, const uint64_t *sums);
void labels_each(struct labels *labels, labels_fn *on_value, void *owner);
/* Prints all families for the values that have counts. When there are more than `shown` values, prints those with
 * the greatest word 0, and the sum of the rest as "other". One thread at a time. */
void labels_print(struct labels *labels, struct out *out, const char *label,
                  const struct label_family *families, size_t count, size_t shown);
/* Sums of one value; `index` follows the order of creation. False: there is no such index. */
bool labels_read(struct labels *labels, size_t index, uint64_t sums[LABEL_WORDS_MAX]);
/* The value that `part` of a histogram's values did not exceed, computed like Prometheus' histogram_quantile: values
 * are spread evenly within a bucket. 0 for an empty histogram. */
double histogram_quantile(const uint64_t words[HISTOGRAM_BUCKETS], double part);
/* Sums of the named value; false: it has no counts. */
bool labels_find(struct labels *labels, struct bytes value, uint64_t sums[LABEL_WORDS_MAX]);
