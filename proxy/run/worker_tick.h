/*
 * worker_tick.h - a worker's periodic work: deadlines every 20 ms while there are any, limits and gauges every second,
 * the end of each turn of the loop.
 */
#pragma once

#include "proxy/core/worker.h"

/* Timer functions and turn_hook_fn; `owner` is the worker. */
void worker_tick(void *owner);
void worker_slow(void *owner);
bool worker_end_turn(void *owner);
/* Frees `count` unused requests. */
void worker_free_requests(struct proxy_worker *worker, uint32_t count);
