/*
 * slow_log.h - times and sizes of requests: command statistics, SLOWLOG, COMMANDLOG and LATENCY.
 *
 *   frame dispatched ─► slow_log_remember: the turn's time, the frame's first bytes
 *                                   … shard(s) …
 *   reply complete ─► slow_log_look: counted; too long ─► slow_log_note ─► slow log (one per proxy, a mutex)
 *
 * Times are read once per turn of the loop (worker_clock), so a request that ends in the turn in which it began takes
 * 0 µs. Blocking commands (BLPOP) are not logged. The shard's part of the time begins when the request was sent, or when
 * the previous reply on that connection arrived, whichever is later.
 */
#pragma once

#include "proxy/client.h"
#include "proxy/proxy_metrics.h"
#include "proxy/request.h"
#include "proxy/worker.h"
#include "shared/latency.h"
#include "shared/slowlog.h"

#include <pthread.h>

struct slow_log {
    pthread_mutex_t mutex;
    struct slowlog slowlogs[SLOWLOG_KINDS]; /* guarded by mutex */
    struct latency *latency;                /* guarded by mutex; only its events are used */
};

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
    if (!worker->timing.keeps_head || !frame)
        return;
    request->frame_bytes = frame->len;
    request->head_len = frame->len < REQUEST_HEAD_MAX ? (uint16_t)frame->len : REQUEST_HEAD_MAX;
    memcpy(request->head, frame->data, request->head_len);
}

void slow_log_note(struct client *client, const struct request *request, uint64_t usec);
/* Adds the request to the log of large requests, and to that of large replies, if its size exceeds the log's limit. */
void slow_log_note_bytes(struct client *client, const struct request *request,
                         uint64_t reply_bytes);

/* The reply of the request is complete. */
static inline void slow_log_look(struct client *client, const struct request *request,
                                 bool is_error, size_t reply_bytes)
{
    struct proxy_worker *worker = client->worker;
    if (!request->begun_us)
        return;
    uint64_t usec = worker->timing.now_us - request->begun_us;
    if (request->command)
        command_cells_add(&worker->metrics.commands, request->command, usec, is_error);
    if (is_error && client->session.keyspace->cell)
        cell_add(client->session.keyspace->cell, TENANT_ERRORS, 1);
    if (usec >= worker->timing.slow_us && request->head_len)
        slow_log_note(client, request, usec);
    if (request->head_len && (request->frame_bytes >= worker->timing.large_request ||
                              reply_bytes >= worker->timing.large_reply))
        slow_log_note_bytes(client, request, reply_bytes);
}
