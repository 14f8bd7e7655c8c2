/*
 * hash.c - hash commands.
 *
 * The metadata row has the number of fields; each field is a row, field → value, in byte order of the fields. TTLs of fields
 * are rows of their own (field_expiry.h); their commands are in hash_expire.c.
 */
#include "backend/commands/hash.h"
#include "backend/commands/sample.h"
#include "backend/commands/scan.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/field_expiry.h"
#include "backend/session/notify.h"
#include "backend/session/reply_stream.h"
#include "shared/number.h"

#include <math.h>
#include <stdlib.h>

static const struct bytes NOTHING = {"", 0};

bool hash_open_write(struct call *call, struct entry *entry)
{
    if (!keyspace_open_type(call, call->argv[1], TYPE_HASH, OPEN_WRITE, entry))
        return false;
    if (!entry->exists)
        entry_create(call, entry, TYPE_HASH);
    return true;
}

static bool hash_open_read(struct call *call, struct entry *entry)
{
    return keyspace_open_type(call, call->argv[1], TYPE_HASH, OPEN_READ, entry);
}

/* Reads a field's value: OK, ERR_NOT_FOUND (also when there is no hash), or a read failure (replied). */
static int field_get(struct call *call, struct entry *entry, struct bytes field,
                     struct bytes *value)
{
    return entry->exists ? sub_get(call, entry, CF_DATA, field, value) : ERR_NOT_FOUND;
}

/* Opens a hash of which all fields will be read, or their number. */
static bool hash_open_whole(struct call *call, struct entry *entry)
{
    return hash_open_read(call, entry) && field_expiry_show(call, entry);
}

/* ---- fields ---- */

bool hash_find(struct call *call, struct entry *entry, struct bytes name, bool with_ttl,
               struct hash_field *field)
{
    *field = (struct hash_field){.name = name, .value = NOTHING};
    if (entry->meta.type != TYPE_HASH)
        return true; /* the key is missing, and was not created */
    if (entry->hides_fields && !field_expiry_drop(call, entry, name))
        return false;
    int err = sub_get(call, entry, CF_DATA, name, &field->value);
    field->exists = err == OK;
    if (err == OK && with_ttl && entry->meta.field_ttls)
        err = field_expiry_get(call, entry, name, &field->expire_ms);
    return !is_read_failure(err);
}

void hash_set_ttl(struct call *call, struct entry *entry, struct hash_field *field,
                  uint64_t expire_ms)
{
    field_expiry_set(call, entry, field->name, field->expire_ms, expire_ms);
    field->expire_ms = expire_ms;
}

void hash_put(struct call *call, struct entry *entry, struct hash_field *field, struct bytes value,
              uint64_t expire_ms)
{
    if (!field->exists)
        entry->meta.size++;
    field->exists = true;
    sub_put(call, entry, CF_DATA, field->name, value);
    if (expire_ms != field->expire_ms)
        hash_set_ttl(call, entry, field, expire_ms);
}

void hash_remove(struct call *call, struct entry *entry, struct hash_field *field)
{
    hash_set_ttl(call, entry, field, 0);
    sub_delete(call, entry, CF_DATA, field->name);
    entry->meta.size--;
    field->exists = false;
}

void hash_save_removed(struct call *call, struct entry *entry, const char *name)
{
    entry_save(call, entry);
    notify(call, NOTIFY_HASH, name, call->argv[1]);
    if (!entry->exists)
        notify(call, NOTIFY_GENERIC, "del", call->argv[1]);
}

/* ---- writes ---- */

/* Sets the field-value pairs from argument 2 on. Returns the number of new fields; -1: an error was replied. */
static int64_t set_fields(struct call *call)
{
    struct entry entry;
    int64_t added = 0;
    if (call->argc % 2 != 0) {
        call_error_arity(call);
        return -1;
    }
    if (!hash_open_write(call, &entry))
        return -1;
    for (uint32_t i = 2; i < call->argc; i += 2) {
        struct hash_field field;
        if (!hash_find(call, &entry, call->argv[i], true, &field))
            return -1;
        added += !field.exists;
        hash_put(call, &entry, &field, call->argv[i + 1], 0);
    }
    entry_save(call, &entry);
    call_changes(call, (int64_t)call->argc / 2 - 2);
    notify(call, NOTIFY_HASH, "hset", call->argv[1]);
    return added;
}

void cmd_hset(struct call *call)
{
    int64_t added = set_fields(call);
    if (added >= 0)
        reply_int(&call->reply, added);
}

void cmd_hmset(struct call *call)
{
    if (set_fields(call) >= 0)
        reply_ok(&call->reply);
}

void cmd_hsetnx(struct call *call)
{
    struct entry entry;
    struct hash_field field;
    if (!keyspace_open_type(call, call->argv[1], TYPE_HASH, OPEN_WRITE, &entry) ||
        !hash_find(call, &entry, call->argv[2], false, &field))
        return;
    reply_int(&call->reply, !field.exists);
    if (field.exists)
        return;
    if (!entry.exists)
        entry_create(call, &entry, TYPE_HASH);
    hash_put(call, &entry, &field, call->argv[3], 0);
    entry_save(call, &entry);
    notify(call, NOTIFY_HASH, "hset", call->argv[1]);
}

void cmd_hdel(struct call *call)
{
    struct entry entry;
    int64_t deleted = 0;
    if (!keyspace_open_type(call, call->argv[1], TYPE_HASH, OPEN_WRITE, &entry))
        return;
    for (uint32_t i = 2; i < call->argc; i++) {
        struct hash_field field;
        if (!hash_find(call, &entry, call->argv[i], true, &field))
            return;
        if (!field.exists)
            continue;
        hash_remove(call, &entry, &field);
        deleted++;
    }
    if (deleted) {
        hash_save_removed(call, &entry, "hdel");
        call_changes(call, deleted - 1);
    }
    reply_int(&call->reply, deleted);
}

void cmd_hincrby(struct call *call)
{
    struct entry entry;
    struct hash_field field;
    int64_t amount;
    int64_t value = 0;
    if (!call_int64(call, 3, &amount) || !hash_open_write(call, &entry) ||
        !hash_find(call, &entry, call->argv[2], false, &field))
        return;
    if (field.exists && !number_parse_int64(field.value, &value)) {
        call_error_text(call, "ERR hash value is not an integer");
        return;
    }
    if (__builtin_add_overflow(value, amount, &value)) {
        call_error(call, ERR_OVERFLOW);
        return;
    }
    char text[INT64_TEXT_MAX];
    hash_put(call, &entry, &field, (struct bytes){text, number_format_int64(text, value)}, 0);
    entry_save(call, &entry);
    notify(call, NOTIFY_HASH, "hincrby", call->argv[1]);
    reply_int(&call->reply, value);
}

void cmd_hincrbyfloat(struct call *call)
{
    struct entry entry;
    struct hash_field field;
    long double amount;
    long double value = 0;
    if (!number_parse_long_double(call->argv[3], &amount)) {
        call_error(call, ERR_NOT_FLOAT);
        return;
    }
    if (isnan(amount) || isinf(amount)) {
        call_error_text(call, "ERR value is NaN or Infinity");
        return;
    }
    if (!hash_open_write(call, &entry) || !hash_find(call, &entry, call->argv[2], false, &field))
        return;
    if (field.exists && !number_parse_long_double(field.value, &value)) {
        call_error_text(call, "ERR hash value is not a float");
        return;
    }
    struct bytes result;
    if (!call_sum(call, value, amount, &result))
        return;
    hash_put(call, &entry, &field, result, 0);
    entry_save(call, &entry);
    notify(call, NOTIFY_HASH, "hincrbyfloat", call->argv[1]);
    reply_bulk(&call->reply, result);
}

/* ---- reads ---- */

static void reply_field(struct call *call, struct entry *entry, struct bytes field)
{
    struct bytes value;
    int err = field_get(call, entry, field, &value);
    if (err == OK)
        reply_bulk(&call->reply, value);
    else if (err == ERR_NOT_FOUND)
        reply_null(&call->reply);
}

void cmd_hget(struct call *call)
{
    struct entry entry;
    if (hash_open_read(call, &entry))
        reply_field(call, &entry, call->argv[2]);
}

void cmd_hmget(struct call *call)
{
    struct entry entry;
    if (!hash_open_read(call, &entry))
        return;
    reply_array(&call->reply, call->argc - 2);
    for (uint32_t i = 2; i < call->argc && !call->failed; i++)
        reply_field(call, &entry, call->argv[i]);
}

void cmd_hlen(struct call *call)
{
    struct entry entry;
    if (hash_open_whole(call, &entry))
        reply_int(&call->reply, (int64_t)entry.meta.size);
}

void cmd_hexists(struct call *call)
{
    struct entry entry;
    struct bytes value;
    if (!hash_open_read(call, &entry))
        return;
    int err = field_get(call, &entry, call->argv[2], &value);
    if (!is_read_failure(err))
        reply_int(&call->reply, err == OK);
}

void cmd_hstrlen(struct call *call)
{
    struct entry entry;
    struct bytes value = NOTHING;
    if (hash_open_read(call, &entry) &&
        !is_read_failure(field_get(call, &entry, call->argv[2], &value)))
        reply_int(&call->reply, (int64_t)value.len);
}

enum part { PART_FIELDS = 1, PART_VALUES = 2 };

/* reply_stream_row_fn */
static void reply_field_row(struct reply *reply, struct bytes field, struct bytes value,
                            unsigned parts)
{
    if (parts & PART_FIELDS)
        reply_bulk(reply, field);
    if (parts & PART_VALUES)
        reply_bulk(reply, value);
}

static void reply_fields(struct call *call, struct entry *entry, unsigned parts)
{
    struct sub_iter it;
    sub_iter_init(call, entry, CF_DATA, NOTHING, &it);
    reply_stream_rows(call, &it, entry->meta.size, reply_field_row, parts);
}

static void reply_all(struct call *call, unsigned parts)
{
    struct entry entry;
    if (!hash_open_whole(call, &entry))
        return;
    int64_t count = (int64_t)entry.meta.size;
    if (parts == (PART_FIELDS | PART_VALUES))
        reply_map(&call->reply, count);
    else
        reply_array(&call->reply, count);
    if (entry.exists)
        reply_fields(call, &entry, parts);
}

void cmd_hkeys(struct call *call)
{
    reply_all(call, PART_FIELDS);
}

void cmd_hvals(struct call *call)
{
    reply_all(call, PART_VALUES);
}

void cmd_hgetall(struct call *call)
{
    reply_all(call, PART_FIELDS | PART_VALUES);
}

void cmd_hscan(struct call *call)
{
    scan_collection(call, TYPE_HASH, CF_DATA, true);
}

/* ---- HRANDFIELD ---- */

static void reply_random(struct call *call, struct bytes field, struct bytes value,
                         bool with_values)
{
    if (with_values && call->reply.resp >= 3)
        reply_array(&call->reply, 2);
    reply_bulk(&call->reply, field);
    if (with_values)
        reply_bulk(&call->reply, value);
}

/* Replies different fields: each row is chosen with probability needed / remaining (Knuth's algorithm S), so that
 * every subset is equally likely. */
static void random_distinct(struct call *call, struct entry *entry, uint64_t needed,
                            bool with_values)
{
    struct sub_iter it;
    uint64_t remaining = entry->meta.size;
    sub_iter_init(call, entry, CF_DATA, NOTHING, &it);
    for (; needed > 0 && sub_iter_next(&it); remaining--)
        if (call_random(call) % remaining < needed) {
            reply_random(call, it.sub, it.value, with_values);
            needed--;
        }
    if (sub_iter_fini(&it))
        (void)call_rows_end(call, needed);
}

/* A random choice that may repeat: index of the row, and position in the reply. */
struct pick {
    uint64_t row;
    uint64_t at;
    struct bytes field;
    struct bytes value;
};

static int pick_by_row(const void *a, const void *b)
{
    const struct pick *x = a;
    const struct pick *y = b;
    return (x->row > y->row) - (x->row < y->row);
}

static int pick_by_place(const void *a, const void *b)
{
    const struct pick *x = a;
    const struct pick *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Reads the chosen rows in one iteration. False: the store failed. */
static bool fetch_picks(struct call *call, struct entry *entry, struct pick *picks, uint64_t count)
{
    qsort(picks, count, sizeof *picks, pick_by_row);
    struct sub_iter it;
    sub_iter_init(call, entry, CF_DATA, NOTHING, &it);
    uint64_t row = 0;
    uint64_t i = 0;
    for (; i < count && sub_iter_next(&it); row++) {
        if (picks[i].row != row)
            continue;
        struct bytes field = arena_copy(call->arena, it.sub);
        struct bytes value = arena_copy(call->arena, it.value);
        for (; i < count && picks[i].row == row; i++) {
            picks[i].field = field;
            picks[i].value = value;
        }
    }
    if (!sub_iter_fini(&it) || !call_rows_end(call, count - i))
        return false;
    qsort(picks, count, sizeof *picks, pick_by_place);
    return true;
}

static void random_fields_repeated(struct call *call, struct entry *entry, uint64_t count,
                                   bool with_values)
{
    struct pick *picks = arena_alloc(call->arena, count * sizeof *picks);
    for (uint64_t i = 0; i < count; i++)
        picks[i] = (struct pick){.row = call_random(call) % entry->meta.size, .at = i};
    if (!fetch_picks(call, entry, picks, count))
        return;
    for (uint64_t i = 0; i < count; i++)
        reply_random(call, picks[i].field, picks[i].value, with_values);
}

void cmd_hrandfield(struct call *call)
{
    struct entry entry;
    struct sample_wish wish;
    if (!sample_parse(call, "withvalues", &wish) || !hash_open_whole(call, &entry) ||
        !sample_bound(call, &entry, &wish))
        return;
    bool is_flat = wish.has_option && call->reply.resp < 3;
    if (wish.has_count)
        reply_array(&call->reply, (int64_t)(is_flat ? wish.count * 2 : wish.count));
    else if (!entry.exists)
        reply_null(&call->reply);
    if (wish.count > 0 && wish.repeats)
        random_fields_repeated(call, &entry, wish.count, wish.has_option);
    else if (wish.count > 0)
        random_distinct(call, &entry, wish.count, wish.has_option);
}
