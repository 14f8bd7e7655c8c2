/*
 * check.h - --check-data: checks every row of a store, by itself and against related rows.
 *
 *   metadata ─► format; expiry index; rows of its collection: format, number, both sides of a zset, ranks
 *   rows     ─► orphans, which belong to no key, are counted; compaction will drop them
 *   counters ─► equal to the number of keys found in each slot
 *
 * --repair corrects what can be computed from other rows: sizes, counters, expiry index and score index; a rank tree is
 * removed, and built again by the next change. Rows that cannot be decoded are reported and not changed; with
 * --drop-damaged too, keys whose metadata row cannot be decoded are deleted: no command can open, replace or delete them.
 */
#pragma once

#include "backend/format/encoding.h"
#include "backend/store/store.h"
#include "shared/table.h"

struct check {
    struct storage *storage;
    struct store *store; /* the tables of `storage` */
    const char *name;    /* "partition-0" */
    bool repairs;
    bool drops; /* keys whose metadata row cannot be decoded are deleted */
    struct effects *effects;
    struct arena arena;   /* for the current key */
    struct table *counts; /* storage namespace → struct counts */
    uint64_t keys;
    uint64_t rows;
    uint64_t orphans;
    uint64_t stale; /* rows of the expiry index whose key has another TTL, or does not exist */
    uint64_t problems;
    uint64_t repaired;
    bool has_failed; /* the store could not be read or written */
};

/* One key with its decoded row. */
struct checked {
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    struct bytes row; /* its metadata row */
    struct bytes prefix;
    struct metadata meta;
};

/* Reports a problem; `can_repair`: the caller corrects it if check->repairs. */
void check_problem(struct check *check, const struct checked *key, bool can_repair,
                   const char *what);
/* Writes the collected repairs if there are many of them or `now` is true. */
void check_flush(struct check *check, bool now);
/* Checks the value of a key: its payload, or the rows of its collection. */
void check_value(struct check *check, const struct checked *key);
/* Does each block of the key's rank tree count what lies below it? True if there is no tree. */
bool check_ranks_are_right(struct check *check, const struct checked *key);
