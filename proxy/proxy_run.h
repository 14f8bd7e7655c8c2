/*
 * proxy_run.h - a proxy's life: made, started with its worker threads, reloaded, stopped.
 *
 *   main loop: signals, file watches, reload ──loop_post──► each worker: new snapshot, stop
 *                                              ◄─loop_post── each worker: stopped, calls (request_on_main)
 *
 * Main thread unless said otherwise.
 */
#pragma once

#include "proxy/proxy.h"

/* Takes over the reference of the snapshot. Workers are added by proxy_run or, in a simulation, by
 * proxy_add_worker. */
struct proxy *proxy_new(struct loop *loop, struct proxy_snapshot *snapshot);
void proxy_free(struct proxy *proxy);
/* A worker on a loop of the caller's. */
struct proxy_worker *proxy_add_worker(struct proxy *proxy, struct loop *loop);

/* Binds, starts worker threads, watches the files. False: one line in error[size]. */
bool proxy_start(struct proxy *proxy, char *error, size_t size);
/* Begins to stop; loop_stop(proxy->loop) is called when all workers are done. */
void proxy_stop(struct proxy *proxy);
/* Joins the threads; after loop_run has returned. */
void proxy_join(struct proxy *proxy);

/* Reads all files anew; a line in the log. False: the old snapshot stays, one line in error[size]. */
bool proxy_reload(struct proxy *proxy, struct reload_report *report, char *error, size_t size);
/* Puts a snapshot in force everywhere; takes over the reference. */
void proxy_publish(struct proxy *proxy, struct proxy_snapshot *snapshot);
/* From a worker's thread: it has no clients any more. */
void proxy_worker_stopped(struct proxy_worker *worker);
