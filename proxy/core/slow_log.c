#include "proxy/core/slow_log.h"

#include "proxy/core/node.h"
#include "proxy/core/proxy.h"
#include "shared/check.h"
#include "shared/error_code.h"

#include <stdlib.h>

enum {
    ARGS_MAX = 33, /* one more than the log shows */
    PINNED_BYTES_MAX = 4 * 1024 * 1024,
};

struct slow_log *slow_log_new(void)
{
    struct slow_log *slow_log = calloc(1, sizeof *slow_log);
    CHECK(slow_log);
    CHECK(pthread_mutex_init(&slow_log->mutex, NULL) == 0);
    slow_log->latency = latency_new();
    return slow_log;
}

void slow_log_free(struct slow_log *slow_log)
{
    for (int i = 0; i < SLOWLOG_KINDS; i++)
        slowlog_reset(&slow_log->slowlogs[i], NULL);
    latency_free(slow_log->latency);
    (void)pthread_mutex_destroy(&slow_log->mutex);
    free(slow_log);
}

void slow_log_lock(struct slow_log *slow_log)
{
    CHECK(pthread_mutex_lock(&slow_log->mutex) == 0);
}

void slow_log_unlock(struct slow_log *slow_log)
{
    CHECK(pthread_mutex_unlock(&slow_log->mutex) == 0);
}

/* The number of bytes from which a request or reply is logged. */
static uint64_t from_bytes(int64_t option)
{
    return option < 0 ? UINT64_MAX : (uint64_t)option;
}

void slow_log_configure(struct proxy_worker *worker)
{
    const struct proxy_config *config = &worker->snapshot->config;
    uint64_t threshold_us = (uint64_t)config->latency_monitor_threshold * 1000;
    worker->timing.slow_us = config->slowlog_log_slower_than < 0
                                 ? UINT64_MAX
                                 : (uint64_t)config->slowlog_log_slower_than;
    if (threshold_us && threshold_us < worker->timing.slow_us)
        worker->timing.slow_us = threshold_us;
    worker->timing.large_request = from_bytes(config->commandlog_request_larger_than);
    worker->timing.large_reply = from_bytes(config->commandlog_reply_larger_than);
    worker->timing.keeps_head = worker->timing.slow_us != UINT64_MAX ||
                                worker->timing.large_request != UINT64_MAX ||
                                worker->timing.large_reply != UINT64_MAX;
}

/* ---- arguments of a sent request -------------------------------------------------------------- */

/* Reads the number after '*' or '$' at *pos and moves *pos after its line; -1: the kept bytes end before. */
static int64_t read_header_number(const struct request *request, size_t *pos)
{
    int64_t number = 0;
    size_t at = *pos + 1;
    while (at < request->head.len && request->head.data[at] >= '0' && request->head.data[at] <= '9')
        number = number * 10 + (request->head.data[at++] - '0');
    if (at + 2 > request->head.len)
        return -1;
    *pos = at + 2;
    return number;
}

/* Parses the arguments that were kept, and counts the arguments and bytes that are missing. */
static void parse_head(const struct request *request, struct bytes argv[ARGS_MAX],
                       struct slow_command *slow)
{
    size_t pos = 0;
    int64_t argc = read_header_number(request, &pos);
    slow->argv = argv;
    while (slow->argc < ARGS_MAX && slow->argc < argc && pos < request->head.len) {
        int64_t len = read_header_number(request, &pos);
        if (len < 0)
            break;
        size_t left = request->head.len - pos;
        size_t have = (size_t)len < left ? (size_t)len : left;
        argv[slow->argc++] = (struct bytes){request->head.data + pos, have};
        slow->last_cut = (size_t)len - have;
        pos += have + 2;
    }
    slow->missing = argc > slow->argc ? (uint32_t)(argc - slow->argc) : 0;
}

static void copy_heads(struct client *client)
{
    for (struct pipeline_link *link = client->pipeline.front; link; link = link->next) {
        struct request *request = container_of(link, struct request, link);
        if (request->head.block)
            request_copy_head(request, request->head.data);
    }
}

void slow_log_release_blocks(struct proxy_worker *worker)
{
    if (block_bytes_used() > PINNED_BYTES_MAX)
        client_each(worker, copy_heads);
}

/* ---- adding entries --------------------------------------------------------------------------- */

/* Sets the shard that has just replied, and its part of the time. */
static void tell_shard(const struct request *request, struct slow_command *slow)
{
    const struct proxy_worker *worker = request->worker;
    const struct node *node = worker->scratch.answering;
    if (!node)
        return;
    uint64_t since = worker->scratch.answered_us > request->begun_us ? worker->scratch.answered_us
                                                                     : request->begun_us;
    slow->shard = bytes_of(node->name);
    slow->shard_usec = worker->timing.now_us - since;
}

/* `value`: µs or bytes. */
static void log_request(const struct client *client, const struct request *request,
                        enum slowlog_kind kind, uint64_t value, int len_max)
{
    const struct proxy_worker *worker = client->worker;
    struct bytes argv[ARGS_MAX];
    struct slow_command slow = {
        .at_s = loop_wall_ms(worker->loop) / 1000,
        .usec = value,
        .peer = bytes_of(stream_peer(client->stream)),
        .name = bytes_of(client->session.name ? client->session.name : ""),
        .space = client->session.keyspace->name,
        .command = request->command,
    };
    parse_head(request, argv, &slow);
    if (!request->is_blocking)
        tell_shard(request, &slow);
    struct slow_log *slow_log = worker->proxy->slow_log;
    slow_log_lock(slow_log);
    slowlog_push(&slow_log->slowlogs[kind], &slow, (uint64_t)len_max);
    slow_log_unlock(slow_log);
}

/* EXEC, too, has CMD_SKIP_SLOWLOG, because a server logs the queued commands instead. The proxy does not run these, so
 * it logs the EXEC. */
static bool is_skipped(const struct command *command)
{
    return command->flags & CMD_SKIP_SLOWLOG && !(command->traits & TRAIT_RUNS_QUEUE);
}

void slow_log_note_bytes(struct client *client, const struct request *request, uint64_t reply_bytes)
{
    const struct proxy_worker *worker = client->worker;
    const struct proxy_config *config = &worker->snapshot->config;
    if (!request->command || client->is_closed || is_skipped(request->command))
        return;
    if (request->head.frame_bytes >= worker->timing.large_request)
        log_request(client, request, SLOWLOG_LARGE_REQUEST, request->head.frame_bytes,
                    config->commandlog_large_request_max_len);
    if (reply_bytes >= worker->timing.large_reply)
        log_request(client, request, SLOWLOG_LARGE_REPLY, reply_bytes,
                    config->commandlog_large_reply_max_len);
}

/* Has the blocking command ended by something else than its time or CLIENT UNBLOCK? Else its reply is a null, or an error with this code,
 * which XREADGROUP also gets for a group that was deleted. The reply of WAIT is a number. */
static bool has_found(const struct request *request, struct bytes head)
{
    bool is_null = head.len > 1 && (head.data[0] == '_' || head.data[1] == '-');
    bool is_unblocked =
        error_has_code(head, "UNBLOCKED") && request->command->group != GROUP_STREAM;
    return head.len && !is_null && head.data[0] != ':' && !is_unblocked;
}

void slow_log_note(struct client *client, const struct request *request, struct bytes head,
                   uint64_t usec)
{
    const struct command *command = request->command;
    const struct proxy_worker *worker = client->worker;
    const struct proxy_config *config = &worker->snapshot->config;
    int64_t slower_than = config->slowlog_log_slower_than;
    int threshold_ms = config->latency_monitor_threshold;
    if (!command || client->is_closed || (request->is_blocking && !has_found(request, head)))
        return;
    usec = request->is_blocking ? 0 : usec;
    if (slower_than >= 0 && usec >= (uint64_t)slower_than && !is_skipped(command))
        log_request(client, request, SLOWLOG_SLOW, usec, config->slowlog_max_len);
    if (threshold_ms == 0 || usec < (uint64_t)threshold_ms * 1000)
        return;
    struct slow_log *slow_log = worker->proxy->slow_log;
    slow_log_lock(slow_log);
    latency_add_event(slow_log->latency,
                      command->flags & CMD_FAST ? LATENCY_FAST_COMMAND : LATENCY_COMMAND,
                      loop_wall_ms(worker->loop) / 1000, usec / 1000);
    slow_log_unlock(slow_log);
}
