#include "backend/session/command_stats.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/slot_load.h"
#include "backend/context/stats.h"
#include "backend/session/held_stats.h"
#include "backend/session/session.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/command/latency.h"

#include <stdlib.h>

static uint64_t log_length(const struct call *call, enum slowlog_kind kind)
{
    return (uint64_t)call->partition->snapshot->slowlog_len_max[kind];
}

/* `value`: µs or bytes. `shards`: those on which the command ran; 0: not known. */
static void log_into(struct slowlog *log, const struct call *call, enum slowlog_kind kind,
                     uint64_t value, uint32_t shards)
{
    const struct slow_command slow = {
        .at_s = call->now_ms / 1000,
        .usec = value,
        .peer = bytes_of(stream_peer(call->session->stream)),
        .name = bytes_of(call->session->about.name ? call->session->about.name : ""),
        .space = session_namespace(call->session),
        .command = call->command,
        .argv = call->argv,
        .argc = call->argc,
        .shards = shards,
    };
    slowlog_push(log, &slow, log_length(call, kind));
}

static void log_call(const struct call *call, enum slowlog_kind kind, uint64_t value,
                     uint32_t shards)
{
    log_into(&call->partition->metrics.stats->slowlogs[kind], call, kind, value, shards);
}

static bool is_logged(const struct call *call, enum slowlog_kind kind, uint64_t value)
{
    int64_t from = call->partition->snapshot->slowlog_from[kind];
    return from >= 0 && value >= (uint64_t)from;
}

static bool is_slow_call(const struct call *call, uint64_t usec)
{
    return is_logged(call, SLOWLOG_SLOW, usec) && !(call->command->flags & CMD_SKIP_SLOWLOG);
}

static void log_if_slow(const struct call *call, uint64_t usec)
{
    if (!call->is_waiting && is_slow_call(call, usec))
        log_call(call, SLOWLOG_SLOW, usec, 0);
}

/* Adds runs of the call's command, which have ended, to the statistics of INFO and LATENCY. */
static void count_ended(const struct call *call, const struct runs *runs)
{
    struct partition *partition = call->partition;
    struct command_stats *stats = &partition->metrics.stats->commands[call->command->id];
    stats->calls += runs->count;
    if (runs->end == RUN_FAILED)
        stats->failed += runs->count;
    if (partition->snapshot->latency_tracking)
        latency_add_command(partition->metrics.latency, call->command->id, runs->usec_max,
                            runs->count);
}

/* Is it a command that the proxy sends for itself: PING, HELLO, MULTI before a transaction's commands …? When a client sends one of
 * these, the proxy answers and counts it (proxy/core/own_calls.h). */
static bool is_of_proxy(const struct call *call)
{
    const struct command *command = call->command;
    bool is_answered_there = command->group == GROUP_CONNECTION
                                 ? command->route == ROUTE_LOCAL
                                 : command->group == GROUP_TRANSACTIONS &&
                                       !(command->traits & (TRAIT_RUNS_QUEUE | TRAIT_WATCHES));
    return is_answered_there && call->session->login.is_internal && !call->in_exec;
}

/* Counts runs for INFO and LATENCY; a part of a call that another shard counts adds only its time. */
static void count_for_clients(const struct call *call, const struct runs *runs)
{
    struct stats *stats = call->partition->metrics.stats;
    bool is_counted_here = !call->session->request.is_uncounted;
    if (is_of_proxy(call))
        return;
    stats->commands[call->command->id].usec += runs->usec;
    if (!call->ready_key && is_counted_here)
        stats->commands_total += runs->count;
    if (call->is_waiting)
        return;
    if (is_counted_here)
        count_ended(call, runs);
    else
        stats->commands[call->command->id].parts += runs->count;
}

static void count_event(const struct call *call, uint64_t usec)
{
    const struct partition *partition = call->partition;
    uint64_t from_ms = (uint64_t)partition->snapshot->latency_threshold_ms;
    if (from_ms && usec >= from_ms * 1000)
        latency_add_event(partition->metrics.latency,
                          call->command->flags & CMD_FAST ? LATENCY_FAST_COMMAND : LATENCY_COMMAND,
                          call->now_ms / 1000, usec / 1000);
}

/* Counts runs of the call's command. */
static void count_runs(const struct call *call, const struct runs *runs)
{
    struct partition *partition = call->partition;
    count_for_clients(call, runs);
    if (!call->ready_key)
        metric_add(partition->metrics.process, METRIC_BACKEND_COMMANDS, runs->count);
    if (call->is_waiting)
        return;
    command_cells_add_many(&partition->metrics.commands, call->command,
                           &(struct cell_values){runs->usec_max, runs->count, runs->usec},
                           runs->end == RUN_FAILED);
    if (call->command->flags & CMD_WRITE && runs->end == RUN_GOOD)
        partition->batch.commands += runs->count;
    count_event(call, runs->usec_max);
}

/* Holds a run of the held call itself, or of a command inside. */
static void hold_run(const struct call *call, uint64_t usec)
{
    struct held_stats *held = call->partition->metrics.held_stats;
    held_stats_add(held, call->command, usec, call->failed ? RUN_FAILED : RUN_GOOD);
    if (!call->in_exec) {
        held->has_ended = true;
        held->usec = usec;
    } else if (is_slow_call(call, usec)) {
        log_into(&held->slow, call, SLOWLOG_SLOW, usec, 0);
    }
}

void command_stats_add(const struct call *call)
{
    struct partition *partition = call->partition;
    uint64_t now_us = clock_mono_us();
    uint64_t usec = now_us - partition->running.started_us;
    partition->running.started_us = now_us;
    if (partition->running.load_slot != LOAD_SLOT_NONE)
        slot_load_add(call, usec);
    if (partition->metrics.held_stats->is_held) {
        hold_run(call, usec);
        return;
    }
    count_runs(call, &(struct runs){.count = 1,
                                    .usec = usec,
                                    .usec_max = usec,
                                    .end = call->failed ? RUN_FAILED : RUN_GOOD});
    log_if_slow(call, usec);
}

static void count_refused(const struct call *call, uint64_t count)
{
    call->partition->metrics.stats->commands[call->command->id].rejected += count;
}

void command_stats_refused(const struct call *call)
{
    struct held_stats *held = call->partition->metrics.held_stats;
    if (held->is_held)
        held_stats_add(held, call->command, 0, RUN_REFUSED);
    else
        count_refused(call, 1);
}

void command_stats_hold(const struct call *call)
{
    call->partition->metrics.held_stats->is_held = true;
    call->partition->metrics.held_stats->call = call;
    stats_hold_errors(call->partition->metrics.stats);
}

bool command_stats_pause(struct partition *partition)
{
    bool was_held = partition->metrics.held_stats->is_held;
    partition->metrics.held_stats->is_held = false;
    partition->metrics.stats->errors_are_held = false;
    return was_held;
}

void command_stats_resume(struct partition *partition, bool was_held)
{
    partition->metrics.held_stats->is_held = was_held;
    partition->metrics.stats->errors_are_held = was_held;
}

uint64_t command_stats_held(const struct partition *partition)
{
    return partition->metrics.held_stats->commands + partition->metrics.stats->held.total;
}

/* Counts what is held. `call` is the EXEC or script, whose command is replaced. */
static void count_held(struct call *call, const struct held_stats *held)
{
    call->in_exec = true; /* what is held ran in EXEC or a script */
    for (uint32_t i = 0; i < held->count; i++) {
        const struct runs *runs = &held->items[i];
        call->command = runs->command;
        if (runs->end == RUN_REFUSED)
            count_refused(call, runs->count);
        else
            count_runs(call, runs);
    }
}

/* Adds what was slow to the slow log. */
static void log_held(struct held_stats *held, bool is_across)
{
    const struct call *call = held->call;
    if (held->slow.next_id)
        slowlog_take(&call->partition->metrics.stats->slowlogs[SLOWLOG_SLOW], &held->slow,
                     log_length(call, SLOWLOG_SLOW));
    if (held->has_ended && !is_across)
        log_if_slow(call, held->usec);
}

static void finish_counting(struct partition *partition, bool is_good, bool is_across)
{
    struct held_stats *held = partition->metrics.held_stats;
    if (is_good) {
        struct call call = *held->call;
        count_held(&call, held);
        log_held(held, is_across);
    }
    held_stats_clear(held);
    stats_release_errors(partition->metrics.stats, is_good);
}

void command_stats_release(struct partition *partition)
{
    finish_counting(partition, true, false);
}

void command_stats_release_across(struct partition *partition)
{
    finish_counting(partition, true, true);
}

void command_stats_across(const struct call *call, uint64_t usec, uint32_t shards)
{
    if (is_logged(call, SLOWLOG_SLOW, usec))
        log_call(call, SLOWLOG_SLOW, usec, shards);
}

void command_stats_drop(struct partition *partition)
{
    finish_counting(partition, false, false);
}

/* ---- large requests and replies ---- */

/* An unknown command has no row. EXEC, too, is not in the slow log, which has its commands; but its reply is that of all of
 * them. */
static bool is_never_logged(const struct command *command)
{
    return !command || (command->flags & CMD_SKIP_SLOWLOG && !(command->traits & TRAIT_RUNS_QUEUE));
}

void command_stats_answered(const struct call *call, size_t request_bytes)
{
    uint64_t reply = call->reply.out->bytes - call->begun;
    bool is_large_request = is_logged(call, SLOWLOG_LARGE_REQUEST, request_bytes);
    bool is_large_reply = !call->session->pending.streamed && !call->is_waiting &&
                          is_logged(call, SLOWLOG_LARGE_REPLY, reply);
    if ((!is_large_request && !is_large_reply) || is_never_logged(call->command))
        return;
    if (is_large_request)
        log_call(call, SLOWLOG_LARGE_REQUEST, request_bytes, 0);
    if (is_large_reply)
        log_call(call, SLOWLOG_LARGE_REPLY, reply, 0);
}

struct streamed_command *command_stats_copy(const struct call *call, struct arena *arena)
{
    if (call->partition->snapshot->slowlog_from[SLOWLOG_LARGE_REPLY] < 0)
        return NULL;
    struct bytes *argv = arena_alloc(arena, call->argc * sizeof *argv);
    for (uint32_t i = 0; i < call->argc; i++)
        argv[i] = arena_copy(arena, call->argv[i]);
    struct streamed_command *streamed = arena_alloc(arena, sizeof *streamed);
    *streamed = (struct streamed_command){call->command, argv, call->argc,
                                          call->reply.out->bytes - call->begun};
    return streamed;
}

void command_stats_streamed(struct session *session, const struct streamed_command *streamed)
{
    if (!streamed)
        return;
    const struct call call = {
        .partition = session->partition,
        .session = session,
        .command = streamed->command,
        .argv = streamed->argv,
        .argc = streamed->argc,
        .now_ms = loop_wall_ms(session->partition->loop),
    };
    if (is_logged(&call, SLOWLOG_LARGE_REPLY, streamed->bytes))
        log_call(&call, SLOWLOG_LARGE_REPLY, streamed->bytes, 0);
}

/* ---- waiting ---- */

void command_stats_leave(struct partition *partition, struct stats_aside *aside)
{
    struct stats *stats = partition->metrics.stats;
    aside->ran = partition->metrics.held_stats;
    aside->errors = stats->held;
    partition->metrics.held_stats = held_stats_new();
    stats->held = (struct held_errors){.count = 0};
    stats->errors_are_held = false;
}

void command_stats_enter(const struct call *call, struct stats_aside *aside)
{
    struct partition *partition = call->partition;
    held_stats_free(partition->metrics.held_stats);
    free(partition->metrics.stats->held.errors);
    partition->metrics.held_stats = aside->ran;
    partition->metrics.stats->held = aside->errors;
    *aside = (struct stats_aside){.ran = NULL};
    command_stats_hold(call);
}

void command_stats_forget(struct stats_aside *aside)
{
    held_stats_free(aside->ran);
    free(aside->errors.errors);
    *aside = (struct stats_aside){.ran = NULL};
}
