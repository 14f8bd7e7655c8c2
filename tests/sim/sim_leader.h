/*
 * sim_leader.h - a partition that is a copy in a group, of which the test is the rest: it leads, is replaced, and leads again.
 *
 *   sim_leader_new ─► SERVING ──lose──► FOLLOWING ──take──► SERVING, of a later term …
 *                        │
 *      batch ─► commit_log ─► own log ─ a moment later ─► committed
 *
 * The other copies have the batch in flight when the partition loses its role, or have not, by chance. They commit nothing while they
 * lead, but a first record of their own. So what was acknowledged is there when the partition leads again. A partition that follows when
 * its process ends follows when it starts again. A disk that refuses a record ends the role; one that is full refuses batches.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct partition;
struct sim_leader;

/* What the caller keeps while the process is down: a copy has it on its disk, and the others know it. All 0 for a new group. */
struct sim_leader_kept {
    uint64_t term;      /* the last one; other shards have heard it */
    uint64_t committed; /* the last record that the group has committed */
    bool follows;       /* the partition does not lead */
};

/* Before peering_configure: the partition leads from its first turn on, or follows. */
struct sim_leader *sim_leader_new(struct partition *partition, struct sim_leader_kept *kept);
/* Before the partition is freed. NULL is allowed. */
void sim_leader_free(struct sim_leader *leader);
/* Its disk has no room for records until this time. */
void sim_leader_fill_disk(struct sim_leader *leader, uint64_t until_us);
/* It loses its role. False: not now, or it has none. */
bool sim_leader_lose(struct sim_leader *leader);
/* A partition that follows leads again. False: not now. */
bool sim_leader_take(struct sim_leader *leader);
