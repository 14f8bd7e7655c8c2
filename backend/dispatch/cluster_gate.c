#include "backend/dispatch/cluster_gate.h"

#include "backend/context/partition.h"
#include "backend/context/stats.h"
#include "backend/dispatch/gates.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/session/session.h"
#include "backend/transaction/coordinator.h"
#include "shared/command/keys.h"
#include "shared/error_code.h"

/* The keys of a request, one after the other. */
struct slot_check {
    struct call *call;
    int32_t slot;        /* of the first key; negative: no key so far */
    const char *away;    /* the slot is not here: the error; NULL: it is here */
    const char *refusal; /* an error that later keys do not change; NULL: none so far */
};

bool cluster_client(const struct session *session)
{
    return session && session->partition->shards.is_gated && !session->login.is_internal;
}

static void check_key(struct slot_check *check, struct bytes key)
{
    struct call *call = check->call;
    uint16_t slot = slot_rule_slot(call->session->scope.slot_rule, key);
    if (check->slot >= 0) {
        if (slot != check->slot)
            check->refusal = "CROSSSLOT Keys in request don't hash to the same slot";
        return;
    }
    check->slot = slot;
    /* of an arriving slot, the command waits until the partition owns it */
    const struct moving_slots *moving = call->partition->shards.moving;
    if (slot_set_has(session_slots(call->session), slot) ||
        (moving && slot_set_has(&moving->arriving, slot)))
        return;
    check->away = call->partition->shards.slot_refusal(call, slot, key);
    if (error_has_code(bytes_of(check->away), "CLUSTERDOWN"))
        check->refusal = check->away;
}

/* Shard channels belong to slots as keys do. */
static void check_channels(struct slot_check *check, const struct key_spec *spec,
                           const struct bytes *argv, uint32_t argc)
{
    uint32_t last = spec->last < 0 ? argc - 1 : (uint32_t)spec->at;
    for (uint32_t i = (uint32_t)spec->at; i <= last && i < argc && !check->refusal; i++)
        check_key(check, argv[i]);
}

static void check_request(struct slot_check *check, const struct command *command,
                          const struct bytes *argv, uint32_t argc)
{
    struct key_list keys;
    if (command->keys[0].flags & KEY_NOT_KEY) {
        check_channels(check, &command->keys[0], argv, argc);
        return;
    }
    int32_t at = keys_first(command, argc);
    if (at > 0)
        check_key(check, argv[at]);
    if (at >= 0)
        return;
    keys_list_init(&keys);
    (void)keys_find(command, argv, argc, &keys);
    for (uint32_t i = 0; i < keys.count && !check->refusal; i++)
        check_key(check, argv[keys.refs[i].index]);
    keys_list_fini(&keys);
}

/* A refused EXEC discards its queue, and replies the error as it is. */
static void refuse_exec_raw(struct call *call, const char *text)
{
    call->partition->metrics.stats->commands[call->command->id].rejected++;
    transaction_end(&call->session->transaction);
    session_unwatch(call->session);
    call_error_text(call, text);
}

bool cluster_gate(struct call *call)
{
    struct slot_check check = {.call = call, .slot = -1};
    if (!cluster_client(call->session) || call->partition->shards.is_held)
        return true; /* a held command waits, and then comes again */
    bool is_exec = call->command->traits & TRAIT_RUNS_QUEUE;
    const struct queued *queued = is_exec ? call->session->transaction.first : NULL;
    if (!is_exec)
        check_request(&check, call->command, call->argv, call->argc);
    for (; queued && !check.refusal; queued = queued->next)
        check_request(&check, queued->command, queued->argv, queued->argc);
    const char *text = check.refusal ? check.refusal : check.away;
    if (!text)
        return true;
    cluster_reject(call, text);
    return false;
}

void cluster_reject(struct call *call, const char *text)
{
    if (call->command->traits & TRAIT_RUNS_QUEUE)
        refuse_exec_raw(call, text);
    else
        reject_command(call, text);
}

int32_t cluster_slot(struct call *call)
{
    struct slot_check check = {.call = call, .slot = -1};
    if (cluster_client(call->session))
        check_request(&check, call->command, call->argv, call->argc);
    return check.slot;
}

const char *cluster_refuse_nested(struct call *call, int32_t *only_slot)
{
    struct slot_check check = {.call = call, .slot = -1};
    if (!cluster_client(call->session))
        return NULL;
    check_request(&check, call->command, call->argv, call->argc);
    if (check.refusal || check.away)
        return "ERR Script attempted to access a non local key in a cluster node";
    if (!only_slot || check.slot < 0)
        return NULL;
    if (*only_slot < 0)
        *only_slot = check.slot;
    return *only_slot == check.slot
               ? NULL
               : "ERR Script attempted to access keys that do not hash to the same slot";
}
