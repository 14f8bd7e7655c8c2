/*
 * dump.c - DUMP and RESTORE: each type as RDB writes it.
 */
#include "backend/commands/dump.h"
#include "backend/handlers.h"
#include "backend/keyspace.h"
#include "backend/notify.h"
#include "backend/rdb.h"
#include "backend/text.h"
#include "shared/number.h"

static const struct bytes NOTHING = {"", 0};

/* ---- DUMP ---- */

static bool dump_hash(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    struct sub_iter it;
    rdb_write_byte(writer, RDB_TYPE_HASH);
    rdb_write_length(writer, entry->meta.size);
    sub_iter_init(call, entry, CF_DATA, NOTHING, &it);
    while (sub_iter_next(&it)) {
        rdb_write_string(writer, it.sub);
        rdb_write_string(writer, it.value);
    }
    return sub_iter_fini(&it);
}

void cmd_dump(struct call *call)
{
    struct entry entry;
    struct rdb_writer writer;
    if (!keyspace_open(call, call->argv[1], OPEN_READ, &entry))
        return;
    if (!entry.exists) {
        reply_null(&call->reply);
        return;
    }
    rdb_writer_init(&writer, call->arena);
    if (text_is(&entry)) {
        struct bytes text;
        if (!text_value(call, &entry, &text))
            return;
        rdb_write_byte(&writer, RDB_TYPE_STRING);
        rdb_write_string(&writer, text);
    } else if (entry.meta.type == TYPE_LIST) {
        if (!dump_list(call, &entry, &writer))
            return;
    } else if (entry.meta.type != TYPE_HASH) {
        call_error(call, ERR_WRONGTYPE);
        return;
    } else if (!dump_hash(call, &entry, &writer)) {
        return;
    }
    reply_bulk(&call->reply, rdb_finish(&writer));
}

/* ---- RESTORE ---- */

struct restore_options {
    bool replace;
    bool absolute;
    int64_t ttl;
};

/* An option with a number that is checked and otherwise means nothing here: nothing is evicted. */
static bool eviction_hint(struct call *call, uint32_t index, int64_t max, const char *error)
{
    int64_t value;
    if (!call_int64(call, index, &value))
        return false;
    if (value >= 0 && value <= max)
        return true;
    call_error_text(call, error);
    return false;
}

static bool options_parse(struct call *call, struct restore_options *options)
{
    bool idle = false;
    bool freq = false;
    *options = (struct restore_options){0};
    for (uint32_t i = 4; i < call->argc; i++) {
        bool has_value = i + 1 < call->argc;
        if (bytes_is(call->argv[i], "replace")) {
            options->replace = true;
        } else if (bytes_is(call->argv[i], "absttl")) {
            options->absolute = true;
        } else if (bytes_is(call->argv[i], "idletime") && has_value && !freq) {
            if (!eviction_hint(call, ++i, INT64_MAX, "ERR Invalid IDLETIME value, must be >= 0"))
                return false;
            idle = true;
        } else if (bytes_is(call->argv[i], "freq") && has_value && !idle) {
            if (!eviction_hint(call, ++i, 255, "ERR Invalid FREQ value, must be >= 0 and <= 255"))
                return false;
            freq = true;
        } else {
            call_error(call, ERR_SYNTAX);
            return false;
        }
    }
    return true;
}

static bool restore_field(struct call *call, struct entry *entry, struct bytes field,
                          struct bytes value)
{
    struct bytes old;
    int err = sub_get(call, entry, CF_DATA, field, &old);
    if (err != ERR_NOT_FOUND)
        return false; /* a field twice: damaged */
    sub_put(call, entry, CF_DATA, field, value);
    entry->meta.size++;
    return true;
}

static bool restore_hash(struct call *call, struct entry *entry, struct rdb_reader *reader)
{
    uint64_t count;
    if (!rdb_read_length(reader, &count))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        struct bytes field;
        struct bytes value;
        if (!rdb_read_string(reader, &field) || !rdb_read_string(reader, &value) ||
            !restore_field(call, entry, field, value))
            return false;
    }
    return true;
}

typedef enum rdb_pack pack_next_fn(struct arena *arena, struct bytes pack, size_t *at,
                                   struct bytes *element);

static bool restore_packed_hash(struct call *call, struct entry *entry, struct rdb_reader *reader,
                                pack_next_fn *next)
{
    struct bytes pack;
    size_t at = 0;
    if (!rdb_read_string(reader, &pack))
        return false;
    for (;;) {
        struct bytes field;
        struct bytes value;
        enum rdb_pack result = next(call->arena, pack, &at, &field);
        if (result == RDB_PACK_END)
            return true;
        if (result != RDB_PACK_ELEMENT ||
            next(call->arena, pack, &at, &value) != RDB_PACK_ELEMENT ||
            !restore_field(call, entry, field, value))
            return false;
    }
}

/* Makes the key from the payload; false: bad data, or a store error (already replied). */
static bool restore_value(struct call *call, struct entry *entry, struct rdb_reader *reader,
                          uint64_t expire_ms)
{
    uint8_t type;
    struct bytes text;
    if (!rdb_read_byte(reader, &type))
        return false;
    if (type == RDB_TYPE_STRING) {
        if (!rdb_read_string(reader, &text))
            return false;
        entry_set_payload(call, entry, TYPE_STRING, text, expire_ms);
        return true;
    }
    entry_create(call, entry, restore_is_list(type) ? TYPE_LIST : TYPE_HASH);
    entry->meta.expire_ms = expire_ms;
    bool fine = false;
    if (restore_is_list(type))
        fine = restore_list(call, entry, reader, type);
    else if (type == RDB_TYPE_HASH)
        fine = restore_hash(call, entry, reader);
    else if (type == RDB_TYPE_HASH_LISTPACK)
        fine = restore_packed_hash(call, entry, reader, rdb_listpack_next);
    else if (type == RDB_TYPE_HASH_ZIPLIST)
        fine = restore_packed_hash(call, entry, reader, rdb_ziplist_next);
    if (!fine || entry->meta.size == 0)
        return false;
    entry_save(call, entry);
    return true;
}

void cmd_restore_asking(struct call *call)
{
    cmd_restore(call);
}

void cmd_restore(struct call *call)
{
    struct restore_options options;
    struct rdb_reader reader;
    struct entry entry;
    int64_t expire_ms;
    if (!options_parse(call, &options) || !keyspace_open(call, call->argv[1], OPEN_WRITE, &entry))
        return;
    if (!options.replace && entry.exists) {
        call_error(call, ERR_BUSYKEY);
        return;
    }
    if (!call_int64(call, 2, &options.ttl))
        return;
    if (options.ttl < 0) {
        call_error_text(call, "ERR Invalid TTL value, must be >= 0");
        return;
    }
    if (!rdb_open(&reader, call->arena, call->argv[3])) {
        call_error_text(call, "ERR DUMP payload version or checksum are wrong");
        return;
    }
    int64_t base = options.ttl && !options.absolute ? (int64_t)call->now_ms : 0;
    if (__builtin_add_overflow(options.ttl, base, &expire_ms))
        expire_ms = INT64_MAX;
    bool replaced = entry.exists;
    if (!restore_value(call, &entry, &reader, (uint64_t)expire_ms)) {
        if (!call->failed)
            call_error_text(call, "ERR Bad data format");
        return;
    }
    bool is_over = expire_ms && (uint64_t)expire_ms <= call->now_ms;
    if (is_over)
        entry_delete(call, &entry);
    else if (replaced)
        notify(call, NOTIFY_NEW, "new", call->argv[1]);
    if (!is_over || replaced)
        notify(call, NOTIFY_GENERIC, is_over ? "del" : "restore", call->argv[1]);
    reply_ok(&call->reply);
}
