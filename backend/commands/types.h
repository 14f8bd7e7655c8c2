/*
 * types.h - functions of each data type, in addition to its row in backend/format/types.def.
 *
 * A new type needs a row in types.def and a file with its commands and its `type_<ID>_functions`; without them it does
 * not link. A unit test checks the members.
 */
#pragma once

#include "backend/context/call.h"
#include "backend/format/encoding.h"
#include "backend/format/rdb.h"

/* Writes the type byte and the value of an existing key. False: the store failed (replied). */
typedef bool rdb_save_fn(struct call *call, struct entry *entry, struct rdb_writer *writer);
/* Reads a value of this form into the key. For a collection it writes the elements, and rdb_load() writes the
 * metadata row; for an inline type it writes the row, with expire_ms. False: the payload is damaged, or an error was
 * replied. */
typedef bool rdb_load_fn(struct call *call, struct entry *entry, struct rdb_reader *reader,
                         enum rdb_type form, uint64_t expire_ms);
/* The encoding that Redis would use for the value. */
typedef const char *encoding_fn(struct call *call, struct entry *entry);

/* The rows that SORT reads, and the element in each row. */
struct sort_source {
    enum cf cf;
    struct bytes from; /* key of the first row; empty: the first of all */
    bool is_reverse;
    bool is_value; /* the element is the row's value; else its sub key */
    size_t skip;   /* bytes of the sub key before the element */
};

/* Reads the elements for SORT. `in_order`: SORT will not sort them, so lists and sorted sets are read in their own order,
 * in reverse if `is_descending`. */
typedef struct sort_source sort_source_fn(struct call *call, const struct entry *entry,
                                          bool in_order, bool is_descending);

struct type_functions {
    /* RDB_FORM() of each form that `load` reads; 0: the type is saved as another type */
    uint32_t rdb_types;
    const char *module; /* the module whose values (RDB_TYPE_MODULE_2) `load` reads; NULL: none */
    rdb_save_fn *save;
    rdb_load_fn *load; /* NULL: another type loads it */
    encoding_fn *encoding;
    sort_source_fn *sort_source; /* NULL: SORT refuses the type */
    bool has_no_order;           /* SORT sorts a stored result even if BY has no * */
};

#define RDB_FORM(form) (UINT32_C(1) << (form))

#define TYPE(id, number, ...) extern const struct type_functions type_##id##_functions;
#include "backend/format/types.def"
#undef TYPE

/* Functions of the rows in types.c; a new type defines its own in its file. */
rdb_save_fn rdb_save_string, rdb_save_hash, rdb_save_list, rdb_save_set, rdb_save_zset,
    rdb_save_sortedint, rdb_save_stream, rdb_save_json;
rdb_load_fn rdb_load_string, rdb_load_collection, rdb_load_sortedint, rdb_load_stream,
    rdb_load_json;
encoding_fn encoding_raw, encoding_string, encoding_hash, encoding_list, encoding_set,
    encoding_zset, encoding_stream;
sort_source_fn sort_source_list, sort_source_set, sort_source_zset;

/* NULL when the number is no type. */
const struct type_functions *type_functions_of(enum type type);
