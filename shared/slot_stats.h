/*
 * slot_stats.h - the arguments and the reply of CLUSTER SLOT-STATS, for backends, which have the figures, and proxies, which
 * merge them.
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
    char error[128]; /* what slot_stats_parse returns may be here */
};

/* Parses all arguments of the command. NULL, or the error. */
const char *slot_stats_parse(struct slot_stats_query *query, const struct bytes *argv,
                             uint32_t argc);
/* Sorts the figures of slots, which are in the order of slots, and replies them. */
void slot_stats_reply(const struct slot_stats_query *query, struct slot_stats *all, uint32_t count,
                      struct reply *reply);
/* Adds the figures of a reply to all[*count]; there must be room for SLOT_COUNT. False: the frame is no such reply. */
bool slot_stats_read(struct bytes frame, struct slot_stats *all, uint32_t *count);
