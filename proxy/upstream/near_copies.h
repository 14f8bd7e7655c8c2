/*
 * near_copies.h - which copies of a shard are in the zone of this proxy: reads go to those first.
 *
 *   node->copies.nodes:  near, near │ far, far …       both in the order of their addresses, without the leader
 *                                   └ copies.near_count
 *
 * Without a zone of the proxy all copies are far, and equal. The order is made anew when the copies, the proxy's zone, or what a copy says
 * of its zone have changed.
 */
#pragma once

struct pool;

/* To be called before copies are chosen: at most one comparison if nothing has changed. */
void near_copies_update(struct pool *pool);
