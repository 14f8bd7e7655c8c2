/*
 * worker_run.h - makes, updates and stops a worker, and runs its periodic work.
 */
#pragma once

#include "proxy/core/worker.h"

/* Makes a worker; adds a reference to the snapshot. All functions of a worker run on its loop's thread. */
struct proxy_worker *proxy_worker_new(struct proxy *proxy, struct loop *loop, uint32_t index,
                                      struct proxy_snapshot *snapshot);
/* All clients and upstreams must be gone (proxy_worker_stop). */
void proxy_worker_free(struct proxy_worker *worker);
/* Puts a new snapshot in force; takes over the reference. */
void proxy_worker_update(struct proxy_worker *worker, struct proxy_snapshot *snapshot);
/* Stops accepting and finishes the frames that were read. A client that has recently sent a request, and waits for no reply, gets
 * the reply to its next request, and is closed with it: if its connection were closed now, that request could be on its way.
 * Clients that are left after `timeout_ms` are closed. When all are gone the worker closes its upstreams and calls
 * proxy_worker_stopped(). */
void proxy_worker_stop(struct proxy_worker *worker, uint64_t timeout_ms);

/* Every tick while the worker stops: closes the clients that have sent nothing for a while. */
void worker_drain_quiet(struct proxy_worker *worker);
/* While the worker stops: closes all clients. */
void worker_kill_clients(struct proxy_worker *worker);
/* To be called at the end of every turn while the worker stops. Does nothing while there are clients. Then it closes the connections to
 * shards, and when no request is left that another thread works on, the worker has stopped (proxy_worker_stopped). */
void worker_go_on_stopping(struct proxy_worker *worker);
