#include "backend/dispatch/across_gate.h"

#include "backend/context/partition.h"
#include "backend/dispatch/gates.h"
#include "backend/keyspace/slot_set.h"
#include "backend/peer/peer_set.h"
#include "backend/session/session.h"
#include "backend/transaction/named_keys.h"

/* named_key_fn: a key of another shard */
static bool is_foreign_key(struct call *call, uint16_t slot, struct bytes key, void *owner)
{
    (void)key;
    (void)owner;
    return !slot_set_has(session_slots(call->session), slot);
}

/* named_key_fn: a key of another shard, although the sender expects it here; *owner is the reason of the refusal */
static bool is_misled_key(struct call *call, uint16_t slot, struct bytes key, void *owner)
{
    const struct session *session = call->session;
    const char **refusal = owner;
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
    bool is_linked = *peer_set_shard(call->partition->shards.peers);
    if (!is_linked && session->transaction.has_all_keys && call->command->traits & TRAIT_RUNS_QUEUE)
        return "ERR a command of the transaction concerns the keys of all shards: the backend has "
               "no "
               "shard map that names it ([backend] shards), so it cannot reach the others";
    if (!is_linked && named_keys_find(call, is_foreign_key, NULL))
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
        (void)named_keys_find(call, is_misled_key, &refusal);
    return refusal;
}

bool across_gate(struct call *call)
{
    const char *refusal = across_refusal(call);
    if (!refusal && bounce_gate(call))
        return false;
    if (!refusal && !bounce_follows(call))
        refusal = misled_refusal(call);
    if (refusal)
        reject_command(call, refusal);
    return !refusal;
}
