/*
 * proxy_run.h - makes a proxy, starts its worker threads, reloads and stops it.
 *
 *   main loop: signals, file watches, reload ──loop_post──► each worker: new snapshot, stop
 *                                              ◄─loop_post── each worker: stopped, calls (request_on_main)
 *
 * Main thread unless said otherwise.
 */
#pragma once

#include "proxy/core/proxy.h"

/* Takes over the reference of the snapshot. proxy_start adds the workers; a simulation adds them with
 * proxy_add_worker. */
struct proxy *proxy_new(struct loop *loop, struct proxy_snapshot *snapshot);
void proxy_free(struct proxy *proxy);
/* Adds a worker on a loop of the caller. */
struct proxy_worker *proxy_add_worker(struct proxy *proxy, struct loop *loop);

/* Begins to ask the copies of shards with several addresses which of them lead, and to follow these: proxy_start does it. Until
 * leaders_stop(proxy->leaders). */
void proxy_find_leaders(struct proxy *proxy);

/* Binds the addresses, starts the worker threads, watches the files. False: the reason is in error[size]. */
bool proxy_start(struct proxy *proxy, char *error, size_t size);
/* Begins to stop; loop_stop(proxy->loop) is called when all workers are done. */
void proxy_stop(struct proxy *proxy);
/* Joins the threads; after loop_run has returned. */
void proxy_join(struct proxy *proxy);

/* Reads all files again and logs the result. False: the old snapshot stays in force, and the reason is in error[size]. */
bool proxy_reload(struct proxy *proxy, struct reload_report *report, char *error, size_t size);
/* Merges the routes that were learned (routes.h) into the snapshot's map, and sends it to all workers; takes over the
 * reference. */
void proxy_publish(struct proxy *proxy, struct proxy_snapshot *snapshot);
/* Called on a worker's thread when its last client and upstream are gone. */
void proxy_worker_stopped(struct proxy_worker *worker);
