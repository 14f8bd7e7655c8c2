/*
 * expiry.c - the ring of due keys, and what is done with each.
 */
#include "backend/keyspace/expiry.h"

#include "backend/context/change.h"
#include "backend/context/partition.h"
#include "backend/keyspace/due_count.h"
#include "backend/keyspace/due_rows.h"
#include "backend/keyspace/field_expiry.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/lock.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/storage/reader.h"
#include "shared/byte_order.h"
#include "shared/clock.h"

#include <stdlib.h>

enum {
    RING = 1024, /* keys taken from the index; a power of two */
    ASIDE_MAX = 256,
    AHEAD_MAX = RING - ASIDE_MAX,
    AHEAD_BYTES = 8 << 20, /* of rows that are fetched ahead */
    AHEAD_MIN = 8,
    MEAN_SHARE = 16,     /* the newest row has this part in their mean size */
    STEP_KEYS = 256,     /* deleted in one step: bounds its memory */
    STEP_TAKEN = 128,    /* taken from the index in one step */
    STEP_ROWS = 1024,    /* read from the index in one step, with those of other shards' slots */
    CLOCK_KEYS = 8,      /* the clock is read after so many keys */
    BEHIND_MS = 1000,    /* keys that are due for longer are counted */
    ASIDE_MS = 100,      /* keys that were set aside are tried again after this time */
    BLOCKING_TRIES = 16, /* for the rows of one hash; then they are read on this thread */
};

/* A row of the index. */
struct due {
    char *index_key; /* heap */
    size_t len;
    uint64_t due_ms;
    struct bytes row_key; /* in index_key */
};

struct expiry {
    struct partition *partition;
    void (*on_rows)(struct partition *partition);
    struct due_rows rows;
    struct due_count behind; /* rows that were not taken yet */
    uint64_t taken;          /* rows of the index, since the start */
    struct due ring[RING];
    uint32_t first, count; /* of the ring */
    struct due aside[ASIDE_MAX];
    uint32_t aside_count;
    uint64_t aside_ms;  /* when keys were last tried again; monotonic */
    struct retry wait;  /* for rows of the oldest key */
    uint32_t tries;     /* for rows of the oldest key, a hash */
    int64_t mean_bytes; /* of a metadata row */
};

/* What was done with a key. */
enum outcome {
    KEY_DONE,
    KEY_ASIDE,      /* it is locked, or cannot be read: later */
    KEY_WAITS,      /* for rows */
    KEY_NEEDS_CALL, /* a hash with due fields, which needs its own call */
    KEY_HAS_MORE,   /* fields that are due */
};

/* ---- life ---- */

/* range_rows: on_rows */
static void index_is_read(void *owner)
{
    struct expiry *expiry = owner;
    expiry->on_rows(expiry->partition);
}

/* retry.on_ready */
static void metadata_is_read(struct retry *wait)
{
    struct expiry *expiry = container_of(wait, struct expiry, wait);
    expiry->on_rows(expiry->partition);
}

struct expiry *expiry_new(struct partition *partition, void (*on_rows)(struct partition *partition))
{
    struct expiry *expiry = calloc(1, sizeof *expiry);
    CHECK(expiry);
    expiry->partition = partition;
    expiry->on_rows = on_rows;
    due_rows_init(&expiry->rows, partition, index_is_read, expiry);
    due_count_init(&expiry->behind, partition, index_is_read, expiry);
    retry_init(&expiry->wait, metadata_is_read);
    partition->expiry.index = &expiry->rows;
    return expiry;
}

static struct due *ring_at(struct expiry *expiry, uint32_t place)
{
    return &expiry->ring[(expiry->first + place) % RING];
}

static void clear(struct expiry *expiry)
{
    retry_cancel(&expiry->wait);
    expiry->wait.has_failed = false;
    for (uint32_t i = 0; i < expiry->count; i++)
        free(ring_at(expiry, i)->index_key);
    for (uint32_t i = 0; i < expiry->aside_count; i++)
        free(expiry->aside[i].index_key);
    expiry->count = expiry->aside_count = expiry->tries = 0;
}

void expiry_free(struct expiry *expiry)
{
    if (!expiry)
        return;
    clear(expiry);
    due_rows_fini(&expiry->rows);
    due_count_fini(&expiry->behind);
    free(expiry);
}

void expiry_restart(struct expiry *expiry)
{
    clear(expiry);
    due_rows_restart(&expiry->rows);
    due_count_restart(&expiry->behind);
    expiry->on_rows(expiry->partition); /* what it waited for does not come any more */
}

/* ---- taking rows of the index ---- */

/* Does the key belong to a slot that the partition serves? The rows of others belong to their owners. */
static bool is_due_here(const struct partition *partition, struct bytes row_key)
{
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    return !partition->shards.is_gated || !decode_metadata_key(row_key, &space, &slot, &key) ||
           slot_is_served(partition, slot);
}

/* Is the key locked, or its slot frozen? */
static bool is_held(const struct partition *partition, struct bytes row_key)
{
    const struct lock_set *locks = partition->shards.locks;
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    return (lock_set_count(locks) && lock_stops(locks, row_key, true, NULL)) ||
           (decode_metadata_key(row_key, &space, &slot, &key) && slot_is_frozen(partition, slot));
}

/* Number of keys whose rows are fetched ahead: few, if the rows are big. */
static uint32_t ahead(const struct expiry *expiry)
{
    int64_t rows = AHEAD_BYTES / (expiry->mean_bytes + 1);
    return rows < AHEAD_MIN ? AHEAD_MIN : rows > AHEAD_MAX ? AHEAD_MAX : (uint32_t)rows;
}

static void take_row(struct expiry *expiry, struct bytes index_key)
{
    struct partition *partition = expiry->partition;
    struct due due = {.index_key = malloc(index_key.len + 1), .len = index_key.len};
    CHECK(due.index_key);
    memcpy(due.index_key, index_key.data, index_key.len);
    if (!decode_expire_key((struct bytes){due.index_key, due.len}, &due.due_ms, &due.row_key) ||
        !is_due_here(partition, due.row_key)) {
        free(due.index_key);
        return;
    }
    *ring_at(expiry, expiry->count++) = due;
    if (partition->reader && !reader_is_full(partition->reader))
        (void)overlay_prefetch(partition->overlay, CF_METADATA, due.row_key, NULL);
}

/* Takes some keys, if the ring has less than half of those that are fetched ahead. ROWS_ROW: the index may have more. */
static enum rows_step fill_ring(struct expiry *expiry, uint64_t now_ms)
{
    enum rows_step step = ROWS_ROW;
    struct bytes index_key;
    uint32_t wanted = ahead(expiry);
    if (expiry->count > wanted / 2)
        return ROWS_ROW;
    if (wanted > expiry->count + STEP_TAKEN)
        wanted = expiry->count + STEP_TAKEN;
    for (int i = 0; step == ROWS_ROW && i < STEP_ROWS && expiry->count < wanted; i++) {
        step = due_rows_next(&expiry->rows, now_ms, &index_key);
        if (step != ROWS_ROW)
            break;
        expiry->taken++;
        take_row(expiry, index_key);
    }
    return step;
}

/* ---- keys that are set aside ---- */

/* Removes the oldest key from the ring; its row of the index belongs to the caller. */
static struct due take_oldest(struct expiry *expiry)
{
    struct due due = *ring_at(expiry, 0);
    expiry->first = (expiry->first + 1) % RING;
    expiry->count--;
    expiry->tries = expiry->wait.ranges = 0;
    return due;
}

static void set_aside(struct expiry *expiry)
{
    struct due due = take_oldest(expiry);
    if (expiry->aside_count < ASIDE_MAX) {
        expiry->aside[expiry->aside_count++] = due;
        return;
    }
    due_rows_note(&expiry->rows, due.due_ms, due.row_key);
    free(due.index_key);
}

/* Puts keys that can be deleted now before the oldest. */
static void reclaim(struct expiry *expiry)
{
    uint64_t now_ms = loop_mono_ms(expiry->partition->loop);
    uint32_t kept = 0;
    if (!expiry->aside_count || now_ms < expiry->aside_ms + ASIDE_MS)
        return;
    expiry->aside_ms = now_ms;
    for (uint32_t i = 0; i < expiry->aside_count; i++) {
        struct due *due = &expiry->aside[i];
        if (expiry->count == RING || is_held(expiry->partition, due->row_key)) {
            expiry->aside[kept++] = *due;
            continue;
        }
        expiry->first = (expiry->first + RING - 1) % RING;
        expiry->count++;
        *ring_at(expiry, 0) = *due;
    }
    expiry->aside_count = kept;
}

/* ---- deleting ---- */

/* True: the metadata row is in memory, or cannot be read. Else it is being fetched. */
static bool has_metadata_row(struct expiry *expiry, const struct due *due)
{
    struct partition *partition = expiry->partition;
    return !partition->reader || expiry->wait.has_failed ||
           overlay_prefetch(partition->overlay, CF_METADATA, due->row_key, &expiry->wait);
}

/* Reads the metadata row; its payload is released. OK, ERR_NOT_FOUND (also: it has another time), or a read failure. */
static int read_due(struct expiry *expiry, const struct due *due, struct metadata *meta)
{
    struct slice value;
    int err = ERR_STORE;
    if (!expiry->wait.has_failed)
        err = overlay_get(expiry->partition->overlay, CF_METADATA, due->row_key, &value);
    expiry->wait.has_failed = false;
    if (err != OK)
        return err;
    bool is_due =
        decode_metadata(slice_bytes(&value), meta) && metadata_due_ms(meta) == due->due_ms;
    expiry->mean_bytes += ((int64_t)value.len - expiry->mean_bytes) / MEAN_SHARE;
    slice_release(&value);
    meta->payload = (struct bytes){"", 0};
    return is_due ? OK : ERR_NOT_FOUND;
}

static struct entry due_entry(const struct partition *partition, const struct due *due,
                              const struct metadata *meta)
{
    struct entry entry = {.row_key = due->row_key,
                          .exists = true,
                          .is_ttl_hash = meta->field_ttls != 0,
                          .stored_expire_ms = meta->expire_ms,
                          .stored_due_ms = due->due_ms,
                          .meta = *meta};
    struct bytes space;
    CHECK(decode_metadata_key(due->row_key, &space, &entry.slot, &entry.key));
    entry.space = space_find(partition->spaces, space);
    return entry;
}

static void delete_expired(struct call *call, struct entry *entry)
{
    entry_delete(call, entry);
    metric_add(call->partition->metrics.process, METRIC_BACKEND_EXPIRED, 1);
    entry_event(call, entry, NOTIFY_EXPIRED, "expired");
}

/* Deletes fields that are due. Rows that are only on disk are fetched, but not for ever. If more fields are due, the key gets
 * another row in the index, which becomes `due`. */
static enum outcome expire_fields(struct call *call, struct expiry *expiry, struct due *due,
                                  struct entry *entry)
{
    struct overlay *overlay = call->partition->overlay;
    uint64_t left = FIELD_EXPIRY_MAX;
    bool may_wait = call->partition->reader && expiry->tries++ < BLOCKING_TRIES &&
                    expiry->wait.ranges < READER_RANGES_MAX;
    expiry->wait.has_range = false;
    overlay_nonblocking_begin(overlay, may_wait ? &expiry->wait : NULL);
    bool is_good = field_expiry_delete(call, entry, &left);
    overlay_nonblocking_begin(overlay, NULL);
    expiry->wait.ranges += expiry->wait.has_range;
    if (expiry->wait.pending)
        return KEY_WAITS; /* the call has failed, and is rolled back */
    if (!is_good)
        return KEY_ASIDE;
    expiry->tries = expiry->wait.ranges = 0;
    if (!entry->exists || !keyspace_expired(call, entry->meta.field_expire_ms))
        return KEY_DONE;
    due->due_ms = entry->stored_due_ms;
    put_be64(due->index_key, due->due_ms);
    return KEY_HAS_MORE;
}

/* Deletes the key, or its fields that are due, if its metadata row has the time of the index row; else deletes the index row, which
 * is stale. */
static enum outcome expire_one(struct call *call, struct expiry *expiry, struct due *due,
                               bool is_first)
{
    struct partition *partition = call->partition;
    struct metadata meta;
    if (!is_due_here(partition, due->row_key))
        return KEY_DONE; /* it has left since */
    if (is_held(partition, due->row_key))
        return KEY_ASIDE;
    if (!has_metadata_row(expiry, due))
        return KEY_WAITS;
    int err = read_due(expiry, due, &meta);
    if (is_read_failure(err))
        return KEY_ASIDE;
    if (err != OK) {
        overlay_delete(partition->overlay, CF_EXPIRE, (struct bytes){due->index_key, due->len});
        return KEY_DONE;
    }
    bool has_expired = keyspace_expired(call, meta.expire_ms);
    if (!has_expired && !keyspace_expired(call, meta.field_expire_ms))
        return KEY_ASIDE; /* the clock was set back */
    if (!has_expired && !is_first)
        return KEY_NEEDS_CALL;
    struct entry entry = due_entry(partition, due, &meta);
    if (!has_expired)
        return expire_fields(call, expiry, due, &entry);
    delete_expired(call, &entry);
    return KEY_DONE;
}

/* Deletes keys of the ring. */
static enum expiry_result empty_ring(struct call *call, struct expiry *expiry, uint64_t until_us)
{
    for (uint32_t keys = 0; expiry->count; keys++) {
        if (keys >= STEP_KEYS || (keys && keys % CLOCK_KEYS == 0 && clock_mono_us() >= until_us))
            return EXPIRY_GOES_ON;
        switch (expire_one(call, expiry, ring_at(expiry, 0), keys == 0)) {
        case KEY_DONE:
            free(take_oldest(expiry).index_key);
            break;
        case KEY_ASIDE:
            set_aside(expiry);
            if (call->failed)
                return EXPIRY_GOES_ON;
            break;
        case KEY_WAITS:
            return EXPIRY_WAITS;
        case KEY_NEEDS_CALL:
        case KEY_HAS_MORE:
            return EXPIRY_GOES_ON;
        }
    }
    return EXPIRY_DONE;
}

enum expiry_result expiry_step(struct call *call, uint64_t until_us)
{
    struct expiry *expiry = call->partition->expiry.keys;
    if (expiry->wait.pending)
        return EXPIRY_WAITS;
    reclaim(expiry);
    uint64_t from_ms = due_rows_from_ms(&expiry->rows);
    if (due_rows_has_more(&expiry->rows) && from_ms + BEHIND_MS < call->now_ms)
        due_count_step(&expiry->behind, from_ms, call->now_ms, expiry->taken);
    enum rows_step step = fill_ring(expiry, call->now_ms);
    enum expiry_result result = empty_ring(call, expiry, until_us);
    if (result != EXPIRY_DONE)
        return result;
    return step == ROWS_WAIT ? EXPIRY_WAITS : step == ROWS_ROW ? EXPIRY_GOES_ON : EXPIRY_DONE;
}

struct expiry_figures expiry_figures(const struct expiry *expiry, uint64_t now_ms)
{
    bool has_more = due_rows_has_more(&expiry->rows);
    uint64_t from_ms = due_rows_from_ms(&expiry->rows);
    struct expiry_figures figures = {.due = expiry->count + expiry->aside_count};
    if (has_more)
        figures.due += due_count_keys(&expiry->behind, expiry->taken);
    else if (!figures.due)
        return figures;
    for (uint32_t i = 0; i < expiry->aside_count; i++)
        if (expiry->aside[i].due_ms < from_ms)
            from_ms = expiry->aside[i].due_ms;
    if (expiry->count && expiry->ring[expiry->first].due_ms < from_ms)
        from_ms = expiry->ring[expiry->first].due_ms;
    figures.lag_ms = from_ms && from_ms < now_ms ? now_ms - from_ms : 0;
    return figures;
}
