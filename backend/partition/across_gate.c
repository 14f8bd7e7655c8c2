#include "backend/partition/across_gate.h"

#include "backend/context/partition.h"
#include "backend/keyspace/slot_set.h"
#include "backend/partition/gates.h"
#include "backend/partition/session.h"
#include "backend/peer/peer_set.h"
#include "shared/keys.h"

/* Calls the function with each key of the command, until it returns true. */
typedef bool key_fn(struct call *call, uint16_t slot, struct bytes key, const char **refusal);

static bool find_named_key(struct call *call, const struct command *command,
                           const struct bytes *argv, uint32_t argc, const char **refusal,
                           key_fn *is_wanted)
{
    struct key_list keys;
    bool is_found = false;
    keys_list_init(&keys);
    (void)keys_find(command, argv, argc, &keys);
    for (uint32_t i = 0; i < keys.count && !is_found; i++) {
        struct bytes key = argv[keys.refs[i].index];
        is_found =
            is_wanted(call, slot_rule_slot(call->session->scope.slot_rule, key), key, refusal);
    }
    keys_list_fini(&keys);
    return is_found;
}

/* As find_named_key, also for the commands that EXEC runs. */
static bool find_any_key(struct call *call, const char **refusal, key_fn *is_wanted)
{
    const struct queued *queued =
        call->command->traits & TRAIT_RUNS_QUEUE ? call->session->transaction.first : NULL;
    if (find_named_key(call, call->command, call->argv, call->argc, refusal, is_wanted))
        return true;
    for (; queued; queued = queued->next)
        if (find_named_key(call, queued->command, queued->argv, queued->argc, refusal, is_wanted))
            return true;
    return false;
}

/* key_fn: a key of another shard */
static bool is_foreign_key(struct call *call, uint16_t slot, struct bytes key, const char **refusal)
{
    (void)key;
    (void)refusal;
    return !slot_set_has(session_slots(call->session), slot);
}

/* key_fn: a key of another shard, although the sender expects it here */
static bool is_misled_key(struct call *call, uint16_t slot, struct bytes key, const char **refusal)
{
    const struct session *session = call->session;
    if (slot_set_has(session_slots(session), slot) || !slot_set_has(session->scope.slots, slot))
        return false;
    *refusal = call->partition->shards.slot_refusal(call, slot, key);
    return true;
}

/* The reason why a command may not run that a proxy sent with SCREE ACROSS; NULL: it may. */
static const char *across_refusal(struct call *call)
{
    const struct session *session = call->session;
    if (!session->request.is_across || !session_slots(session))
        return NULL;
    if (session->transaction.is_open && !session->transaction.is_plain &&
        call->command->traits & TRAIT_RUNS_QUEUE)
        return "ERR a command of the transaction cannot be rolled back, so all keys of the "
               "transaction must be on one shard";
    if (!*peer_set_shard(call->partition->shards.peers) && find_any_key(call, NULL, is_foreign_key))
        return "CROSSSLOT Keys in request don't hash to the same slot: the backend has no shard "
               "map that names it ([backend] shards), so it cannot use keys of other shards";
    return NULL;
}

/* Why a script or EXEC may not begin: one of its keys is not here. Other commands are refused when they open the key, and those of
 * clients that are no proxies by cluster_gate. */
static const char *misled_refusal(struct call *call)
{
    const char *refusal = NULL;
    bool runs_others =
        call->command->traits & TRAIT_RUNS_QUEUE || call->command->flags & CMD_SCRIPT;
    if (call->partition->shards.is_gated && call->session->login.is_internal &&
        !call->session->request.is_across && runs_others)
        (void)find_any_key(call, &refusal, is_misled_key);
    return refusal;
}

bool across_gate(struct call *call)
{
    const char *refusal = across_refusal(call);
    if (!refusal)
        refusal = misled_refusal(call);
    if (refusal)
        reject_command(call, refusal);
    return !refusal;
}
