/*
 * slow_log.h - times and sizes of requests: command statistics, SLOWLOG, COMMANDLOG and LATENCY.
 *
 *   frame dispatched ─► slow_log_remember: the turn's time, where the frame's first bytes are
 *                                   … shard(s) …
 *   reply complete ─► slow_log_look: counted; too long ─► slow_log_note ─► slow log (one per proxy, a mutex)
 *
 * Times are read once per turn of the loop (worker_clock), so a request that ends in the turn in which it began takes
 * 0 µs. So does a command that waits for elements (BLPOP). The shard's part of the time begins when the request was sent, or when
 * the previous reply on that connection arrived, whichever is later.
 */
#pragma once

#include "proxy/core/client.h"
#include "proxy/core/error_replies.h"
#include "proxy/core/own_calls.h"
#include "proxy/core/proxy_metrics.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "shared/command/latency.h"
#include "shared/command/slowlog.h"

#include <pthread.h>

struct slow_log {
    pthread_mutex_t mutex;
    struct slowlog slowlogs[SLOWLOG_KINDS]; /* guarded by mutex */
    struct latency *latency;                /* guarded by mutex; only its events are used */
};

/* The first bytes of a frame up to this size are not copied: the request refers to the block. */
enum { SLOW_LOG_PIN_MAX = 1024 };

struct slow_log *slow_log_new(void);
void slow_log_free(struct slow_log *slow_log);
void slow_log_lock(struct slow_log *slow_log);
void slow_log_unlock(struct slow_log *slow_log);

/* After a change of the configuration. */
void slow_log_configure(struct proxy_worker *worker);

/* Called for a new request; `frame`: the frame that is being dispatched, or NULL. */
static inline void slow_log_remember(struct request *request, const struct frame *frame)
{
    const struct proxy_worker *worker = request->worker;
    request->begun_us = worker->timing.now_us;
    if (!frame)
        return;
    request->head.frame_bytes = frame->len;
    if (!worker->timing.keeps_head)
        return;
    request->head.len = frame->len < REQUEST_HEAD_MAX ? (uint16_t)frame->len : REQUEST_HEAD_MAX;
    if (frame->block && frame->len <= SLOW_LOG_PIN_MAX) {
        request->head.data = frame->data;
        request->head.block = block_ref(frame->block);
    } else {
        request_copy_head(request, frame->data);
    }
}

/* Called at each tick: when the worker's blocks take much memory, copies the frames' first bytes of all requests of all clients,
 * so that requests that wait for their replies do not keep blocks alive. */
void slow_log_release_blocks(struct proxy_worker *worker);

/* Adds the request to the log of slow commands, and to the latency events, if it took that long. `head`: first bytes of its reply. A
 * command that waits for elements counts as 0 µs, because only its shard has its time without the wait; as in Redis, one that waited
 * in vain is left out. */
void slow_log_note(struct client *client, const struct request *request, struct bytes head,
                   uint64_t usec);
/* Adds the request to the log of large requests, and to that of large replies, if its size exceeds the log's limit. */
void slow_log_note_bytes(struct client *client, const struct request *request,
                         uint64_t reply_bytes);

/* The reply of the request is complete; `head`: its first bytes. */
static inline void slow_log_look(struct client *client, const struct request *request,
                                 struct bytes head, size_t reply_bytes)
{
    struct proxy_worker *worker = client->worker;
    bool is_error = head.len && head.data[0] == '-';
    if (is_error)
        error_replies_count(&worker->metrics.errors, head);
    if (!request->begun_us)
        return;
    uint64_t usec = worker->timing.now_us - request->begun_us;
    if (request->command)
        command_cells_add(&worker->metrics.commands, request->command, usec, is_error);
    if (request->count.own && request->command)
        own_calls_count(worker, request, usec, is_error);
    if (is_error && client->session.keyspace->cell)
        cell_add(client->session.keyspace->cell, TENANT_ERRORS, 1);
    if (usec >= worker->timing.slow_us && request->head.data)
        slow_log_note(client, request, head, usec);
    if (request->head.data && (request->head.frame_bytes >= worker->timing.large_request ||
                               reply_bytes >= worker->timing.large_reply))
        slow_log_note_bytes(client, request, reply_bytes);
}
