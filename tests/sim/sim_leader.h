/*
 * sim_leader.h - a partition that is a copy in a group, of which the test is the rest: it leads, is replaced, and leads again.
 *
 *   sim_leader_new ─► SERVING ──lose──► FOLLOWING ──take──► SERVING, of a later term …
 *                        │
 *      batch ─► commit_log ─► own log ─ a moment later ─► committed
 *
 * The other copies have the batch in flight when the partition loses its role, or have not, by chance. They commit nothing while they
 * lead, but a first record of their own. So what was acknowledged is there when the partition leads again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct partition;
struct sim_leader;

/* Before peering_configure: the partition leads from its first turn on. `term` is the last one of its group, which the caller keeps while the
 * process is down, as a copy keeps it on its disk: other shards have heard it. */
struct sim_leader *sim_leader_new(struct partition *partition, uint64_t *term);
/* Before the partition is freed. NULL is allowed. */
void sim_leader_free(struct sim_leader *leader);
/* It loses its role. False: not now, because it has none, or its disk has failed. */
bool sim_leader_lose(struct sim_leader *leader);
/* It leads again, if it does not. */
void sim_leader_take(struct sim_leader *leader);
