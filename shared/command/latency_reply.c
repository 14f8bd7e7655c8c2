#include "shared/command/latency_reply.h"

#include <inttypes.h>
#include <stdio.h>

uint32_t latency_latest(const struct latency *latency, struct latency_latest rows[LATENCY_KINDS])
{
    uint32_t count = 0;
    for (unsigned i = 0; i < LATENCY_KINDS; i++) {
        const struct latency_event *event = &latency->events[i];
        if (event->count)
            rows[count++] =
                (struct latency_latest){.name = bytes_of(event->name),
                                        .last = latency_sample_at(event, event->count - 1),
                                        .max_ms = event->max_ms};
    }
    return count;
}

void latency_reply_latest(const struct latency_latest *rows, uint32_t count, struct reply *reply)
{
    reply_array(reply, count);
    for (uint32_t i = 0; i < count; i++) {
        reply_array(reply, 4);
        reply_bulk(reply, rows[i].name);
        reply_int(reply, (int64_t)rows[i].last.at_s);
        reply_int(reply, (int64_t)rows[i].last.ms);
        reply_int(reply, (int64_t)rows[i].max_ms);
    }
}

void latency_reply_history(const struct latency_event *event, struct reply *reply)
{
    uint32_t count = event ? event->count : 0;
    reply_array(reply, count);
    for (uint32_t i = 0; i < count; i++) {
        struct latency_sample sample = latency_sample_at(event, i);
        reply_array(reply, 2);
        reply_int(reply, (int64_t)sample.at_s);
        reply_int(reply, (int64_t)sample.ms);
    }
}

void latency_no_samples(struct bytes name, char error[LATENCY_ERROR_MAX])
{
    (void)snprintf(error, LATENCY_ERROR_MAX, "ERR No samples available for event '%.*s'",
                   (int)(name.len < 128 ? name.len : 128), name.data);
}

void latency_print_graph(const struct latency_event *event, uint64_t now_s, struct out *out)
{
    enum { BAR_MAX = 40 };
    static const char bar[BAR_MAX + 1] = "########################################";
    out_printf(out, "%s - high %" PRIu64 " ms (all time high %" PRIu64 " ms)\n", event->name,
               event->max_ms, event->max_ms);
    for (uint32_t i = 0; i < event->count; i++) {
        struct latency_sample sample = latency_sample_at(event, i);
        int width = (int)(sample.ms * BAR_MAX / (event->max_ms ? event->max_ms : 1));
        out_printf(out, "%8" PRIu64 "s ago %8" PRIu64 " ms %.*s\n", now_s - sample.at_s, sample.ms,
                   width, bar);
    }
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
               "%s: slow runs in %" PRIu32 " seconds, average %" PRIu64 " ms, shortest %" PRIu64
               " ms, longest %" PRIu64 " ms.\n",
               event->name, event->count, sum / event->count, min_ms, event->max_ms);
}

void latency_print_doctor(const struct latency *latency, bool is_on, struct out *out)
{
    static const char *const advice[LATENCY_KINDS] = {
        [LATENCY_COMMAND] = "SLOWLOG GET lists the slow commands.",
        [LATENCY_FAST_COMMAND] = "Commands that should be fast waited for the disk or the CPU.",
        [LATENCY_EXPIRE_CYCLE] = "Many keys expire at once; see expire-effort.",
        [LATENCY_COMMIT] = "fsync is slow: the disk is slow, or busy with other writes.",
    };
    size_t begun = out->bytes;
    if (!is_on)
        out_printf(out, "Latency monitoring is off. Turn it on with \"CONFIG SET "
                        "latency-monitor-threshold <milliseconds>\".");
    for (unsigned i = 0; i < LATENCY_KINDS; i++) {
        if (!latency->events[i].count)
            continue;
        print_event(&latency->events[i], out);
        out_printf(out, "    %s\n", advice[i]);
    }
    if (out->bytes == begun)
        out_printf(out, "No slow events were recorded.");
}
