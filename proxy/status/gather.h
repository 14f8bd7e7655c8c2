/*
 * gather.h - fetches every worker's share for the HTTP thread, within a bounded time.
 *
 *   HTTP thread: gatherer_run ──loop_post──► worker: fills its `fresh` share, signals under the mutex
 *                     │ waits, at most GATHER_WAIT_MS             │
 *                     └─ swaps `fresh` and `shown` ◄──────────────┘    a late worker's previous share is shown
 *
 * A worker has at most one visit under way, however often it is requested.
 */
#pragma once

#include "proxy/status/share.h"

enum { GATHER_WAIT_MS = 200 };

struct gatherer;
struct proxy;

/* The workers must be running; their loops must be freed before gatherer_free. */
struct gatherer *gatherer_new(struct proxy *proxy);
void gatherer_free(struct gatherer *gatherer);
/* Requests the shares of all workers; returns how many did not arrive in time. One thread at a time. */
uint32_t gatherer_run(struct gatherer *gatherer);
uint32_t gatherer_count(const struct gatherer *gatherer);
/* The last share of worker i; unchanged until gatherer_run is called. NULL: there is none yet. */
const struct share *gatherer_share(struct gatherer *gatherer, uint32_t i);
