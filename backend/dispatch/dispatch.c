#include "backend/dispatch/dispatch.h"

#include "backend/context/goes_on.h"
#include "backend/context/stats.h"
#include "backend/dispatch/acl_gate.h"
#include "backend/dispatch/across_gate.h"
#include "backend/dispatch/blocking.h"
#include "backend/dispatch/gates.h"
#include "backend/dispatch/handlers.h"
#include "backend/dispatch/suspend.h"
#include "backend/keyspace/keyspace.h"
#include "backend/session/attempt.h"
#include "backend/session/changes.h"
#include "backend/session/command_stats.h"
#include "backend/session/limits.h"
#include "backend/session/monitor.h"
#include "backend/session/push_message.h"
#include "backend/session/session_reply.h"
#include "backend/session/tracking.h"
#include "backend/session/waits.h"
#include "backend/transaction/coordinator.h"

enum {
    /* Bytes that each command of EXEC may reply even if earlier replies have used up reply-limit: so writes do not
     * fail. */
    QUEUED_REPLY_MIN = 256,
};

/* Must the request wait for the end of CLIENT PAUSE or of a backup's hold? */
static bool is_paused(const struct call *call)
{
    const struct partition *partition = call->partition;
    if (partition->pause.until_ms == 0 && !partition->pause.is_held)
        return false;
    if (coordinator_is_ending(call->session))
        return false; /* other shards have prepared it, and clients wait for its keys */
    if (partition->pause.is_held && call_may_write(call))
        return true;
    return partition->pause.until_ms &&
           (!partition->pause.writes_only || call_is_paused_write(call));
}

static void queue(struct call *call)
{
    struct session *session = call->session;
    if (!session_has_room(session, transaction_cost(call->argv, call->argc))) {
        reject_command(call, error_text(ERR_STATE_LIMIT));
        return;
    }
    /* as in Redis, nothing is kept for an EXEC that will not run */
    if (!session->transaction.is_aborted && !session->watcher.dirty)
        transaction_queue(&session->transaction, call->command, call->argv, call->argc);
    session->transaction.flags |= effective_flags(call);
    reply_status(&call->reply, "QUEUED");
}

static bool is_queued(const struct call *call)
{
    return call->session->transaction.is_open && !(call->command->traits & TRAIT_ACTS_IN_MULTI);
}

/* ---- running ---- */

/* Called when a command has run and was not rolled back: shows it to MONITOR clients, and tracks its keys. */
static void notify_observers(struct call *call, bool is_shown)
{
    if (call->session->tracker.is_on)
        tracking_remember(call);
    if (is_shown)
        monitor_show(call);
}

/* A copy that does not lead writes nothing: CONFIG REWRITE, for example, may do it without the flag of a writing command. */
static void refuse_effects(struct call *call)
{
    if (call->failed || !overlay_has_changed(call->partition->overlay))
        return;
    out_truncate(call->reply.out, call->begun);
    call_error(call, ERR_READONLY);
}

/* The call goes on when it has the key that it needs; what it did so far stays. */
static void end_halted(struct call *call)
{
    call->partition->running.load_slot = LOAD_SLOT_NONE;
    keyspace_end(call->partition);
    arena_reset(call->arena);
}

/* Is it a script that has halted, and not a command that it calls? */
static bool is_halted_script(const struct call *call)
{
    return call->aside && call->aside->halt && call->command->flags & CMD_SCRIPT &&
           !call->in_script;
}

/* Runs the handler. If it waits (call_retries), or the request will bounce, everything that it did is
 * rolled back. */
static void run_handler(struct call *call)
{
    struct partition *partition = call->partition;
    call->space = session_space(call->session);
    if (!(call->command->flags & CMD_INTERNAL))
        call->space->used_ms = call->now_ms;
    call->slot_rule = call->session->scope.slot_rule;
    call->slots = session_slots(call->session);
    attempt_savepoint(partition);
    bool goes_on = is_halted_script(call);
    bool is_shown = monitor_wants(call) && !call->ready_key && !goes_on;
    /* shown before its script's commands */
    bool is_shown_first = is_shown && call->command->flags & CMD_SKIP_MONITOR;
    if (is_shown_first)
        monitor_show(call);
    uint32_t messages = partition->watchers.messages->count;
    partition->watchers.messages->open++;
    uint64_t keys = limits_begin(call);
    command_at_hand = call->command;
    call->error_end = SIZE_MAX; /* a script's or filter's own error is written without call_error */
    if (goes_on)
        partition->running.script_hooks->go_on(call);
    else
        handlers[call->command->id](call);
    partition->watchers.messages->open--;
    if (call->has_halted) {
        end_halted(call);
        return;
    }
    if (partition->copies.is_closed)
        refuse_effects(call);
    if (call->failed && call->reply.out->bytes > call->error_end)
        out_truncate(call->reply.out, call->error_end);
    CHECK(!(call->is_waiting && call->failed));
    if (partition->running.budget.end && !call->failed && !call->is_waiting)
        call_error(call, ERR_OVER);
    bool is_retried = call_retries(call) || (call->failed && call->session->request.is_misled);
    if (!is_retried && !call_refuse_reply(call)) {
        limits_end(call, keys);
        is_retried = call_retries(call);
    }
    if (call->failed || is_retried) {
        attempt_rollback(partition);
    }
    if (is_retried) {
        partition->running.load_slot = LOAD_SLOT_NONE;
        push_messages_drop(partition->watchers.messages, messages);
    } else if (call->failed) {
        messages_cut(partition->watchers.messages, messages);
        metric_add(partition->metrics.process, METRIC_BACKEND_ERRORS, 1);
    }
    if (!is_retried)
        notify_observers(call, is_shown && !is_shown_first);
    keyspace_end(partition);
    arena_reset(call->arena);
    if (partition->running.budget.end == BUDGET_MEMORY)
        budget_forgive(partition);
    if (!is_retried)
        command_stats_add(call);
}

/* If the call was rolled back because it is slow, and now runs again, others need not wait for it any more (slow_call.h). */
static inline void end_wait_of_others(const struct call *call)
{
    struct partition_running *running = &call->partition->running;
    if (running->next == call->session)
        running->next = NULL;
    running->was_slow = call->session->pending.was_slow;
}

/* Was the request sent back, because it or one before it must wait (line.h)? */
static inline bool leaves_line(struct call *call)
{
    const struct session_line *line = &call->session->pending.line;
    return (line->leaves || line->is_left) && bounce_line(call);
}

/* Runs the handler when its rows are in memory. False: the session waits for rows from the disk, or for the owner of a slot,
 * and the request will be dispatched again. */
static bool run_warm(struct call *call)
{
    struct suspend_mark mark;
    if (coordinator_finish(call) || leaves_line(call))
        return true;
    if (!across_gate(call))
        return !call->session->request.is_misled || bounce_reply(call);
    if (!suspend_ready(call))
        return false;
    suspend_begin(call, &mark);
    end_wait_of_others(call);
    call_limit_reply(call);
    call_begins(call);
    run_handler(call);
    call->partition->running.was_slow = false;
    if (call->has_halted)
        suspend_halt(call, &mark);
    else if (call->partition->running.budget.is_measured)
        limits_note_written(call);
    call_ends(call->partition);
    out_limit(call->reply.out, 0);
    if (suspend_end(call, &mark))
        return false;
    return !call->failed || !call->session->request.is_misled || bounce_reply(call);
}

void dispatch_queued(struct call *exec, const struct command *command, const struct bytes *argv,
                     uint32_t argc)
{
    struct call call = *exec;
    call.command = command;
    call.argv = argv;
    call.argc = argc;
    call.reply.resp = exec->session->resp;
    call.begun = call.reply.out->bytes;
    call.in_exec = true;
    call.failed = false;
    call.ready_key = NULL;
    char text[ACL_ERROR_MAX];
    size_t limit = call.reply.out->limit;
    if (call.begun + QUEUED_REPLY_MIN > limit) /* a short reply of a write must still fit */
        out_limit(call.reply.out, call.begun + QUEUED_REPLY_MIN);
    /* what this EXEC has written counts, if it is much */
    bool is_long = call.partition->running.budget.is_measured;
    bool goes_on = is_halted_script(&call); /* it was allowed when it began */
    int over = is_long && !goes_on ? limits_gate(&call, command->flags) : OK;
    if (over != OK) {
        call_error(&call, (enum error)over);
    } else if (goes_on ||
               acl_gate_exec(&call, text)) { /* the user's rules may have changed since MULTI */
        run_handler(&call);
        exec->aside = call.aside;
        exec->has_halted = call.has_halted; /* a script */
    } else {
        /* the refusal was added to ACL LOG, so the command cannot be rolled back any more */
        overlay_nonblocking_end(call.partition->overlay);
        call_error_text(&call, text);
    }
    out_limit(call.reply.out, limit);
}

/* Delivers the reply, which begins at byte `begun` of its out. A command that waits has no reply yet. */
static void finish_call(struct call *call, size_t begun, size_t request_bytes)
{
    struct session *session = call->session;
    changes_tell(call);
    command_stats_answered(call, request_bytes);
    if (call->is_waiting) {
        out_truncate(call->reply.out, begun);
        session_reply_later(session);
        waits_announce(session);
    } else {
        session_reply_end(session, call->reply.out, begun,
                          overlay_observed(call->partition->overlay));
    }
}

/* The call of a session's request; its reply follows the bytes that `out` has. */
static struct call call_of(struct session *session, const struct command *command,
                           const struct bytes *argv, uint32_t argc, struct out *out)
{
    struct partition *partition = session->partition;
    bool is_fresh = session->pending.fresh.is_used;
    uint64_t now_us = is_fresh ? fresh_reads_now_us(session) : loop_wall_us(partition->loop);
    return (struct call){
        .partition = partition,
        .session = session,
        .command = command,
        .argv = argv,
        .argc = argc,
        .reply = {.out = out, .resp = session->resp},
        .begun = out->bytes,
        .arena = &partition->running.arena,
        .now_us = now_us,
        .now_ms = is_fresh ? now_us / 1000 : loop_wall_ms(partition->loop),
    };
}

static size_t bytes_of_words(const struct bytes *argv, uint32_t argc)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < argc; i++)
        bytes += argv[i].len;
    return bytes;
}

void dispatch_again(struct session *session, const struct command *command,
                    const struct bytes *argv, uint32_t argc, const struct bytes *ready_key)
{
    struct partition *partition = session->partition;
    struct out *out = session_reply_begin(session, true);
    size_t begun = out->bytes;
    waits_write_head(session, out);
    session_write_owned(session, session_slots(session), out);
    struct call call = call_of(session, command, argv, argc, out);
    call.ready_key = ready_key;
    session->request.is_misled = session->request.is_across = false;
    overlay_observe_begin(partition->overlay);
    call_limit_reply(&call);
    call_begins(&call);
    run_handler(&call);
    call_ends(partition);
    out_limit(out, 0);
    if (call.failed && session->request.is_misled)
        (void)bounce_reply(&call);
    finish_call(&call, begun, bytes_of_words(argv, argc));
}

void dispatch_drained(struct partition *partition)
{
    if (!partition->running.busy_error)
        blocking_resume(partition->watchers.blocking);
}

/* Why a script's command must not run; NULL: it may. */
static const char *refuse_nested(struct call *call, const struct nested *nested)
{
    const struct command *command = call->command;
    bool has_handler = command && handlers[command->id];
    bool is_container =
        command && !has_handler && command_has_subs(command) && command->handlers & HANDLER_BACKEND;
    bool exists = has_handler || is_container || (command && command->flags & CMD_NOSCRIPT);
    if (!exists || command->flags & CMD_INTERNAL)
        return "ERR Unknown Redis command called from script";
    if (is_container || !command_arity_ok(command, call->argc))
        return "ERR Wrong number of args calling Redis command from script";
    if (command->flags & CMD_NOSCRIPT)
        return "ERR This Redis command is not allowed from script";
    if (command_is_walled(command, session_namespace(call->session)))
        return error_text(ERR_OPERATOR_ONLY);
    if (call->session->scope.slots && !(call->borrow && command_uses_all_keys(command)) &&
        (command->route == ROUTE_ALL_SHARDS || command->route == ROUTE_CURSOR))
        return "ERR This command concerns the keys of all shards, but a script runs on one shard: "
               "it is not allowed from script while there are several shards";
    const char *refused = acl_gate_script(call);
    if (refused) {
        /* the refusal was added to ACL LOG, so the script cannot be rolled back any more */
        overlay_nonblocking_end(call->partition->overlay);
        return refused;
    }
    if (nested->read_only && command->flags & (CMD_WRITE | CMD_MAY_REPLICATE))
        return "ERR Write commands are not allowed from read-only scripts.";
    return gates_refuse_nested(call, nested->allow_oom || *nested->wrote, nested->slot);
}

const char *dispatch_nested(struct call *script, const struct nested *nested)
{
    uint64_t started_us = script->partition->running.started_us;
    struct call call = *script;
    call.command = command_find_argv(nested->argv, nested->argc);
    call.argv = nested->argv;
    call.argc = nested->argc;
    call.reply = (struct reply){.out = nested->out, .resp = nested->resp};
    call.begun = nested->out->bytes;
    call.in_exec = call.in_script = true;
    call.failed = false;
    call.ready_key = NULL;
    suspend_before_nested(script, call.command);
    const char *refused = refuse_nested(&call, nested);
    if (refused) {
        stats_error(call.partition->metrics.stats, refused);
        if (call.command)
            command_stats_refused(&call);
        return refused;
    }
    if (call.command->flags & CMD_WRITE)
        *nested->wrote = true;
    uint32_t messages = script->partition->watchers.messages->count;
    struct attempt attempt;
    if (script->may_halt)
        attempt_begin(&attempt, &call);
    call_limit_reply(&call);
    run_handler(&call);
    out_limit(nested->out, 0);
    if (script->may_halt && call_retries(&call)) {
        attempt_undo(&attempt, &call);
        script->partition->running.started_us = started_us;
        return NULL;
    }
    tracking_remember_script(script, call.command);
    if (!call.failed) /* a script that fails keeps the effects and messages of its commands */
        push_messages_keep(script->partition->watchers.messages, messages);
    /* the script's time includes its commands */
    script->partition->running.started_us = started_us;
    return NULL;
}

/* An HTTP request: a web page may have made a browser send it, so the connection is closed. */
static bool is_http_request(const struct bytes *argv)
{
    return bytes_is(argv[0], "post") || bytes_is(argv[0], "host:");
}

/* Runs a command while a slow script is on the stack: without savepoint and observed ticket, which belong to the
 * script. */
static void run_busy(struct call *call)
{
    call->space = session_space(call->session);
    call->slot_rule = call->session->scope.slot_rule;
    call->slots = session_slots(call->session);
    handlers[call->command->id](call);
    command_stats_add(call);
}

/* Runs or queues a command that passed the gates. False: nothing was done, and the request must wait. */
static bool act(struct call *call)
{
    session_pause(call->session, is_paused(call) && call->partition->pause.until_ms);
    if (is_paused(call)) {
        call->session->pending.retry.since_ms = 0; /* lock-timeout does not count the pause */
        suspend_forget_locks(call->session);
        return false;
    }
    if (is_queued(call)) {
        queue(call);
        return true;
    }
    if (gates_wait(call))
        return false;
    if (!call->partition->running.busy_error)
        return run_warm(call);
    run_busy(call);
    return true;
}

/* Returns where the session's reply is written. While a slow script runs, other sessions are served and the stream's
 * output may be sent at any moment, so replies of scripts and of commands during scripts are written to `aside` until
 * they are complete. */
static struct out *begin_reply(struct session *session, const struct command *command,
                               struct out *aside)
{
    bool is_open = session->transaction.is_open;
    struct out *out =
        session_reply_begin(session, !command || command->flags & CMD_WRITE || is_open);
    uint32_t flags = command ? command->flags | (is_open ? session->transaction.flags : 0) : 0;
    if (!(flags & CMD_SCRIPT) && !session->partition->running.busy_error)
        return out;
    out_init(aside);
    return aside;
}

/* Prepares the session for the command after a prefix such as SCREE AS. False: the prefix is not valid, and runs as a
 * command whose handler replies the error. */
typedef bool enter_prefix_fn(struct session *session, const struct bytes *argv, uint32_t argc);

/* SCREE AS name rules command… */
static bool enter_as(struct session *session, const struct bytes *argv, uint32_t argc)
{
    (void)argc;
    if (session->login.impersonation.is_here)
        return false;
    impersonation_begin(&session->login.impersonation, argv[2], argv[3]);
    return true;
}

/* SCREE PART command… */
static bool enter_part(struct session *session, const struct bytes *argv, uint32_t argc)
{
    (void)argv;
    (void)argc;
    session->request.is_uncounted = true;
    return true;
}

/* SCREE SHOW command… */
static bool enter_show(struct session *session, const struct bytes *argv, uint32_t argc)
{
    (void)argv;
    (void)argc;
    session->request.shows_scripts = true;
    return true;
}

/* SCREE TRY command… */
static bool enter_try(struct session *session, const struct bytes *argv, uint32_t argc)
{
    (void)argv;
    (void)argc;
    session->request.must_not_wait = true;
    return true;
}

/* SCREE ACROSS command… */
static bool enter_across(struct session *session, const struct bytes *argv, uint32_t argc)
{
    (void)argv;
    (void)argc;
    session->request.is_across = true;
    return true;
}

/* SCREE OWNED command… */
static bool enter_owned(struct session *session, const struct bytes *argv, uint32_t argc)
{
    (void)argv;
    (void)argc;
    session->request.shows_owned = true;
    return true;
}

/* SCREE UNTIL slot command… */
static bool enter_until(struct session *session, const struct bytes *argv, uint32_t argc)
{
    (void)argc;
    return session_scan_until(session, argv[2]);
}

static enter_prefix_fn *const enter_functions[COMMAND_COUNT] = {
    [COMMAND_scree_across] = enter_across, [COMMAND_scree_as] = enter_as,
    [COMMAND_scree_owned] = enter_owned,   [COMMAND_scree_part] = enter_part,
    [COMMAND_scree_show] = enter_show,     [COMMAND_scree_try] = enter_try,
    [COMMAND_scree_until] = enter_until,   [COMMAND_scree_wait] = waits_enter,
};

static bool enter_prefix(struct session *session, const struct command *prefix,
                         const struct bytes *argv, uint32_t argc)
{
    return session->login.is_internal && argc > command_prefix_argc(prefix) &&
           enter_functions[prefix->id](session, argv, argc);
}

bool dispatch(struct session *session, const struct bytes *argv, uint32_t argc)
{
    CHECK(argc > 0);
    struct partition *partition = session->partition;
    bool is_busy = partition->running.busy_error != NULL;
    const struct command *command = command_find_argv(argv, argc);
    session->request = (struct session_request){.command = session->request.command,
                                                .number = session->request.number};
    while (command && command->traits & TRAIT_PREFIX &&
           enter_prefix(session, command, argv, argc)) {
        session->request.prefixes += command_prefix_argc(command);
        argv += command_prefix_argc(command);
        argc -= command_prefix_argc(command);
        command = command_find_argv(argv, argc);
    }
    struct out aside;
    struct out *out = begin_reply(session, command, &aside);
    size_t begun = out->bytes;
    waits_write_head(session, out);
    session_write_owned(session, session_slots(session), out);
    struct call call = call_of(session, command, argv, argc, out);
    if (!command && is_http_request(argv)) {
        session_abort(session);
        return true;
    }
    if (!is_busy)
        overlay_observe_begin(partition->overlay);
    if (command)
        session->request.command = command;
    if (gates_pass(&call)) {
        if (!act(&call)) {
            out_truncate(out, begun);
            waits_leave(session);
            impersonation_end(&session->login.impersonation);
            return false;
        }
    } else {
        coordinator_abandon(session);
        metric_add(partition->metrics.process, METRIC_BACKEND_ERRORS, 1);
    }
    /* CLIENT CACHING applies to one command; as in Redis, subcommands of CLIENT do not count. */
    if (session->tracker.is_caching && !session->transaction.is_open &&
        (!call.command || call.command->parent != COMMAND_client))
        session->tracker.is_caching = false;
    impersonation_end(&session->login.impersonation);
    if (is_busy) {
        session_reply_end(session, out, begun, 0);
        waits_leave(session);
        return true;
    }
    finish_call(&call, begun, session->scan.size);
    waits_leave(session);
    partition->pause.is_new = false;
    blocking_serve(partition->watchers.blocking);
    return true;
}
