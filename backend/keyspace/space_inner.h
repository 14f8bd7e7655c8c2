/*
 * space_inner.h - what the files of storage namespaces share (space.h).
 *
 *   space.c ────────────► the set of namespaces, their limits, and rolling back
 *   space_maps.c ───────► SWAPDB: the database map of each namespace
 *   space_counters.c ───► keys per slot, and their rows
 *   ttl_hashes.c ───────► hashes per slot whose fields have TTLs; no rows
 */
#pragma once

#include "backend/keyspace/count_rows.h"
#include "backend/keyspace/space.h"
#include "backend/keyspace/ttl_hashes.h"
#include "shared/arena.h"

struct table;

enum { GROUPS = 16384 / COUNTER_SLOTS };

/* Keys of one slot of one storage namespace. */
struct counter {
    struct holder *holder;
    struct counter *next;       /* of the same namespace */
    struct counter *next_dirty; /* in holder->dirty */
    uint64_t keys;
    uint64_t expires;
    uint64_t ttl_hashes; /* hashes whose fields have TTLs; not stored */
    uint16_t slot;
    bool dirty;
    bool is_miscounted; /* its row was damaged, which was logged */
};

/* The slots of one counter row. */
struct group {
    struct holder *holder;
    struct group *next_stale;
    uint64_t stale_since; /* oldest journal row whose values the counter row lacks; 0: none */
};

/* A storage namespace, with its counters. */
struct holder {
    struct space space;
    struct counter *counters;
    size_t counters_count;
    struct counter **by_slot; /* NULL while there are few counters */
    struct counter *dirty;    /* changed since the last batch was closed */
    uint16_t dirty_count;
    struct holder *next_dirty; /* in set->dirty */
    struct group groups[GROUPS];
    char name[];
};

/* The storage namespaces of databases 0, 1, 2 … of a namespace. */
struct database_map {
    uint8_t storage[DATABASES_MAX];
    struct space *spaces[DATABASES_MAX]; /* results of space_open; NULL: not opened yet */
};

struct undo {
    struct counter *counter; /* NULL: the entry is a change of `elsewhere`, … */
    struct space *space; /* … or, if this is NULL, a swap of databases `a` and `b` of `name` */
    int64_t keys;
    int64_t expires;
    int64_t ttl_hashes;
    struct bytes name; /* namespace of the session */
    uint8_t a, b;
};

/* Values of counters before their changes, oldest first. */
struct undo_log {
    struct undo *items;
    size_t count;
    size_t cap;
};

/* The part of the log that an inner rollback undoes. */
struct undo_mark {
    bool is_on;
    size_t from; /* undo.count when it began */
};

struct limit_set {
    struct table *by_name; /* namespace → space_limit */
    struct space_limit of_all;
};

/* `changes` of the set, to which rollbacks return. */
struct change_marks {
    uint64_t savepoint;
    uint64_t attempt; /* when the attempt began */
    uint64_t script;  /* when the script began */
    uint64_t queue;   /* when the queue of an EXEC began */
};

/* The attempt of a command over shards that runs now. If it needs keys of other shards, it is rolled back, and runs again or goes on later. */
struct attempt_mark {
    bool is_on;
    bool has_waited; /* and goes on: what it did before is in no counter (space_count_sums) */
};

struct space_set {
    struct overlay *overlay;
    struct table *holders; /* storage namespace → holder */
    struct table *maps;    /* namespace → database_map */
    struct limit_set limits;
    struct table *counters; /* holder address | slot → counter */
    struct holder *dirty;
    struct group *stale; /* oldest first */
    struct group **stale_end;
    uint64_t serial;               /* of the newest journal row */
    const struct slot_set *served; /* slots that the sums include; NULL: all */
    uint64_t keys;                 /* keys of all namespaces */
    uint64_t changes;              /* since the start, see call_changes */
    struct change_marks marks;
    struct holder **order; /* all holders, in order of creation */
    size_t order_count;
    uint64_t generation;
    size_t savepoint; /* undo.count at the savepoint */
    struct attempt_mark attempt;
    struct undo_mark script;   /* while it is on, a script runs: savepoints keep the undo log */
    struct undo_mark queue;    /* the same for the queue of an EXEC */
    space_swapped_fn *on_swap; /* NULL: none */
    void *swap_owner;
    struct arena arena; /* for rows that are being composed */
    struct undo_log undo;
    struct ttl_hash_walk walk;
};

static inline struct holder *holder_of(struct space *space)
{
    return container_of(space, struct holder, space);
}

/* ---- space.c ---- */

/* The storage namespace with this name, which is made if it is new. */
struct holder *space_holder_open(struct space_set *set, struct bytes name);
/* Room for a change in the undo log; to be filled by the caller. */
struct undo *space_undo_add(struct space_set *set);

/* ---- space_maps.c ---- */

/* The map of a namespace, which is made if it is new. */
struct database_map *space_map_open(struct space_set *set, struct bytes name);
/* Reads all database maps. False: the store failed or a row is damaged. */
bool space_maps_load(struct space_set *set);
/* Swaps two databases in the map in memory. The overlay rolls back the map's row. */
struct database_map *space_map_swap(struct space_set *set, struct bytes name, uint8_t a, uint8_t b);

/* ---- space_counters.c ---- */

/* stored_count_fn: sets a counter to its stored value. */
bool space_load_count(void *owner, struct bytes space, const struct slot_count *count,
                      uint64_t serial);
/* Sets all counters to zero, as if none were stored, and empties the undo log. */
void space_forget_counts(struct space_set *set);
/* The counter of a slot, which is made if it is new. */
struct counter *space_counter_open(struct space_set *set, struct holder *holder, uint16_t slot);
/* Changes a counter without an entry in the undo log. */
void space_counter_add(struct space_set *set, struct counter *counter, int64_t keys,
                       int64_t expires);
/* The same of its hashes whose fields have TTLs. They are never fewer than none: a walk does not find a hash of which a
 * move has deleted all but the metadata row. */
void space_ttl_hashes_add(struct space_set *set, struct counter *counter, int64_t change);
