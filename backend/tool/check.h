/*
 * check.h - --check-data: every row of a store against what other rows say of it.
 *
 *   metadata ─► its own form; expiry index; rows of its collection: form, number, both sides of a zset, ranks
 *   rows     ─► those that no key has (orphans) are counted: compaction will drop them
 *   counters ─► as many keys in each slot as were found
 *
 * --repair mends what follows from the rows themselves: sizes, counters, the expiry and the score index; a rank tree is
 * removed, the next change makes it anew. Rows that cannot be decoded are told and left alone.
 */
#pragma once

#include "backend/format/encoding.h"
#include "backend/store/store.h"
#include "shared/table.h"

struct check {
    struct store *store;
    const char *name; /* "partition-0" */
    bool repairs;
    struct effects *effects;
    struct arena arena;   /* of the key at hand */
    struct table *counts; /* storage namespace → struct counts */
    uint64_t keys;
    uint64_t rows;
    uint64_t orphans;
    uint64_t stale; /* rows of the expiry index whose key has another time, or is gone */
    uint64_t problems;
    uint64_t repaired;
    bool has_failed; /* the store could not be read or written */
};

/* One key with its decoded row. */
struct checked {
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    struct bytes row; /* its metadata key */
    struct bytes prefix;
    struct metadata meta;
};

/* Tells a problem; `can_repair`: the caller puts it right when check->repairs. */
void check_problem(struct check *check, const struct checked *key, bool can_repair,
                   const char *what);
/* Writes the repairs collected so far when they are many, or `now`. */
void check_flush(struct check *check, bool now);
/* The value of a key: its payload, or the rows of its collection. */
void check_value(struct check *check, const struct checked *key);
