/*
 * latency.c - LATENCY: histograms of commands, and the events slower than latency-monitor-threshold.
 */
#include "backend/latency.h"

#include "backend/handlers.h"
#include "backend/partition.h"
#include "backend/settings.h"
#include "shared/command_reply.h"

#include <inttypes.h>

/* ---- HISTOGRAM ---- */

enum { HISTOGRAM_STEPS = 25 }; /* powers of two from 1024 ns on */

/* Redis' buckets: powers of two from 1024 ns on, each up to the end of the part its histogram puts it in. */
static uint64_t step_end_ns(unsigned step)
{
    return (1024ULL << step) + (8ULL << step) - 1;
}

/* How many steps add runs; with `reply` they are replied: upper end in µs, runs up to there. */
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
    const struct histogram *histogram = call->partition->latency->commands[command->id];
    reply_bulk_text(&call->reply, command->full_name);
    reply_map(&call->reply, 2);
    reply_bulk_text(&call->reply, "calls");
    reply_int(&call->reply, (int64_t)histogram->count);
    reply_bulk_text(&call->reply, "histogram_usec");
    reply_map(&call->reply, steps(histogram, NULL));
    (void)steps(histogram, &call->reply);
}

/* Marks the command, or a container's subcommands, where they have run. */
static int64_t mark_run(const struct call *call, const struct command *command, bool *wanted)
{
    struct histogram *const *histograms = call->partition->latency->commands;
    int64_t count = 0;
    if (histograms[command->id] && !wanted[command->id])
        count += wanted[command->id] = true;
    for (enum command_id sub = command->sub_first; sub != COMMAND_NONE;
         sub = command_of(sub)->sub_next)
        if (histograms[sub] && !wanted[sub])
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
    const struct latency_event *events = call->partition->latency->events;
    int64_t count = 0;
    for (unsigned i = 0; i < LATENCY_KINDS; i++)
        count += events[i].count > 0;
    reply_array(&call->reply, count);
    for (unsigned i = 0; i < LATENCY_KINDS; i++) {
        if (!events[i].count)
            continue;
        struct latency_sample last = latency_sample_at(&events[i], events[i].count - 1);
        reply_array(&call->reply, 4);
        reply_bulk_text(&call->reply, events[i].name);
        reply_int(&call->reply, (int64_t)last.at_s);
        reply_int(&call->reply, (int64_t)last.ms);
        reply_int(&call->reply, (int64_t)events[i].max_ms);
    }
}

void cmd_latency_history(struct call *call)
{
    const struct latency_event *event = latency_find_event(call->partition->latency, call->argv[2]);
    uint32_t count = event ? event->count : 0;
    reply_array(&call->reply, count);
    for (uint32_t i = 0; i < count; i++) {
        struct latency_sample sample = latency_sample_at(event, i);
        reply_array(&call->reply, 2);
        reply_int(&call->reply, (int64_t)sample.at_s);
        reply_int(&call->reply, (int64_t)sample.ms);
    }
}

void cmd_latency_reset(struct call *call)
{
    struct latency *latency = call->partition->latency;
    int64_t count = 0;
    if (call->argc == 2)
        for (unsigned i = 0; i < LATENCY_KINDS; i++)
            count += latency_reset_event(&latency->events[i]);
    for (uint32_t i = 2; i < call->argc; i++) {
        struct latency_event *event = latency_find_event(latency, call->argv[i]);
        count += event && latency_reset_event(event);
    }
    reply_int(&call->reply, count);
}

static void reply_text(struct call *call, struct out *out)
{
    char *text = arena_alloc(call->arena, out->bytes + 1);
    out_copy(out, text);
    reply_verbatim(&call->reply, "txt", (struct bytes){text, out->bytes});
    out_clear(out);
}

/* One line for each sample: how long ago, how long it took, and a bar. */
void cmd_latency_graph(struct call *call)
{
    enum { BAR_MAX = 40 };
    static const char bar[BAR_MAX + 1] = "########################################";
    const struct latency_event *event = latency_find_event(call->partition->latency, call->argv[2]);
    struct out out;
    if (!event || !event->count) {
        call_errorf(call, "ERR No samples available for event '%.*s'", (int)call->argv[2].len,
                    call->argv[2].data);
        return;
    }
    out_init(&out);
    out_printf(&out, "%s - high %" PRIu64 " ms (all time high %" PRIu64 " ms)\n", event->name,
               event->max_ms, event->max_ms);
    for (uint32_t i = 0; i < event->count; i++) {
        struct latency_sample sample = latency_sample_at(event, i);
        int width = (int)(sample.ms * BAR_MAX / (event->max_ms ? event->max_ms : 1));
        out_printf(&out, "%8" PRIu64 "s ago %8" PRIu64 " ms %.*s\n",
                   call->now_ms / 1000 - sample.at_s, sample.ms, width, bar);
    }
    reply_text(call, &out);
}

static void print_event(const struct latency_event *event, struct out *out)
{
    uint64_t sum = 0;
    uint64_t min_ms = UINT64_MAX;
    for (uint32_t i = 0; i < event->count; i++) {
        struct latency_sample sample = latency_sample_at(event, i);
        sum += sample.ms;
        min_ms = sample.ms < min_ms ? sample.ms : min_ms;
    }
    out_printf(out,
               "%s: %" PRIu32 " slow seconds, average %" PRIu64 " ms, shortest %" PRIu64
               " ms, longest %" PRIu64 " ms.\n",
               event->name, event->count, sum / event->count, min_ms, event->max_ms);
}

void cmd_latency_doctor(struct call *call)
{
    static const char *const advice[LATENCY_KINDS] = {
        [LATENCY_COMMAND] = "SLOWLOG GET names the commands.",
        [LATENCY_FAST_COMMAND] = "Commands that should be fast waited for the disk or the CPU.",
        [LATENCY_EXPIRE_CYCLE] = "Many keys expire at once; see expire-effort.",
        [LATENCY_COMMIT] = "The disk's fsync is slow, or something else writes to it.",
    };
    const struct partition *partition = call->partition;
    struct out out;
    out_init(&out);
    if (settings_number(partition->settings, "latency-monitor-threshold") == 0)
        out_printf(&out, "Latency monitoring is off. Turn it on with \"CONFIG SET "
                         "latency-monitor-threshold <milliseconds>\".");
    for (unsigned i = 0; i < LATENCY_KINDS; i++) {
        if (!partition->latency->events[i].count)
            continue;
        print_event(&partition->latency->events[i], &out);
        out_printf(&out, "    %s\n", advice[i]);
    }
    if (out.bytes == 0)
        out_printf(&out, "No slow events were seen.");
    reply_text(call, &out);
}

void cmd_latency_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(COMMAND_latency), HANDLER_BACKEND);
}
