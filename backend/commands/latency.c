/*
 * latency.c - LATENCY: histograms of commands, and events slower than latency-monitor-threshold.
 */
#include "shared/command/latency.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "shared/command/command_reply.h"
#include "shared/command/latency_reply.h"

/* ---- HISTOGRAM ---- */

enum { HISTOGRAM_STEPS = 25 }; /* powers of two from 1024 ns on */

/* End of one of Redis' buckets: a power of two from 1024 ns on, rounded up to the end of one of Scree's buckets. */
static uint64_t step_end_ns(unsigned step)
{
    return (1024ULL << step) + (8ULL << step) - 1;
}

/* Counts the steps that contain runs. With `reply`, replies each: upper end in µs, number of runs up to it. */
static int64_t steps(const struct histogram *histogram, struct reply *reply)
{
    int64_t count = 0;
    uint64_t before = 0;
    for (unsigned step = 0; step < HISTOGRAM_STEPS; step++) {
        uint64_t so_far = histogram_count_to(histogram, step_end_ns(step));
        if (so_far == before)
            continue;
        before = so_far;
        count++;
        if (!reply)
            continue;
        reply_int(reply, (int64_t)(step_end_ns(step) / 1000));
        reply_int(reply, (int64_t)so_far);
    }
    return count;
}

static void reply_histogram(struct call *call, const struct command *command)
{
    const struct histogram *histogram = call->partition->metrics.latency->commands[command->id];
    reply_bulk_text(&call->reply, command->full_name);
    reply_map(&call->reply, 2);
    reply_bulk_text(&call->reply, "calls");
    reply_int(&call->reply, (int64_t)histogram->count);
    reply_bulk_text(&call->reply, "histogram_usec");
    reply_map(&call->reply, steps(histogram, NULL));
    (void)steps(histogram, &call->reply);
}

/* Has the command run for clients? Those that proxies and shards send each other are not shown. */
static bool has_run(const struct call *call, enum command_id id)
{
    return call->partition->metrics.latency->commands[id] &&
           !(command_of(id)->flags & CMD_INTERNAL);
}

/* Marks the command and its subcommands if they have run; returns the number of new marks. */
static int64_t mark_run(const struct call *call, const struct command *command, bool *wanted)
{
    int64_t count = 0;
    if (has_run(call, command->id) && !wanted[command->id])
        count += wanted[command->id] = true;
    for (enum command_id sub = command->made.sub_first; sub != COMMAND_NONE;
         sub = command_of(sub)->made.sub_next)
        if (has_run(call, sub) && !wanted[sub])
            count += wanted[sub] = true;
    return count;
}

void cmd_latency_histogram(struct call *call)
{
    bool wanted[COMMAND_COUNT] = {false};
    int64_t count = 0;
    if (call->argc == 2)
        for (enum command_id id = 1; id < COMMAND_COUNT; id++)
            count += mark_run(call, command_of(id), wanted);
    for (uint32_t i = 2; i < call->argc; i++) {
        const struct command *command = command_find_full(call->argv[i]);
        count += command ? mark_run(call, command, wanted) : 0;
    }
    reply_map(&call->reply, count);
    for (enum command_id id = 1; id < COMMAND_COUNT; id++)
        if (wanted[id])
            reply_histogram(call, command_of(id));
}

/* ---- events ---- */

void cmd_latency_latest(struct call *call)
{
    struct latency_latest rows[LATENCY_KINDS];
    uint32_t count = latency_latest(call->partition->metrics.latency, rows);
    latency_reply_latest(rows, count, &call->reply);
}

void cmd_latency_history(struct call *call)
{
    latency_reply_history(latency_find_event(call->partition->metrics.latency, call->argv[2]),
                          &call->reply);
}

void cmd_latency_reset(struct call *call)
{
    reply_int(&call->reply,
              latency_reset(call->partition->metrics.latency, call->argv + 2, call->argc - 2));
}

void cmd_latency_graph(struct call *call)
{
    const struct latency_event *event =
        latency_find_event(call->partition->metrics.latency, call->argv[2]);
    struct out out;
    if (!event || !event->count) {
        char error[LATENCY_ERROR_MAX];
        latency_no_samples(call->argv[2], error);
        call_error_text(call, error);
        return;
    }
    out_init(&out);
    latency_print_graph(event, call->now_ms / 1000, &out);
    reply_verbatim_out(&call->reply, "txt", &out);
}

void cmd_latency_doctor(struct call *call)
{
    const struct partition *partition = call->partition;
    struct out out;
    out_init(&out);
    latency_print_doctor(
        partition->metrics.latency,
        config_snapshot_number(partition->snapshot, "latency-monitor-threshold") != 0, &out);
    reply_verbatim_out(&call->reply, "txt", &out);
}

void cmd_latency_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}
