/*
 * gather.h - every worker's share, fetched from another thread that may not wait for long.
 *
 *   HTTP thread: gatherer_run ──loop_post──► worker: fills its `fresh` share, says so under the mutex
 *                     │ waits, at most GATHER_WAIT_MS             │
 *                     └─ swaps `fresh` and `shown` ◄──────────────┘    who is late shows what it told before
 *
 * A worker has at most one visit under way, however often somebody asks.
 */
#pragma once

#include "proxy/status/share.h"

enum { GATHER_WAIT_MS = 200 };

struct gatherer;
struct proxy;

/* Of a proxy whose workers run; their loops must be gone before gatherer_free. */
struct gatherer *gatherer_new(struct proxy *proxy);
void gatherer_free(struct gatherer *gatherer);
/* Asks all workers; returns how many of them have not answered in time. One thread at a time. */
uint32_t gatherer_run(struct gatherer *gatherer);
uint32_t gatherer_count(const struct gatherer *gatherer);
/* What worker i told last; stays as it is until gatherer_run is called. NULL: it has told nothing yet. */
const struct share *gatherer_share(struct gatherer *gatherer, uint32_t i);
