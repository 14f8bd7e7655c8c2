/*
 * keyspace_all.c - all keys of a storage namespace: iterating, size, FLUSHDB and SWAPDB.
 *
 * Rows of slots that the partition does not serve are stored, but no command sees them. If a command has borrowed the keys of
 * all shards (borrow_all.h), those of other shards count, and are flushed, too.
 */
#include "backend/keyspace/keyspace_inner.h"

#include "backend/context/change.h"
#include "backend/context/goes_on.h"
#include "backend/context/partition.h"
#include "backend/keyspace/borrow_all.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"

/* ---- iterating over keys ---- */

enum { NAMES_WANTED = 512 };

void key_iter_init(struct call *call, struct space *space, uint16_t slot_from, struct bytes after,
                   struct key_iter *it)
{
    *it = (struct key_iter){.call = call, .space = space, .wanted = NAMES_WANTED};
    struct bytes prefix = encode_space_prefix(call->arena, space->name);
    it->iter = overlay_iter_new(call->partition->overlay, CF_METADATA, prefix,
                                encode_prefix_end(call->arena, prefix));
    struct bytes from =
        encode_metadata_key(call->arena, space->name, slot_from, after.data ? after : NOTHING);
    it->is_over_shards = call->borrow && borrow_has_all_keys(call, space);
    if (it->is_over_shards)
        it->end = borrow_names_end(call, space, from);
    overlay_iter_seek(it->iter, from);
    if (after.data && overlay_iter_valid(it->iter) && bytes_equal(overlay_iter_key(it->iter), from))
        overlay_iter_next(it->iter);
}

/* Moves to the first key of the next slot that the partition serves. */
static void skip_slot(struct key_iter *it)
{
    unsigned from = it->slot;
    uint16_t first;
    uint16_t last;
    bool is_any = slot_set_next_run(slots_served(it->call->partition), &from, &first, &last);
    overlay_iter_seek(it->iter, encode_metadata_key(it->call->arena, it->space->name,
                                                    is_any ? first : SLOT_COUNT, NOTHING));
}

/* Is the row one of this partition's keys, or was it borrowed? It may also be left from a slot that has moved. */
static bool is_present(const struct key_iter *it)
{
    struct slice value;
    struct overlay *overlay = it->call->partition->overlay;
    return slot_is_served(it->call->partition, it->slot) ||
           overlay_get_borrowed(overlay, CF_METADATA, overlay_iter_key(it->iter), &value) == OK;
}

/* Has the iterator come to names that are missing? They are fetched, and the command runs again. */
static bool is_at_end(struct key_iter *it)
{
    if (!it->is_over_shards || !it->end.len ||
        (overlay_iter_valid(it->iter) && bytes_compare(overlay_iter_key(it->iter), it->end) < 0))
        return false;
    if (overlay_iter_error(it->iter) == OK)
        borrow_names(it->call, it->space, it->end, it->wanted);
    return true;
}

bool key_iter_next(struct key_iter *it)
{
    struct bytes space;
    if (it->started)
        overlay_iter_next(it->iter);
    it->started = true;
    while (!is_at_end(it) && overlay_iter_valid(it->iter) && call_goes_on(it->call, BUDGET_ROW)) {
        call_count_work(it->call, overlay_iter_value(it->iter).len / BUDGET_BYTES +
                                      BUDGET_PASSED * overlay_iter_passed(it->iter));
        bool is_good =
            decode_metadata_key(overlay_iter_key(it->iter), &space, &it->slot, &it->key) &&
            decode_metadata(overlay_iter_value(it->iter), &it->meta);
        if (is_good && !it->is_over_shards && !slot_is_served(it->call->partition, it->slot)) {
            skip_slot(it);
            continue;
        }
        if (is_good && !keyspace_expired(it->call, it->meta.expire_ms) &&
            (!it->is_over_shards || is_present(it)))
            return true;
        overlay_iter_next(it->iter);
    }
    return false;
}

bool key_iter_fini(struct key_iter *it)
{
    return close_iter(it->call, it->iter) && !it->call->failed;
}

bool keyspace_key_at(struct call *call, struct space *space, uint64_t place, struct bytes *row_key)
{
    struct key_iter it;
    bool found = false;
    uint16_t slot = space_slot_at(call->partition->spaces, space, &place);
    key_iter_init(call, space, slot, (struct bytes){NULL, 0}, &it);
    it.is_over_shards = false;
    while (!found && key_iter_next(&it))
        if (place-- == 0) {
            *row_key = arena_copy(call->arena, overlay_iter_key(it.iter));
            found = true;
        }
    return key_iter_fini(&it) && found;
}

/* ---- flushing and swapping ---- */

/* A SWAPDB or FLUSHDB, for the watched keys of one database. */
struct replaced {
    struct call *call;
    struct space *space;
    struct space *by; /* the database that replaces `space`; NULL: FLUSHDB */
};

/* A row that cannot be read counts as a key. The caller may use all keys of the database. */
static bool key_exists(struct call *call, const struct space *space, uint16_t slot,
                       struct bytes key)
{
    struct slice slice;
    struct metadata meta;
    int err = overlay_get(call->partition->overlay, CF_METADATA,
                          encode_metadata_key(call->arena, space->name, slot, key), &slice);
    if (err != OK)
        return is_read_failure(err);
    bool exists =
        !decode_metadata(slice_bytes(&slice), &meta) || !keyspace_expired(call, meta.expire_ms);
    slice_release(&slice);
    return exists;
}

/* watch_key_fn: reports the key if it exists before or after the change. */
static void replace_watched(void *owner, uint16_t slot, struct bytes key)
{
    const struct replaced *replaced = owner;
    struct call *call = replaced->call;
    if (key_exists(call, replaced->space, slot, key) ||
        (replaced->by && key_exists(call, replaced->by, slot, key))) {
        const struct change change = {.kind = CHANGE_WATCHED, .space = replaced->space, .key = key};
        call->partition->watchers.changes->add(call, &change);
    }
}

/* Deletes all rows of these slots. */
static void flush_slots(struct call *call, const struct space *space, uint16_t first, uint16_t last)
{
    static const enum cf FLUSHED[] = {CF_METADATA, CF_DATA, CF_ZSET_SCORE, CF_STREAM, CF_RANK};
    struct bytes from = encode_slot_prefix(call->arena, space->name, first);
    struct bytes end =
        encode_prefix_end(call->arena, encode_slot_prefix(call->arena, space->name, last));
    for (size_t i = 0; i < sizeof FLUSHED / sizeof FLUSHED[0]; i++)
        overlay_delete_range(call->partition->overlay, FLUSHED[i], from, end);
}

void keyspace_tell_flush(struct call *call, struct space *space)
{
    struct replaced replaced = {.call = call, .space = space};
    watch_each_of(call->partition->watchers.watches, space, replace_watched, &replaced);
    const struct change change = {.kind = CHANGE_FLUSHED, .space = space};
    call->partition->watchers.changes->add(call, &change);
}

/* For borrow_each_run. */
struct flushing {
    struct call *call;
    const struct space *space;
};

static void flush_run(void *owner, uint16_t first, uint16_t last)
{
    const struct flushing *flushing = owner;
    flush_slots(flushing->call, flushing->space, first, last);
}

/* Removes the keys of all shards; the effects are collected by shard. */
static void flush_all_shards(struct call *call, struct space *space)
{
    struct flushing flushing = {call, space};
    borrow_each_run(call, flush_run, &flushing);
    space_count_elsewhere(call->partition->spaces, space, -space->elsewhere);
}

void keyspace_flush(struct call *call, struct space *space)
{
    const struct slot_set *served = slots_served(call->partition);
    unsigned slot = 0;
    uint16_t first;
    uint16_t last;
    overlay_nonblocking_end(call->partition->overlay);
    keyspace_tell_flush(call, space);
    if (call->borrow)
        flush_all_shards(call, space);
    else
        while (slot_set_next_run(served, &slot, &first, &last))
            flush_slots(call, space, first, last);
    space_clear(call->partition->spaces, space);
}

void keyspace_observe_size(struct call *call, const struct space *space)
{
    overlay_observe(call->partition->overlay, space->ticket);
}

uint64_t keyspace_size(const struct space *space)
{
    return space->keys + (uint64_t)space->elsewhere;
}

void keyspace_swap(struct call *call, struct bytes name, uint8_t a, uint8_t b)
{
    struct partition *partition = call->partition;
    struct space *space_a = space_open(partition->spaces, name, a);
    struct space *space_b = space_open(partition->spaces, name, b);
    if (a == b)
        return;
    overlay_nonblocking_end(partition->overlay);
    struct replaced first = {call, space_a, space_b};
    struct replaced second = {call, space_b, space_a};
    watch_each_of(partition->watchers.watches, space_a, replace_watched, &first);
    watch_each_of(partition->watchers.watches, space_b, replace_watched, &second);
    space_swap(partition->spaces, name, a, b); /* calls on_swap of partition_new.c */
}
