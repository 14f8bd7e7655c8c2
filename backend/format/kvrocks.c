#include "backend/format/kvrocks.h"

#include "backend/format/stream_entry.h"
#include "shared/number.h"
#include "shared/slot.h"

#include <math.h>

enum {
    FLAG_NEW = 0x80,
    FLAGS_UNUSED = 0x70,
    TYPE_MASK = 0x0f,
    SLOT_BYTES = 2,
    JSON_TEXT = 0,
    JSON_CBOR = 1,
    HLL_DENSE_FORM = 0,
    GROUP_MARK_BYTES = 8,
};

/* Bytes that are read from the front. After a read beyond the end, is_bad is true and all reads yield 0. */
struct front {
    struct bytes rest;
    bool is_bad;
};

static struct bytes front_take(struct front *front, uint64_t len)
{
    struct bytes taken = {front->rest.data, (size_t)len};
    if (front->is_bad || len > front->rest.len) {
        front->is_bad = true;
        return BYTES("");
    }
    front->rest.data += len;
    front->rest.len -= (size_t)len;
    return taken;
}

static uint8_t take_u8(struct front *front)
{
    struct bytes taken = front_take(front, 1);
    return taken.len ? (uint8_t)taken.data[0] : 0;
}

static uint32_t take_u32(struct front *front)
{
    struct bytes taken = front_take(front, 4);
    return taken.len ? get_be32(taken.data) : 0;
}

static uint64_t take_u64(struct front *front)
{
    struct bytes taken = front_take(front, 8);
    return taken.len ? get_be64(taken.data) : 0;
}

static struct stream_id front_id(struct front *front)
{
    uint64_t ms = take_u64(front);
    return (struct stream_id){ms, take_u64(front)};
}

static struct bytes take_text(struct front *front)
{
    return front_take(front, take_u64(front));
}

static bool front_is_empty(const struct front *front)
{
    return !front->is_bad && front->rest.len == 0;
}

/* ---- metadata ---- */

static bool has_no_rows(enum kvrocks_type type)
{
    return type == KVROCKS_STRING || type == KVROCKS_JSON;
}

static bool read_inline(struct front *front, struct kvrocks_value *value)
{
    uint8_t format = value->type == KVROCKS_JSON ? take_u8(front) : JSON_TEXT;
    value->is_cbor = format == JSON_CBOR;
    value->payload = front->rest;
    return !front->is_bad && format <= JSON_CBOR;
}

static bool read_list_ends(struct front *front, struct kvrocks_value *value)
{
    value->head = take_u64(front);
    value->tail = take_u64(front);
    return value->head <= value->tail;
}

static bool read_stream(struct front *front, struct kvrocks_value *value)
{
    enum { IDS_NOT_NEEDED = 32 };
    value->last_generated = front_id(front);
    (void)front_id(front); /* recorded first */
    value->max_deleted = front_id(front);
    (void)front_take(front, IDS_NOT_NEEDED); /* first and last: rows tell them */
    value->entries_added = take_u64(front);
    if (front->rest.len)
        (void)take_u64(front); /* number of groups; directories of before 2.3 lack it */
    return true;
}

static bool read_fields_of_type(struct front *front, struct kvrocks_value *value)
{
    switch (value->type) {
    case KVROCKS_LIST:
        return read_list_ends(front, value);
    case KVROCKS_STREAM:
        return read_stream(front, value);
    case KVROCKS_HYPERLOGLOG:
        return take_u8(front) == HLL_DENSE_FORM;
    case KVROCKS_BITMAP:
        return value->size <= KVROCKS_BITMAP_MAX;
    default:
        return true;
    }
}

static bool is_known_form(uint8_t flags)
{
    unsigned type = flags & TYPE_MASK;
    return !(flags & FLAGS_UNUSED) && type >= KVROCKS_STRING && type < KVROCKS_TYPES &&
           type != KVROCKS_BLOOM;
}

bool kvrocks_value_read(struct bytes row, struct kvrocks_value *value)
{
    struct front front = {.rest = row};
    uint8_t flags = take_u8(&front);
    bool is_new = flags & FLAG_NEW;
    *value = (struct kvrocks_value){.type = (enum kvrocks_type)(flags & TYPE_MASK)};
    value->expire_ms = is_new ? take_u64(&front) : UINT64_C(1000) * take_u32(&front);
    if (!is_known_form(flags) || value->expire_ms > INT64_MAX)
        return false;
    if (has_no_rows(value->type))
        return read_inline(&front, value);
    value->version = take_u64(&front);
    value->size = is_new ? take_u64(&front) : take_u32(&front);
    return read_fields_of_type(&front, value) && front_is_empty(&front);
}

/* ---- keys ---- */

bool kvrocks_key_read(struct bytes row, bool has_slots, struct kvrocks_key *key)
{
    struct front front = {.rest = row};
    key->space = front_take(&front, take_u8(&front));
    if (has_slots)
        (void)front_take(&front, SLOT_BYTES);
    key->key = front.rest;
    key->prefix = (struct bytes){row.data, row.len - front.rest.len};
    return !front.is_bad;
}

bool kvrocks_key_fits_slot(struct bytes row)
{
    struct kvrocks_key key;
    return kvrocks_key_read(row, true, &key) &&
           get_be16(key.key.data - SLOT_BYTES) == slot_of(key.key);
}

struct bytes kvrocks_rows_prefix(struct arena *arena, const struct kvrocks_key *key,
                                 uint64_t version)
{
    char *data = arena_alloc(arena, key->prefix.len + 4 + key->key.len + 8);
    char *end = data;
    (void)bytes_copy_to(&end, key->prefix);
    put_be32(end, (uint32_t)key->key.len);
    end += 4;
    (void)bytes_copy_to(&end, key->key);
    put_be64(end, version);
    return (struct bytes){data, (size_t)(end + 8 - data)};
}

/* ---- elements ---- */

bool kvrocks_part_read(struct bytes sub, uint64_t *offset)
{
    return number_parse_uint64(sub, offset) && *offset % KVROCKS_PART_BYTES == 0 &&
           *offset < KVROCKS_BITMAP_MAX;
}

struct bytes kvrocks_part_sub(struct arena *arena, uint64_t offset)
{
    char *text = arena_alloc(arena, INT64_TEXT_MAX);
    return (struct bytes){text, number_format_int64(text, (int64_t)offset)};
}

uint8_t kvrocks_reverse_bits(uint8_t byte)
{
    byte = (uint8_t)((byte & 0x0f) << 4 | byte >> 4);
    byte = (uint8_t)((byte & 0x33) << 2 | (byte & 0xcc) >> 2);
    return (uint8_t)((byte & 0x55) << 1 | (byte & 0xaa) >> 1);
}

bool kvrocks_score_read(struct bytes value, double *score)
{
    if (value.len != 8)
        return false;
    *score = decode_score(get_be64(value.data)) + 0.0; /* -0 becomes 0 */
    return !isnan(*score);
}

/* ---- streams ---- */

bool kvrocks_entry_is_good(struct bytes row)
{
    uint32_t count;
    return stream_entry_count(row, &count) && count > 0 && count % 2 == 0;
}

static const char group_mark[GROUP_MARK_BYTES + 1] = "\xff\xff\xff\xff\xff\xff\xff\xff";

bool kvrocks_is_group_row(struct bytes sub)
{
    return sub.len > GROUP_MARK_BYTES && memcmp(sub.data, group_mark, GROUP_MARK_BYTES) == 0;
}

struct bytes kvrocks_group_prefix(struct arena *arena, enum kvrocks_group_row kind,
                                  struct bytes name)
{
    char *data = arena_alloc(arena, GROUP_MARK_BYTES + 1 + 8 + name.len);
    char *end = data + GROUP_MARK_BYTES;
    memcpy(data, group_mark, GROUP_MARK_BYTES);
    *end++ = (char)kind;
    if (name.data) {
        put_be64(end, name.len);
        end += 8;
        (void)bytes_copy_to(&end, name);
    }
    return (struct bytes){data, (size_t)(end - data)};
}

/* Reads the mark and the kind of the row, and its group. */
static struct bytes take_group(struct front *front, enum kvrocks_group_row kind)
{
    if (!kvrocks_is_group_row(front->rest))
        front->is_bad = true;
    (void)front_take(front, GROUP_MARK_BYTES);
    if (take_u8(front) != kind)
        front->is_bad = true;
    return take_text(front);
}

bool kvrocks_group_read(struct bytes sub, struct bytes value, struct kvrocks_group *group)
{
    struct front key = {.rest = sub};
    struct front front = {.rest = value};
    group->name = take_group(&key, KVROCKS_GROUP);
    (void)take_u64(&front); /* consumers: counted from their rows */
    (void)take_u64(&front); /* pending entries: likewise */
    group->last = front_id(&front);
    group->entries_read = take_u64(&front);
    (void)take_u64(&front); /* lag, which is always 0 */
    return front_is_empty(&key) && front_is_empty(&front);
}

bool kvrocks_consumer_read(struct bytes sub, struct bytes value, struct kvrocks_consumer *consumer)
{
    struct front key = {.rest = sub};
    struct front front = {.rest = value};
    consumer->group = take_group(&key, KVROCKS_CONSUMER);
    consumer->name = take_text(&key);
    (void)take_u64(&front); /* pending entries, which XCLAIM does not lower */
    consumer->seen_ms = take_u64(&front);
    consumer->active_ms = take_u64(&front);
    return front_is_empty(&key) && front_is_empty(&front);
}

bool kvrocks_pending_read(struct bytes sub, struct bytes value, struct kvrocks_pending *pending)
{
    struct front key = {.rest = sub};
    struct front front = {.rest = value};
    pending->group = take_group(&key, KVROCKS_PENDING);
    pending->id = front_id(&key);
    pending->delivered_ms = take_u64(&front);
    pending->deliveries = take_u64(&front);
    pending->consumer = take_text(&front);
    return front_is_empty(&key) && front_is_empty(&front);
}
