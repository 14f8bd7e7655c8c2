/*
 * keyspace.h - a namespace and a database, once in each worker.
 *
 *   client's session ──► keyspace {name, db, entry} ◄── upstream: where the session of its connection is
 *
 * As a worker has each pair once, comparing two keyspaces is comparing two pointers.
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
struct table;

enum { DATABASES = 16 }; /* that SELECT takes; a backend may have fewer (its option `databases`) */

struct keyspace {
    uint32_t refs;
    uint32_t clients;              /* sessions of this worker that are here */
    const struct namespace *entry; /* of the snapshot in force; NULL: no namespace, or gone */
    struct metric_cell *cell;      /* of the namespace; NULL: nothing is counted. proxy_metrics.h */
    struct rate_limiter *rate_limiter; /* NULL: no limits; rate.h */
    uint64_t *requests;                /* of all keyspaces of this namespace; the worker's */
    struct list waiting;               /* clients, at a limit */
    struct list rate_link;             /* in what waits on the worker */
    uint64_t kept_ms; /* of an ephemeral one: when SCREE KEEP was last sent; monotonic */
    bool is_gone;     /* its namespace is no longer in the configuration */
    bool is_proven;   /* a backend has accepted the switch to it */
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
    uint32_t thread;                     /* for `labelled` */
    struct rate_limiters *rate_limiters; /* of all workers; NULL: no limits hold */
    struct table *requests;              /* by namespace, uint64_t; stays when its keyspaces go */
    uint64_t more_requests;              /* of namespaces beyond PLACES_COUNTED_MAX */
};

void keyspaces_init(struct keyspaces *keyspaces, const struct namespaces *namespaces,
                    struct rate_limiters *rate_limiters);
void keyspaces_fini(struct keyspaces *keyspaces);
/* The keyspace, with one reference for the caller. An empty name: no namespace. */
struct keyspace *keyspaces_get(struct keyspaces *keyspaces, struct bytes name, uint8_t db);
struct keyspace *keyspace_ref(struct keyspace *keyspace);
/* NULL is allowed. */
void keyspace_unref(struct keyspaces *keyspaces, struct keyspace *keyspace);
/* After a reload: every keyspace finds its entry in the new namespaces, or is_gone. */
void keyspaces_update(struct keyspaces *keyspaces, const struct namespaces *namespaces);
