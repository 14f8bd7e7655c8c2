/*
 * sim_leader.h - a partition that is a copy in a group, of which the test is the rest: it leads, is replaced, and leads again.
 *
 *   sim_leader_begin ─► SERVING ──lose──► FOLLOWING ──take──► SERVING, of a later term …
 *
 * The other copies commit nothing while they lead. So what was committed is there when the partition leads again, and nothing else.
 */
#pragma once

#include <stdbool.h>

struct partition;

/* Before peering_configure: the partition leads from its first turn on. */
void sim_leader_begin(struct partition *partition);
/* It loses its role. False: not now, because it has none, its disk has failed, or the commit thread writes. */
bool sim_leader_lose(struct partition *partition);
/* It leads again, if it does not. */
void sim_leader_take(struct partition *partition);
