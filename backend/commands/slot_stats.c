/*
 * slot_stats.c - CLUSTER SLOT-STATS: keys and costs of the slots that the partition owns (backend/context/slot_load.h).
 *
 *   SLOTSRANGE first last                          in the order of slots
 *   ORDERBY metric [LIMIT n] [ASC | DESC]          by a metric, the highest first unless ASC; slots with equal figures by number
 */
#include "shared/slot_stats.h"
#include "backend/context/partition.h"
#include "backend/context/slot_load.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/session/session.h"
#include "shared/check.h"
#include "shared/command/command_reply.h"

#include <stdlib.h>

static void find_stats(struct call *call, uint16_t slot, struct slot_stats *stats)
{
    struct partition *partition = call->partition;
    const struct slot_cost *cost = &partition->metrics.slot_load->slots[slot];
    uint64_t expires;
    *stats = (struct slot_stats){.slot = slot};
    space_count_slots(partition->spaces, slot, slot, &stats->metrics[SLOT_KEY_COUNT], &expires);
    stats->metrics[SLOT_CPU_USEC] = cost->usec;
    stats->metrics[SLOT_BYTES_IN] = cost->bytes_in;
    stats->metrics[SLOT_BYTES_OUT] = cost->bytes_out;
}

void cmd_cluster_slot_stats(struct call *call)
{
    struct slot_stats_query query;
    const char *error = slot_stats_parse(&query, call->argv, call->argc);
    if (error) {
        call_error_text(call, error);
        return;
    }
    struct slot_stats *all = malloc(SLOT_COUNT * sizeof *all);
    uint32_t count = 0;
    CHECK(all);
    for (unsigned slot = query.first; slot <= query.last; slot++)
        if (slot_set_has(session_slots(call->session), (uint16_t)slot))
            find_stats(call, (uint16_t)slot, &all[count++]);
    slot_stats_reply(&query, all, count, &call->reply);
    free(all);
}
