/*
 * script_writes.c - remembers the scripts that write the keys that they declare, so that these are locked for writing at once.
 *
 * A script is a bit, chosen by the hash of its text, SHA-1 or name. Two scripts with one bit cost a lock that is stronger than
 * needed. When a quarter of the bits are set, all are cleared.
 */
#include "backend/transaction/coordinator_inner.h"

#include "backend/context/partition.h"
#include "backend/session/session.h"
#include "shared/table.h"

static uint32_t script_bit(struct bytes script)
{
    return (uint32_t)(hash_bytes(script) % SCRIPT_WRITES_BITS);
}

bool coordinator_script_writes(const struct partition *partition, const struct command *command,
                               const struct bytes *argv)
{
    if (!(command->flags & CMD_SCRIPT) || command->flags & CMD_READONLY)
        return false;
    uint32_t bit = script_bit(argv[1]);
    return partition->shards.coordinator->script_writes[bit / 64] >> bit % 64 & 1;
}

static void remember_script(struct coordinator *coordinator, const struct command *command,
                            const struct bytes *argv)
{
    if (!(command->flags & CMD_SCRIPT))
        return;
    uint32_t bit = script_bit(argv[1]);
    if (coordinator->script_writes[bit / 64] >> bit % 64 & 1)
        return;
    if (++coordinator->script_writes_count > SCRIPT_WRITES_BITS / 4) {
        memset(coordinator->script_writes, 0, sizeof coordinator->script_writes);
        coordinator->script_writes_count = 1;
    }
    coordinator->script_writes[bit / 64] |= (uint64_t)1 << bit % 64;
}

void coordinator_remember_scripts(const struct call *call)
{
    struct coordinator *coordinator = call->partition->shards.coordinator;
    remember_script(coordinator, call->command, call->argv);
    if (!(call->command->traits & TRAIT_RUNS_QUEUE))
        return;
    const struct queued *queued = call->session->transaction.first;
    for (; queued; queued = queued->next)
        remember_script(coordinator, queued->command, queued->argv);
}
