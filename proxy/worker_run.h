/*
 * worker_run.h - a worker's life: made, listening, given a new snapshot, stopped; what it does each turn and second.
 */
#pragma once

#include "proxy/worker.h"

/* Takes its own reference of the snapshot. Everything runs on the loop's thread. */
struct proxy_worker *proxy_worker_new(struct proxy *proxy, struct loop *loop, uint32_t index,
                                      struct proxy_snapshot *snapshot);
/* All clients and upstreams must be gone (proxy_worker_stop). */
void proxy_worker_free(struct proxy_worker *worker);
/* Accepts on a bound descriptor; `name` is the namespace of its clients, "": none; `tls`: they
 * speak TLS, and the snapshot has a context for it. */
void proxy_worker_listen(struct proxy_worker *worker, int fd, const struct listen_options *options,
                         const char *name, bool tls);
/* A new snapshot is in force; takes the caller's reference. */
void proxy_worker_update(struct proxy_worker *worker, struct proxy_snapshot *snapshot);
/* Stops accepting, finishes what was read; clients that are left after `timeout_ms` are cut. When all are
 * gone it closes its upstreams and calls proxy_worker_stopped(). */
void proxy_worker_stop(struct proxy_worker *worker, uint64_t timeout_ms);

/* An accepted stream of a listener bound to namespace `name` (empty: none). */
void proxy_worker_accept(struct proxy_worker *worker, struct stream *stream, struct bytes name);
