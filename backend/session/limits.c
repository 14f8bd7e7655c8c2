#include "backend/session/limits.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/keyspace/borrow_all.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/space.h"
#include "backend/session/session.h"
#include "backend/session/space_bytes.h"
#include "backend/storage/overlay.h"
#include "backend/storage/retry.h"
#include "shared/check.h"

#include <stdlib.h>
#include <string.h>

static const char NO_ROOM[] =
    "TRYAGAIN this shard has used its part of the namespace's 'max-keys', "
    "and does not know yet whether there is more";

/* Counts a command that a limit has refused. */
static int refuse_over_limit(const struct call *call, enum error error)
{
    metric_add(call->partition->metrics.process, METRIC_BACKEND_LIMIT_REFUSED, 1);
    return error;
}

/* Bytes that the running call has written so far: the estimates do not have them yet. */
static uint64_t bytes_written(const struct partition *partition)
{
    int64_t bytes = partition->running.budget.call ? partition->running.written->bytes : 0;
    return bytes > 0 ? (uint64_t)bytes : 0;
}

/* Have the data, with what the call has written, exceeded maxmemory? */
static bool is_over_maxmemory(const struct partition *partition, uint64_t written)
{
    uint64_t maxmemory = (uint64_t)partition->snapshot->maxmemory;
    const struct space_limit *all = space_limit_of_all(partition->spaces);
    return maxmemory && all->bytes + all->bytes_elsewhere + written > maxmemory;
}

int limits_gate_nested(struct call *call, uint32_t command_flags, bool may_exceed)
{
    if (!(command_flags & CMD_DENYOOM))
        return OK;
    uint64_t written = bytes_written(call->partition);
    if (written > commit_disk_room(call->partition->commit))
        return refuse_over_limit(call, ERR_DISK_LOW);
    if (!may_exceed && is_over_maxmemory(call->partition, written))
        return refuse_over_limit(call, ERR_OOM);
    const struct space_limit *limit = session_space(call->session)->limit;
    if (limit && limit->max_bytes &&
        limit->bytes + limit->bytes_elsewhere + written > limit->max_bytes)
        return refuse_over_limit(call, ERR_OOM_BYTES);
    return OK;
}

int limits_gate(struct call *call, uint32_t command_flags)
{
    return limits_gate_nested(call, command_flags, false);
}

void limits_note_written(const struct call *call)
{
    enum { NOTED_MIN = 65536 };
    struct partition *partition = call->partition;
    uint64_t written = call->failed ? 0 : bytes_written(partition);
    if (written < NOTED_MIN)
        return;
    space_limit_of_all(partition->spaces)->bytes += written;
    if (call->space->limit)
        call->space->limit->bytes += written;
}

/* ---- keys ---- */

static bool limits_keys(const struct call *call)
{
    const struct space_limit *limit = call->space->limit;
    return limit && limit->max_keys && call->command->flags & CMD_WRITE;
}

bool limits_may_wait(const struct call *call)
{
    const struct space_limit *limit = session_space(call->session)->limit;
    return limit && limit->max_keys && limit->is_shared;
}

/* Keys that a transaction over shards has created at other shards. If it has borrowed all keys of the database, `elsewhere` also
 * has those that were there before. */
static int64_t keys_created_elsewhere(const struct call *call, const struct space *space)
{
    bool has_all = call->borrow && borrow_has_all_keys(call, space);
    return space->elsewhere - (has_all ? (int64_t)borrow_keys_elsewhere(call, space) : 0);
}

static int64_t all_created_elsewhere(const struct call *call, const struct space_limit *limit)
{
    int64_t keys = 0;
    for (uint8_t i = 0; i < DATABASES_MAX; i++)
        keys += limit->spaces[i] ? keys_created_elsewhere(call, limit->spaces[i]) : 0;
    return keys;
}

/* Keys of the call's namespace that are charged here: those at this shard, and those that a transaction creates at others. */
static uint64_t keys_charged(const struct call *call)
{
    const struct space_limit *limit = call->space->limit;
    int64_t keys = (int64_t)space_limit_keys(limit) + all_created_elsewhere(call, limit);
    return keys > 0 ? (uint64_t)keys : 0;
}

uint64_t limits_begin(const struct call *call)
{
    return limits_keys(call) ? keys_charged(call) : 0;
}

void limits_attempt(const struct call *call)
{
    if (!space_has_limits(call->partition->spaces))
        return;
    const struct space_limit *limit = session_space(call->session)->limit;
    if (limit)
        call->session->pending.retry.keys_before = space_limit_keys(limit);
}

static bool has_waited(const struct retry *retry, uint64_t now_ms)
{
    return retry->since_ms && now_ms >= retry->since_ms + LIMIT_WAIT_MS;
}

/* The call begins to wait, for LIMIT_WAIT_MS at most. False: there were too many waits. */
static bool begin_wait(struct space_limit *limit, struct retry *retry, uint64_t now_ms)
{
    if (limit->wait_ms_left < LIMIT_WAIT_MS)
        return false;
    limit->wait_ms_left -= LIMIT_WAIT_MS;
    retry->key_proof = key_grant_proof(&limit->grant);
    retry->is_charged = true;
    retry->since_ms = retry->since_ms ? retry->since_ms : now_ms;
    return true;
}

/* The call does not wait any more: gives back the time that it has not waited for. */
static void return_wait_time(struct retry *retry, uint64_t now_ms, struct space_limit *limit)
{
    if (retry && retry->is_charged && !has_waited(retry, now_ms))
        limit->wait_ms_left += LIMIT_WAIT_MS - (uint32_t)(now_ms - retry->since_ms);
    if (retry)
        retry->is_charged = false;
}

void limits_leave(struct session *session)
{
    struct space_limit *limit = session_space(session)->limit;
    if (limit)
        return_wait_time(&session->pending.retry, loop_mono_ms(session->partition->loop), limit);
}

/* The grant has no room for the call's keys, and other shards may have some: the call waits, or is refused when it cannot wait, or
 * has waited for too long. */
static void wait_for_room(struct call *call, struct space_limit *limit)
{
    struct partition *partition = call->partition;
    struct retry *retry = call_wait(call);
    uint64_t now_ms = loop_mono_ms(partition->loop);
    limit->grant.wants = true;
    if (!retry) {
        call_error_text(call, NO_ROOM);
        return;
    }
    if (has_waited(retry, now_ms) || (!retry->key_proof && !begin_wait(limit, retry, now_ms))) {
        call_retry_refused(call, strdup(NO_ROOM));
    } else {
        if (list_empty(&limit->waits))
            limit->waits_ms = now_ms;
        call_wait(call)->undoes = true;
        call_retry(call, &limit->waits);
    }
}

/* Is the namespace full for certain? True if this shard alone would have too many keys (`keys`: with those that the call creates), or if all
 * shards together, at a moment since the call came, had no room for the created keys. */
static bool is_full(const struct call *call, const struct space_limit *limit, uint64_t keys)
{
    const struct retry *retry = call_wait(call);
    if (!limit->is_shared || keys > limit->max_keys)
        return true;
    uint64_t created = retry && keys > retry->keys_before ? keys - retry->keys_before : 0;
    return retry && retry->key_proof &&
           key_grant_is_full(&limit->grant, retry->key_proof, created, limit->max_keys);
}

/* A refusal depends on the number of keys, so its reply must wait until this number is durable. */
static void observe_keys(struct call *call, const struct space_limit *limit)
{
    for (uint8_t i = 0; i < DATABASES_MAX; i++)
        if (limit->spaces[i])
            keyspace_observe_size(call, limit->spaces[i]);
}

void limits_end(struct call *call, uint64_t keys_before)
{
    if (call->failed || !limits_keys(call))
        return;
    struct space_limit *limit = call->space->limit;
    uint64_t keys = keys_charged(call);
    if (keys <= keys_before)
        return;
    bool has_room = limit->is_shared
                        ? keys <= keys_before + key_grant_room(&limit->grant, keys_before)
                        : keys + limit->keys_elsewhere <= limit->max_keys;
    if (!has_room)
        observe_keys(call, limit);
    if (!has_room && !is_full(call, limit, keys)) {
        wait_for_room(call, limit);
        return;
    }
    return_wait_time(call_wait(call), loop_mono_ms(call->partition->loop), limit);
    if (!has_room)
        call_error(call, (enum error)refuse_over_limit(call, ERR_OOM_KEYS));
}

/* Moves all nodes. */
static void move_list(struct list *from, struct list *to)
{
    struct list *link;
    while ((link = list_pop(from)))
        list_push(to, link);
}

void limits_turn_end(struct partition *partition)
{
    struct space_limit *all = space_limit_of_all(partition->spaces);
    struct list ready; /* those that wait again are not in it */
    if (list_empty(&all->waits))
        return;
    list_init(&ready);
    move_list(&all->waits, &ready);
    retry_done(&ready);
}

void limits_resume(struct partition *partition, struct space_limit *limit)
{
    uint64_t keys = space_limit_keys(limit);
    bool is_full = keys >= limit->max_keys || limit->grant.fewest; /* also without a limit */
    if (is_full || !limit->is_shared || key_grant_room(&limit->grant, keys))
        move_list(&limit->waits, &space_limit_of_all(partition->spaces)->waits);
}

/* ---- keys that leave ---- */

void limits_measure(struct space_limit *limit)
{
    limit->keys_measured = space_limit_keys(limit);
}

void limits_note_left(struct space_limit *limit)
{
    uint64_t keys = space_limit_keys(limit);
    if (keys < limit->keys_measured)
        limits_keys_left(limit, limit->keys_measured - keys);
}

void limits_keys_left(struct space_limit *limit, uint64_t keys)
{
    key_grant_leave(&limit->grant, keys);
}

void limits_measure_all(struct partition *partition)
{
    size_t cursor = 0;
    struct space_limit *limit;
    while ((limit = space_limit_next(partition->spaces, &cursor)))
        limits_measure(limit);
}

void limits_note_left_all(struct partition *partition)
{
    size_t cursor = 0;
    struct space_limit *limit;
    while ((limit = space_limit_next(partition->spaces, &cursor)))
        limits_note_left(limit);
}

void limits_charge_begin(struct call *call)
{
    struct space_limit *limit = session_space(call->session)->limit;
    if (!limit)
        return;
    int64_t keys = all_created_elsewhere(call, limit);
    if (keys > 0)
        key_grant_leave(&limit->grant, (uint64_t)keys);
    limits_measure(limit);
}

void limits_charge_end(struct call *call)
{
    struct space_limit *limit = session_space(call->session)->limit;
    if (limit)
        limits_note_left(limit);
}

/* ---- time ---- */

void limits_tick_waits(struct partition *partition)
{
    uint64_t now_ms = loop_mono_ms(partition->loop);
    size_t cursor = 0;
    struct space_limit *limit;
    while ((limit = space_limit_next(partition->spaces, &cursor))) {
        key_grant_tick(&limit->grant, now_ms);
        if (!list_empty(&limit->waits) && now_ms >= limit->waits_ms + LIMIT_WAIT_MS)
            move_list(&limit->waits, &space_limit_of_all(partition->spaces)->waits);
    }
}

void limits_tick(struct partition *partition)
{
    struct space_set *spaces = partition->spaces;
    size_t cursor = 0;
    struct space_limit *limit;
    space_bytes_tick(partition);
    space_limit_of_all(spaces)->bytes = partition_bytes(partition);
    while ((limit = space_limit_next(spaces, &cursor))) {
        if (limit->until_ms < loop_mono_ms(partition->loop))
            limit->max_keys = limit->max_bytes = 0;
        if (limit->max_bytes)
            limit->bytes = space_bytes_estimate(partition, limit->spaces, DATABASES_MAX);
        if (limit->wait_ms_left < LIMIT_WAITS_MS)
            limit->wait_ms_left += LIMIT_WAIT_MS;
    }
}
