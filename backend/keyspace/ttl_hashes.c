/*
 * ttl_hashes.c - the walk that counts hashes whose fields have TTLs.
 */
#include "backend/keyspace/ttl_hashes.h"

#include "backend/keyspace/space_inner.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"

#include <stdlib.h>

enum { STEP_US = 2000 };

/* ---- the place of the walk ---- */

static void set_place(struct ttl_hash_walk *walk, struct bytes place)
{
    char *copy = malloc(place.len + 1);
    CHECK(copy);
    if (place.len)
        memcpy(copy, place.data, place.len);
    free(walk->from); /* `place` may be in it */
    walk->from = copy;
    walk->len = place.len;
}

void ttl_hash_walk_restart(struct ttl_hash_walk *walk)
{
    ttl_hash_walk_fini(walk);
    *walk = (struct ttl_hash_walk){0};
}

void ttl_hash_walk_fini(struct ttl_hash_walk *walk)
{
    free(walk->from);
    walk->from = NULL;
}

/* The place after all rows of the key's collections, of whatever version. */
static struct bytes place_after(struct arena *arena, struct bytes space, uint16_t slot,
                                struct bytes key)
{
    return encode_prefix_end(arena, encode_collection_prefix(arena, space, slot, key, UINT64_MAX));
}

bool ttl_hash_walk_has_passed(const struct ttl_hash_walk *walk, struct bytes row_key)
{
    struct arena arena;
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    if (walk->is_done)
        return true;
    if (!walk->from || !decode_metadata_key(row_key, &space, &slot, &key))
        return false;
    arena_init(&arena);
    bool is_before = bytes_compare(encode_collection_prefix(&arena, space, slot, key, 0),
                                   (struct bytes){walk->from, walk->len}) < 0;
    arena_fini(&arena);
    return is_before;
}

/* ---- steps ---- */

/* Counts the key, if it is a hash whose fields have TTLs. False: its metadata row cannot be read now. */
static bool count_found(struct space_set *set, struct bytes space, uint16_t slot, struct bytes key)
{
    struct slice value;
    struct metadata meta;
    int err = overlay_get(set->overlay, CF_METADATA,
                          encode_metadata_key(&set->arena, space, slot, key), &value);
    if (err != OK)
        return err == ERR_NOT_FOUND;
    if (decode_metadata(slice_bytes(&value), &meta) && meta.field_ttls) {
        struct holder *holder = space_holder_open(set, space);
        space_ttl_hashes_add(set, space_counter_open(set, holder, slot), 1);
    }
    slice_release(&value);
    return true;
}

/* Counts the key of the row, and moves on to the next key. False: it cannot be read now, or was the last. */
static bool pass_key(struct space_set *set, struct overlay_iter *iter)
{
    struct bytes row = overlay_iter_key(iter);
    struct bytes space;
    struct bytes key;
    struct bytes sub;
    struct bytes next;
    uint16_t slot;
    uint64_t version;
    if (!decode_collection_key(row, &space, &slot, &key, &version, &sub))
        next = encode_prefix_end(&set->arena, row); /* damaged */
    else if (count_found(set, space, slot, key))
        next = place_after(&set->arena, space, slot, key);
    else
        return false;
    set->walk.is_done = !next.len;
    set_place(&set->walk, next);
    arena_reset(&set->arena);
    if (!set->walk.is_done)
        overlay_iter_seek(iter, (struct bytes){set->walk.from, set->walk.len});
    return !set->walk.is_done;
}

bool ttl_hashes_are_counted(const struct space_set *set)
{
    return set->walk.is_done;
}

void ttl_hashes_step(struct space_set *set, uint32_t keys)
{
    uint64_t until_us = clock_mono_us() + STEP_US;
    struct ttl_hash_walk *walk = &set->walk;
    struct overlay_iter *iter = overlay_iter_new(set->overlay, CF_RANK, BYTES(""), BYTES(""));
    overlay_iter_seek(iter, walk->from ? (struct bytes){walk->from, walk->len} : BYTES(""));
    while (keys && overlay_iter_valid(iter) && pass_key(set, iter))
        keys = clock_mono_us() < until_us ? keys - 1 : 0;
    if (!overlay_iter_valid(iter) && overlay_iter_error(iter) == OK)
        walk->is_done = true;
    overlay_iter_free(iter);
}
