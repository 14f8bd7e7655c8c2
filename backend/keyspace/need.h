/*
 * need.h - what an attempt of a command needs of other shards (borrow.h), each thing once.
 *
 *   a command opens keys, reads rows ─► need_set_add ─► table: is it needed already?
 *                                                         └─ no ─► list, oldest first ─► need_set_take ─► LOCK
 */
#pragma once

#include "backend/context/tally.h"
#include "backend/format/encoding.h"
#include "backend/keyspace/lock.h"

struct space;

enum { NEED_BYTES = 32 }; /* of a need's place in a table, and of malloc */

enum need_kind {
    NEED_KEY = 1,   /* a metadata row, locked; and all rows if they are few */
    NEED_ROW = 2,   /* a row of a collection */
    NEED_RANGE = 3, /* the rows of a collection in one column family, from a row on */
    NEED_WATCH = 4, /* the key is watched at its owner */
    NEED_CHECK =
        5, /* watched keys of the owner are locked for reading, and it says whether one has changed */
    NEED_BARE = 6, /* as KEY, but its elements are not needed, apart from members that follow */
    NEED_MEMBER =
        7, /* the row of a member or field, in the version of the collection that its owner has */
    /* of all keys of a database at a shard (borrow_all.h): */
    NEED_ALL = 8,    /* they are locked and counted */
    NEED_NAMES = 9,  /* names, types and times of expiry, from a row on */
    NEED_PLACE = 10, /* the name of the key at a place */
    NEED_MODE =
        11, /* the key, whose rows were sent and which is locked for reading, is locked for writing */
};

/* Is the key locked? */
static inline bool need_locks(enum need_kind kind)
{
    return kind == NEED_KEY || kind == NEED_BARE || kind == NEED_MODE;
}

/* Is it about all keys of a database? */
static inline bool need_is_question(enum need_kind kind)
{
    return kind >= NEED_ALL && kind <= NEED_PLACE;
}

/* Is it rows of a key that is locked? */
static inline bool need_is_rows(enum need_kind kind)
{
    return kind == NEED_ROW || kind == NEED_RANGE || kind == NEED_MEMBER;
}

/* Something that a command read, or wants to write, and that is not here. */
struct need {
    struct need *next;
    struct need *chained; /* in the set's table */
    enum need_kind kind;
    enum lock_mode mode; /* of KEY, BARE and MODE, and of ALL … PLACE */
    enum cf cf;          /* of ROW and RANGE */
    struct space *space;
    uint16_t slot; /* the shard that owns it is asked; of ALL … PLACE: one of its slots */
    /* metadata row of the key; of ALL … PLACE: the prefix of these rows. Follows the struct */
    struct bytes row_key;
    /* of ROW and RANGE: the row, or the first one; of MEMBER: the member; of WATCH and CHECK: the watcher's name; of
     * ALL … PLACE: the question. Follows
     * the struct */
    struct bytes row;
};

struct need_set {
    struct need *first; /* oldest first */
    struct need **end;  /* NULL: the set is empty */
    struct need **table;
    uint32_t size; /* of the table: a power of two; 0: there is none */
    uint32_t count;
    struct tally *tally; /* counts the memory of the needs; NULL: it is not counted */
};

/* Memory of a need, with its place in a table. */
static inline size_t need_memory(const struct need *need)
{
    return sizeof *need + need->row_key.len + need->row.len + NEED_BYTES;
}

/* Adds a copy of the need. If the set has it, its lock mode becomes the stronger one. */
void need_set_add(struct need_set *set, const struct need *wanted);
/* Empties the set; the caller frees the returned needs (needs_free), which its tally still counts. */
struct need *need_set_take(struct need_set *set);
/* Empties the set. */
void need_set_clear(struct need_set *set);
/* Frees a need that this tally counts. */
void need_free(struct need *need, struct tally *tally);
/* Frees a list of them. */
void needs_free(struct need *needs, struct tally *tally);
