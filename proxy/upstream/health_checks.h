/*
 * health_checks.h - is each shard of the map up? Checked in the background, all shards at the same time.
 *
 *   main thread:  every health-interval, for each shard ─► connects ─► greeting (greeting.h), PING ─► result
 *                   at most connect-timeout for each                                                    │ mutex
 *   HTTP thread:  health_checks_get ◄───────────────────────────────────────────────────────────────────┘
 *
 * A check uses a new connection, and fails for every reason for which a new connection of a worker would fail: nothing
 * listens, TLS, a wrong cluster secret, another shard at the address. So a shard is not up only because something
 * answers there. A shard that executes a slow script (BUSY) is up. A copy that does not lead is down. A shard that owns none of its
 * slots, while no other shard owns them, is down: it refuses every command for its keys.
 *
 * A shard that was down and is up again is also reported to the workers, whose connections then do not wait for the end of
 * their backoff: as soon as /readyz succeeds, requests are sent.
 *
 * A check under way does not change the result; a shard that becomes silent is down after connect-timeout.
 */
#pragma once

#include "proxy/upstream/greeting.h"

struct health_checks;
struct loop;
struct proxy_snapshot;

enum { HEALTH_REASON_MAX = 256 };

struct shard_health {
    bool is_up;
    bool is_empty;                  /* it answers, and is down because it owns none of its slots */
    char reason[HEALTH_REASON_MAX]; /* why it is not up; empty when it is */
    struct greeting_self self;      /* of the last check that succeeded */
};

/* A check has found a shard again that was down; on the main thread. */
typedef void shard_back_fn(void *owner, const char *shard);

/* On the main thread, as all functions but health_checks_get. */
struct health_checks *health_checks_new(struct loop *loop, shard_back_fn *on_back, void *owner);
/* The first call begins the checks; later, a new map or new options are in force. Results of shards that keep name and address stay. */
void health_checks_configure(struct health_checks *checks, struct proxy_snapshot *snapshot);
/* Ends all checks; the results stay. Must be called before the loop ends. NULL is allowed. */
void health_checks_stop(struct health_checks *checks);
void health_checks_free(struct health_checks *checks); /* NULL is allowed */

/* Copies the results of map->shard_count shards; on any thread. */
void health_checks_get(struct health_checks *checks, const struct shard_map *map,
                       struct shard_health *to);
