#include "shared/metrics.h"

#include "shared/check.h"

#include <inttypes.h>
#include <stdlib.h>

enum { CACHE_LINE = 64 };

enum kind { COUNTER, GAUGE, HIDDEN };

// clang-format off
static const struct {
    enum kind kind;
    const char *name;
    const char *help;
} rows[METRIC_COUNT] = {
#define METRIC(id, kind, name, help) {kind, name, help},
#include "shared/metrics.def"
#undef METRIC
};
// clang-format on

static struct metrics *_Atomic first; /* list of all sets, newest first; sets are never removed */

struct metrics *metrics_new(void)
{
    size_t size = (sizeof(struct metrics) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    struct metrics *set = aligned_alloc(CACHE_LINE, size);
    CHECK(set);
    for (int i = 0; i < METRIC_COUNT; i++)
        atomic_init(&set->values[i], 0);
    set->next = atomic_load(&first);
    while (!atomic_compare_exchange_weak(&first, &set->next, set))
        ;
    return set;
}

uint64_t metrics_sum(enum metric metric)
{
    CHECK((unsigned)metric < METRIC_COUNT);
    uint64_t sum = 0;
    for (struct metrics *set = atomic_load(&first); set; set = set->next)
        sum += atomic_load_explicit(&set->values[metric], memory_order_relaxed);
    return sum;
}

static void print_metric(struct out *out, enum metric metric)
{
    const char *name = rows[metric].name;
    bool is_gauge = rows[metric].kind == GAUGE;
    out_printf(out, "# HELP %s %s\n", name, rows[metric].help);
    out_printf(out, "# TYPE %s %s\n", name, is_gauge ? "gauge" : "counter");
    /* A gauge may appear negative while one thread adds and another subtracts. */
    uint64_t sum = metrics_sum(metric);
    if (is_gauge)
        out_printf(out, "%s %" PRId64 "\n", name, (int64_t)sum);
    else
        out_printf(out, "%s %" PRIu64 "\n", name, sum);
}

void metrics_print(struct out *out, const char *prefix)
{
    static const char always[] = "scree_process";
    for (int i = 0; i < METRIC_COUNT; i++) {
        const char *name = rows[i].name;
        if (rows[i].kind == HIDDEN)
            continue;
        if (strncmp(name, prefix, strlen(prefix)) == 0 ||
            strncmp(name, always, sizeof(always) - 1) == 0)
            print_metric(out, (enum metric)i);
    }
}
