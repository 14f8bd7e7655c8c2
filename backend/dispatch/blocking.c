/*
 * blocking.c - begins, serves and ends waits. Keys, waiters and deadlines: waiters.h.
 *
 * (1) Commands that run while a key is being served do not make it ready again: serving continues as long as the key has
 *     something for its waiters.
 * (2) A waiter keeps its position when its command runs again and finds nothing.
 */
#include "backend/dispatch/blocking.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/stats.h"
#include "backend/dispatch/dispatch.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/lock.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/replica/replica_figures.h"
#include "backend/session/internal_call.h"
#include "backend/session/session.h"
#include "backend/session/session_reply.h"
#include "backend/session/waiters.h"
#include "backend/session/waits.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/number.h"
#include "shared/stopping.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Moves the session to the waiter's namespace, database and protocol. */
static void enter_wait(const struct waiter *waiter)
{
    if (waiter->id)
        waits_enter_again(waiter->session, waiter->id, waiter->origin);
}

/* The session of the oldest waiter, moved to its client's keyspace; to be ended with waits_leave(). */
static struct session *enter_first(const struct awaited *awaited)
{
    const struct waiter *waiter = container_of(awaited->waits.next, struct wait, key_link)->waiter;
    enter_wait(waiter);
    return waiter->session;
}

void blocking_check_all(struct blocking_set *set)
{
    struct table *old = set->keys;
    size_t cursor = 0;
    struct bytes name;
    void *value;
    if (set->clients == 0)
        return;
    set->keys = table_new();
    while (table_next(old, &cursor, &name, &value)) {
        struct awaited *awaited = value;
        if (!list_empty(&awaited->waits)) { /* all waiters of a key are in one database */
            struct session *session = enter_first(awaited);
            awaited->space = session_space(session);
            waits_leave(session);
        }
        awaited_index(set, awaited);
        awaited_make_ready(set, awaited);
    }
    table_free(old);
}

/* ---- beginning a wait ---- */

/* Must the waiter be served when its key is deleted? Only XREADGROUP, because its group was deleted with the key. */
static bool wants_end(const struct waiter *waiter)
{
    return waiter->command->id == COMMAND_xreadgroup;
}

static bool waits_for(const struct waiter *waiter, const struct awaited *awaited)
{
    for (const struct list *link = waiter->waits.next; link != &waiter->waits; link = link->next)
        if (container_of(link, struct wait, waiter_link)->awaited == awaited)
            return true;
    return false;
}

static void wait_add(struct blocking_set *set, struct waiter *waiter, struct space *space,
                     struct bytes key)
{
    struct awaited *awaited = awaited_get(set, space, key);
    if (!awaited)
        awaited = awaited_add(set, space, key);
    else if (waits_for(waiter, awaited))
        return;
    struct wait *wait = malloc(sizeof *wait);
    CHECK(wait);
    wait->awaited = awaited;
    wait->waiter = waiter;
    list_push(&awaited->waits, &wait->key_link);
    list_push(&waiter->waits, &wait->waiter_link);
    awaited->groups += wants_end(waiter);
}

static struct waiter *waiter_new(struct session *session, const struct command *command,
                                 const struct bytes *argv, uint32_t argc)
{
    size_t text_at = sizeof(struct waiter) + argc * sizeof *argv;
    size_t size = text_at;
    for (uint32_t i = 0; i < argc; i++)
        size += argv[i].len;
    struct waiter *waiter = malloc(size);
    CHECK(waiter);
    *waiter = (struct waiter){.session = session, .command = command, .argc = argc};
    list_init(&waiter->waits);
    list_init(&waiter->ending);
    list_init(&waiter->counting);
    char *text = (char *)waiter + text_at;
    for (uint32_t i = 0; i < argc; i++) {
        waiter->argv[i] = (struct bytes){text, argv[i].len};
        if (argv[i].len)
            memcpy(text, argv[i].data, argv[i].len);
        text += argv[i].len;
    }
    return waiter;
}

/* Memory of a waiter with these keys and arguments, without the allocator's overhead. */
static size_t cost_of(const struct bytes *keys, uint32_t count, const struct bytes *argv,
                      uint32_t argc)
{
    enum { COPIES = 2, TABLE_ENTRY = 64 }; /* the key is stored in awaited and in the table */
    size_t bytes = sizeof(struct waiter) + TABLE_ENTRY + argc * sizeof *argv;
    for (uint32_t i = 0; i < argc; i++)
        bytes += argv[i].len;
    for (uint32_t i = 0; i < count; i++)
        bytes += sizeof(struct wait) + sizeof(struct awaited) + TABLE_ENTRY + COPIES * keys[i].len;
    return bytes;
}

/* Attaches the waiter to the session's current wait, or (without one) to the session itself. */
static void waiter_enlist(struct blocking_set *set, struct waiter *waiter)
{
    struct session *session = waiter->session;
    waiter->id = waits_current(session);
    set->clients++;
    if (waiter->id) {
        waiter->origin = waits_add(session, waiter, waiter->bytes);
        return;
    }
    CHECK(!session->pending.waiter);
    session->pending.waiter = waiter;
    session->pending.waiter_bytes = waiter->bytes;
}

/* A proxy's connection carries waits of many clients, each with a client-state-limit of its own. */
static bool fits_client_state(const struct session *session, size_t bytes)
{
    return waits_current(session)
               ? bytes <= session->partition->snapshot->config.client_state_limit_bytes
               : session_has_room(session, bytes);
}

/* Arguments, keys and timeout of a command that will wait. */
struct wish {
    enum command_group group;
    const struct bytes *keys;
    uint32_t count;
    const struct bytes *argv;
    uint32_t argc;
    uint64_t timeout_ms;
};

static bool wait_for(struct call *call, const struct wish *wish)
{
    struct session *session = call->session;
    struct blocking_set *set = call->partition->watchers.blocking;
    if (call->in_exec || call->borrow || !session || session->request.must_not_wait)
        return false;
    if (call->ready_key) {
        call->is_waiting = set->serving->is_kept = true;
        return true;
    }
    size_t bytes = cost_of(wish->keys, wish->count, wish->argv, wish->argc);
    if (!fits_client_state(session, bytes)) {
        call_error(call, ERR_STATE_LIMIT);
        return true;
    }
    call->is_waiting = true;
    struct waiter *waiter = waiter_new(session, call->command, wish->argv, wish->argc);
    waiter->bytes = bytes;
    waiter->group = wish->group;
    for (uint32_t i = 0; i < wish->count; i++)
        wait_add(set, waiter, call->space, wish->keys[i]);
    waiter->observed = overlay_observed(call->partition->overlay);
    waiter_enlist(set, waiter);
    if (wish->timeout_ms) { /* the loop's time may be older than the command's start */
        waiter->deadline_ms = (call->partition->running.started_us + 999) / 1000 + wish->timeout_ms;
        waiter_schedule(set, waiter);
    }
    return true;
}

bool blocking_wait_as(struct call *call, const struct bytes *keys, uint32_t count,
                      uint64_t timeout_ms, const struct bytes *argv, uint32_t argc)
{
    const struct wish wish = {call->command->group, keys, count, argv, argc, timeout_ms};
    return wait_for(call, &wish);
}

bool blocking_await(struct call *call, enum command_group group, const struct bytes *keys,
                    uint32_t count, uint64_t timeout_ms)
{
    const struct wish wish = {group, keys, count, call->argv, call->argc, timeout_ms};
    return wait_for(call, &wish);
}

bool blocking_wait(struct call *call, const struct bytes *keys, uint32_t count, uint64_t timeout_ms)
{
    return blocking_wait_as(call, keys, count, timeout_ms, call->argv, call->argc);
}

/* The one that the session's command has begun. */
static struct waiter *waiter_begun(const struct session *session)
{
    uint64_t id = waits_current(session);
    struct waiter *waiter = id ? waits_find(session, id) : session->pending.waiter;
    CHECK(waiter);
    return waiter;
}

bool blocking_wait_copies(struct call *call, uint64_t index, int64_t copies, uint64_t timeout_ms)
{
    struct blocking_set *set = call->partition->watchers.blocking;
    if (!blocking_wait(call, NULL, 0, timeout_ms))
        return false;
    if (call->failed)
        return true;
    struct waiter *waiter = waiter_begun(call->session);
    waiter->index = index;
    waiter->copies = copies;
    list_push(&set->counting, &waiter->counting);
    return true;
}

void blocking_wake_after(struct call *call, uint64_t wake_ms)
{
    struct blocking_set *set = call->partition->watchers.blocking;
    struct waiter *waiter = call->ready_key ? set->serving : waiter_begun(call->session);
    uint64_t now_ms = loop_mono_ms(set->partition->loop);
    uint64_t again_ms = wake_ms < INT64_MAX - now_ms ? now_ms + wake_ms : 0;
    if (waiter->again_ms && (!again_ms || waiter->again_ms <= again_ms))
        return; /* another of its keys asks for an earlier time */
    waiter->again_ms = again_ms;
    waiter_schedule(set, waiter);
}

bool blocking_timeout(struct call *call, uint32_t index, uint64_t *timeout_ms)
{
    const long double limit = 0x1p63L;
    long double seconds;
    if (!number_parse_long_double(call->argv[index], &seconds)) {
        call_error_text(call, "ERR timeout is not a float or out of range");
        return false;
    }
    long double ms = ceill(seconds * 1000);
    if (ms < 0 || ms >= limit) { /* Redis 7.0 replies the same error for both */
        call_error_text(call, "ERR timeout is negative");
        return false;
    }
    *timeout_ms = (uint64_t)ms;
    return true;
}

/* ---- ending a wait ---- */

void blocking_cancel(struct waiter *waiter)
{
    struct session *session = waiter->session;
    struct blocking_set *set = session->partition->watchers.blocking;
    struct list *link;
    while ((link = list_pop(&waiter->waits))) {
        struct wait *wait = container_of(link, struct wait, waiter_link);
        list_remove(&wait->key_link);
        wait->awaited->groups -= wants_end(waiter);
        awaited_free_if_unused(set, wait->awaited);
        free(wait);
    }
    if (waiter->due_ms)
        waiter_unschedule(set, waiter);
    list_remove(&waiter->ending);
    list_remove(&waiter->counting);
    set->clients--;
    if (waiter->id)
        waits_remove(session, waiter->id, waiter->origin, waiter->bytes);
    if (session->pending.waiter == waiter) {
        session->pending.waiter = NULL;
        session->pending.waiter_bytes = 0;
    }
    free(waiter);
}

void blocking_give_back(struct waiter *waiter)
{
    struct out *out = stream_out(waiter->session->stream);
    out_printf(out, ">3\r\n:%" PRIu64 "\r\n" STOPPING_WORD, waiter->id);
    resp_write_words(out, waiter->argv, waiter->argc);
    blocking_cancel(waiter);
}

/* Frees a waiter after the reply to its client. */
static void waiter_finish(struct waiter *waiter)
{
    struct session *session = waiter->session;
    bool is_own = !waiter->id;
    blocking_cancel(waiter);
    if (is_own)
        session_go_on(session);
    else
        session_check_later(session);
}

/* `observed`, or 0 when that ticket is already durable. */
static uint64_t pending_ticket(const struct overlay *overlay, uint64_t observed)
{
    uint64_t ticket = overlay_ticket(overlay);
    return observed == ticket || (overlay_in_flight(overlay) && observed == ticket - 1) ? observed
                                                                                        : 0;
}

static unsigned copies_with(const struct partition *partition, uint64_t index)
{
    const struct partition_copies *copies = &partition->copies;
    return copies->replica ? replica_acknowledged(copies->replica, copies->term, index) : 0;
}

void blocking_reply_copies(struct reply *reply, const struct command *command, unsigned copies)
{
    if (command->merge == MERGE_LEAST) { /* both numbers of WAITAOF */
        reply_array(reply, 2);
        reply_int(reply, 1);
    }
    reply_int(reply, copies);
}

/* Ends the wait with a null array, the number of copies, or the error. */
static void leave_wait(struct waiter *waiter, const char *error, bool is_failure)
{
    struct session *session = waiter->session;
    struct partition *partition = session->partition;
    enter_wait(waiter);
    struct out *out = session_reply_begin(session, true);
    size_t begun = out->bytes;
    waits_write_head(session, out);
    struct reply reply = {.out = out, .resp = session->resp};
    struct command_stats *stats = &partition->metrics.stats->commands[waiter->command->id];
    stats->calls++;
    stats->failed += is_failure;
    if (error) {
        stats_error(partition->metrics.stats, error);
        reply_error(&reply, error);
    } else if (waiter->index) {
        blocking_reply_copies(&reply, waiter->command, copies_with(partition, waiter->index));
    } else {
        reply_null_array(&reply);
    }
    session_reply_end(session, out, begun, pending_ticket(partition->overlay, waiter->observed));
    waits_leave(session);
    waiter_finish(waiter);
}

void blocking_unblock(struct waiter *waiter, bool with_error)
{
    leave_wait(waiter, with_error ? "UNBLOCKED client unblocked via CLIENT UNBLOCK" : NULL, true);
}

void blocking_refuse(struct waiter *waiter, const char *error)
{
    leave_wait(waiter, error, true);
}

void blocking_unblock_later(struct waiter *waiter, bool with_error)
{
    struct blocking_set *set = waiter->session->partition->watchers.blocking;
    if (waiter->end == END_NONE)
        list_push(&set->ending, &waiter->ending);
    waiter->end = with_error ? END_ERROR : END_TIMEOUT;
}

static void end_unblocked(struct blocking_set *set)
{
    for (struct list *link; (link = list_pop(&set->ending));) {
        struct waiter *waiter = container_of(link, struct waiter, ending);
        if (waiter->end == END_COUNTED)
            leave_wait(waiter, NULL, false);
        else
            blocking_unblock(waiter, waiter->end == END_ERROR);
    }
}

/* Await before count: what is acknowledged between both is heard. */
void blocking_count(struct blocking_set *set)
{
    const struct partition *partition = set->partition;
    if (list_empty(&set->counting) || !partition->copies.replica)
        return;
    replica_await_acknowledged(partition->copies.replica);
    for (struct list *link = set->counting.next; link != &set->counting; link = link->next) {
        struct waiter *waiter = container_of(link, struct waiter, counting);
        if (waiter->end != END_NONE || copies_with(partition, waiter->index) < waiter->copies)
            continue;
        waiter->end = END_COUNTED;
        list_push(&set->ending, &waiter->ending);
    }
    end_unblocked(set);
}

/* The waiter's command runs again for each of its keys, as if that key had changed. */
static void make_waiter_ready(struct blocking_set *set, struct waiter *waiter)
{
    for (const struct list *link = waiter->waits.next; link != &waiter->waits; link = link->next)
        awaited_make_ready(set, container_of(link, struct wait, waiter_link)->awaited);
    waiter->again_ms = 0;
    waiter_schedule(set, waiter);
}

static void on_timer(void *owner)
{
    struct blocking_set *set = owner;
    uint64_t now_ms = loop_mono_ms(set->partition->loop);
    bool is_ready = false;
    while (set->heap_count && set->heap[0]->due_ms <= now_ms) {
        struct waiter *waiter = set->heap[0];
        if (waiter->deadline_ms && waiter->deadline_ms <= now_ms) {
            leave_wait(waiter, NULL, false);
            continue;
        }
        make_waiter_ready(set, waiter);
        is_ready = true;
    }
    if (is_ready) {
        set->partition->running.started_us = clock_mono_us();
        blocking_serve(set);
    }
    waiters_set_timer(set);
}

/* ---- serving waiters ---- */

/* Can the waiter's command use a key of this type? */
static bool is_wanted(const struct waiter *waiter, enum type type)
{
    enum command_group group = type_rows[type].blocks;
    return group != GROUP_GENERIC && group == waiter->group;
}

/* The key's current type; TYPE_NONE when the key cannot be read. */
static enum type awaited_type(struct blocking_set *set, const struct awaited *awaited)
{
    struct call call;
    struct entry entry;
    internal_call_begin(set->partition, &call);
    struct session *session = enter_first(awaited);
    call.slot_rule = session->scope.slot_rule;
    bool found =
        keyspace_open_in(&call, awaited->space, awaited_key(awaited), OPEN_QUIET, &entry) &&
        entry.exists;
    internal_call_end(set->partition, &call);
    waits_leave(session);
    return found ? entry.meta.type : TYPE_NONE;
}

/* Runs the waiter's command again; waiter and session may be freed by it. */
static void serve_waiter(struct blocking_set *set, struct waiter *waiter, struct bytes key,
                         bool is_foreign)
{
    char timeout[WAITER_TIMEOUT_MAX];
    waiter->is_kept = false;
    set->serving = waiter;
    enter_wait(waiter);
    if (is_foreign)
        waiter_shorten_timeout(waiter, loop_mono_ms(set->partition->loop), timeout);
    dispatch_again(waiter->session, waiter->command, waiter->argv, waiter->argc, &key);
    waits_leave(waiter->session);
    set->serving = NULL;
    if (waiter->is_kept)
        waiter->observed = overlay_observed(set->partition->overlay);
    else
        waiter_finish(waiter);
}

/* Does the proxy's connection have too many unsent bytes? Then its waiters are skipped and elements stay in their
 * lists. */
static bool is_slow_reader(const struct waiter *waiter)
{
    return waiter->id && session_owed_bytes(waiter->session) > STREAM_HIGH_WATER;
}

static void stall(struct blocking_set *set, struct awaited *awaited)
{
    CHECK(list_empty(&awaited->ready));
    awaited->is_stalled = true;
    list_push(&set->stalled, &awaited->ready);
}

static uint16_t slot_of_awaited(const struct awaited *awaited)
{
    struct session *session = enter_first(awaited);
    uint16_t slot = slot_rule_slot(session->scope.slot_rule, awaited_key(awaited));
    waits_leave(session);
    return slot;
}

/* Has a transaction over shards locked the key? Its waiters are served when the lock is released. */
static bool is_key_locked(struct blocking_set *set, const struct awaited *awaited)
{
    struct partition *partition = set->partition;
    if (!lock_set_count(partition->shards.locks))
        return false;
    struct arena *arena = &partition->running.arena;
    struct bytes row_key = encode_metadata_key(arena, awaited->space->name,
                                               slot_of_awaited(awaited), awaited_key(awaited));
    bool is_stopped = lock_stops(partition->shards.locks, row_key, true, NULL) != NULL;
    arena_reset(arena);
    return is_stopped;
}

static void serve_key(struct blocking_set *set, struct awaited *awaited)
{
    bool is_foreign = !slot_set_has(set->partition->shards.here, slot_of_awaited(awaited));
    if (!is_foreign && is_key_locked(set, awaited)) {
        stall(set, awaited);
        return;
    }
    enum type type = is_foreign ? TYPE_NONE : awaited_type(set, awaited);
    struct list *next;
    bool is_passing = false;
    awaited->is_serving = true;
    for (struct list *link = awaited->waits.next; link != &awaited->waits; link = next) {
        struct waiter *waiter = container_of(link, struct wait, key_link)->waiter;
        next = link->next; /* serving a waiter removes no other waiter */
        if (!is_foreign && type == TYPE_NONE && awaited->groups == 0)
            break;
        if (!is_foreign && !is_wanted(waiter, type) && !wants_end(waiter))
            continue;
        if (is_slow_reader(waiter) || partition_lease_is_over(set->partition)) {
            is_passing = true;
            continue;
        }
        serve_waiter(set, waiter, awaited_key(awaited), is_foreign);
        if (next != &awaited->waits && !is_foreign)
            type = awaited_type(set, awaited);
    }
    awaited->is_serving = false;
    if (is_passing)
        stall(set, awaited);
    awaited_free_if_unused(set, awaited);
}

void blocking_serve(struct blocking_set *set)
{
    struct list *link;
    end_unblocked(set);
    const struct partition *partition = set->partition;
    bool is_readonly = !partition->copies.is_following && commit_is_failed(partition->commit, NULL);
    if (list_empty(&set->ready) || is_readonly || slots_are_frozen(partition))
        return; /* the waiters are served when writes are accepted again; those of a copy that follows only read */
    while ((link = list_pop(&set->ready)))
        serve_key(set, container_of(link, struct awaited, ready));
}

void blocking_resume(struct blocking_set *set)
{
    for (struct list *link; (link = list_pop(&set->stalled));)
        awaited_make_ready(set, container_of(link, struct awaited, ready));
    set->partition->running.started_us = clock_mono_us();
    blocking_serve(set);
}

void blocking_end_foreign(struct blocking_set *set)
{
    const struct slot_set *here = set->partition->shards.here;
    size_t cursor = 0;
    struct bytes name;
    void *value;
    if (set->clients == 0 || !here)
        return;
    while (table_next(set->keys, &cursor, &name, &value)) {
        struct awaited *awaited = value;
        if (!list_empty(&awaited->waits) && !slot_set_has(here, slot_of_awaited(awaited)))
            awaited_make_ready(set, awaited);
    }
    set->partition->running.started_us = clock_mono_us();
    blocking_serve(set);
}

/* ---- create and free ---- */

struct blocking_set *blocking_new(struct partition *partition)
{
    struct blocking_set *set = calloc(1, sizeof *set);
    CHECK(set);
    set->partition = partition;
    set->keys = table_new();
    list_init(&set->ready);
    list_init(&set->stalled);
    list_init(&set->ending);
    list_init(&set->counting);
    set->timer = timer_new(partition->loop, on_timer, set);
    set->resume = blocking_resume;
    return set;
}

void blocking_free(struct blocking_set *set)
{
    if (!set)
        return;
    CHECK(set->clients == 0);
    CHECK(table_count(set->keys) == 0);
    timer_free(set->timer);
    table_free(set->keys);
    free(set->heap);
    free(set);
}

uint32_t blocking_clients(const struct blocking_set *set)
{
    return set->clients;
}

uint32_t blocking_timeouts(const struct blocking_set *set)
{
    return set->heap_count;
}

uint32_t blocking_keys(const struct blocking_set *set, uint32_t *on_nokey)
{
    size_t cursor = 0;
    struct bytes name;
    void *awaited;
    *on_nokey = 0;
    while (table_next(set->keys, &cursor, &name, &awaited))
        *on_nokey += ((const struct awaited *)awaited)->groups > 0;
    return (uint32_t)table_count(set->keys);
}
