#include "backend/dispatch/leader_gate.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/dispatch/cluster_gate.h"
#include "backend/dispatch/fresh_reads.h"
#include "backend/dispatch/gates.h"
#include "backend/session/session.h"
#include "shared/clock.h"
#include "shared/command/keys.h"
#include "shared/error_code.h"

#include <stdio.h>

/* Does the command use keys, or messages between clients? */
static bool uses_data(const struct call *call, uint32_t flags)
{
    return flags & (CMD_WRITE | CMD_READONLY | CMD_SCRIPT | CMD_MAY_REPLICATE | CMD_PUBSUB) ||
           keys_possible(call->command);
}

/* What was seen at the last tick may be from before the copy followed, or before this process stood still. */
static bool is_young(struct partition *partition)
{
    const struct partition_age *age = &partition->copies.age;
    if (age->look && clock_boot_us() >= age->fresh_until_us)
        age->look(partition);
    return clock_boot_us() < age->fresh_until_us;
}

/* May this copy's data be read? Those of a paused one only by a client that has chosen this copy: proxies choose for theirs. */
static bool shows_old_data(const struct call *call)
{
    const struct partition_copies *copies = &call->partition->copies;
    if (!copies->may_read)
        return false;
    return copies->paused_until_ms ? !call->session->login.is_internal : is_young(call->partition);
}

/* Does the command only read, and has its client said that the data may be old? */
static bool reads_old_data(const struct call *call, uint32_t flags)
{
    const struct partition *partition = call->partition;
    bool may_write = flags & (CMD_WRITE | CMD_MAY_REPLICATE) ||
                     (flags & CMD_SCRIPT && !(call->command->flags & CMD_READONLY));
    return call->session->about.is_readonly && !call->session->about.wants_fresh &&
           partition->snapshot->config.replica_reads == REPLICA_READS_STALE &&
           flags & CMD_READONLY && !may_write && shows_old_data(call);
}

static bool reads_here(const struct call *call, uint32_t flags)
{
    return reads_old_data(call, flags) || fresh_reads_may(call);
}

/* A proxy sends its reads to the leader if this copy refuses them. */
static bool need_not_wait(const struct call *call)
{
    return call->partition->copies.is_closed && call->session->about.is_readonly &&
           call->session->login.is_internal;
}

/* The slot of the first key; negative: there is none. */
static int32_t slot_of_request(const struct call *call, const struct command *command,
                               const struct bytes *argv, uint32_t argc)
{
    struct key_list keys;
    int32_t at = command->keys[0].flags & KEY_NOT_KEY ? 0 : keys_first(command, argc);
    if (at >= 0)
        return at ? slot_rule_slot(call->session->scope.slot_rule, argv[at]) : -1;
    keys_list_init(&keys);
    (void)keys_find(command, argv, argc, &keys);
    at = keys.count ? slot_rule_slot(call->session->scope.slot_rule, argv[keys.refs[0].index]) : -1;
    keys_list_fini(&keys);
    return at;
}

static int32_t first_slot(const struct call *call)
{
    int32_t slot = -1;
    if (!(call->command->traits & TRAIT_RUNS_QUEUE))
        return slot_of_request(call, call->command, call->argv, call->argc);
    const struct queued *queued = call->session->transaction.first;
    for (; queued && slot < 0; queued = queued->next)
        slot = slot_of_request(call, queued->command, queued->argv, queued->argc);
    return slot;
}

static const char *refusal_to_lead(struct call *call, uint32_t flags)
{
    enum { TEXT_MAX = 512 };
    const char *leader = call->partition->copies.leader;
    bool is_client = !call->session->login.is_internal;
    if (call->partition->copies.is_powerless)
        return "TRYAGAIN this copy of the shard leads, and cannot reach most of the others";
    if (!is_client && fresh_reads_is_locked(call))
        return "LOCKED a transaction over shards is about to change keys of this slot: the copy "
               "that leads has its locks";
    int32_t slot = is_client && *leader ? first_slot(call) : -1;
    char *text = arena_alloc(call->arena, TEXT_MAX);
    if (slot >= 0)
        (void)snprintf(text, TEXT_MAX, "MOVED %d %s", (int)slot, leader);
    else if (is_client && flags & CMD_WRITE)
        return error_text(ERR_READONLY);
    else if (*leader)
        (void)snprintf(text, TEXT_MAX,
                       "TRYAGAIN this copy of the shard does not lead: the one at %s does", leader);
    else
        return "TRYAGAIN no copy of the shard leads at present, as far as this one has heard";
    return text;
}

/* Until waits_ms: then the gate refuses. A leader without a lease is powerless then. */
static bool may_wait(const struct partition *partition)
{
    const struct partition_copies *copies = &partition->copies;
    return copies->is_closed ? clock_mono_us() / 1000 < copies->waits_ms
                             : !copies->is_powerless && partition_lease_is_over(partition);
}

/* A client that is shown a copy as the master which does not lead drops its connection to the one that does. */
static bool shows_leaders(const struct call *call)
{
    return call->command->traits & TRAIT_SHOWS_LEADERS && call->partition->copies.is_closed &&
           cluster_client(call->session);
}

bool leader_waits(const struct call *call)
{
    if (!may_wait(call->partition))
        return false; /* nearly always, and before the flags of a script are looked up */
    if (shows_leaders(call))
        return !*call->partition->copies.leader;
    uint32_t flags = effective_flags(call);
    return uses_data(call, flags) && !reads_here(call, flags) && !need_not_wait(call);
}

bool leader_gate(struct call *call)
{
    uint32_t flags = effective_flags(call);
    if (!uses_data(call, flags) || reads_here(call, flags) || leader_waits(call))
        return true;
    cluster_reject(call, refusal_to_lead(call, flags));
    return false;
}
