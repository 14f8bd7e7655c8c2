/*
 * owners.c - SCREE OWNERS: which slots the partition owns, and which owners of other slots it knows. With FORCE, the operator
 * gives the slots of a shard that is lost for good to the shards of the map.
 */
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/slots/slot_moves.h"
#include "backend/slots/slot_owners.h"

#include <inttypes.h>
#include <stdio.h>

/* slot_run_fn */
static void count_run(void *owner, const struct slot_run *run)
{
    uint32_t *count = owner;
    (void)run;
    ++*count;
}

/* slot_run_fn */
static void reply_owned_run(void *owner, const struct slot_run *run)
{
    char line[SHARD_NAME_MAX + 128];
    (void)snprintf(line, sizeof line, "slots=%u-%u shard=%s epoch=%" PRIu64 " here=%s", run->first,
                   run->last, run->shard, run->epoch, run->is_here ? "yes" : "no");
    reply_bulk_text(owner, line);
}

/* SCREE OWNERS FORCE LOSE-KEYS: a line with the number of slots that were taken from lost shards. */
static void force_owners(struct call *call)
{
    char line[64];
    bool is_forced =
        call->argc == 4 && bytes_is(call->argv[2], "force") && bytes_is(call->argv[3], "lose-keys");
    if (!is_forced) {
        call_error_text(call, "ERR expected SCREE OWNERS, or SCREE OWNERS FORCE LOSE-KEYS: each "
                              "shard claims the slots that the map gives to it and that belong to "
                              "shards that are lost, without their keys");
        return;
    }
    if (!slot_owners_may_force(call->partition->shards.owners)) {
        call_error_text(call,
                        "ERR this copy does not lead its shard, or the shard has no shard map "
                        "with its address, or it is claiming slots, or other shards have not "
                        "answered yet: try again");
        return;
    }
    slot_moves_give_up_lost(call->partition->shards.moves);
    int count = slot_owners_force(call->partition->shards.owners);
    (void)snprintf(line, sizeof line, "partition=%u forced=%d", call->partition->index, count);
    reply_array(&call->reply, 1);
    reply_bulk_text(&call->reply, line);
}

/* SCREE OWNERS: a line for each run of slots with a known owner. */
void cmd_scree_owners(struct call *call)
{
    const struct slot_owners *owners = call->partition->shards.owners;
    uint32_t count = 0;
    if (call->argc > 2) {
        force_owners(call);
        return;
    }
    slot_owners_each_run(owners, count_run, &count);
    reply_array(&call->reply, count);
    slot_owners_each_run(owners, reply_owned_run, &call->reply);
}
