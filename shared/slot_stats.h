/*
 * slot_stats.h - parses and replies CLUSTER SLOT-STATS, for backends, which count, and for proxies, which merge the backends' replies.
 *
 *   [[17, {key-count: 3, cpu-usec: 1200, network-bytes-in: 5000, network-bytes-out: 90000}], …]
 */
#pragma once

#include "shared/reply.h"
#include "shared/slot.h"

enum slot_metric { SLOT_KEY_COUNT, SLOT_CPU_USEC, SLOT_BYTES_IN, SLOT_BYTES_OUT, SLOT_METRICS };

struct slot_stats {
    uint16_t slot;
    uint64_t metrics[SLOT_METRICS];
};

struct slot_stats_query {
    unsigned first, last; /* slots */
    bool is_ordered;      /* by `metric`, not by slot */
    bool is_ascending;
    enum slot_metric metric;
    uint32_t limit;
    char error[128]; /* memory for the text that slot_stats_parse returns */
};

/* Parses all arguments of the command. NULL, or the error. */
const char *slot_stats_parse(struct slot_stats_query *query, const struct bytes *argv,
                             uint32_t argc);
/* Sorts the figures, which are given in the order of slots, as the query demands, and replies them. */
void slot_stats_reply(const struct slot_stats_query *query, struct slot_stats *all, uint32_t count,
                      struct reply *reply);
/* Appends the figures in a backend's reply at all[*count]; `all` has SLOT_COUNT elements. Returns false if the frame is no such reply. */
bool slot_stats_read(struct bytes frame, struct slot_stats *all, uint32_t *count);
