#include "backend/session/command_stats.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/slot_load.h"
#include "backend/context/stats.h"
#include "backend/session/session.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/command/latency.h"

#include <stdlib.h>

enum { HELD_MAX = 16384, COPIED_BYTES_MAX = 1 << 20 };

/* Statistics of one command. */
struct ran {
    const struct command *command;
    uint64_t usec;
    const struct bytes *argv; /* for the slow log; NULL: it is not slow */
    void *copy;               /* a copy of a script's arguments; NULL: `argv` stays valid */
    uint32_t argc;
    bool failed;
    bool is_refused; /* the command did not run */
};

/* `value`: µs or bytes. `shards`: those on which the command ran; 0: not known. */
static void log_call(const struct call *call, enum slowlog_kind kind, uint64_t value,
                     uint32_t shards)
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
    slowlog_push(&call->partition->metrics.stats->slowlogs[kind], &slow,
                 (uint64_t)call->partition->snapshot->slowlog_len_max[kind]);
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

/* Adds a call that has ended to the statistics of INFO and LATENCY. */
static void count_ended(const struct call *call, uint64_t usec)
{
    struct partition *partition = call->partition;
    struct command_stats *stats = &partition->metrics.stats->commands[call->command->id];
    stats->calls++;
    stats->failed += call->failed;
    if (partition->snapshot->latency_tracking)
        latency_add_command(partition->metrics.latency, call->command->id, usec);
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

/* Counts the call for INFO and LATENCY; a part of a call that another shard counts adds only its time. */
static void count_for_clients(const struct call *call, uint64_t usec)
{
    struct stats *stats = call->partition->metrics.stats;
    bool is_counted_here = !call->session->request.is_uncounted;
    if (is_of_proxy(call))
        return;
    stats->commands[call->command->id].usec += usec;
    if (!call->ready_key)
        stats->commands_total += is_counted_here;
    if (call->is_waiting)
        return;
    if (is_counted_here)
        count_ended(call, usec);
    else
        stats->commands[call->command->id].parts++;
}

static void count_call(const struct call *call, uint64_t usec)
{
    struct partition *partition = call->partition;
    const struct config_snapshot *snapshot = partition->snapshot;
    count_for_clients(call, usec);
    if (!call->ready_key)
        metric_add(partition->metrics.process, METRIC_BACKEND_COMMANDS, 1);
    if (call->is_waiting)
        return;
    command_cells_add(&partition->metrics.commands, call->command, usec, call->failed);
    partition->batch.commands += call->command->flags & CMD_WRITE && !call->failed;
    if (snapshot->latency_threshold_ms && usec >= (uint64_t)snapshot->latency_threshold_ms * 1000)
        latency_add_event(partition->metrics.latency,
                          call->command->flags & CMD_FAST ? LATENCY_FAST_COMMAND : LATENCY_COMMAND,
                          call->now_ms / 1000, usec / 1000);
}

/* Copies the arguments that the slow log would show: those of a script's command belong to Lua. */
static void copy_arguments(struct held_stats *held, struct ran *ran)
{
    size_t size = ran->argc * sizeof *ran->argv;
    for (uint32_t i = 0; i < ran->argc; i++)
        size += ran->argv[i].len;
    struct bytes *argv = ran->copy = malloc(size);
    CHECK(argv);
    char *text = (char *)(argv + ran->argc);
    for (uint32_t i = 0; i < ran->argc; i++) {
        argv[i] = (struct bytes){text, ran->argv[i].len};
        if (argv[i].len)
            memcpy(text, ran->argv[i].data, argv[i].len);
        text += argv[i].len;
    }
    ran->argv = argv;
    held->copied += size;
}

static struct ran *record_ran(struct held_stats *held, const struct call *call, uint64_t usec)
{
    if (held->count == held->cap) {
        held->cap = held->cap ? held->cap * 2 : 16;
        held->items = realloc(held->items, held->cap * sizeof *held->items);
        CHECK(held->items);
    }
    struct ran *ran = &held->items[held->count++];
    *ran = (struct ran){
        .command = call->command,
        .usec = usec,
        .argv = call->argv,
        .argc = call->argc,
        .failed = call->failed,
    };
    if (call->in_exec &&
        is_slow_call(call, usec)) /* the queue, or the script, ends before it is logged */
        copy_arguments(held, ran);
    else if (call->in_script)
        ran->argv = NULL; /* they belong to Lua */
    return ran;
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
        (void)record_ran(partition->metrics.held_stats, call, usec);
        return;
    }
    count_call(call, usec);
    log_if_slow(call, usec);
}

static void count_refused(const struct call *call)
{
    call->partition->metrics.stats->commands[call->command->id].rejected++;
}

void command_stats_refused(const struct call *call)
{
    struct held_stats *held = call->partition->metrics.held_stats;
    if (held->is_held)
        record_ran(held, call, 0)->is_refused = true;
    else
        count_refused(call);
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

bool command_stats_are_full(const struct partition *partition)
{
    return partition->metrics.held_stats->count >= HELD_MAX ||
           partition->metrics.held_stats->copied >= COPIED_BYTES_MAX ||
           partition->metrics.stats->held.count >= HELD_MAX;
}

/* Counts a held command. `call` is the EXEC or script that contains the command; its command and arguments are
 * replaced. */
static void count_ran(struct call *call, const struct ran *ran, bool may_log)
{
    call->command = ran->command;
    call->argv = ran->argv;
    call->argc = ran->argc;
    call->failed = ran->failed;
    if (ran->is_refused) {
        count_refused(call);
        return;
    }
    count_call(call, ran->usec);
    if (may_log && ran->argv)
        log_if_slow(call, ran->usec);
}

static void finish_counting(struct partition *partition, bool is_good)
{
    struct held_stats *held = partition->metrics.held_stats;
    struct call call = *held->call;
    call.in_exec = true; /* what is held ran in EXEC or a script */
    for (uint32_t i = 0; i < held->count; i++) {
        const struct ran *ran = &held->items[i];
        if (is_good)
            count_ran(&call, ran, !(held->is_across && ran->argv == held->call->argv));
        free(ran->copy);
    }
    held->count = 0;
    held->copied = 0;
    held->is_held = held->is_across = false;
    held->call = NULL;
    stats_release_errors(partition->metrics.stats, is_good);
}

void command_stats_release(struct partition *partition)
{
    finish_counting(partition, true);
}

void command_stats_release_across(struct partition *partition)
{
    partition->metrics.held_stats->is_across = true;
    finish_counting(partition, true);
}

void command_stats_across(const struct call *call, uint64_t usec, uint32_t shards)
{
    if (is_logged(call, SLOWLOG_SLOW, usec))
        log_call(call, SLOWLOG_SLOW, usec, shards);
}

void command_stats_drop(struct partition *partition)
{
    finish_counting(partition, false);
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
    aside->ran = *partition->metrics.held_stats;
    aside->errors = stats->held;
    *partition->metrics.held_stats = (struct held_stats){.is_held = false};
    stats->held = (struct held_errors){.count = 0};
    stats->errors_are_held = false;
}

void command_stats_enter(const struct call *call, struct stats_aside *aside)
{
    struct partition *partition = call->partition;
    free(partition->metrics.held_stats->items);
    free(partition->metrics.stats->held.names);
    *partition->metrics.held_stats = aside->ran;
    partition->metrics.stats->held = aside->errors;
    *aside = (struct stats_aside){.ran.is_held = false};
    command_stats_hold(call);
}

void command_stats_forget(struct stats_aside *aside)
{
    for (uint32_t i = 0; i < aside->ran.count; i++)
        free(aside->ran.items[i].copy);
    free(aside->ran.items);
    free(aside->errors.names);
    *aside = (struct stats_aside){.ran.is_held = false};
}

struct held_stats *command_stats_new(void)
{
    struct held_stats *held = calloc(1, sizeof *held);
    CHECK(held);
    return held;
}

void command_stats_free(struct held_stats *held)
{
    if (held)
        free(held->items);
    free(held);
}
