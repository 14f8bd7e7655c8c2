/*
 * local_memory.c - MEMORY over all shards: figures are added up, reports concatenated.
 *
 *   STATS           INFO server at every shard ─► which of them share a process ─► MEMORY STATS ─► sum
 *   DOCTOR          shard a: …   shard b: …
 *   MALLOC-STATS    likewise, once for each process
 *
 * The figures are those of the backends. The memory of the proxy itself is in its metrics.
 */
#include "proxy/client/fan_out.h"
#include "proxy/core/node.h"
#include "proxy/core/worker.h"
#include "proxy/local/local.h"
#include "shared/memory_stats.h"

#include <stdlib.h>

/* By shard: is it the first shard of its process? */
struct processes {
    bool is_new[SHARD_COUNT_MAX];
};

static void forward_reply(const struct shard_reply *answer, struct reply *reply)
{
    out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
}

static bool is_error_reply(const struct shard_reply *answer)
{
    return answer->frame.data[0] == '-' || answer->frame.data[0] == '!';
}

/* Stores which shards share a process, from their INFO replies, then sends the client's request to all shards. */
static void ask_memory(struct request *request, request_done_fn *done)
{
    struct processes *processes = request_state(request, sizeof *processes);
    for (uint32_t i = 0; i < request_reply_count(request); i++)
        processes->is_new[i] = local_is_new_process(request, i);
    request_fan_out(request, NULL, SHARDS_ALL, request_argv(request), request_argc(request), done);
}

static void ask_processes(struct request *request, request_done_fn *done)
{
    static const struct bytes ARGV[] = {{"INFO", 4}, {"server", 6}};
    request_keep(request);
    request_fan_out(request, NULL, SHARDS_ALL, ARGV, 2, done);
}

/* ---- STATS ---- */

static void stats_done(struct client *client, struct request *request, struct reply *reply)
{
    const struct processes *processes = request_state(request, sizeof *processes);
    struct memory_stats sum = {0};
    (void)client;
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        struct memory_stats stats;
        if (is_error_reply(answer)) {
            forward_reply(answer, reply);
            return;
        }
        if (memory_stats_read(answer->frame, &stats))
            memory_stats_add(&sum, &stats, processes->is_new[i]);
    }
    memory_stats_reply(&sum, reply);
}

static void stats_processes_done(struct client *client, struct request *request,
                                 struct reply *reply)
{
    (void)client;
    (void)reply;
    ask_memory(request, stats_done);
}

void local_memory_stats(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)reply;
    ask_processes(request, stats_processes_done);
}

/* ---- reports ---- */

/* Replies the reports of the shards i with is_told[i]; NULL: of all shards. */
static void reply_reports(struct request *request, const bool *is_told, struct reply *reply)
{
    struct out out;
    out_init(&out);
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        struct resp_value value;
        size_t pos = 0;
        if ((is_told && !is_told[i]) || !resp_value_next(answer->frame, &pos, &value))
            continue;
        struct bytes text = resp_value_text(&value);
        out_printf(&out, "shard %s: ", answer->node->name);
        out_write(&out, text.data, text.len);
        if (text.len == 0 || text.data[text.len - 1] != '\n')
            out_write(&out, "\n", 1);
    }
    reply_verbatim_out(reply, "txt", &out);
}

static void malloc_stats_done(struct client *client, struct request *request, struct reply *reply)
{
    const struct processes *processes = request_state(request, sizeof *processes);
    (void)client;
    reply_reports(request, processes->is_new, reply);
}

static void malloc_processes_done(struct client *client, struct request *request,
                                  struct reply *reply)
{
    (void)client;
    (void)reply;
    ask_memory(request, malloc_stats_done);
}

void local_memory_malloc_stats(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)reply;
    ask_processes(request, malloc_processes_done);
}

static void memory_doctor_done(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    reply_reports(request, NULL, reply);
}

void local_memory_doctor(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)reply;
    request_keep(request);
    request_fan_out(request, NULL, SHARDS_ALL, request_argv(request), request_argc(request),
                    memory_doctor_done);
}
