/*
 * recent.h - keeps rates and latencies of the last five minutes, so that the status page has plots as soon as it is opened.
 *
 *   worker 0, every 5 s: counters of shards, commands and the proxy ─► ring of 60 samples (mutex)
 *   HTTP thread: GET /status/history.json ◄───────────────────────────┘ the page loads it once, then adds samples of its own
 *
 * Memory: 1 KB for each shard or command with requests, at most RECENT_SERIES_MAX of each kind: at most 130 KB in all.
 */
#pragma once

#include "shared/json_writer.h"

enum {
    RECENT_EVERY_MS = 5000,
    RECENT_SAMPLES = 60,
    RECENT_SERIES_MAX = 64,
};

struct proxy_worker;
struct recent;

struct recent *recent_new(void);
void recent_free(struct recent *recent);
/* To be called once a second on worker 0. */
void recent_tick(struct recent *recent, struct proxy_worker *worker);
/* Adds members to the open object: "every_ms", "at_ms" and lists of values, the oldest first; null: nothing is known. */
void recent_write(struct recent *recent, struct json_writer *json);
