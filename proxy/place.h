/*
 * place.h - a namespace and a database, once in each worker.
 *
 *   client's session ──► place {name, db, entry} ◄── upstream: where the session of its connection is
 *
 * As a worker has each pair once, comparing two places is comparing two pointers.
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

struct place {
    uint32_t refs;
    uint32_t clients;              /* sessions of this worker that are here */
    const struct namespace *entry; /* of the snapshot in force; NULL: no namespace, or gone */
    struct metric_cell *cell;      /* of the namespace; NULL: nothing is counted. proxy_metrics.h */
    struct rate_limiter *rate_limiter; /* NULL: no limits; rate.h */
    uint64_t *requests;                /* of all places of this namespace; the worker's */
    struct list waiting;               /* clients, at a limit */
    struct list rate_link;             /* in what waits on the worker */
    uint64_t kept_ms; /* of an ephemeral one: when SCREE KEEP was last sent; monotonic */
    bool is_gone;     /* its namespace is no longer in the configuration */
    bool is_proven;   /* a backend has accepted the switch to it */
    uint8_t db;
    struct bytes name; /* of the namespace; empty: none */
    char text[];
};

enum { PLACES_COUNTED_MAX = 1024 };

/* The places of one worker. */
struct places {
    struct table *by_name;
    const struct namespaces *namespaces; /* of the snapshot in force */
    struct proxy_metrics *labelled;      /* NULL: nothing is counted */
    uint32_t thread;                     /* for `labelled` */
    struct rate_limiters *rate_limiters; /* of all workers; NULL: no limits hold */
    struct table *requests;              /* by namespace, uint64_t; stays when its places go */
    uint64_t more_requests;              /* of namespaces beyond PLACES_COUNTED_MAX */
};

void places_init(struct places *places, const struct namespaces *namespaces,
                 struct rate_limiters *rate_limiters);
void places_fini(struct places *places);
/* The place, with one reference for the caller. An empty name: no namespace. */
struct place *places_get(struct places *places, struct bytes name, uint8_t db);
struct place *place_ref(struct place *place);
/* NULL is allowed. */
void place_unref(struct places *places, struct place *place);
/* After a reload: every place finds its entry in the new namespaces, or is_gone. */
void places_update(struct places *places, const struct namespaces *namespaces);
