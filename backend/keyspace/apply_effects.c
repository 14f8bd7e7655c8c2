#include "backend/keyspace/apply_effects.h"

#include "backend/context/partition.h"
#include "backend/format/effects.h"
#include "backend/format/encoding.h"
#include "backend/keyspace/due_rows.h"
#include "backend/keyspace/space.h"
#include "shared/check.h"

#include <stdlib.h>

/* What a metadata row adds to the counters of its slot. */
struct counted {
    int keys;
    int expires;
    int ttl_hashes;
};

static bool count_row(struct bytes row, struct counted *counted)
{
    struct metadata metadata;
    if (!decode_metadata(row, &metadata))
        return false;
    *counted = (struct counted){
        .keys = 1, .expires = metadata.expire_ms != 0, .ttl_hashes = metadata.field_ttls != 0};
    return true;
}

void ascending_rows_clear(struct ascending_rows *rows)
{
    free(rows->row);
    *rows = (struct ascending_rows){0};
}

/* Is the metadata row certainly not here, because the slot has no keys or smaller rows only? Then it becomes the greatest. */
static bool is_new_row(struct ascending_rows *rows, const struct space_set *spaces,
                       const struct space *space, uint16_t slot, struct bytes row)
{
    bool is_greater = rows->space == space && rows->slot == slot &&
                      bytes_compare(row, (struct bytes){rows->row, rows->len}) > 0;
    if (!is_greater && space_slot_keys(spaces, space, slot))
        return false;
    if (row.len > rows->cap) {
        rows->cap = 2 * row.len;
        rows->row = realloc(rows->row, rows->cap);
        CHECK(rows->row);
    }
    memcpy(rows->row, row.data, row.len);
    rows->len = row.len;
    rows->space = space;
    rows->slot = slot;
    return true;
}

/* What the present metadata row adds to the counters. False: it cannot be read. */
static bool count_present_row(struct partition *partition, struct bytes row_key,
                              struct counted *counted)
{
    struct slice value;
    int err = overlay_get(partition->overlay, CF_METADATA, row_key, &value);
    bool is_good = err == ERR_NOT_FOUND || (err == OK && count_row(slice_bytes(&value), counted));
    if (err == OK)
        slice_release(&value);
    return is_good;
}

/* Counts the change from the present metadata row to `after`; data NULL: the key is deleted. `rows` may be NULL. */
static bool count_key_change(struct partition *partition, struct bytes row_key, struct bytes after,
                             struct ascending_rows *rows)
{
    struct counted old = {0};
    struct counted new = {0};
    struct bytes name;
    struct bytes key;
    uint16_t slot;
    if (!decode_metadata_key(row_key, &name, &slot, &key) ||
        (after.data && !count_row(after, &new)))
        return false;
    struct space *space = space_find(partition->spaces, name);
    bool is_new = rows && after.data && is_new_row(rows, partition->spaces, space, slot, row_key);
    if (!is_new && !count_present_row(partition, row_key, &old))
        return false;
    if (new.keys != old.keys || new.expires != old.expires)
        space_count(partition->spaces, space, slot, new.keys - old.keys, new.expires - old.expires);
    if (new.ttl_hashes != old.ttl_hashes)
        space_count_ttl_hash(partition->spaces, space, row_key, new.ttl_hashes - old.ttl_hashes);
    space_changes_add(partition->spaces, 1);
    return true;
}

static void note_expiry(struct partition *partition, struct bytes row)
{
    uint64_t expire_ms;
    struct bytes metadata_key;
    if (decode_expire_key(row, &expire_ms, &metadata_key))
        due_rows_note(partition->expiry.index, expire_ms, metadata_key);
}

/* Metadata rows are deleted in ranges only by slots, so their counters become zero. */
static bool delete_range(struct partition *partition, const struct effect *effect)
{
    const struct effect_place *place = &effect->place;
    if (effect->cf == CF_METADATA && (place->is_any_space || place->first_slot == EFFECT_NO_SLOT))
        return false;
    overlay_delete_range(partition->overlay, effect->cf, effect->key, effect->to);
    if (effect->cf == CF_METADATA)
        space_clear_slots(partition->spaces, space_find(partition->spaces, place->space),
                          place->first_slot, place->last_slot);
    return true;
}

static bool apply_one(struct partition *partition, const struct effect *effect,
                      struct ascending_rows *rows)
{
    bool is_put = effect->kind == EFFECT_PUT;
    if (effect->kind == EFFECT_DELETE_RANGE)
        return delete_range(partition, effect);
    if (effect->cf == CF_METADATA &&
        !count_key_change(partition, effect->key, is_put ? effect->value : (struct bytes){0}, rows))
        return false;
    if (is_put && effect->cf == CF_EXPIRE)
        note_expiry(partition, effect->key);
    if (is_put)
        overlay_put(partition->overlay, effect->cf, effect->key, effect->value);
    else
        overlay_delete(partition->overlay, effect->cf, effect->key);
    return true;
}

bool apply_effects_open(struct partition *partition, struct bytes effects,
                        struct effects_reader *reader)
{
    struct effects_header header;
    if (effects_open(effects, &header, reader) != EFFECTS_READ)
        return false;
    (void)partition_hear_version(partition, header.version); /* one far ahead was forged */
    return true;
}

bool apply_next_effect(struct partition *partition, struct effects_reader *reader, size_t *bytes)
{
    struct effect effect;
    enum effects_read result = effects_next(reader, &effect);
    *bytes = result == EFFECTS_READ ? 1 + effect.key.len + effect.value.len : 0;
    return result == EFFECTS_READ ? apply_one(partition, &effect, NULL) : result == EFFECTS_END;
}

static bool apply_each_effect(struct partition *partition, struct bytes effects,
                              struct ascending_rows *rows)
{
    struct effects_reader reader;
    struct effect effect;
    enum effects_read result;
    if (!apply_effects_open(partition, effects, &reader))
        return false;
    while ((result = effects_next(&reader, &effect)) == EFFECTS_READ)
        if (!apply_one(partition, &effect, rows))
            return false;
    return result == EFFECTS_END;
}

bool apply_effects(struct partition *partition, struct bytes effects)
{
    return apply_each_effect(partition, effects, NULL);
}

bool apply_ascending_effects(struct partition *partition, struct bytes effects,
                             struct ascending_rows *rows)
{
    bool is_good = apply_each_effect(partition, effects, rows);
    if (!is_good)
        ascending_rows_clear(rows);
    return is_good;
}

/* Does the effect delete whole slots of a namespace? */
static bool is_flush(const struct effect *effect)
{
    const struct effect_place *place = &effect->place;
    return effect->kind == EFFECT_DELETE_RANGE && !place->is_any_space &&
           place->first_slot != EFFECT_NO_SLOT && effect->key.len == 1 + place->space.len + 2 &&
           effect->to.len && effect->to.len <= effect->key.len;
}

/* Is it one of the effects that a command has on its keys? Other ones would change keys that are not locked, or counters. */
static bool is_of_command(const struct effect *effect)
{
    struct metadata meta;
    struct bytes space, key, prefix, to_prefix;
    uint16_t slot;
    if (!effect_is_at_place(effect))
        return false;
    if (effect->kind == EFFECT_DELETE_RANGE)
        return is_flush(effect) ||
               (cf_has_collections(effect->cf) && decode_collection_prefix(effect->key, &prefix) &&
                decode_collection_prefix(effect->to, &to_prefix) && bytes_equal(prefix, to_prefix));
    if (effect->cf == CF_METADATA)
        return decode_metadata_key(effect->key, &space, &slot, &key) &&
               (effect->kind == EFFECT_DELETE || decode_metadata(effect->value, &meta));
    return true;
}

bool effects_each_flush(struct bytes effects, void (*on_flush)(void *owner, struct bytes space),
                        void *owner)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    enum effects_read result = effects_open(effects, &header, &reader);
    while (result == EFFECTS_READ && (result = effects_next(&reader, &effect)) == EFFECTS_READ)
        if (effect.cf == CF_METADATA && is_flush(&effect))
            on_flush(owner, effect.place.space);
    return result == EFFECTS_END;
}

/* The metadata row of the key to which a row or range belongs, in the arena; of a flush: the prefix of the database's metadata rows;
 * data NULL: it belongs to none. */
static struct bytes key_of(struct arena *arena, const struct effect *effect)
{
    struct bytes space;
    struct bytes key;
    struct bytes sub;
    uint16_t slot;
    uint64_t number;
    struct bytes row_key = {0};
    if (is_flush(effect))
        return encode_space_prefix(arena, effect->place.space);
    switch (effect->cf) {
    case CF_METADATA:
        return effect->key;
    case CF_EXPIRE:
        return decode_expire_key(effect->key, &number, &row_key) ? row_key : (struct bytes){0};
    case CF_DATA:
    case CF_ZSET_SCORE:
    case CF_STREAM:
    case CF_RANK:
        return decode_collection_key(effect->key, &space, &slot, &key, &number, &sub)
                   ? encode_metadata_key(arena, space, slot, key)
                   : (struct bytes){0};
    default:
        return (struct bytes){0};
    }
}

enum effects_read effects_next_key(struct effects_reader *reader, struct arena *arena,
                                   struct bytes *row_key)
{
    struct effect effect;
    enum effects_read result = effects_next(reader, &effect);
    if (result != EFFECTS_READ)
        return result;
    *row_key = key_of(arena, &effect);
    return row_key->data && is_of_command(&effect) ? EFFECTS_READ : EFFECTS_DAMAGED;
}
