/*
 * list_dump.c - lists as RDB writes them.
 *
 *   LIST         length | string …             what DUMP gives; every Redis reads it
 *   ZIPLIST      string (ziplist)
 *   QUICKLIST    length | string (ziplist) …
 *   QUICKLIST_2  length | (u64 container | string) …      container 1: one element, 2: a listpack; what Redis 7.0 gives
 */
#include "backend/commands/dump.h"
#include "backend/commands/list.h"

enum {
    RDB_TYPE_LIST = 1,
    RDB_TYPE_LIST_ZIPLIST = 10,
    RDB_TYPE_LIST_QUICKLIST = 14,
    RDB_TYPE_LIST_QUICKLIST_2 = 18,
    CONTAINER_PLAIN = 1,
    CONTAINER_PACKED = 2,
};

bool dump_list(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    struct sub_iter it;
    uint64_t left = entry->meta.size;
    rdb_write_byte(writer, RDB_TYPE_LIST);
    rdb_write_length(writer, left);
    sub_iter_init(call, entry, CF_DATA, list_row(call, entry->meta.head), &it);
    for (; left > 0 && sub_iter_next(&it); left--)
        rdb_write_string(writer, it.value);
    return sub_iter_fini(&it);
}

bool restore_is_list(uint8_t type)
{
    return type == RDB_TYPE_LIST || type == RDB_TYPE_LIST_ZIPLIST ||
           type == RDB_TYPE_LIST_QUICKLIST || type == RDB_TYPE_LIST_QUICKLIST_2;
}

static bool restore_element(struct call *call, struct entry *entry, struct rdb_reader *reader)
{
    struct bytes element;
    if (!rdb_read_string(reader, &element))
        return false;
    list_push_end(call, entry, LIST_TAIL, element);
    return true;
}

static bool restore_pack(struct call *call, struct entry *entry, struct rdb_reader *reader,
                         bool is_listpack)
{
    struct bytes pack;
    size_t at = 0;
    if (!rdb_read_string(reader, &pack))
        return false;
    for (;;) {
        struct bytes element;
        enum rdb_pack result = is_listpack ? rdb_listpack_next(call->arena, pack, &at, &element)
                                           : rdb_ziplist_next(call->arena, pack, &at, &element);
        if (result != RDB_PACK_ELEMENT)
            return result == RDB_PACK_END;
        list_push_end(call, entry, LIST_TAIL, element);
    }
}

static bool restore_container(struct call *call, struct entry *entry, struct rdb_reader *reader)
{
    uint64_t container;
    if (!rdb_read_length(reader, &container))
        return false;
    if (container == CONTAINER_PLAIN)
        return restore_element(call, entry, reader);
    return container == CONTAINER_PACKED && restore_pack(call, entry, reader, true);
}

bool restore_list(struct call *call, struct entry *entry, struct rdb_reader *reader, uint8_t type)
{
    uint64_t count;
    bool good = true;
    if (type == RDB_TYPE_LIST_ZIPLIST)
        return restore_pack(call, entry, reader, false);
    if (!rdb_read_length(reader, &count))
        return false;
    for (uint64_t i = 0; good && i < count; i++) {
        if (type == RDB_TYPE_LIST)
            good = restore_element(call, entry, reader);
        else if (type == RDB_TYPE_LIST_QUICKLIST)
            good = restore_pack(call, entry, reader, false);
        else
            good = restore_container(call, entry, reader);
    }
    return good;
}
