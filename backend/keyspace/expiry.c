/*
 * expiry.c - the active expiry cycle over the expiry index.
 */
#include "backend/keyspace/expiry.h"

#include "backend/context/change.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/lock.h"
#include "backend/keyspace/space.h"

enum {
    CYCLE_ROWS_MAX = 200 /* index rows read at a time: bounds the pause for clients */
};

/* A due row of the index, copied from the iterator. */
struct due {
    struct bytes index_key;
    struct bytes row_key;
    uint64_t expire_ms;
};

/* Collects at most CYCLE_ROWS_MAX due rows. False: the store failed. */
static bool collect_due(struct call *call, struct due *due, size_t *count)
{
    struct bytes from = encode_u64(call->arena, call->partition->expiry.from_ms);
    struct bytes end = encode_u64(call->arena, call->now_ms); /* due: expire_ms < now */
    struct overlay_iter *iter = overlay_iter_new(call->partition->overlay, CF_EXPIRE, from, end);
    *count = 0;
    for (overlay_iter_seek_first(iter); *count < CYCLE_ROWS_MAX && overlay_iter_valid(iter);
         overlay_iter_next(iter)) {
        struct due *row = &due[*count];
        row->index_key = arena_copy(call->arena, overlay_iter_key(iter));
        if (decode_expire_key(row->index_key, &row->expire_ms, &row->row_key))
            ++*count;
    }
    bool fine = overlay_iter_error(iter) == OK;
    overlay_iter_free(iter);
    return fine;
}

/* Deletes the key if its metadata row has the index row's expiry time; else deletes the stale index row. False: the
 * store failed, the metadata row is uncached and is being fetched, or the key is locked; the index row stays. */
static bool expire_one(struct call *call, const struct due *due)
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
                     meta.expire_ms == due->expire_ms &&
                     decode_metadata_key(due->row_key, &space_name, &slot, &key);
    if (err == OK)
        slice_release(&value);
    if (!confirmed) {
        overlay_delete(partition->overlay, CF_EXPIRE, due->index_key);
        return true;
    }
    const struct lock_set *locks = partition->shards.locks;
    if (lock_set_count(locks) && lock_stops(locks, due->row_key, true, NULL))
        return false;
    struct entry entry = {
        .key = key,
        .row_key = due->row_key,
        .slot = slot,
        .exists = true,
        .stored_expire_ms = due->expire_ms,
        .space = space_find(partition->spaces, space_name),
    };
    entry_delete(call, &entry);
    metric_add(partition->metrics.process, METRIC_BACKEND_EXPIRED, 1);
    if (partition->snapshot->notify_classes & NOTIFY_EXPIRED)
        partition->watchers.changes->event(call, entry.space, NOTIFY_EXPIRED, "expired", key);
    return true;
}

bool expiry_cycle(struct call *call)
{
    struct partition *partition = call->partition;
    struct due due[CYCLE_ROWS_MAX];
    size_t count = 0;
    bool fine = partition->expiry.from_ms < call->now_ms && collect_due(call, due, &count);
    for (size_t i = 0; i < count; i++)
        fine = expire_one(call, &due[i]) && fine;
    if (fine && count < CYCLE_ROWS_MAX)
        /* all due rows are deleted: the next cycle starts after them */
        partition->expiry.from_ms = call->now_ms;
    return fine && count == CYCLE_ROWS_MAX;
}
