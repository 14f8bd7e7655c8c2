/*
 * limits.h - max-keys and max-bytes of namespaces: the shards enforce them, and the proxy carries figures between the shards.
 *
 *   worker 0, in rounds, for each namespace with limits:
 *       SCREE GRANTS ──► each shard    the limits, what the other shards have, the shard's part of max-keys
 *       reply        ◄──               the keys and bytes of this shard, and how many keys it may have at most
 *
 *   each new connection:       the same without a grant, before the first command of a namespace with limits; so a shard that has
 *                              just started has the limits before it gets commands
 *
 * The shards share max-keys exactly, and worker 0 of one proxy is the coordinator (shared/key_grants.h). With one shard nothing is
 * shared, and SCREE LIMITS is sent. max-bytes is compared with the bytes here and those of the last answers of the others.
 * Bytes of all namespaces are carried too, for maxmemory.
 */
#pragma once

#include "proxy/core/keyspace.h"

struct limits;
struct out;

/* `id`: of this proxy; not 0. */
struct limits *limits_new(uint64_t id);
void limits_free(struct limits *limits);
/* To be called for a new keyspace, and when its configuration has changed: sets keyspace->limit. `limits` NULL: there are none. */
void limits_follow(struct limits *limits, struct keyspace *keyspace);
/* To be called when the keyspace is freed: releases its limit. */
void limits_forget(struct limits *limits, struct keyspace *keyspace);
/* A number that changes when a namespace gets limits, or other limits. */
uint64_t limits_version(struct limits *limits);
/* Writes SCREE LIMITS for this shard, with the limits of the keyspace and of others. */
void limits_write(struct limits *limits, const struct keyspace *keyspace, const char *shard,
                  struct out *out);

/* What is known of a namespace with limits. */
struct limit_figures {
    uint64_t max_keys; /* 0: unlimited */
    uint64_t max_bytes;
    uint64_t keys; /* at all shards, as of their last answers */
    uint64_t bytes;
    bool is_known; /* all shards have answered */
};
/* False: the namespace has no limits, or no clients at this proxy. */
bool limits_find(struct limits *limits, struct bytes name, struct limit_figures *figures);
