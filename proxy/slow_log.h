/*
 * slow_log.h - how long requests take, and what is kept of the slow ones: SLOWLOG, LATENCY.
 *
 *   frame taken ─► slow_log_remember: the turn's time, the frame's first bytes
 *                                   … shard(s) …
 *   reply complete ─► slow_log_look: counted; too long ─► slow_log_note ─► slow log (one per proxy, a mutex)
 *
 * Times are those of loop turns (worker_clock), so what happens inside one turn takes 0 µs. Commands that wait at a
 * backend (BLPOP) are not slow, they wait. A shard's share is the time it had this request in front of its queue: since
 * the request was sent, or since the shard's reply before it came, whichever is later.
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
    struct slowlog slowlog;  /* guarded by mutex */
    struct latency *latency; /* too; its events only */
};

struct slow_log *slow_log_new(void);
void slow_log_free(struct slow_log *slow_log);
void slow_log_lock(struct slow_log *slow_log);
void slow_log_unlock(struct slow_log *slow_log);

/* The limits may be others now. */
void slow_log_configure(struct proxy_worker *worker);

/* The request was made of the frame that is being taken, if any. */
static inline void slow_log_remember(struct request *request, const struct frame *frame)
{
    const struct proxy_worker *worker = request->worker;
    request->begun_us = worker->timing.now_us;
    if (worker->timing.slow_us == UINT64_MAX || !frame)
        return;
    request->head_len = frame->len < REQUEST_HEAD_MAX ? (uint16_t)frame->len : REQUEST_HEAD_MAX;
    memcpy(request->head, frame->data, request->head_len);
}

void slow_log_note(struct client *client, const struct request *request, uint64_t usec);

/* Its reply is complete. */
static inline void slow_log_look(struct client *client, const struct request *request,
                                 bool is_error)
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
}
