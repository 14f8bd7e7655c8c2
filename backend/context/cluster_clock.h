/*
 * cluster_clock.h - one time for all shards of a map, whatever the clocks of their machines say.
 *
 *   system clocks of all shards ── STATUS (link.h) ──► offsets to our monotonic clock ──► their median
 *                                                                                           │
 *                                              clock_wall_us() of this process ◄────────────┘
 *
 * A time of expiry is an absolute time. Other shards than the one that made it also judge by it: when a transaction over
 * shards uses the key, and after its slot has moved. If each judged by the clock of its machine, a clock that is a minute fast
 * would delete keys a minute early.
 *
 * (1) Every shard of the map has one vote: its system clock, as its answer to a STATUS request says. The error is at most half of
 *     the round trip.
 * (2) The time of the cluster is the median of the votes; of the two middle ones the earlier, because a key that lives too
 *     long is the smaller harm. So a minority of wrong clocks changes nothing, and a single fast clock expires nothing.
 * (3) A process whose own clock agrees with the median within the error follows its own clock. In a cluster with good clocks
 *     nothing is corrected.
 * (4) The time runs with the monotonic clock, so that a system clock which is set anew changes one vote, and not the time.
 * (5) The time approaches the median by at most 1 % of the time that passes. It jumps there only when all shards are heard for
 *     the first time, or if more than half of all shards have clocks near the median: then the clocks were put right.
 * (6) A shard that does not answer keeps the vote that it had. One that was never heard has none.
 * (7) Until all shards, or more than half of them with clocks that agree, are heard, commands for data wait; at most
 *     CLUSTER_CLOCK_WAIT_US, since other shards may be down.
 *
 * All functions may be called from any thread: the partitions of a process share one clock.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    CLUSTER_CLOCK_WAIT_US = 1000000,
    CLUSTER_CLOCK_NEAR_US = 500000, /* clocks that differ by less are near each other (5) */
};

struct cluster_clock;
struct shard_map;

struct cluster_clock *cluster_clock_new(void);
void cluster_clock_free(struct cluster_clock *clock);
/* A shard's system clock showed `wall_us` when our monotonic clock showed `mono_us`, or at most error_us earlier or later. A time
 * that no clock shows, from 2^62 on, is not heard. */
void cluster_clock_heard(struct cluster_clock *clock, struct bytes shard, uint64_t wall_us,
                         uint64_t mono_us, uint64_t error_us);
/* No link to the shard is left: it has no vote until it is heard again. */
void cluster_clock_forget(struct cluster_clock *clock, struct bytes shard);
/* To be called several times a second by each partition that has a place in a map, with its name. Sets the time of the process. */
void cluster_clock_tick(struct cluster_clock *clock, const struct shard_map *map,
                        struct bytes own_shard);
/* Is the time of the cluster known, or has the wait for it ended (7)? */
bool cluster_clock_is_known(const struct cluster_clock *clock);
/* How much our system clock is ahead of the time of the cluster, in µs. */
int64_t cluster_clock_own_skew(struct cluster_clock *clock);
/* How much the shard's system clock is ahead of the time of the cluster, in µs; 0 also if it was never heard. */
int64_t cluster_clock_skew_of(struct cluster_clock *clock, struct bytes shard);
