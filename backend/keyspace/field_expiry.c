#include "backend/keyspace/field_expiry.h"

#include "backend/context/partition.h"

static const struct bytes NOTHING = {"", 0};

/* A field that is due, copied from the iterator. */
struct due_field {
    uint64_t expire_ms;
    struct bytes field;
};

/* ---- rows ---- */

static void delete_ttl(struct call *call, struct entry *entry, struct bytes field,
                       uint64_t expire_ms)
{
    sub_delete(call, entry, CF_RANK, encode_field_ttl(call->arena, field));
    sub_delete(call, entry, CF_ZSET_SCORE, encode_field_time(call->arena, expire_ms, field));
}

int field_expiry_get(struct call *call, struct entry *entry, struct bytes field,
                     uint64_t *expire_ms)
{
    struct bytes value;
    *expire_ms = 0;
    int err = sub_get(call, entry, CF_RANK, encode_field_ttl(call->arena, field), &value);
    if (err == ERR_NOT_FOUND)
        return OK;
    if (err == OK && !decode_u64(value, expire_ms)) {
        call_error(call, ERR_STORE);
        return ERR_STORE;
    }
    return err;
}

void field_expiry_set(struct call *call, struct entry *entry, struct bytes field, uint64_t old_ms,
                      uint64_t new_ms)
{
    struct metadata *meta = &entry->meta;
    if (old_ms == new_ms)
        return;
    if (old_ms) {
        delete_ttl(call, entry, field, old_ms);
        if (--meta->field_ttls == 0)
            meta->field_expire_ms = 0;
    }
    if (!new_ms)
        return;
    sub_put(call, entry, CF_RANK, encode_field_ttl(call->arena, field),
            encode_u64(call->arena, new_ms));
    sub_put(call, entry, CF_ZSET_SCORE, encode_field_time(call->arena, new_ms, field), NOTHING);
    meta->field_ttls++;
    if (!meta->field_expire_ms || new_ms < meta->field_expire_ms)
        meta->field_expire_ms = new_ms;
}

/* ---- fields that are due ---- */

/* Collects at most `max` due fields. *next_ms: when the first field after them expires, 0: there is none. False: the store
 * failed, or a row is damaged (replied). */
static bool collect_due_fields(struct call *call, struct entry *entry, struct due_field *due,
                               uint64_t max, uint64_t *count, uint64_t *next_ms)
{
    struct sub_iter it;
    bool is_good = true;
    *count = 0;
    *next_ms = 0;
    sub_iter_init(call, entry, CF_ZSET_SCORE, encode_u64(call->arena, entry->meta.field_expire_ms),
                  &it);
    while (is_good && !*next_ms && sub_iter_next(&it)) {
        uint64_t expire_ms;
        struct bytes field;
        is_good = decode_field_time(it.sub, &expire_ms, &field);
        if (is_good && (*count == max || !keyspace_expired(call, expire_ms)))
            *next_ms = expire_ms;
        else if (is_good)
            due[(*count)++] = (struct due_field){expire_ms, arena_copy(call->arena, field)};
    }
    is_good = sub_iter_fini(&it) && is_good;
    if (!is_good && !call->failed)
        call_error(call, ERR_STORE);
    return is_good;
}

static void report_expired(struct call *call, struct entry *entry, uint64_t count)
{
    entry->has_expired = true;
    metric_add(call->partition->metrics.process, METRIC_BACKEND_EXPIRED_FIELDS, count);
    entry_event(call, entry, NOTIFY_HASH, "hexpired");
    if (!entry->exists)
        entry_event(call, entry, NOTIFY_GENERIC, "del");
}

bool field_expiry_delete(struct call *call, struct entry *entry, uint64_t *left)
{
    struct metadata *meta = &entry->meta;
    uint64_t max = *left < FIELD_EXPIRY_MAX ? *left : FIELD_EXPIRY_MAX;
    struct due_field *due = arena_alloc(call->arena, (max + 1) * sizeof *due);
    uint64_t count;
    uint64_t next_ms;
    if (!collect_due_fields(call, entry, due, max, &count, &next_ms))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        sub_delete(call, entry, CF_DATA, due[i].field);
        delete_ttl(call, entry, due[i].field, due[i].expire_ms);
    }
    *left -= count;
    meta->size -= count < meta->size ? count : meta->size;
    if (next_ms)
        meta->field_ttls -= count < meta->field_ttls ? count : meta->field_ttls - 1;
    else
        meta->field_ttls = 0;
    meta->field_expire_ms = next_ms;
    if (count == 0) {
        entry_save_untold(call, entry); /* only `soonest` was too early */
        return true;
    }
    entry_save_expired(call, entry);
    report_expired(call, entry, count);
    return true;
}

/* ---- fields that are hidden ---- */

/* Are all fields due? */
static bool all_are_due(struct call *call, struct entry *entry, bool *all)
{
    struct sub_iter it;
    uint64_t last_ms = 0;
    struct bytes field;
    *all = false;
    if (entry->meta.field_ttls < entry->meta.size)
        return true;
    sub_iter_init_reverse(call, entry, CF_ZSET_SCORE, NOTHING, &it);
    *all = sub_iter_next(&it) && decode_field_time(it.sub, &last_ms, &field) &&
           keyspace_expired(call, last_ms);
    return sub_iter_fini(&it);
}

bool field_expiry_open(struct call *call, struct entry *entry, bool may_delete, bool *is_gone)
{
    uint64_t left = FIELD_EXPIRY_MAX;
    *is_gone = false;
    if (may_delete && !entry->is_borrowed) {
        if (!field_expiry_delete(call, entry, &left))
            return false;
        if (!entry->exists || !keyspace_expired(call, entry->meta.field_expire_ms))
            return true;
    }
    if (!all_are_due(call, entry, is_gone))
        return false;
    entry->hides_fields = !*is_gone;
    if (!*is_gone || !may_delete)
        return true;
    uint64_t count = entry->meta.size;
    entry->meta.size = 0;
    entry_save_expired(call, entry);
    report_expired(call, entry, count);
    return true;
}

bool field_expiry_drop(struct call *call, struct entry *entry, struct bytes field)
{
    uint64_t expire_ms;
    if (field_expiry_get(call, entry, field, &expire_ms) != OK)
        return false;
    if (!keyspace_expired(call, expire_ms))
        return true;
    sub_delete(call, entry, CF_DATA, field);
    field_expiry_set(call, entry, field, expire_ms, 0);
    entry->meta.size--;
    if (entry->meta.size) /* else the command has removed all others, and saves the hash */
        entry_save_expired(call, entry);
    report_expired(call, entry, 1);
    return true;
}

bool field_expiry_show(struct call *call, struct entry *entry)
{
    struct sub_iter it;
    uint64_t expire_ms;
    struct bytes field;
    uint64_t due = 0;
    if (!entry->hides_fields)
        return true;
    sub_iter_init(call, entry, CF_ZSET_SCORE, encode_u64(call->arena, entry->meta.field_expire_ms),
                  &it);
    while (sub_iter_next(&it) && decode_field_time(it.sub, &expire_ms, &field) &&
           keyspace_expired(call, expire_ms))
        due++;
    if (!sub_iter_fini(&it) || !call_rows_end(call, due >= entry->meta.size)) /* some are left */
        return false;
    entry->meta.size -= due;
    return true;
}

bool field_expiry_first(struct call *call, struct entry *entry, uint64_t *expire_ms)
{
    struct sub_iter it;
    struct bytes field;
    *expire_ms = 0;
    if (!entry->meta.field_ttls)
        return true;
    sub_iter_init(call, entry, CF_ZSET_SCORE, encode_u64(call->arena, call->now_ms), &it);
    if (sub_iter_next(&it) && !decode_field_time(it.sub, expire_ms, &field))
        *expire_ms = 0;
    return sub_iter_fini(&it);
}
