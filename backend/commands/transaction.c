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
#include "backend/session/attempt.h"
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

/* Must the whole EXEC end? */
static bool must_end(const struct call *call)
{
    return budget_ends_call(&call->partition->running.budget);
}

static void run_queued_command(struct call *call, const struct queued *queued)
{
    dispatch_queued(call, queued->command, queued->argv, queued->argc);
    (void)arena_goes_on(call->arena, QUEUED_WORK); /* a command without rows counts nothing */
}

/* The command must wait: so do those behind it, which say what they need, too. Then all of that is undone, and EXEC halts before the
 * command. */
static void halt_before(struct call *call, const struct queued *queued,
                        const struct attempt *attempt, size_t begun)
{
    for (const struct queued *next = queued->next; next && !must_end(call); next = next->next)
        run_queued_command(call, next);
    if (!suspend_may_halt(call))
        return; /* it is refused, or begins again */
    struct call undone = *call;
    undone.begun = begun;
    attempt_undo(attempt, &undone);
    attempt_halt(call, call->aside && call->aside->at == queued);
}

/* Runs the command of an EXEC that may halt. A script halts by itself, or makes EXEC begin again. */
static void run_or_halt(struct call *call, const struct queued *queued)
{
    struct attempt attempt;
    size_t begun = call->reply.out->bytes;
    bool is_again = call_retries(call);
    attempt_begin(&attempt, call);
    attempt_note_chance(&attempt, call); /* halt_before may run scripts */
    run_queued_command(call, queued);
    bool waits = !is_again && !(queued->command->flags & CMD_SCRIPT) && call_retries(call);
    if (waits)
        halt_before(call, queued, &attempt, begun);
    if (call->has_halted)
        call->aside->at = queued;
}

/* Runs the commands from this one on, until EXEC halts. */
static void run_commands(struct call *call, const struct queued *queued)
{
    for (; queued && !call->has_halted && !must_end(call); queued = queued->next)
        if (call->may_halt)
            run_or_halt(call, queued);
        else
            run_queued_command(call, queued);
}

/* EXEC ends with an error, and has changed nothing. */
static void end_early(struct call *call, uint32_t messages, uint8_t db)
{
    push_messages_roll_back(call->partition->watchers.messages, messages);
    if (call->session->scope.db != db)
        session_select(call->session, db);
    if (call->aside)
        attempt_forget_effects(call);
    call_error(call, ERR_OVER);
}

/* The reply so far may exceed reply-limit by the short replies that dispatch_queued allows. */
static void reply_so_far(struct out *out, struct out *reply)
{
    size_t limit = out->limit;
    out_limit(out, 0);
    out_move(out, reply);
    out_limit(out, limit);
}

/* The queue begins, or goes on where it has halted. Returns the command. */
static const struct queued *begin_queue(struct call *call, const struct transaction *queue)
{
    if (!call->aside) {
        reply_array(&call->reply, queue->count);
        return queue->first;
    }
    attempt_go_on(call);
    reply_so_far(call->reply.out, &call->aside->reply);
    return call->aside->at;
}

/* Runs the commands. If the EXEC exceeds one of its limits, it ends, and all its effects are rolled back. */
static void run_queued(struct call *call, const struct transaction *queue)
{
    struct partition *partition = call->partition;
    uint32_t messages = partition->watchers.messages->count;
    uint8_t db = call->session->scope.db;
    overlay_queue_begin(partition->overlay);
    space_queue_begin(partition->spaces);
    run_commands(call, begin_queue(call, queue));
    bool is_good = call->has_halted || !must_end(call);
    overlay_queue_end(partition->overlay, is_good);
    space_queue_end(partition->spaces, is_good);
    if (!is_good)
        end_early(call, messages, db);
    else if (call->has_halted)
        out_cut(call->reply.out, call->begun, &call->aside->reply);
}

/* Runs the queue. If a command waits, the other commands still run, so that all rows which are needed
 * are fetched together; then the session is restored, and EXEC is rolled back and retried. If EXEC uses keys of other shards, it halts
 * instead, and goes on with the same command later (attempt.h). It may have to run again until it is decided, and the coordinator ends the
 * transaction then. */
static void run_queue(struct call *call)
{
    struct session *session = call->session;
    struct transaction queue = session->transaction;
    transaction_init(&session->transaction); /* so that the commands do not run inside MULTI */
    session->watcher.is_over = true;
    run_queued(call, &queue);
    if (call_retries(call) || borrow_is_used(call->borrow)) {
        session->transaction = queue;
        session->watcher.is_over = false;
        return;
    }
    suspend_forbid(call);
    transaction_end(&queue);
    session_unwatch(session);
}

/* EXEC changes nothing: a watched key was changed, or could not be read. */
static void abort_queue(struct call *call, bool is_dirty)
{
    if (call->aside)
        attempt_forget_effects(call);
    if (is_dirty)
        reply_null_array(&call->reply);
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
    else if (is_dirty || call->failed)
        abort_queue(call, is_dirty);
    else {
        run_queue(call);
        return;
    }
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
