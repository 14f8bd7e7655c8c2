#include "backend/commands/types.h"

_Static_assert(RDB_TYPE_LAST < 32, "rdb_types has a bit for each form");

const struct type_functions type_STRING_functions = {
    .rdb_types = RDB_FORM(RDB_TYPE_STRING),
    .save = rdb_save_string,
    .load = rdb_load_string,
    .encoding = encoding_string,
};

const struct type_functions type_BITMAP_functions = {
    .save = rdb_save_string,
    .encoding = encoding_raw,
};

const struct type_functions type_HASH_functions = {
    .rdb_types = RDB_FORM(RDB_TYPE_HASH) | RDB_FORM(RDB_TYPE_HASH_ZIPLIST) |
                 RDB_FORM(RDB_TYPE_HASH_LISTPACK) | RDB_FORM(RDB_TYPE_HASH_TTL_OLD) |
                 RDB_FORM(RDB_TYPE_HASH_TTL_LISTPACK_OLD) | RDB_FORM(RDB_TYPE_HASH_TTL) |
                 RDB_FORM(RDB_TYPE_HASH_TTL_LISTPACK),
    .save = rdb_save_hash,
    .load = rdb_load_collection,
    .encoding = encoding_hash,
};

const struct type_functions type_LIST_functions = {
    .rdb_types = RDB_FORM(RDB_TYPE_LIST) | RDB_FORM(RDB_TYPE_LIST_ZIPLIST) |
                 RDB_FORM(RDB_TYPE_LIST_QUICKLIST) | RDB_FORM(RDB_TYPE_LIST_QUICKLIST_2),
    .save = rdb_save_list,
    .load = rdb_load_collection,
    .encoding = encoding_list,
    .sort_source = sort_source_list,
};

const struct type_functions type_SET_functions = {
    .rdb_types =
        RDB_FORM(RDB_TYPE_SET) | RDB_FORM(RDB_TYPE_SET_INTSET) | RDB_FORM(RDB_TYPE_SET_LISTPACK),
    .save = rdb_save_set,
    .load = rdb_load_collection,
    .encoding = encoding_set,
    .sort_source = sort_source_set,
    .has_no_order = true,
};

const struct type_functions type_ZSET_functions = {
    .rdb_types = RDB_FORM(RDB_TYPE_ZSET) | RDB_FORM(RDB_TYPE_ZSET_2) |
                 RDB_FORM(RDB_TYPE_ZSET_ZIPLIST) | RDB_FORM(RDB_TYPE_ZSET_LISTPACK),
    .save = rdb_save_zset,
    .load = rdb_load_collection,
    .encoding = encoding_zset,
    .sort_source = sort_source_zset,
};

const struct type_functions type_SORTEDINT_functions = {
    .module = "sortedint",
    .save = rdb_save_sortedint,
    .load = rdb_load_sortedint,
    .encoding = encoding_raw,
};

const struct type_functions type_STREAM_functions = {
    .rdb_types = RDB_FORM(RDB_TYPE_STREAM_LISTPACKS) | RDB_FORM(RDB_TYPE_STREAM_LISTPACKS_2) |
                 RDB_FORM(RDB_TYPE_STREAM_LISTPACKS_3),
    .save = rdb_save_stream,
    .load = rdb_load_stream,
    .encoding = encoding_stream,
};

const struct type_functions type_JSON_functions = {
    .module = "ReJSON-RL",
    .save = rdb_save_json,
    .load = rdb_load_json,
    .encoding = encoding_raw,
};

const struct type_functions *type_functions_of(enum type type)
{
    static const struct type_functions *const functions[TYPE_COUNT] = {
#define TYPE(id, number, ...) [number] = &type_##id##_functions,
#include "backend/format/types.def"
#undef TYPE
    };
    return functions[type];
}
