/*
 * step_down.h - a partition that serves leads no more: another copy of its shard does, or will.
 *
 *   closed ─► links to other shards are cut, without a message ─► batches are rolled back ─► replies ─► it follows, and reads anew
 *
 * (1) The record of the batch in flight may be on enough copies, or not: the next leader decides, and then the record comes by the log.
 *     So replies that wait for it are "may have been executed". Nothing of the open batch has left: its replies are TRYAGAIN.
 * (2) What the partition does for other shards as a leader is forgotten: transactions over shards, moves, keys that arrive. The next leader
 *     finds their records, and other shards ask it. A message of this one could contradict it, as it cannot know which records count.
 * (3) Requests that wait for anything (rows, locks, other shards) run again, and are refused or sent to the leader. Commands that wait for
 *     keys are given back to their proxy, which asks the leader; other clients get Redis' error. Clients that are subscribed are
 *     disconnected, since messages are published at the leader.
 */
#pragma once

struct partition;

/* The partition is open, no command runs, and the commit thread does not write. Afterwards it is closed and follows. */
void step_down(struct partition *partition);
