/*
 * rdb_elements.h - the elements of a collection in RDB format, one by one, whatever its form.
 *
 *   form        what follows the type byte (and the soonest time, if has_base)
 *   units       count, then units of one to three parts:            s s │ s s │ …
 *   one pack    a listpack, ziplist or intset as one string:        [a b c d]
 *   nodes       count, then packs, or single elements between them: [a b] │ c │ [d e]
 *                    │
 *                    ▼  rdb_elements_next
 *   struct rdb_element {name, value, score, expire_ms}
 *
 * RESTORE makes rows of the elements (commands/rdb_load.c); scree-copy makes commands or a digest of them (copy/). A part of a
 * collection, which is some whole units or nodes, is read in the same way: rdb_elements_part().
 */
#pragma once

#include "backend/format/encoding.h"
#include "backend/format/rdb.h"

typedef enum rdb_pack pack_next_fn(struct arena *arena, struct bytes pack, size_t *at,
                                   struct bytes *element);

/* A type byte before a value, and how the value is written. */
struct rdb_form {
    enum rdb_type rdb;
    enum type type;
    /* The parts of a unit: s name, v value, x score as text, d score as double, t time to live, m time. NULL: packs. */
    const char *unit;
    pack_next_fn *next; /* reads a pack */
    unsigned each;      /* elements of a pack that belong together */
    bool has_nodes;     /* the packs are counted; else there is one */
    bool may_be_plain;  /* before each node stands whether it is a pack */
    bool has_base;      /* the soonest time to live stands first */
    bool is_relative;   /* times to live count from it */
};

/* NULL: the type byte is none of a string or collection. `version` is that of the format. */
const struct rdb_form *rdb_form_of(uint8_t type, uint64_t version);

struct rdb_element {
    struct bytes name;  /* element of a list, member, field, or a string's text */
    struct bytes value; /* of a field */
    double score;
    uint64_t expire_ms; /* of a field; 0: none */
};

struct rdb_elements {
    const struct rdb_form *form;
    struct rdb_reader *reader;
    uint64_t base_ms; /* soonest time to live */
    uint64_t left;    /* units or nodes that have not been read */
    struct bytes pack;
    size_t at; /* in the pack */
    bool in_pack;
};

/* Reads what stands before the first unit or node; the type byte has been read. */
bool rdb_elements_begin(struct rdb_elements *elements, struct rdb_reader *reader,
                        const struct rdb_form *form);
/* The reader's bytes are `count` units or nodes of a collection that begins like `whole`. */
void rdb_elements_part(struct rdb_elements *elements, struct rdb_reader *reader,
                       const struct rdb_elements *whole, uint64_t count);
enum rdb_pack rdb_elements_next(struct rdb_elements *elements, struct rdb_element *element);
/* Skips a unit or node without decoding it. */
bool rdb_elements_skip(struct rdb_elements *elements);

/* Writes an element of a collection of this type, of which the row has this sub key and value, in the plain form (rdb_plain_type). */
void rdb_write_element(struct rdb_writer *writer, enum type type, struct bytes sub,
                       struct bytes value);
/* The type byte of a collection that is written element by element. */
enum rdb_type rdb_plain_type(enum type type);
