#include "shared/memory_stats.h"

#include "shared/resp.h"

#include <stddef.h>

/* The figures that are replied unchanged, and that a proxy adds up. All others are computed from them. */
static const struct {
    const char *name;
    size_t offset; /* in struct memory_stats */
    bool is_of_process;
} FIGURES[] = {
#define FIGURE(name, field, is_of_process)                                                         \
    {                                                                                              \
        name, offsetof(struct memory_stats, field), is_of_process                                  \
    }
    FIGURE("peak.allocated", peak_allocated, true),
    FIGURE("total.allocated", total_allocated, true),
    FIGURE("startup.allocated", startup_allocated, true),
    FIGURE("clients.normal", clients, false),
    FIGURE("aof.buffer", batches, false),
    FIGURE("lua.caches", scripts, false),
    FIGURE("functions.caches", functions, false),
    FIGURE("block.cache", block_cache, true),
    FIGURE("memtables", memtables, false),
    FIGURE("table.readers", table_readers, false),
    FIGURE("keys.count", keys, false),
    FIGURE("allocator.active", allocator_active, true),
    FIGURE("allocator.resident", allocator_resident, true),
    FIGURE("process.resident", rss, true),
#undef FIGURE
};

enum { FIGURE_COUNT = sizeof FIGURES / sizeof FIGURES[0], DERIVED_COUNT = 17 };

static uint64_t *figure_of(struct memory_stats *stats, size_t i)
{
    return (uint64_t *)((char *)stats + FIGURES[i].offset);
}

static void reply_ratio(struct reply *reply, const char *name, uint64_t value, uint64_t base)
{
    reply_bulk_text(reply, name);
    reply_double(reply, base ? (double)value / (double)base : 0);
}

/* Replies a - b, which may be negative. */
static void reply_difference(struct reply *reply, const char *name, uint64_t a, uint64_t b)
{
    reply_pair_int(reply, name, (int64_t)(a - b));
}

void memory_stats_reply(const struct memory_stats *stats, struct reply *reply)
{
    struct memory_stats copy = *stats;
    uint64_t overhead = stats->startup_allocated + stats->clients + stats->batches +
                        stats->scripts + stats->functions;
    uint64_t dataset = stats->total_allocated > overhead ? stats->total_allocated - overhead : 0;
    uint64_t net = stats->total_allocated > stats->startup_allocated
                       ? stats->total_allocated - stats->startup_allocated
                       : 0;
    reply_map(reply, FIGURE_COUNT + DERIVED_COUNT);
    for (size_t i = 0; i < FIGURE_COUNT; i++)
        reply_pair_int(reply, FIGURES[i].name, (int64_t)*figure_of(&copy, i));
    reply_pair_int(reply, "replication.backlog", 0);
    reply_pair_int(reply, "clients.slaves", 0);
    reply_pair_int(reply, "cluster.links", 0);
    reply_pair_int(reply, "overhead.total", (int64_t)overhead);
    reply_pair_int(reply, "keys.bytes-per-key", stats->keys ? (int64_t)(net / stats->keys) : 0);
    reply_pair_int(reply, "dataset.bytes", (int64_t)dataset);
    reply_ratio(reply, "dataset.percentage", dataset * 100, net);
    reply_ratio(reply, "peak.percentage", stats->rss * 100, stats->peak_allocated);
    reply_pair_int(reply, "allocator.allocated", (int64_t)stats->total_allocated);
    reply_ratio(reply, "allocator-fragmentation.ratio", stats->allocator_active,
                stats->total_allocated);
    reply_difference(reply, "allocator-fragmentation.bytes", stats->allocator_active,
                     stats->total_allocated);
    reply_ratio(reply, "allocator-rss.ratio", stats->allocator_resident, stats->allocator_active);
    reply_difference(reply, "allocator-rss.bytes", stats->allocator_resident,
                     stats->allocator_active);
    reply_ratio(reply, "rss-overhead.ratio", stats->rss, stats->allocator_resident);
    reply_difference(reply, "rss-overhead.bytes", stats->rss, stats->allocator_resident);
    reply_ratio(reply, "fragmentation", stats->rss, stats->total_allocated);
    reply_difference(reply, "fragmentation.bytes", stats->rss, stats->total_allocated);
}

bool memory_stats_read(struct bytes frame, struct memory_stats *stats)
{
    struct resp_value value;
    size_t pos = 0;
    *stats = (struct memory_stats){0};
    if (!resp_value_next(frame, &pos, &value) || value.is_null ||
        (value.type != '*' && value.type != '%'))
        return false;
    for (int64_t left = value.type == '%' ? value.count : value.count / 2; left > 0; left--) {
        struct resp_value name;
        if (!resp_value_next(frame, &pos, &name) || !resp_value_next(frame, &pos, &value))
            return false;
        for (size_t i = 0; i < FIGURE_COUNT && value.type == ':'; i++)
            if (bytes_equal(name.text, bytes_of(FIGURES[i].name)))
                *figure_of(stats, i) = (uint64_t)value.count;
    }
    return true;
}

void memory_stats_add(struct memory_stats *sum, const struct memory_stats *stats,
                      bool is_new_process)
{
    struct memory_stats copy = *stats;
    for (size_t i = 0; i < FIGURE_COUNT; i++)
        if (is_new_process || !FIGURES[i].is_of_process)
            *figure_of(sum, i) += *figure_of(&copy, i);
}
