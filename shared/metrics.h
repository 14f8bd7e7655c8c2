/*
 * metrics.h - every counter, gauge and histogram (metrics.def): one set per thread, summed when read.
 *
 *   thread's own set:  metric_add(set, METRIC_COMMANDS, 1)   relaxed load and store on the thread's own cache lines
 *   reader:            metrics_sum / metrics_print            sums the sets of all threads
 */
#pragma once

#include "shared/out.h"

#include <stdatomic.h>

enum metric {
#define METRIC(id, kind, name, help) METRIC_##id,
#include "shared/metrics.def"
#undef METRIC
    METRIC_COUNT,
};

struct metrics {
    _Atomic uint64_t values[METRIC_COUNT];
    struct metrics *next;
};

/* Registers a thread's set, for the rest of the process' life. */
struct metrics *metrics_new(void);
/* Only the owning thread writes, so no locked instruction is needed. */
static inline void metric_add(struct metrics *set, enum metric metric, uint64_t amount)
{
    uint64_t value = atomic_load_explicit(&set->values[metric], memory_order_relaxed);
    atomic_store_explicit(&set->values[metric], value + amount, memory_order_relaxed);
}
static inline void metric_sub(struct metrics *set, enum metric metric, uint64_t amount)
{
    metric_add(set, metric, (uint64_t)0 - amount);
}
static inline void metric_set(struct metrics *set, enum metric metric, uint64_t value)
{
    atomic_store_explicit(&set->values[metric], value, memory_order_relaxed);
}
/* Sum over all threads. */
uint64_t metrics_sum(enum metric metric);
/* Writes all metrics whose name begins with `prefix` or "scree_process" in Prometheus' text format. */
void metrics_print(struct out *out, const char *prefix);
