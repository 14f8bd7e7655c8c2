/*
 * expiry.c - the active expiry cycle over the expiry index.
 */
#include "backend/keyspace/expiry.h"

#include "backend/context/change.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/keyspace/field_expiry.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/lock.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"

#include <stdlib.h>

enum {
    CYCLE_ROWS_MAX =
        200, /* index rows of served keys handled at a time: bounds the pause for clients */
    LOOKED_AT_MAX = 20000, /* index rows looked at in a cycle, with those of other slots */
};

/* A due row of the index, copied from the iterator. */
struct due {
    struct bytes index_key;
    struct bytes row_key;
    uint64_t due_ms;
};

/* Deleting fields of hashes, in one cycle. */
struct field_cycle {
    uint64_t left; /* fields that may still be deleted */
    bool is_cut;   /* fields that are due were not deleted */
};

/* Does the key belong to a slot that the partition serves? The rows of others belong to their owners. */
static bool is_served_key(const struct partition *partition, struct bytes row_key)
{
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    return !partition->shards.is_gated || !decode_metadata_key(row_key, &space, &slot, &key) ||
           slot_is_served(partition, slot);
}

/* Where the cycle begins: at the row where the last one ended, unless a key has got an earlier expiry time since then. */
static struct bytes begin_of_cycle(const struct partition *partition, struct arena *arena)
{
    const struct partition_expiry *expiry = &partition->expiry;
    struct bytes last = {expiry->last_row, expiry->last_row_len};
    uint64_t last_ms;
    struct bytes row_key;
    bool is_valid = last.len && decode_expire_key(last, &last_ms, &row_key);
    return is_valid && last_ms == expiry->from_ms ? last : encode_u64(arena, expiry->from_ms);
}

/* The next cycle begins at this row of the index; empty: at the present time. */
static void set_end_of_cycle(struct call *call, struct bytes row)
{
    struct partition_expiry *expiry = &call->partition->expiry;
    uint64_t last_ms;
    struct bytes row_key;
    bool is_valid = row.len && decode_expire_key(row, &last_ms, &row_key);
    free(expiry->last_row);
    expiry->last_row = NULL;
    expiry->last_row_len = 0;
    expiry->from_ms = is_valid ? last_ms : call->now_ms;
    if (!is_valid)
        return;
    expiry->last_row = malloc(row.len);
    CHECK(expiry->last_row);
    memcpy(expiry->last_row, row.data, row.len);
    expiry->last_row_len = row.len;
}

/* Collects at most CYCLE_ROWS_MAX due rows of served keys. *next: the first row that was not looked at, in the arena; empty:
 * there is none. False: the store failed. */
static bool collect_due(struct call *call, struct due *due, size_t *count, struct bytes *next)
{
    struct bytes from = begin_of_cycle(call->partition, call->arena);
    struct bytes end = encode_u64(call->arena, call->now_ms); /* due: expire_ms < now */
    struct overlay_iter *iter = overlay_iter_new(call->partition->overlay, CF_EXPIRE, from, end);
    int looked_at = 0;
    *count = 0;
    for (overlay_iter_seek_first(iter);
         *count < CYCLE_ROWS_MAX && looked_at < LOOKED_AT_MAX && overlay_iter_valid(iter);
         overlay_iter_next(iter), looked_at++) {
        struct due row;
        struct bytes index_key = overlay_iter_key(iter);
        if (!decode_expire_key(index_key, &row.due_ms, &row.row_key) ||
            !is_served_key(call->partition, row.row_key))
            continue;
        row.index_key = arena_copy(call->arena, index_key);
        (void)decode_expire_key(row.index_key, &row.due_ms, &row.row_key);
        due[(*count)++] = row;
    }
    *next = overlay_iter_valid(iter) ? arena_copy(call->arena, overlay_iter_key(iter))
                                     : (struct bytes){"", 0};
    bool fine = overlay_iter_error(iter) == OK;
    overlay_iter_free(iter);
    return fine;
}

static void delete_expired(struct call *call, struct entry *entry)
{
    struct partition *partition = call->partition;
    entry_delete(call, entry);
    metric_add(partition->metrics.process, METRIC_BACKEND_EXPIRED, 1);
    entry_event(call, entry, NOTIFY_EXPIRED, "expired");
}

/* False: the store failed. */
static bool delete_expired_fields(struct call *call, struct entry *entry,
                                  struct field_cycle *fields)
{
    bool is_good = fields->left == 0 || field_expiry_delete(call, entry, &fields->left);
    fields->is_cut |= entry->exists && keyspace_expired(call, entry->meta.field_expire_ms);
    return is_good;
}

/* Deletes the key, or its fields that are due, if its metadata row has the index row's time; else deletes the stale index
 * row. False: the store failed, the metadata row is uncached and is being fetched, or the key is locked or its slot
 * frozen; the index row stays. */
static bool expire_one(struct call *call, const struct due *due, struct field_cycle *fields)
{
    struct partition *partition = call->partition;
    struct bytes space_name;
    struct bytes key;
    uint16_t slot;
    struct slice value;
    struct metadata meta;
    if (partition->reader && !overlay_prefetch(partition->overlay, CF_METADATA, due->row_key, NULL))
        return false;
    int err = overlay_get(partition->overlay, CF_METADATA, due->row_key, &value);
    if (is_read_failure(err))
        return false;
    bool confirmed = err == OK && decode_metadata(slice_bytes(&value), &meta) &&
                     metadata_due_ms(&meta) == due->due_ms &&
                     decode_metadata_key(due->row_key, &space_name, &slot, &key);
    if (err == OK)
        slice_release(&value);
    if (!confirmed) {
        overlay_delete(partition->overlay, CF_EXPIRE, due->index_key);
        return true;
    }
    const struct lock_set *locks = partition->shards.locks;
    if ((lock_set_count(locks) && lock_stops(locks, due->row_key, true, NULL)) ||
        slot_is_frozen(partition, slot))
        return false;
    struct entry entry = {
        .key = key,
        .row_key = due->row_key,
        .slot = slot,
        .exists = true,
        .stored_expire_ms = meta.expire_ms,
        .stored_due_ms = due->due_ms,
        .space = space_find(partition->spaces, space_name),
        .meta = meta,
    };
    entry.meta.payload = (struct bytes){"", 0}; /* its row has been released */
    if (!keyspace_expired(call, meta.expire_ms))
        return delete_expired_fields(call, &entry, fields);
    delete_expired(call, &entry);
    return true;
}

bool expiry_cycle(struct call *call)
{
    struct partition *partition = call->partition;
    struct due due[CYCLE_ROWS_MAX];
    struct field_cycle fields = {.left = FIELD_EXPIRY_MAX};
    size_t count = 0;
    struct bytes next = {"", 0};
    bool fine = partition->expiry.from_ms < call->now_ms && collect_due(call, due, &count, &next);
    for (size_t i = 0; i < count; i++)
        fine = expire_one(call, &due[i], &fields) && fine;
    if (fine && !fields.is_cut)
        /* all due rows before `next` are deleted, or belong to other slots */
        set_end_of_cycle(call, next);
    return fine && (next.len || fields.is_cut);
}
