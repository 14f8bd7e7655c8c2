#include "backend/format/effects.h"

#include "backend/format/encoding.h"
#include "shared/big_memory.h"
#include "shared/byte_order.h"
#include "shared/check.h"
#include "shared/slot.h"

#include <stdlib.h>

enum {
    TYPE_AT = 1,
    ZERO_AT = 2,
    COUNT_AT = 4,
    INDEX_AT = 8,
    TERM_AT = 16,
    COMMIT_AT = 24,
    ORIGIN_AT = 32,
    VERSION_AT = 40,
    HYBRID_AT = 48,
    FORMAT_1 = 1,
    HEADER_BYTES_1 = HYBRID_AT,
    FAMILY_BITS = 0x07,
    IS_INTERNAL = 0x08,
    KIND_SHIFT = 4,
    KIND_BITS = 0x03,
    HAS_LAST_SLOT = 0x40,
    HAS_PLACE = 0x80,
    SPACE_BYTES_MAX = NAMESPACE_BYTES_MAX + 2,
    ANY_SPACE = 255,
    PLACE_BYTES_MAX = 1 + SPACE_BYTES_MAX + 4,
    EFFECT_BYTES_MAX = 1 + PLACE_BYTES_MAX + 2 * VARINT_BYTES_MAX, /* without key and value */
    EXPIRE_BYTES = 8,                                              /* before the metadata key */
    SLOT_BYTES = 2,
    ROOM_MIN = 512,
    ROOM_KEPT = 1 << 20, /* a bigger buffer is freed when the next batch begins */
};

struct effects {
    char *data;
    size_t len, room;
    uint32_t count;
    bool is_internal;          /* what is added */
    struct effect_place place; /* of the previous effect; its space is a copy in `space` */
    char space[SPACE_BYTES_MAX];
};

/* ---- places ---- */

static const struct effect_place partition_place = {
    .space = {"", 0}, .first_slot = EFFECT_NO_SLOT, .last_slot = EFFECT_NO_SLOT};
static const struct effect_place anywhere = {
    .space = {"", 0}, .is_any_space = true, .first_slot = 0, .last_slot = SLOT_COUNT - 1};

static bool is_place(const struct effect_place *place)
{
    if (place->first_slot == EFFECT_NO_SLOT)
        return place->last_slot == EFFECT_NO_SLOT && !place->is_any_space;
    return place->first_slot <= place->last_slot && place->last_slot < SLOT_COUNT;
}

static bool same_place(const struct effect_place *a, const struct effect_place *b)
{
    return a->is_any_space == b->is_any_space && a->first_slot == b->first_slot &&
           a->last_slot == b->last_slot && bytes_equal(a->space, b->space);
}

/* Reads space and slot from the beginning of a key; missing bytes of the slot count as zeros. `behind`: number of
 * bytes after the slot, negative if the slot is incomplete. False: the key does not begin with a space. */
static bool key_place(struct bytes key, struct bytes *space, uint32_t *slot, int64_t *behind)
{
    size_t len = key.len ? (uint8_t)key.data[0] : SIZE_MAX;
    if (len > SPACE_BYTES_MAX || key.len < 1 + len)
        return false;
    *space = (struct bytes){key.data + 1, len};
    *behind = (int64_t)key.len - (int64_t)(1 + len + SLOT_BYTES);
    char bytes[SLOT_BYTES] = {0};
    memcpy(bytes, key.data + 1 + len, *behind >= 0 ? SLOT_BYTES : (size_t)(SLOT_BYTES + *behind));
    *slot = get_be16(bytes);
    return *slot <= SLOT_COUNT;
}

/* Keys without a slot belong to the partition. */
struct effect_place effect_place_of_row(enum cf cf, struct bytes key)
{
    struct bytes space;
    uint32_t slot;
    int64_t behind;
    if (cf == CF_SYSTEM || (cf == CF_EXPIRE && key.len < EXPIRE_BYTES))
        return partition_place;
    if (cf == CF_EXPIRE)
        key = (struct bytes){key.data + EXPIRE_BYTES, key.len - EXPIRE_BYTES};
    if (!key_place(key, &space, &slot, &behind) || behind < 0 || slot == SLOT_COUNT)
        return partition_place;
    return (struct effect_place){space, false, (uint16_t)slot, (uint16_t)slot};
}

/* Is `to` the first key after all keys that begin with the space's length and bytes? */
static bool ends_space(struct bytes space, struct bytes to)
{
    char end[1 + SPACE_BYTES_MAX];
    size_t len = 1 + space.len;
    end[0] = (char)space.len;
    if (space.len)
        memcpy(end + 1, space.data, space.len);
    while (len && (uint8_t)end[len - 1] == UINT8_MAX)
        len--;
    if (len)
        end[len - 1]++;
    return bytes_equal(to, (struct bytes){end, len});
}

/* The slots that can have rows of the range: all slots, unless both bounds lie in one storage namespace. */
struct effect_place effect_place_of_range(enum cf cf, struct bytes from, struct bytes to)
{
    struct bytes space, to_space;
    uint32_t first, last;
    int64_t from_behind, to_behind;
    if (cf == CF_SYSTEM)
        return partition_place;
    if (cf == CF_EXPIRE || !key_place(from, &space, &first, &from_behind) || first == SLOT_COUNT)
        return anywhere;
    if (ends_space(space, to))
        return (struct effect_place){space, false, (uint16_t)first, SLOT_COUNT - 1};
    if (!key_place(to, &to_space, &last, &to_behind) || !bytes_equal(space, to_space))
        return anywhere;
    if (to_behind <= 0 && last) /* `to` is before all keys of slot `last` */
        last--;
    struct effect_place place = {space, false, (uint16_t)first, (uint16_t)last};
    return is_place(&place) ? place : anywhere;
}

bool effect_is_at_place(const struct effect *effect)
{
    struct effect_place place = effect->kind == EFFECT_DELETE_RANGE
                                    ? effect_place_of_range(effect->cf, effect->key, effect->to)
                                    : effect_place_of_row(effect->cf, effect->key);
    return same_place(&place, &effect->place);
}

/* ---- encoding ---- */

static void reserve(struct effects *effects, size_t more)
{
    if (effects->room - effects->len >= more)
        return;
    size_t room = effects->room ? effects->room : ROOM_MIN;
    while (room - effects->len < more)
        room *= 2;
    effects->data = realloc(effects->data, room);
    CHECK(effects->data);
    effects->room = room;
}

struct effects *effects_new(void)
{
    struct effects *effects = calloc(1, sizeof *effects);
    CHECK(effects);
    effects_clear(effects);
    return effects;
}

void effects_free(struct effects *effects)
{
    if (effects)
        free(effects->data);
    free(effects);
}

void effects_begin(struct effects *effects, const struct effects_header *header)
{
    if (effects->room > ROOM_KEPT) {
        free(effects->data);
        effects->data = NULL;
        effects->room = 0;
    }
    effects->len = effects->count = 0;
    effects->is_internal = false;
    reserve(effects, EFFECTS_HEADER_BYTES);
    effects->data[0] = EFFECTS_FORMAT;
    effects->data[TYPE_AT] = (char)header->type;
    put_le16(effects->data + ZERO_AT, 0);
    put_le32(effects->data + COUNT_AT, 0);
    put_le64(effects->data + INDEX_AT, header->index);
    put_le64(effects->data + TERM_AT, header->term);
    put_le64(effects->data + COMMIT_AT, header->commit);
    put_le64(effects->data + ORIGIN_AT, header->origin_ms);
    put_le64(effects->data + VERSION_AT, header->version);
    put_le64(effects->data + HYBRID_AT, header->hybrid);
    effects->len = EFFECTS_HEADER_BYTES;
}

void effects_clear(struct effects *effects)
{
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_BATCH});
}

void effects_set_index(struct effects *effects, uint64_t index)
{
    put_le64(effects->data + INDEX_AT, index);
    put_le64(effects->data + COMMIT_AT, index);
}

void effects_set_numbers(struct effects *effects, uint64_t index, uint64_t term, uint64_t commit)
{
    CHECK(commit <= index);
    put_le64(effects->data + INDEX_AT, index);
    put_le64(effects->data + TERM_AT, term);
    put_le64(effects->data + COMMIT_AT, commit);
}

void effects_set_version(struct effects *effects, uint64_t version)
{
    put_le64(effects->data + VERSION_AT, version);
}

void effects_set_internal(struct effects *effects, bool is_internal)
{
    effects->is_internal = is_internal;
}

static char *append_varint(char *to, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        *to++ = (char)(value | 0x80);
    *to++ = (char)value;
    return to;
}

static char *write_run(char *to, struct bytes run)
{
    to = append_varint(to, run.len);
    big_copy(to, run.data, run.len);
    return to + run.len;
}

static char *write_place(struct effects *effects, char *to, const struct effect_place *place)
{
    *to++ = (char)(place->is_any_space ? ANY_SPACE : place->space.len);
    (void)bytes_copy_to(&to, place->space);
    put_le16(to, place->first_slot);
    to += 2;
    if (place->last_slot != place->first_slot) {
        put_le16(to, place->last_slot);
        to += 2;
    }
    effects->place = *place;
    char *space = effects->space;
    effects->place.space = bytes_copy_to(&space, place->space);
    return to;
}

static void append_effect(struct effects *effects, const struct effect *effect)
{
    const struct effect_place *place = &effect->place;
    CHECK(effect->cf < CF_COUNT && effects->count < UINT32_MAX);
    reserve(effects, EFFECT_BYTES_MAX + effect->key.len + effect->value.len + effect->to.len);
    char *head = effects->data + effects->len, *to = head + 1;
    *head = (char)((unsigned)effect->cf | (unsigned)effect->kind << KIND_SHIFT |
                   (effects->is_internal ? IS_INTERNAL : 0));
    if (!effects->count || !same_place(place, &effects->place)) {
        *head = (char)(*head | HAS_PLACE);
        if (place->last_slot != place->first_slot)
            *head = (char)(*head | HAS_LAST_SLOT);
        to = write_place(effects, to, place);
    }
    to = write_run(to, effect->key);
    if (effect->kind != EFFECT_DELETE)
        to = write_run(to, effect->kind == EFFECT_DELETE_RANGE ? effect->to : effect->value);
    effects->len = (size_t)(to - effects->data);
    put_le32(effects->data + COUNT_AT, ++effects->count);
}

void effects_put(struct effects *effects, enum cf cf, struct bytes key, struct bytes value)
{
    append_effect(effects, &(struct effect){
                               .kind = EFFECT_PUT,
                               .cf = cf,
                               .place = effect_place_of_row(cf, key),
                               .key = key,
                               .value = value,
                           });
}

void effects_delete(struct effects *effects, enum cf cf, struct bytes key)
{
    append_effect(effects, &(struct effect){
                               .kind = EFFECT_DELETE,
                               .cf = cf,
                               .place = effect_place_of_row(cf, key),
                               .key = key,
                           });
}

void effects_delete_range(struct effects *effects, enum cf cf, struct bytes from, struct bytes to)
{
    append_effect(effects, &(struct effect){
                               .kind = EFFECT_DELETE_RANGE,
                               .cf = cf,
                               .place = effect_place_of_range(cf, from, to),
                               .key = from,
                               .to = to,
                           });
}

void effects_note(struct effects *effects, enum cf cf, struct bytes key, struct bytes value)
{
    append_effect(effects, &(struct effect){
                               .kind = EFFECT_NOTE,
                               .cf = cf,
                               .place = effect_place_of_row(cf, key),
                               .key = key,
                               .value = value,
                           });
}

uint32_t effects_count(const struct effects *effects)
{
    return effects->count;
}

struct bytes effects_bytes(const struct effects *effects)
{
    return (struct bytes){effects->data, effects->len};
}

/* ---- decoding ---- */

static bool is_type(uint8_t format, enum effects_type type)
{
    return type == EFFECTS_BATCH || type == EFFECTS_PROBE ||
           (type == EFFECTS_MEMBERS && format != FORMAT_1);
}

enum effects_read effects_open(struct bytes batch, struct effects_header *header,
                               struct effects_reader *reader)
{
    uint8_t format = batch.len ? (uint8_t)batch.data[0] : 0;
    size_t size = format == FORMAT_1 ? HEADER_BYTES_1 : EFFECTS_HEADER_BYTES;
    if (batch.len < size || format == 0)
        return EFFECTS_DAMAGED;
    *header = (struct effects_header){
        .type = (enum effects_type)(uint8_t)batch.data[TYPE_AT],
        .count = get_le32(batch.data + COUNT_AT),
        .index = get_le64(batch.data + INDEX_AT),
        .term = get_le64(batch.data + TERM_AT),
        .commit = get_le64(batch.data + COMMIT_AT),
        .origin_ms = get_le64(batch.data + ORIGIN_AT),
        .version = get_le64(batch.data + VERSION_AT),
        .hybrid = format == FORMAT_1 ? 0 : get_le64(batch.data + HYBRID_AT),
    };
    if (format > EFFECTS_FORMAT || get_le16(batch.data + ZERO_AT) != 0 ||
        !is_type(format, header->type))
        return EFFECTS_NEWER;
    *reader = (struct effects_reader){
        .rest = {batch.data + size, batch.len - size},
        .left = header->count,
        .format = format,
    };
    return header->commit <= header->index ? EFFECTS_READ : EFFECTS_DAMAGED;
}

bool effects_is_write_batch(struct bytes batch)
{
    static const char zero[8];
    return batch.len >= sizeof zero && memcmp(batch.data, zero, sizeof zero) == 0;
}

const char *effects_refusal(enum effects_read result)
{
    return result == EFFECTS_NEWER
               ? "it was written by a newer version of this program: use that version"
               : "it is damaged";
}

/* The functions below read from the front of `rest`, or return false. */
static bool read_raw(struct bytes *rest, size_t len, struct bytes *taken)
{
    if (rest->len < len)
        return false;
    *taken = (struct bytes){rest->data, len};
    rest->data += len;
    rest->len -= len;
    return true;
}

static bool read_u8(struct bytes *rest, uint8_t *value)
{
    struct bytes raw;
    if (!read_raw(rest, 1, &raw))
        return false;
    *value = (uint8_t)raw.data[0];
    return true;
}

static bool read_u16(struct bytes *rest, uint16_t *value)
{
    struct bytes raw;
    if (!read_raw(rest, 2, &raw))
        return false;
    *value = get_le16(raw.data);
    return true;
}

/* Refuses longer forms than append_varint writes. */
static bool read_slot_run(struct bytes *rest, struct bytes *run)
{
    uint64_t len = 0;
    uint8_t byte = 0x80;
    for (unsigned shift = 0; byte & 0x80; shift += 7) {
        if (shift > 63 || !read_u8(rest, &byte) || (shift == 63 && byte > 1) || (shift && !byte))
            return false;
        len |= (uint64_t)(byte & 0x7f) << shift;
    }
    return len <= rest->len && read_raw(rest, (size_t)len, run);
}

static bool read_place(struct bytes *rest, bool has_last_slot, struct effect_place *place)
{
    uint8_t len;
    if (!read_u8(rest, &len))
        return false;
    place->is_any_space = len == ANY_SPACE;
    if (place->is_any_space)
        len = 0;
    if (len > SPACE_BYTES_MAX || !read_raw(rest, len, &place->space) ||
        !read_u16(rest, &place->first_slot))
        return false;
    place->last_slot = place->first_slot;
    if (has_last_slot &&
        (!read_u16(rest, &place->last_slot) || place->last_slot == place->first_slot))
        return false;
    return is_place(place);
}

static bool read_effect(struct effects_reader *reader, struct effect *effect)
{
    uint8_t head;
    struct bytes none = BYTES("");
    if (!read_u8(&reader->rest, &head))
        return false;
    *effect = (struct effect){
        .kind = (enum effect_kind)(head >> KIND_SHIFT & KIND_BITS),
        .cf = (enum cf)(head & FAMILY_BITS),
        .is_internal = head & IS_INTERNAL,
        .value = none,
        .to = none,
    };
    bool is_new = effect->is_internal || effect->kind == EFFECT_NOTE;
    if (effect->cf >= CF_COUNT || (is_new && reader->format == FORMAT_1))
        return false;
    bool has_place = head & HAS_PLACE, has_last_slot = head & HAS_LAST_SLOT;
    if (has_place ? !read_place(&reader->rest, has_last_slot, &reader->place)
                  : has_last_slot || !reader->has_place)
        return false;
    reader->has_place = true;
    effect->place = reader->place;
    return read_slot_run(&reader->rest, &effect->key) &&
           (effect->kind == EFFECT_DELETE ||
            read_slot_run(&reader->rest,
                          effect->kind == EFFECT_DELETE_RANGE ? &effect->to : &effect->value));
}

enum effects_read effects_next(struct effects_reader *reader, struct effect *effect)
{
    enum effects_read result;
    do
        result = effects_next_or_note(reader, effect);
    while (result == EFFECTS_READ && effect->kind == EFFECT_NOTE);
    return result;
}

enum effects_read effects_next_or_note(struct effects_reader *reader, struct effect *effect)
{
    if (!reader->left)
        return reader->rest.len ? EFFECTS_DAMAGED : EFFECTS_END;
    reader->left--;
    return read_effect(reader, effect) ? EFFECTS_READ : EFFECTS_DAMAGED;
}
