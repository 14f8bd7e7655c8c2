/*
 * merge.h - one reply from the replies of several shards. Pure.
 *
 *   MGET a b c    shard 0 (a, c): *2 x z    shard 1 (b): *1 y    order 0 1 0   ─►   *3 x y z
 *   DEL           :2  :1                                                       ─►   :3
 *   any error     the first one, with the shard's name unless all shards answer the same error
 */
#pragma once

#include "shared/command/command.h"
#include "shared/reply.h"
#include "shared/resp.h"

struct block;
struct node;

/* One part's reply. */
struct shard_reply {
    const char *shard;   /* name of the shard */
    struct bytes frame;  /* one complete RESP frame; an error of the proxy when the shard failed */
    struct block *block; /* holds the frame */
    struct node *node;
    bool is_failure; /* the shard did not answer: `frame` is the proxy's error */
};

/* Replies with the error of one shard, its code first, and names the shard: "-NOBACKUP there is no such backup (shard 'b')". */
void reply_shard_refusal(struct reply *reply, const struct shard_reply *part);

struct merge {
    enum command_merge rule;
    const struct shard_reply *replies;
    uint32_t count;
    const uint16_t *order; /* MERGE_ARRAY: index of the reply that has element i */
    uint32_t order_count;
};

/* A reply of many elements is merged in portions (merge_go_on). Returns the size of the state between them, which the caller provides,
 * filled with zeros; 0: the reply is short, and merged at once. */
size_t merge_state_size(const struct merge *merge);
/* Writes the next portion; `reply` has nothing but this reply. True: there is more. */
bool merge_go_on(const struct merge *merge, void *state, struct reply *reply);
/* Writes the merged reply. Large elements are referenced in the replies' blocks, not copied. */
void merge_replies(const struct merge *merge, struct reply *reply);
