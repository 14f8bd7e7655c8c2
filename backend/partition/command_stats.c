#include "backend/partition/command_stats.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/slot_load.h"
#include "backend/context/stats.h"
#include "backend/partition/session.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/latency.h"

#include <stdlib.h>

enum { HELD_MAX = 16384, COPIED_BYTES_MAX = 1 << 20 };

/* Statistics of one command. */
struct ran {
    const struct command *command;
    uint64_t usec;
    const struct bytes *argv; /* for the slow log */
    void *copy;               /* a copy of a script's arguments; NULL: `argv` stays valid */
    uint32_t argc;
    bool failed;
    bool is_refused; /* the command did not run */
};

/* `shards`: those on which the command ran; 0: not known. */
static void log_slow_call(const struct call *call, uint64_t usec, uint32_t shards)
{
    const struct slow_command slow = {
        .at_s = call->now_ms / 1000,
        .usec = usec,
        .peer = bytes_of(stream_peer(call->session->stream)),
        .name = bytes_of(call->session->about.name ? call->session->about.name : ""),
        .space = session_namespace(call->session),
        .command = call->command,
        .argv = call->argv,
        .argc = call->argc,
        .shards = shards,
    };
    slowlog_push(&call->partition->metrics.stats->slowlog, &slow,
                 (uint64_t)call->partition->snapshot->slowlog_len_max);
}

static bool is_slow(const struct call *call, uint64_t usec)
{
    int64_t limit_us = call->partition->snapshot->slowlog_slower_than_us;
    return limit_us >= 0 && usec >= (uint64_t)limit_us;
}

static bool is_slow_call(const struct call *call, uint64_t usec)
{
    return is_slow(call, usec) && !(call->command->flags & CMD_SKIP_SLOWLOG);
}

static void log_if_slow(const struct call *call, uint64_t usec)
{
    if (!call->is_waiting && is_slow_call(call, usec))
        log_slow_call(call, usec, 0);
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

static void count_call(const struct call *call, uint64_t usec)
{
    struct partition *partition = call->partition;
    const struct config_snapshot *snapshot = partition->snapshot;
    bool is_counted_here = !call->session->request.is_uncounted;
    partition->metrics.stats->commands[call->command->id].usec += usec;
    if (!call->ready_key) {
        partition->metrics.stats->commands_total += is_counted_here;
        metric_add(partition->metrics.process, METRIC_BACKEND_COMMANDS, 1);
    }
    if (call->is_waiting)
        return;
    if (is_counted_here)
        count_ended(call, usec);
    else
        partition->metrics.stats->commands[call->command->id].parts++;
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
    if (call->in_script && is_slow_call(call, usec))
        copy_arguments(held, ran);
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

bool command_stats_are_full(const struct partition *partition)
{
    return partition->metrics.held_stats->count >= HELD_MAX ||
           partition->metrics.held_stats->copied >= COPIED_BYTES_MAX ||
           partition->metrics.stats->held_count >= HELD_MAX;
}

/* Counts a held command. `call` is the EXEC or script that contains the command; its command and arguments are
 * replaced. */
static void count_ran(struct call *call, const struct ran *ran, bool is_logged)
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
    if (is_logged)
        log_if_slow(call, ran->usec);
}

static void finish_counting(struct partition *partition, bool is_good)
{
    struct held_stats *held = partition->metrics.held_stats;
    struct call call = *held->call;
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
    if (is_slow(call, usec))
        log_slow_call(call, usec, shards);
}

void command_stats_drop(struct partition *partition)
{
    finish_counting(partition, false);
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
