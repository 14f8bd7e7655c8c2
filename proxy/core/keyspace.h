/*
 * keyspace.h - a namespace and a database, once in each worker.
 *
 *   client's session ──► keyspace {name, db, entry} ◄── upstream: keyspace of its session at the backend
 *
 * A worker has each pair once, so two keyspaces are compared by their pointers.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/list.h"

#include <stdbool.h>
#include <stdint.h>

struct proxy_metrics;
struct rate_limiter;
struct rate_limiters;
struct metric_cell;
struct namespace;
struct namespaces;
struct limit;
struct limits;
struct share;
struct shares;
struct table;

/* Most databases that SELECT takes; a backend may have fewer (its option `databases`). */
enum { DATABASES = 16 };

/* What a worker has counted of a namespace, in all its databases. */
struct namespace_counts {
    uint64_t requests;
    /* Commands and transactions that had keys of several shards and were not split. */
    uint64_t over_shards;
};

struct keyspace {
    uint32_t refs;
    uint32_t clients; /* number of this worker's sessions in the keyspace */
    /* its row of the configuration in force; NULL: no namespace, or a removed one */
    const struct namespace *entry;
    struct metric_cell *cell; /* counters of the namespace; NULL: not counted. proxy_metrics.h */
    struct rate_limiter *rate_limiter; /* NULL: no limits; rate_limiter.h */
    struct limit *limit;               /* of keys and bytes; NULL: none. limits.h */
    struct share *share;               /* its connections; NULL: not counted. shares.h */
    struct namespace_counts *counts;
    struct list waiting;   /* clients that wait at a limit */
    struct list rate_link; /* in rate_waits->keyspaces, while clients wait */
    uint64_t kept_ms;      /* ephemeral namespaces: when SCREE KEEP was last sent; monotonic */
    bool is_gone;          /* the namespace is no longer in the configuration */
    bool is_proven;        /* a backend has accepted SELECT or SCREE USE for it */
    uint8_t db;
    struct bytes name; /* of the namespace; empty: none */
    char text[];
};

enum { KEYSPACES_COUNTED_MAX = 1024 };

/* The keyspaces of one worker. */
struct keyspaces {
    struct table *by_name;
    const struct namespaces *namespaces; /* of the snapshot in force */
    struct proxy_metrics *labelled;      /* NULL: nothing is counted */
    uint32_t thread;                     /* index of the worker in `labelled` */
    struct rate_limiters *rate_limiters; /* shared by all workers; NULL: there are no limits */
    struct limits *limits;               /* as rate_limiters */
    struct shares *shares;               /* likewise; NULL: nothing is counted */
    struct table *
        counts; /* struct namespace_counts by name of the namespace; kept when keyspaces are freed */
    struct namespace_counts more; /* of namespaces beyond KEYSPACES_COUNTED_MAX */
};

void keyspaces_init(struct keyspaces *keyspaces, const struct namespaces *namespaces,
                    struct rate_limiters *rate_limiters, struct limits *limits);
void keyspaces_fini(struct keyspaces *keyspaces);
/* Finds or makes the keyspace; the caller gets a reference. An empty name: no namespace. */
struct keyspace *keyspaces_get(struct keyspaces *keyspaces, struct bytes name, uint8_t db);
struct keyspace *keyspace_ref(struct keyspace *keyspace);
/* NULL is allowed. */
void keyspace_unref(struct keyspaces *keyspaces, struct keyspace *keyspace);
void keyspace_count_over_shards(const struct keyspace *keyspace);
/* After a reload: finds every keyspace's row in the new configuration, or sets is_gone. */
void keyspaces_update(struct keyspaces *keyspaces, const struct namespaces *namespaces);
