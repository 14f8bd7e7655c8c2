#include "backend/dispatch/suspend.h"

#include "backend/context/partition.h"
#include "backend/context/stats.h"
#include "backend/dispatch/line.h"
#include "backend/format/encoding.h"
#include "backend/keyspace/borrow.h"
#include "backend/keyspace/borrow_all.h"
#include "backend/keyspace/lock_waiter.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/session/command_stats.h"
#include "backend/session/held_stats.h"
#include "backend/session/limits.h"
#include "backend/session/session.h"
#include "backend/storage/overlay.h"
#include "backend/storage/reader.h"
#include "backend/transaction/coordinator.h"
#include "backend/transaction/lock_ahead.h"
#include "shared/clock.h"
#include "shared/command/keys.h"

enum {
    SUSPEND_TRIES = 16,
    PREFETCH_FRAMES_MAX = 64,
    PREFETCH_KEYS_MAX = 256, /* keys of one command */
    /* a script that has run as many commands of its own shard is not rolled back any more, because it would run them all again */
    UNDONE_COMMANDS_MAX = 16384,
};

/* ---- prefetch ---- */

/* Prefetches the metadata rows of a request's keys; the session waits for them. Without reader threads nothing is
 * fetched: the command reads the rows itself. */
static void prefetch_keys(struct session *session, const struct command *command,
                          const struct bytes *argv, uint32_t argc)
{
    struct partition *partition = session->partition;
    const struct space *space = session_space(session);
    const struct slot_set *slots = session_slots(session);
    struct key_list keys;
    if (!partition->reader)
        return;
    keys_list_init(&keys);
    if (keys_find(command, argv, argc, &keys) == 0)
        for (uint32_t i = 0; i < keys.count && i < PREFETCH_KEYS_MAX; i++) {
            struct bytes key = argv[keys.refs[i].index];
            uint16_t slot = slot_rule_slot(session->scope.slot_rule, key);
            if (slots && !slot_set_has(slots, slot))
                continue; /* its row is at another shard */
            struct bytes row_key =
                encode_metadata_key(&partition->running.arena, space->name, slot, key);
            if (keys.refs[i].flags & KEY_OW && overlay_knows_plain(partition->overlay, row_key))
                continue; /* its row is not read */
            (void)overlay_prefetch(partition->overlay, CF_METADATA, row_key,
                                   &session->pending.retry);
        }
    keys_list_fini(&keys);
}

static void prefetch_queue(struct session *session)
{
    for (const struct queued *queued = session->transaction.first; queued; queued = queued->next)
        prefetch_keys(session, queued->command, queued->argv, queued->argc);
}

static bool has_data(const struct command *command)
{
    return (command->flags & (CMD_WRITE | CMD_READONLY) && keys_possible(command)) ||
           command->flags & CMD_SCRIPT;
}

/* Prefetches the first rows that a request will read. */
static void prefetch_request(struct session *session, const struct bytes *argv, uint32_t argc)
{
    const struct command *command = command_find_argv(argv, argc);
    uint32_t before = command ? command_prefix_argc(command) : 0;
    if (before && argc > before) {
        argv += before;
        argc -= before;
        command = command_find_argv(argv, argc);
    }
    if (command && command_arity_ok(command, argc) && has_data(command))
        prefetch_keys(session, command, argv, argc);
}

static void prefetch_behind(struct session *session, const char *data, size_t len)
{
    struct partition *partition = session->partition;
    const struct resp_limits limits = {
        .bulk_bytes_max = UINT32_MAX, .args_max = PREFETCH_KEYS_MAX, .inline_bytes_max = 1024};
    struct resp_scan scan;
    struct bytes argv[PREFETCH_KEYS_MAX];
    if (!partition->reader)
        return;
    resp_scan_init(&scan);
    for (int i = 0; i < PREFETCH_FRAMES_MAX && !reader_is_full(partition->reader); i++) {
        if (len == 0 || resp_scan(&scan, &limits, data, len) != RESP_FRAME)
            break;
        const char *base = resp_scan_base(&scan, data);
        for (uint32_t arg = 0; arg < scan.argc; arg++)
            argv[arg] = (struct bytes){base + scan.args[arg].at, scan.args[arg].len};
        if (scan.argc > 0)
            prefetch_request(session, argv, scan.argc);
        data += scan.size;
        len -= scan.size;
    }
    resp_scan_fini(&scan);
    arena_reset(&partition->running.arena);
}

void suspend_wait(struct session *session, const char *behind, size_t len)
{
    prefetch_behind(session, behind, len);
    line_wait(session);
}

/* ---- one command ---- */

static bool runs_others(const struct command *command)
{
    return command->traits & TRAIT_RUNS_QUEUE || command->group == GROUP_SCRIPTING;
}

/* True for an EXEC or script whose commands can all be rolled back. */
static bool is_undone_as_one(const struct call *call)
{
    const struct transaction *transaction = &call->session->transaction;
    return call->command->traits & TRAIT_RUNS_QUEUE ? transaction->is_open && transaction->is_plain
                                                    : call->command->flags & CMD_SCRIPT;
}

/* Does the command only read and write keys? WATCH has neither flag, but reads rows, and INFO counts keys. */
static bool changes_only_keys(const struct command *command)
{
    return command->traits & (TRAIT_WATCHES | TRAIT_COUNTS_KEYS) ||
           (command->flags & (CMD_WRITE | CMD_READONLY) && !(command->flags & CMD_ADMIN));
}

/* True when the handler reads rows, and has no other side effects than those that suspend_end rolls back. */
static bool may_suspend(const struct call *call)
{
    const struct command *command = call->command;
    const struct session *session = call->session;
    if (!call->partition->reader || session->pending.suspend_tries >= SUSPEND_TRIES ||
        session->pending.retry.ranges >= READER_RANGES_MAX)
        return false;
    if (runs_others(command))
        return is_undone_as_one(call);
    return changes_only_keys(command);
}

/* Can the command be rolled back after it used keys of other shards, met a locked key, or had no room for a new one? It can however
 * often it ran. */
static bool may_roll_back(const struct call *call)
{
    const struct command *command = call->command;
    if (runs_others(command))
        return is_undone_as_one(call);
    return changes_only_keys(command);
}

/* Suspends the session until the requested rows are fetched, or keys are locked. */
static void suspend_session(struct session *session)
{
    struct partition *partition = session->partition;
    session->pending.retry.ranges += session->pending.retry.has_range;
    session->pending.retry.has_range = false;
    partition->running.started_us = clock_mono_us();
    metric_add(partition->metrics.process, METRIC_BACKEND_SUSPENDED_COMMANDS, 1);
}

/* An attempt has failed because of them. */
static void wait_for_rows(struct session *session)
{
    if (session->pending.suspend_tries < SUSPEND_TRIES)
        session->pending.suspend_tries++;
    suspend_session(session);
}

bool suspend_ready(struct call *call)
{
    struct session *session = call->session;
    const struct command *command = call->command;
    struct partition *partition = call->partition;
    if (session->request.is_across && may_roll_back(call) && lock_ahead(call)) {
        coordinator_fetch(call);
        arena_reset(call->arena);
        suspend_session(session);
        return false;
    }
    if (!partition->reader || !reader_has_missed(partition->reader) ||
        session->pending.suspend_tries >= SUSPEND_TRIES || coordinator_has_halted(session))
        return true;
    if (command->traits & TRAIT_RUNS_QUEUE)
        prefetch_queue(session);
    else if (keys_first(command, call->argc) == KEYS_SEARCH)
        prefetch_keys(session, command, call->argv, call->argc);
    arena_reset(&partition->running.arena);
    if (!session->pending.retry.pending)
        return true;
    wait_for_rows(session);
    return false;
}

/* A command that has waited for a lock is served by its age from now on. */
static struct lock_waiter *queue_by_age(struct call *call)
{
    struct session *session = call->session;
    uint64_t since_ms = session->pending.retry.since_ms;
    if (!session->pending.lock_waiter && since_ms &&
        lock_set_count(call->partition->shards.locks)) {
        session->pending.lock_waiter = lock_waiter_new(call, since_ms, session->id);
        session->pending.lock_waiter->owner.on_wounded = lock_waiter_give_way;
    }
    return session->pending.lock_waiter;
}

void suspend_forget_locks(struct session *session)
{
    lock_waiter_free(session->pending.lock_waiter);
    session->pending.lock_waiter = NULL;
}

static void begin_across(struct call *call)
{
    call->tally = &call->borrow->tally;
    call->aside = coordinator_take_aside(call);
    call->session->pending.retry.undoes = false;
    if (!call->aside)
        borrow_begin(call->borrow);
}

static void begin_attempt(struct call *call, struct attempt *attempt)
{
    bool is_used = borrow_is_used(call->borrow);
    struct view *view = is_used ? borrow_view(call->borrow) : NULL;
    call->may_halt = is_used && runs_others(call->command);
    if (call->aside) {
        attempt_enter(attempt, call, call->aside, view);
    } else {
        attempt_begin(attempt, call);
        if (runs_others(call->command) || is_used)
            attempt_group(attempt, call, view);
    }
    if (is_used)
        borrow_count_elsewhere(call->borrow, call->partition);
}

void suspend_begin(struct call *call, struct suspend_mark *mark)
{
    struct partition *partition = call->partition;
    bool is_nonblocking = may_suspend(call);
    bool is_across = call->session->request.is_across;
    bool may_wait = is_across || lock_set_count(partition->shards.locks) ||
                    partition->shards.moving || /* for a slot */
                    (!is_nonblocking && limits_may_wait(call));
    limits_attempt(call);
    bool may_retry = may_wait && may_roll_back(call);
    call->borrow = is_across && may_retry ? coordinator_borrow(call) : NULL;
    if (call->borrow)
        begin_across(call);
    else if (may_retry)
        call->waiter = queue_by_age(call);
    mark->is_set = is_nonblocking || may_retry;
    if (!mark->is_set)
        return;
    begin_attempt(call, &mark->attempt);
    overlay_nonblocking_begin(partition->overlay, &call->session->pending.retry);
    if (!is_nonblocking)
        overlay_nonblocking_end(partition->overlay);
}

bool suspend_may_halt(const struct call *call)
{
    const struct retry *retry = call_wait(call);
    return call->may_halt && retry && !retry->refusal && !retry->undoes;
}

void suspend_before_nested(struct call *script, const struct command *command)
{
    bool is_undone = !command || (command->flags & (CMD_WRITE | CMD_READONLY | CMD_FAST) &&
                                  !(command->flags & CMD_ADMIN));
    if (script->borrow)
        return; /* rolled back in any case: its other calls leave no effects, and may run again */
    if (!is_undone || command_stats_held(script->partition) >= UNDONE_COMMANDS_MAX)
        suspend_forbid(script);
}

void suspend_forbid(struct call *call)
{
    struct partition *partition = call->partition;
    if (!partition->metrics.held_stats->is_held || borrow_is_used(call->borrow))
        return;
    if (call->borrow)
        borrow_close(call->borrow);
    overlay_nonblocking_begin(partition->overlay, NULL); /* nor can it wait for a lock */
    attempt_keep(partition);
}

/* Keeps what the last attempt did for the commit over several shards, and rolls it back here. True: the session waits
 * for the other shards. */
static bool commit_across(struct call *call, const struct suspend_mark *mark)
{
    struct partition *partition = call->partition;
    coordinator_collect(call, mark->attempt.messages);
    limits_charge_begin(call);
    attempt_undo_effects(partition);
    limits_charge_end(call);
    /* unless an earlier attempt was counted: the transaction has begun again since */
    attempt_count(&mark->attempt, partition, !coordinator_is_counted(call->session));
    bool is_done = coordinator_commit(call);
    arena_reset(&partition->running.arena);
    if (!is_done)
        wait_for_rows(call->session);
    return !is_done;
}

/* A key is locked for too long: nothing was done. */
static void reply_refusal(struct call *call)
{
    struct session *session = call->session;
    metric_add(call->partition->metrics.process, METRIC_BACKEND_LOCKED_REFUSED, 1);
    call_error_text(call, session->pending.retry.refusal);
    retry_cancel(&session->pending.retry);
    coordinator_abandon(session);
    if (call->command->traits & TRAIT_RUNS_QUEUE) {
        transaction_end(&session->transaction);
        session_unwatch(session);
    }
}

void suspend_halt(struct call *call, const struct suspend_mark *mark)
{
    attempt_leave(&mark->attempt, call, call->aside);
}

/* The call goes on when the key that it needs is here. */
static void wait_halted(struct call *call)
{
    struct session *session = call->session;
    overlay_nonblocking_begin(call->partition->overlay, NULL);
    coordinator_set_aside(call, call->aside);
    if (!call->aside->is_again)
        session->pending.suspend_tries = session->pending.retry.ranges = 0;
    coordinator_fetch(call);
    arena_reset(&call->partition->running.arena);
    wait_for_rows(session);
}

static bool call_waits(const struct session *session)
{
    return session->pending.retry.pending || session->pending.retry.refusal;
}

/* The attempt has ended, and its waits are only a part of what it did. */
static void end_aside(struct call *call, const struct suspend_mark *mark, bool is_good)
{
    if (is_good)
        attempt_join(&mark->attempt, call);
    attempt_aside_free(call->aside, call->partition);
    call->aside = NULL;
}

bool suspend_end(struct call *call, const struct suspend_mark *mark)
{
    struct partition *partition = call->partition;
    struct session *session = call->session;
    if (!mark->is_set)
        return false;
    if (call->has_halted) {
        wait_halted(call);
        return true;
    }
    overlay_nonblocking_begin(partition->overlay, NULL);
    if (call->aside)
        end_aside(call, mark, !call_waits(session));
    if (session->pending.retry.refusal) {
        attempt_undo(&mark->attempt, call);
        reply_refusal(call);
        return false;
    }
    if (!session->pending.retry.pending && mark->attempt.is_group && borrow_is_used(call->borrow))
        return commit_across(call, mark);
    if (!session->pending.retry.pending) {
        suspend_forbid(call);
        coordinator_abandon(session); /* no key of another shard was needed */
        return false;
    }
    attempt_undo(&mark->attempt, call);
    if (call->borrow)
        coordinator_fetch(call);
    if (call->command->traits & TRAIT_RUNS_QUEUE)
        prefetch_queue(session);
    else
        prefetch_keys(session, call->command, call->argv, call->argc);
    arena_reset(&partition->running.arena);
    wait_for_rows(session);
    return true;
}
