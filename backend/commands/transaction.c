/*
 * transaction.c - MULTI, EXEC, DISCARD, WATCH, UNWATCH.
 *
 * EXEC runs the queue without interruption, and all its commands see the same time. Their effects are in one batch,
 * because batches are only closed between turns, and the one reply waits for this batch. A queued command that fails
 * rolls back only its own effects.
 */
#include "backend/context/partition.h"
#include "backend/dispatch/dispatch.h"
#include "backend/dispatch/handlers.h"
#include "backend/dispatch/suspend.h"
#include "backend/keyspace/borrow.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/script/script.h"
#include "backend/session/push_message.h"
#include "backend/session/session.h"
#include "backend/transaction/coordinator.h"

/* Ends the transaction and removes the watches. */
static void leave_transaction(struct call *call)
{
    transaction_end(&call->session->transaction);
    session_unwatch(call->session);
}

void cmd_multi(struct call *call)
{
    if (call->session->transaction.is_open) {
        call_error(call, ERR_NESTED_MULTI);
        return;
    }
    transaction_begin(&call->session->transaction);
    reply_ok(&call->reply);
}

void cmd_discard(struct call *call)
{
    if (!call->session->transaction.is_open) {
        call_error(call, ERR_DISCARD_WITHOUT_MULTI);
        return;
    }
    leave_transaction(call);
    reply_ok(&call->reply);
}

enum { QUEUED_WORK = 50 };

/* Runs the commands. If the EXEC exceeds one of its limits, it ends, and all its effects are rolled back. */
static void run_queued(struct call *call, const struct queued *queued)
{
    struct partition *partition = call->partition;
    uint32_t messages = partition->watchers.messages->count;
    uint8_t db = call->session->scope.db;
    overlay_queue_begin(partition->overlay);
    space_queue_begin(partition->spaces);
    for (; queued && !budget_ends_call(&partition->running.budget); queued = queued->next) {
        dispatch_queued(call, queued->command, queued->argv, queued->argc);
        (void)arena_goes_on(call->arena, QUEUED_WORK); /* a command without rows counts nothing */
    }
    bool is_good = !budget_ends_call(&partition->running.budget);
    overlay_queue_end(partition->overlay, is_good);
    space_queue_end(partition->spaces, is_good);
    if (is_good)
        return;
    push_messages_roll_back(partition->watchers.messages, messages);
    if (call->session->scope.db != db)
        session_select(call->session, db);
    call_error(call, ERR_OVER);
}

/* Runs the queue. If a command waits, the other commands still run, so that all rows which are needed
 * are fetched together; then the session is restored, and EXEC is rolled back and retried. If EXEC uses keys of other shards, it may
 * have to run again until it is decided, and the coordinator ends the transaction then. */
static void run_queue(struct call *call)
{
    struct session *session = call->session;
    struct transaction queue = session->transaction;
    transaction_init(&session->transaction); /* so that the commands do not run inside MULTI */
    session->watcher.is_over = true;
    reply_array(&call->reply, queue.count);
    run_queued(call, queue.first);
    if (call_retries(call) || borrow_is_used(call->borrow)) {
        session->transaction = queue;
        session->watcher.is_over = false;
        return;
    }
    suspend_forbid(call);
    transaction_end(&queue);
    session_unwatch(session);
}

void cmd_exec(struct call *call)
{
    struct session *session = call->session;
    if (!session->transaction.is_open) {
        call_error(call, ERR_EXEC_WITHOUT_MULTI);
        return;
    }
    bool is_dirty =
        !session->transaction.is_aborted &&
        (keyspace_watch_dirty(call, &session->watcher) || coordinator_watch_dirty(call));
    if (call_retries(call))
        return; /* EXEC waits for a watched key */
    if (session->transaction.is_aborted)
        call_error(call, ERR_EXECABORT);
    else if (is_dirty)
        reply_null_array(&call->reply);
    else if (!call->failed) {
        run_queue(call);
        return;
    } /* else a watched key could not be read; an error was replied */
    if (!borrow_is_used(call->borrow)) /* else as after run_queue */
        leave_transaction(call);
}

/* Is the key of this shard? */
static bool has_key(const struct call *call, struct bytes key)
{
    return !call->slots || slot_set_has(call->slots, slot_rule_slot(call->slot_rule, key));
}

/* Opens a key, so that it is deleted if it has expired. False: the command waits, or an error was replied. */
static bool open_watched(struct call *call, struct bytes key)
{
    struct entry entry;
    uint16_t slot = slot_rule_slot(call->slot_rule, key);
    return keyspace_await_writer(call,
                                 encode_metadata_key(call->arena, call->space->name, slot, key)) &&
           keyspace_open(call, key, OPEN_QUIET, &entry);
}

static void watch_own(struct call *call, struct bytes key)
{
    struct lock_set *locks = call->partition->shards.locks;
    struct watcher *watcher = &call->session->watcher;
    uint16_t slot = slot_rule_slot(call->slot_rule, key);
    watch_add(call->partition->watchers.watches, watcher, call->space, slot, key);
    if (lock_set_count(locks))
        lock_reserve(locks, &watcher->reserver,
                     encode_metadata_key(call->arena, call->space->name, slot, key));
}

static bool is_watched_here(const struct call *call, struct bytes key)
{
    return !call->borrow || has_key(call, key);
}

/* Watches the keys of other shards, which are asked for all of them at once. False: the command waits. */
static bool watch_elsewhere(struct call *call)
{
    bool is_ready = true;
    for (uint32_t i = 1; i < call->argc; i++)
        is_ready &= is_watched_here(call, call->argv[i]) || coordinator_watch(call, call->argv[i]);
    if (!is_ready)
        call_error(call, ERR_RETRY);
    return is_ready;
}

void cmd_watch(struct call *call)
{
    size_t bytes = 0;
    if (call->session->transaction.is_open) {
        call_error(call, ERR_WATCH_IN_MULTI);
        return;
    }
    for (uint32_t i = 1; i < call->argc; i++)
        bytes += watch_cost(call->argv[i]);
    if (!session_has_room(call->session, bytes)) {
        call_error(call, ERR_STATE_LIMIT);
        return;
    }
    /* the effects of the slow call may still be rolled back */
    bool is_busy = call->partition->running.busy_error != NULL;
    /* a transaction that has locked one of the own keys could change keys that are watched elsewhere already */
    for (uint32_t i = 1; !is_busy && i < call->argc; i++)
        if (is_watched_here(call, call->argv[i]) && !open_watched(call, call->argv[i]))
            return;
    if (!is_busy && !watch_elsewhere(call))
        return;
    for (uint32_t i = 1; i < call->argc; i++)
        if (has_key(call, call->argv[i]))
            watch_own(call, call->argv[i]);
    reply_ok(&call->reply);
}

void cmd_unwatch(struct call *call)
{
    if (!call->in_exec) /* EXEC removes the watches itself, and may be rolled back */
        session_unwatch(call->session);
    reply_ok(&call->reply);
}
