/*
 * copy_control.h - the connection for commands that one copy of a shard is to carry out itself, whether it leads or not: parts of a backup.
 *
 *   node of shard a ──copies──► node at another address of the map ──shared[LANE_CONTROL]──► connection
 *
 * A copy that follows need not answer: a request fails when it is not reached at once, or has not answered for PATIENCE_MS. After that the next request
 * connects anew. A copy that has begun to lead is refused (greeting.h).
 */
#pragma once

struct node;
struct pool;
struct upstream;

/* The connection to this copy, for upstream_send_words with RESP2. */
struct upstream *copy_control(struct pool *pool, struct node *copy);
