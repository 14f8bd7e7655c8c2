/*
 * share.h - one worker's part of the status page: a copy of its counters and of some short lists.
 *
 * Filled on the worker's thread, then read on the HTTP thread (gather.h). The lists are bounded: the clients with most
 * unread output, and of equal ones the oldest; the hottest keys; the busiest keyspaces.
 */
#pragma once

#include "proxy/core/keyspace.h"
#include "shared/arena.h"
#include "shared/command/command.h"
#include "shared/shard_map.h"

struct proxy_worker;

enum { SHARE_CLIENTS_MAX = 24, SHARE_KEYS_MAX = 32, SHARE_KEYSPACES_MAX = 256 };

/* The worker's connections to one shard. */
struct share_shard {
    uint32_t open;
    uint32_t broken; /* connections that wait before the next attempt */
    uint32_t in_flight;
    uint64_t queued_bytes; /* not yet sent */
    struct bytes reason;   /* why a connection is broken; empty: none is broken */
};

struct share_client {
    uint64_t id;
    uint64_t age_s;
    uint64_t idle_s;
    uint64_t output_bytes; /* unread replies */
    uint64_t input_bytes;  /* requests that were not executed yet */
    uint32_t in_flight;
    uint8_t db;
    struct bytes address;
    struct bytes name;
    struct bytes user;
    struct bytes space;
    struct bytes library;
    struct bytes command; /* the last command */
    struct bytes flags;   /* as in CLIENT LIST */
};

struct share_key {
    double per_second;
    struct bytes name; /* as hot_keys_each() gives it */
};

struct share_keyspace {
    uint32_t clients;
    bool is_ephemeral;
    struct bytes name;
};

struct share_counts {
    struct bytes name; /* of a namespace; empty: none */
    struct namespace_counts counts;
};

struct share {
    struct arena arena; /* holds all bytes below */
    uint64_t at_us;     /* monotonic; 0: never filled */
    uint32_t slot_hits[SLOT_COUNT];
    struct shard_map *map;      /* a reference; NULL: none yet */
    struct share_shard *shards; /* [map->shard_count]; in the arena */
    struct share_client clients[SHARE_CLIENTS_MAX];
    struct share_key keys[SHARE_KEYS_MAX];
    struct share_keyspace keyspaces[SHARE_KEYSPACES_MAX];
    struct share_counts counts[SHARE_KEYSPACES_MAX];
    uint32_t counted;
    uint32_t client_count;
    uint32_t key_count;
    uint32_t keyspace_count;
};

struct share *share_new(void);
void share_free(struct share *share);
/* On the worker's thread: replaces the content. */
void share_fill(struct share *share, struct proxy_worker *worker);
