/*
 * rdb_save.c - saves a key's value in RDB format, in the plain form of each type. Redis converts it to a compact form
 * when it loads it.
 *
 * JSON is written in RedisJSON's format. A sorted int is written as a value of a module that only Scree has.
 */
#include "backend/commands/list.h"
#include "backend/commands/types.h"
#include "backend/format/rdb_elements.h"
#include "backend/keyspace/field_expiry.h"
#include "backend/keyspace/text.h"

static const struct bytes NOTHING = {"", 0};

/* Saves the elements of a collection. */
static bool save_rows(struct call *call, struct entry *entry, struct bytes from,
                      struct rdb_writer *writer)
{
    struct sub_iter it;
    uint64_t left = entry->meta.size;
    rdb_write_length(writer, entry->meta.size);
    sub_iter_init(call, entry, CF_DATA, from, &it);
    while (left > 0 && !writer->is_over && sub_iter_next(&it)) {
        rdb_write_element(writer, entry->meta.type, it.sub, it.value);
        left--;
    }
    return sub_iter_fini(&it) && (writer->is_over || call_rows_end(call, left));
}

bool rdb_save_string(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    struct bytes text;
    if (!text_value(call, entry, &text))
        return false;
    rdb_write_byte(writer, RDB_TYPE_STRING);
    rdb_write_string(writer, text);
    return true;
}

bool rdb_save_json(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    (void)call;
    rdb_write_byte(writer, RDB_TYPE_MODULE_2);
    rdb_write_module(writer, "ReJSON-RL", 3);
    rdb_write_length(writer, RDB_OPCODE_STRING);
    rdb_write_string(writer, entry->meta.payload);
    rdb_write_length(writer, RDB_OPCODE_END);
    return true;
}

bool rdb_save_sortedint(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    rdb_write_byte(writer, RDB_TYPE_MODULE_2);
    rdb_write_module(writer, "sortedint", 1);
    rdb_write_length(writer, RDB_OPCODE_UINT);
    if (!save_rows(call, entry, NOTHING, writer))
        return false;
    rdb_write_length(writer, RDB_OPCODE_END);
    return true;
}

/* Saves a hash whose fields have TTLs: each is relative to the soonest, plus one; 0: none. */
static bool save_field_ttls(struct call *call, struct entry *entry, uint64_t soonest_ms,
                            struct rdb_writer *writer)
{
    struct sub_iter it;
    writer->version = RDB_VERSION_HASH_TTL;
    rdb_write_byte(writer, RDB_TYPE_HASH_TTL);
    rdb_write_ms(writer, soonest_ms);
    rdb_write_length(writer, entry->meta.size);
    sub_iter_init_ttls(call, entry, NOTHING, &it);
    while (!writer->is_over && sub_iter_next(&it)) {
        rdb_write_length(writer, it.expire_ms ? it.expire_ms - soonest_ms + 1 : 0);
        rdb_write_element(writer, TYPE_HASH, it.sub, it.value);
    }
    return sub_iter_fini(&it);
}

bool rdb_save_hash(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    uint64_t soonest_ms;
    if (!field_expiry_show(call, entry) || !field_expiry_first(call, entry, &soonest_ms))
        return false;
    if (soonest_ms)
        return save_field_ttls(call, entry, soonest_ms, writer);
    rdb_write_byte(writer, RDB_TYPE_HASH);
    return save_rows(call, entry, NOTHING, writer);
}

bool rdb_save_list(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    rdb_write_byte(writer, RDB_TYPE_LIST);
    return save_rows(call, entry, list_row(call, entry->meta.head), writer);
}

bool rdb_save_set(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    rdb_write_byte(writer, RDB_TYPE_SET);
    return save_rows(call, entry, NOTHING, writer);
}

bool rdb_save_zset(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    rdb_write_byte(writer, RDB_TYPE_ZSET_2);
    return save_rows(call, entry, NOTHING, writer);
}

bool rdb_save(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    const struct type_functions *functions = type_functions_of(entry->meta.type);
    if (functions)
        return functions->save(call, entry, writer);
    call_error(call, ERR_STORE);
    return false;
}
