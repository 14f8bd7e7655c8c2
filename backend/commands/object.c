/*
 * object.c - OBJECT: the encoding that Redis would use for a value.
 */
#include "backend/commands/types.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/keyspace.h"
#include "shared/command/command_reply.h"
#include "shared/number.h"

static const struct bytes NOTHING = {"", 0};

enum {
    EMBSTR_MAX = 44, /* Redis: longer strings are "raw" */
    SHARED_INTEGERS = 10000,
};

/* Opens the key in argument 2; false: it is missing, and null was replied, or an error was. */
static bool object_open(struct call *call, struct entry *entry)
{
    if (!keyspace_open(call, call->argv[2], OPEN_QUIET, entry))
        return false;
    if (!entry->exists)
        reply_null(&call->reply);
    return entry->exists;
}

/* Would Redis store the collection as a listpack? */
static bool is_small(struct call *call, struct entry *entry, const char *entries_name,
                     const char *value_name)
{
    const struct config_snapshot *snapshot = call->partition->snapshot;
    uint64_t value_max = (uint64_t)config_snapshot_number(snapshot, value_name);
    bool small = entry->meta.size <= (uint64_t)config_snapshot_number(snapshot, entries_name);
    struct sub_iter it;
    if (!small)
        return false;
    sub_iter_init(call, entry, CF_DATA, NOTHING, &it);
    while (small && sub_iter_next(&it))
        small = it.sub.len <= value_max && it.value.len <= value_max;
    return sub_iter_fini(&it) && small;
}

/* Would Redis store the set as integers? */
static bool is_intset(struct call *call, struct entry *entry)
{
    const struct config_snapshot *snapshot = call->partition->snapshot;
    struct sub_iter it;
    int64_t number;
    if (entry->meta.size > (uint64_t)config_snapshot_number(snapshot, "set-max-intset-entries"))
        return false;
    bool all = true;
    sub_iter_init(call, entry, CF_DATA, NOTHING, &it);
    while (all && sub_iter_next(&it))
        all = number_parse_int64(it.sub, &number);
    return sub_iter_fini(&it) && all;
}

const char *encoding_raw(struct call *call, struct entry *entry)
{
    (void)call;
    (void)entry;
    return "raw";
}

const char *encoding_string(struct call *call, struct entry *entry)
{
    int64_t number;
    (void)call;
    if (number_parse_int64(entry->meta.payload, &number))
        return "int";
    return entry->meta.payload.len <= EMBSTR_MAX ? "embstr" : "raw";
}

const char *encoding_hash(struct call *call, struct entry *entry)
{
    if (!is_small(call, entry, "hash-max-listpack-entries", "hash-max-listpack-value"))
        return "hashtable";
    return entry->meta.field_ttls ? "listpackex" : "listpack";
}

const char *encoding_list(struct call *call, struct entry *entry)
{
    (void)call;
    (void)entry;
    return "quicklist";
}

const char *encoding_set(struct call *call, struct entry *entry)
{
    if (is_intset(call, entry))
        return "intset";
    return is_small(call, entry, "set-max-listpack-entries", "set-max-listpack-value")
               ? "listpack"
               : "hashtable";
}

const char *encoding_zset(struct call *call, struct entry *entry)
{
    return is_small(call, entry, "zset-max-listpack-entries", "zset-max-listpack-value")
               ? "listpack"
               : "skiplist";
}

const char *encoding_stream(struct call *call, struct entry *entry)
{
    (void)call;
    (void)entry;
    return "stream";
}

void cmd_object_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}

void cmd_object_encoding(struct call *call)
{
    struct entry entry;
    if (!object_open(call, &entry))
        return;
    const char *encoding = type_functions_of(entry.meta.type)->encoding(call, &entry);
    if (!call->failed)
        reply_bulk_text(&call->reply, encoding);
}

void cmd_object_refcount(struct call *call)
{
    struct entry entry;
    int64_t number;
    if (!object_open(call, &entry))
        return;
    bool is_shared = entry.meta.type == TYPE_STRING &&
                     number_parse_int64(entry.meta.payload, &number) && number >= 0 &&
                     number < SHARED_INTEGERS;
    reply_int(&call->reply, is_shared ? INT32_MAX : 1);
}

void cmd_object_idletime(struct call *call)
{
    struct entry entry;
    if (object_open(call, &entry))
        reply_int(&call->reply, (int64_t)entry_idle_s(call, &entry));
}

void cmd_object_freq(struct call *call)
{
    struct entry entry;
    if (object_open(call, &entry))
        call_error_text(
            call,
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please "
            "note "
            "that when switching between policies at runtime LRU and LFU data will take some time "
            "to adjust.");
}
