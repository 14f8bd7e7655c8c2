#include "backend/partition/across_gate.h"

#include "backend/context/partition.h"
#include "backend/keyspace/slot_set.h"
#include "backend/partition/gates.h"
#include "backend/partition/session.h"
#include "backend/peer/peer_set.h"
#include "shared/keys.h"

/* Is one of the command's keys on another shard? */
static bool names_foreign_key(const struct session *session, const struct command *command,
                              const struct bytes *argv, uint32_t argc)
{
    struct key_list keys;
    bool is_foreign = false;
    keys_list_init(&keys);
    (void)keys_find(command, argv, argc, &keys);
    for (uint32_t i = 0; i < keys.count; i++)
        is_foreign |= !slot_set_has(session->scope.slots, slot_rule_slot(session->scope.slot_rule,
                                                                         argv[keys.refs[i].index]));
    keys_list_fini(&keys);
    return is_foreign;
}

/* Does the command, or a command that EXEC runs, name a key of another shard? */
static bool needs_others(const struct call *call)
{
    const struct session *session = call->session;
    bool is_needed = names_foreign_key(session, call->command, call->argv, call->argc);
    bool is_exec = call->command->traits & TRAIT_RUNS_QUEUE;
    for (const struct queued *queued = is_exec ? session->transaction.first : NULL; queued;
         queued = queued->next)
        is_needed |= names_foreign_key(session, queued->command, queued->argv, queued->argc);
    return is_needed;
}

/* The reason why a command may not run that a proxy sent with SCREE ACROSS; NULL: it may. */
static const char *across_refusal(const struct call *call)
{
    const struct session *session = call->session;
    if (!session->request.is_across || !session->scope.slots)
        return NULL;
    if (session->transaction.is_open && !session->transaction.is_plain &&
        call->command->traits & TRAIT_RUNS_QUEUE)
        return "ERR a command of the transaction cannot be rolled back, so all keys of the "
               "transaction must be on one shard";
    if (!*peer_set_shard(call->partition->shards.peers) && needs_others(call))
        return "CROSSSLOT Keys in request don't hash to the same slot: the backend has no shard "
               "map that names it ([backend] shards), so it cannot use keys of other shards";
    return NULL;
}

bool across_gate(struct call *call)
{
    const char *refusal = across_refusal(call);
    if (refusal)
        reject_command(call, refusal);
    return !refusal;
}
