/*
 * cluster_heard.h - what a copy that does not lead has heard from its leader about the shards of the map: who leads them, and how far their
 * copies are. It has no connections to other shards itself.
 *
 *   leader: links to other shards, own copies ─► cluster_heard_write ─► PEER_LEADERS ─► cluster_heard_read ─► CLUSTER, MOVED
 */
#pragma once

#include "backend/peer/frame.h"

struct cluster_heard;
struct out;

/* Of one shard. */
struct heard_shard {
    char leader[PEER_ADDRESS_MAX + 1];
    bool is_lost;      /* nothing was heard of the leader for a while */
    uint64_t offset;   /* of its log */
    uint64_t heard_ms; /* wall clock */
    struct peer_copies copies;
};

/* Appends what the leader knows of a shard to the payload of a message. */
void cluster_heard_write(const char *name, const struct heard_shard *shard, struct out *out);
/* Replaces *heard by what the payload says. False: the payload is not valid, and *heard is as before. */
bool cluster_heard_read(struct bytes payload, struct cluster_heard **heard);
/* NULL: nothing was heard of the shard, or at all. */
const struct heard_shard *cluster_heard_of(const struct cluster_heard *heard, const char *shard);
void cluster_heard_free(struct cluster_heard *heard); /* NULL is allowed */
