/*
 * encoding.c - encodes and decodes the rows drawn in encoding.h.
 *
 * Encoders write into memory of exactly the right size. Decoders never read past the end and refuse truncated rows.
 * Encoders assert their arguments, which come from the program; decoders return false, as rows come from a disk.
 */
#include "backend/format/encoding.h"

#include "backend/format/bloom.h"
#include "backend/format/sketch.h"
#include "backend/format/tdigest.h"
#include "backend/format/topk.h"
#include "shared/check.h"
#include "shared/slot.h"

#include <math.h>

enum {
    SPACE_BYTES_MAX = NAMESPACE_BYTES_MAX + 2,
    FLAG_LAYOUT = 0x80,   /* set: the layout of encoding.h; clear: the old one */
    FLAG_RESERVED = 0x70, /* always 0 */
    FLAG_TYPE = 0x0f,
    METADATA_HEAD = 9,       /* flags, expire */
    STREAM_NUMBERS = 11,     /* five ids and the entries added */
    STREAM_NODE_NUMBERS = 5, /* fields about the first node */
    HEADER_NUMBERS = 5,
    FIELD_TTL = 0xff, /* first byte of a TTL in CF_RANK; levels of a rank tree are smaller */
};

_Static_assert(TYPE_COUNT == FLAG_TYPE + 1, "every number that a row can have");
_Static_assert(sizeof(double) == sizeof(uint64_t), "a score has 8 bytes");
_Static_assert(SPACE_BYTES_MAX <= UINT8_MAX, "the length of a storage namespace has one byte");
_Static_assert(DATABASES_MAX <= UINT8_MAX, "a database has one byte");

const char *type_name(enum type type)
{
    return type_rows[type].name ? type_rows[type].name : "none";
}

/* Functions for the fields that follow version and size in the metadata row of some types. */
struct metadata_fields {
    bool are_optional; /* a row may end before them, and does when a hash has no TTLs of fields */
    size_t (*size)(const struct metadata *metadata);
    char *(*write)(char *to,
                   const struct metadata *metadata); /* returns the position of the next byte */
    bool (*read)(struct bytes *row, struct metadata *metadata);
};

/* ---- writing ----------------------------------------------------------------------------- */

static char *write_u8(char *to, uint8_t value)
{
    *to = (char)value;
    return to + 1;
}

static char *write_u16(char *to, uint16_t value)
{
    put_be16(to, value);
    return to + sizeof value;
}

static char *write_u32(char *to, uint32_t value)
{
    put_be32(to, value);
    return to + sizeof value;
}

static char *write_u64(char *to, uint64_t value)
{
    put_be64(to, value);
    return to + sizeof value;
}

/* 7 bits a byte, lowest first; all but the last have bit 7. */
static char *write_varint(char *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        to = write_u8(to, (uint8_t)(value | 0x80));
    return write_u8(to, (uint8_t)value);
}

static char *write_bytes(char *to, struct bytes data)
{
    if (data.len)
        memcpy(to, data.data, data.len);
    return to + data.len;
}

/* u8 ns_len | ns */
static char *write_space_name(char *to, struct bytes space)
{
    CHECK(space.len <= SPACE_BYTES_MAX);
    return write_bytes(write_u8(to, (uint8_t)space.len), space);
}

/* The row between `row` and `end`. */
static struct bytes written(const char *row, const char *end, size_t size)
{
    CHECK((size_t)(end - row) == size);
    return (struct bytes){row, size};
}

struct bytes encode_metadata_key(struct arena *arena, struct bytes space, uint16_t slot,
                                 struct bytes key)
{
    size_t size = 1 + space.len + 2 + key.len;
    char *row = arena_alloc(arena, size);
    char *to = write_u16(write_space_name(row, space), slot);
    return written(row, write_bytes(to, key), size);
}

struct bytes encode_space_prefix(struct arena *arena, struct bytes space)
{
    size_t size = 1 + space.len;
    char *row = arena_alloc(arena, size);
    return written(row, write_space_name(row, space), size);
}

struct bytes encode_slot_prefix(struct arena *arena, struct bytes space, uint16_t slot)
{
    size_t size = 1 + space.len + 2;
    char *row = arena_alloc(arena, size);
    return written(row, write_u16(write_space_name(row, space), slot), size);
}

struct bytes encode_collection_prefix(struct arena *arena, struct bytes space, uint16_t slot,
                                      struct bytes key, uint64_t version)
{
    CHECK(key.len <= UINT32_MAX);
    size_t size = 1 + space.len + 2 + 4 + key.len + 8;
    char *row = arena_alloc(arena, size);
    char *to = write_u16(write_space_name(row, space), slot);
    to = write_bytes(write_u32(to, (uint32_t)key.len), key);
    return written(row, write_u64(to, version), size);
}

struct bytes encode_sub_key(struct arena *arena, struct bytes prefix, struct bytes sub)
{
    size_t size = prefix.len + sub.len;
    char *row = arena_alloc(arena, size);
    return written(row, write_bytes(write_bytes(row, prefix), sub), size);
}

struct bytes encode_expire_key(struct arena *arena, uint64_t expire_ms, struct bytes metadata_key)
{
    size_t size = 8 + metadata_key.len;
    char *row = arena_alloc(arena, size);
    return written(row, write_bytes(write_u64(row, expire_ms), metadata_key), size);
}

struct bytes encode_counter_key(struct arena *arena, struct bytes space, uint16_t first_slot)
{
    size_t size = 1 + 1 + space.len + 2;
    char *row = arena_alloc(arena, size);
    return written(row, write_u16(write_space_name(write_u8(row, 'c'), space), first_slot), size);
}

struct bytes encode_journal_key(struct arena *arena, uint8_t position)
{
    size_t size = 2;
    char *row = arena_alloc(arena, size);
    return written(row, write_u8(write_u8(row, 'j'), position), size);
}

char *write_slot_count(char *to, const struct slot_count *count)
{
    return write_varint(write_varint(write_u16(to, count->slot), count->keys), count->expires);
}

char *write_journal_space(char *to, struct bytes space, uint16_t counts)
{
    return write_u16(write_space_name(to, space), counts);
}

struct bytes encode_database_map_key(struct arena *arena, struct bytes name)
{
    size_t size = 1 + 1 + name.len;
    char *row = arena_alloc(arena, size);
    return written(row, write_space_name(write_u8(row, 'd'), name), size);
}

struct bytes encode_function_key(struct arena *arena, struct bytes name, struct bytes library)
{
    size_t size = 1 + (name.len ? 1 + name.len : 0) + library.len;
    char *row = arena_alloc(arena, size);
    char *to = name.len ? write_space_name(write_u8(row, 'F'), name) : write_u8(row, 'f');
    if (library.len)
        memcpy(to, library.data, library.len);
    return (struct bytes){row, size};
}

bool is_function_key(struct bytes row)
{
    return row.len && (row.data[0] == 'f' || row.data[0] == 'F');
}

struct bytes encode_prefix_end(struct arena *arena, struct bytes prefix)
{
    size_t len = prefix.len;
    while (len && (uint8_t)prefix.data[len - 1] == UINT8_MAX)
        len--;
    if (!len)
        return (struct bytes){NULL, 0};
    char *end = arena_alloc(arena, len);
    memcpy(end, prefix.data, len);
    end[len - 1] = (char)((uint8_t)end[len - 1] + 1);
    return (struct bytes){end, len};
}

bool is_prefix_end(struct bytes prefix, struct bytes upper)
{
    size_t last = upper.len - 1;
    if (upper.len == 0 || upper.len > prefix.len || memcmp(upper.data, prefix.data, last) != 0 ||
        (uint8_t)upper.data[last] != (uint8_t)prefix.data[last] + 1)
        return false;
    for (size_t i = upper.len; i < prefix.len; i++)
        if ((uint8_t)prefix.data[i] != UINT8_MAX)
            return false;
    return true;
}

struct bytes encode_u64(struct arena *arena, uint64_t value)
{
    char *row = arena_alloc(arena, sizeof value);
    put_be64(row, value);
    return (struct bytes){row, sizeof value};
}

uint64_t encode_score(double score)
{
    CHECK(!isnan(score));
    uint64_t bits;
    double normal = score == 0 ? 0 : score;
    memcpy(&bits, &normal, sizeof bits);
    uint64_t sign = UINT64_C(1) << 63;
    return bits & sign ? ~bits : bits | sign;
}

double decode_score(uint64_t bits)
{
    uint64_t sign = UINT64_C(1) << 63;
    bits = bits & sign ? bits & ~sign : ~bits;
    double score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

static char *write_id(char *to, struct stream_id id)
{
    return write_u64(write_u64(to, id.ms), id.seq);
}

/* Is the first node of the stream known? */
static bool has_node(const struct metadata *metadata)
{
    return metadata->stream_node_size || metadata->stream_node.entries;
}

static size_t list_size(const struct metadata *metadata)
{
    (void)metadata;
    return 2 * 8;
}

static char *write_list(char *to, const struct metadata *metadata)
{
    return write_u64(write_u64(to, metadata->head), metadata->tail);
}

static size_t hash_size(const struct metadata *metadata)
{
    (void)metadata;
    return 2 * 8;
}

static char *write_hash(char *to, const struct metadata *metadata)
{
    return write_u64(write_u64(to, metadata->field_expire_ms), metadata->field_ttls);
}

static size_t stream_size(const struct metadata *metadata)
{
    return (STREAM_NUMBERS + (has_node(metadata) ? STREAM_NODE_NUMBERS : 0)) * 8;
}

static char *write_stream(char *to, const struct metadata *metadata)
{
    to = write_id(to, metadata->stream_last_generated);
    to = write_id(to, metadata->stream_recorded_first);
    to = write_id(to, metadata->stream_max_deleted);
    to = write_id(to, metadata->stream_first);
    to = write_id(to, metadata->stream_last);
    to = write_u64(to, metadata->stream_entries_added);
    if (!has_node(metadata))
        return to;
    const struct stream_node *node = &metadata->stream_node;
    to = write_id(write_u64(to, metadata->stream_node_size), node->master);
    return write_u32(write_u32(write_u64(to, node->bytes), node->entries), node->fields_hash);
}

static bool type_is_known(unsigned type)
{
    return type < TYPE_COUNT && type_rows[type].name;
}

struct bytes encode_metadata(struct arena *arena, const struct metadata *metadata)
{
    CHECK(type_is_known(metadata->type));
    size_t size = METADATA_HEAD;
    size += type_is_inline(metadata->type) ? metadata->payload.len : 2 * 8;
    const struct metadata_fields *fields = type_rows[metadata->type].fields;
    if (fields && fields->are_optional && !metadata->field_ttls)
        fields = NULL;
    size += fields ? fields->size(metadata) : 0;

    char *row = arena_alloc(arena, size);
    char *to =
        write_u64(write_u8(row, (uint8_t)(FLAG_LAYOUT | metadata->type)), metadata->expire_ms);
    if (type_is_inline(metadata->type))
        return written(row, write_bytes(to, metadata->payload), size);
    to = write_u64(write_u64(to, metadata->version), metadata->size);
    if (fields)
        to = fields->write(to, metadata);
    return written(row, to, size);
}

struct bytes metadata_plain(void)
{
    static const char row[METADATA_HEAD] = {(char)(FLAG_LAYOUT | TYPE_STRING)};
    return (struct bytes){row, sizeof row};
}

bool metadata_is_plain(struct bytes value)
{
    struct bytes plain = metadata_plain();
    return value.len >= plain.len && memcmp(value.data, plain.data, plain.len) == 0;
}

struct bytes encode_batch_header(struct arena *arena, const struct batch_header *header)
{
    size_t size = HEADER_NUMBERS * 8;
    char *row = arena_alloc(arena, size);
    char *to = write_u64(write_u64(row, header->epoch), header->index);
    to = write_u64(write_u64(to, header->origin_ms), header->version);
    return written(row, write_u64(to, header->hybrid), size);
}

/* ---- reading ----------------------------------------------------------------------------- */

/* The functions below read from the front of `row`, or leave it unchanged and return false. */
static bool next_part(struct bytes *row, size_t len, struct bytes *value)
{
    if (row->len < len)
        return false;
    *value = (struct bytes){row->data, len};
    row->data += len;
    row->len -= len;
    return true;
}

static bool next_u8(struct bytes *row, uint8_t *value)
{
    struct bytes raw;
    if (!next_part(row, sizeof *value, &raw))
        return false;
    *value = (uint8_t)raw.data[0];
    return true;
}

static bool next_u16(struct bytes *row, uint16_t *value)
{
    struct bytes raw;
    if (!next_part(row, sizeof *value, &raw))
        return false;
    *value = get_be16(raw.data);
    return true;
}

static bool next_u32(struct bytes *row, uint32_t *value)
{
    struct bytes raw;
    if (!next_part(row, sizeof *value, &raw))
        return false;
    *value = get_be32(raw.data);
    return true;
}

static bool next_u64(struct bytes *row, uint64_t *value)
{
    struct bytes raw;
    if (!next_part(row, sizeof *value, &raw))
        return false;
    *value = get_be64(raw.data);
    return true;
}

/* Refuses what write_varint does not write: more than 64 bits, or a last byte of zero. */
static bool next_varint(struct bytes *row, uint64_t *value)
{
    struct bytes rest = *row;
    uint64_t bits = 0;
    uint8_t byte = 0x80;
    for (unsigned shift = 0; byte & 0x80; shift += 7) {
        if (shift > 63 || !next_u8(&rest, &byte) || (shift == 63 && byte > 1) || (shift && !byte))
            return false;
        bits |= (uint64_t)(byte & 0x7f) << shift;
    }
    *row = rest;
    *value = bits;
    return true;
}

static bool next_space(struct bytes *row, struct bytes *space)
{
    uint8_t len;
    return next_u8(row, &len) && len <= SPACE_BYTES_MAX && next_part(row, len, space);
}

/* A slot indexes arrays. */
static bool next_slot(struct bytes *row, uint16_t *slot)
{
    return next_u16(row, slot) && *slot < SLOT_COUNT;
}

bool decode_metadata_key(struct bytes row, struct bytes *space, uint16_t *slot, struct bytes *key)
{
    if (!next_space(&row, space) || !next_slot(&row, slot))
        return false;
    *key = row;
    return true;
}

bool decode_collection_key(struct bytes row, struct bytes *space, uint16_t *slot, struct bytes *key,
                           uint64_t *version, struct bytes *sub)
{
    uint32_t key_len;
    if (!next_space(&row, space) || !next_slot(&row, slot) || !next_u32(&row, &key_len))
        return false;
    if (!next_part(&row, key_len, key) || !next_u64(&row, version))
        return false;
    *sub = row;
    return true;
}

bool decode_collection_prefix(struct bytes row, struct bytes *prefix)
{
    struct bytes space, key, sub;
    uint16_t slot;
    uint64_t version;
    if (!decode_collection_key(row, &space, &slot, &key, &version, &sub))
        return false;
    *prefix = (struct bytes){row.data, row.len - sub.len};
    return true;
}

bool decode_expire_key(struct bytes row, uint64_t *expire_ms, struct bytes *metadata_key)
{
    struct bytes space, key;
    uint16_t slot;
    if (!next_u64(&row, expire_ms) || !decode_metadata_key(row, &space, &slot, &key))
        return false;
    *metadata_key = row;
    return true;
}

bool decode_counter_key(struct bytes row, struct bytes *space, uint16_t *first_slot)
{
    uint8_t kind;
    return next_u8(&row, &kind) && kind == 'c' && next_space(&row, space) &&
           next_u16(&row, first_slot) && row.len == 0;
}

bool decode_journal_key(struct bytes row, uint8_t *position)
{
    uint8_t kind;
    return next_u8(&row, &kind) && kind == 'j' && next_u8(&row, position) && row.len == 0;
}

bool decode_next_slot_count(struct bytes *row, struct slot_count *count)
{
    return next_u16(row, &count->slot) && next_varint(row, &count->keys) &&
           next_varint(row, &count->expires);
}

bool decode_next_journal_space(struct bytes *row, struct bytes *space, uint16_t *counts)
{
    return next_space(row, space) && next_u16(row, counts);
}

bool decode_database_map_key(struct bytes row, struct bytes *name)
{
    uint8_t kind;
    return next_u8(&row, &kind) && kind == 'd' && next_space(&row, name) && row.len == 0;
}

bool decode_u64(struct bytes value, uint64_t *number)
{
    return next_u64(&value, number) && value.len == 0;
}

/* expire and size have 64 bits in this layout, and 32 bits (expire in seconds) in the old one. */
static bool next_expire(struct bytes *row, bool is_old, uint64_t *expire_ms)
{
    if (!is_old)
        return next_u64(row, expire_ms);
    uint32_t seconds;
    if (!next_u32(row, &seconds))
        return false;
    *expire_ms = (uint64_t)seconds * 1000;
    return true;
}

static bool next_size(struct bytes *row, bool is_old, uint64_t *size)
{
    if (!is_old)
        return next_u64(row, size);
    uint32_t narrow;
    if (!next_u32(row, &narrow))
        return false;
    *size = narrow;
    return true;
}

static bool next_stream_id(struct bytes *row, struct stream_id *id)
{
    return next_u64(row, &id->ms) && next_u64(row, &id->seq);
}

static bool next_node(struct bytes *row, struct metadata *metadata)
{
    struct stream_node *node = &metadata->stream_node;
    return next_u64(row, &metadata->stream_node_size) && next_stream_id(row, &node->master) &&
           next_u64(row, &node->bytes) && next_u32(row, &node->entries) &&
           next_u32(row, &node->fields_hash);
}

static bool next_list(struct bytes *row, struct metadata *metadata)
{
    return next_u64(row, &metadata->head) && next_u64(row, &metadata->tail);
}

static bool next_hash(struct bytes *row, struct metadata *metadata)
{
    return next_u64(row, &metadata->field_expire_ms) && next_u64(row, &metadata->field_ttls) &&
           metadata->field_expire_ms && metadata->field_ttls;
}

static bool next_stream(struct bytes *row, struct metadata *metadata)
{
    return next_stream_id(row, &metadata->stream_last_generated) &&
           next_stream_id(row, &metadata->stream_recorded_first) &&
           next_stream_id(row, &metadata->stream_max_deleted) &&
           next_stream_id(row, &metadata->stream_first) &&
           next_stream_id(row, &metadata->stream_last) &&
           next_u64(row, &metadata->stream_entries_added) &&
           (row->len == 0 || (next_node(row, metadata) && has_node(metadata)));
}

static size_t payload_size(const struct metadata *metadata)
{
    return metadata->payload.len;
}

static char *write_payload(char *to, const struct metadata *metadata)
{
    return write_bytes(to, metadata->payload);
}

static bool next_bloom(struct bytes *row, struct metadata *metadata)
{
    struct bloom bloom;
    return bloom_decode(*row, &bloom) && next_part(row, row->len, &metadata->payload);
}

static bool next_cms(struct bytes *row, struct metadata *metadata)
{
    struct sketch sketch;
    return sketch_decode(*row, &sketch) && next_part(row, row->len, &metadata->payload);
}

static bool next_tdigest(struct bytes *row, struct metadata *metadata)
{
    struct tdigest digest;
    return tdigest_decode(*row, &digest) && next_part(row, row->len, &metadata->payload);
}

static bool next_topk(struct bytes *row, struct metadata *metadata)
{
    struct topk topk;
    return topk_decode(*row, &topk) && next_part(row, row->len, &metadata->payload);
}

static const struct metadata_fields bloom_fields = {false, payload_size, write_payload, next_bloom};
static const struct metadata_fields cms_fields = {false, payload_size, write_payload, next_cms};
static const struct metadata_fields hash_fields = {true, hash_size, write_hash, next_hash};
static const struct metadata_fields list_fields = {false, list_size, write_list, next_list};
static const struct metadata_fields stream_fields = {false, stream_size, write_stream, next_stream};
static const struct metadata_fields tdigest_fields = {false, payload_size, write_payload,
                                                      next_tdigest};
static const struct metadata_fields topk_fields = {false, payload_size, write_payload, next_topk};

const struct type_row type_rows[TYPE_COUNT] = {
#define TYPE(id, number, ...) [number] = {__VA_ARGS__},
#include "backend/format/types.def"
#undef TYPE
};

bool decode_metadata(struct bytes value, struct metadata *metadata)
{
    uint8_t flags;
    memset(metadata, 0, sizeof *metadata);
    if (!next_u8(&value, &flags) || (flags & FLAG_RESERVED) || !type_is_known(flags & FLAG_TYPE))
        return false;
    bool is_old = !(flags & FLAG_LAYOUT);
    metadata->type = flags & FLAG_TYPE;
    if (!next_expire(&value, is_old, &metadata->expire_ms))
        return false;
    if (type_is_inline(metadata->type)) {
        metadata->payload = value;
        return true;
    }
    if (!next_u64(&value, &metadata->version) || !next_size(&value, is_old, &metadata->size))
        return false;
    const struct metadata_fields *fields = type_rows[metadata->type].fields;
    if (value.len == 0)
        return (!fields || fields->are_optional) && metadata_is_sound(metadata);
    return fields && fields->read(&value, metadata) && value.len == 0 &&
           metadata_is_sound(metadata);
}

bool decode_batch_header(struct bytes value, struct batch_header *header)
{
    header->hybrid = 0;
    return next_u64(&value, &header->epoch) && next_u64(&value, &header->index) &&
           next_u64(&value, &header->origin_ms) && next_u64(&value, &header->version) &&
           (value.len == 0 || (next_u64(&value, &header->hybrid) && value.len == 0));
}

struct bytes encode_field_ttl(struct arena *arena, struct bytes field)
{
    size_t size = 1 + field.len;
    char *row = arena_alloc(arena, size);
    return written(row, write_bytes(write_u8(row, FIELD_TTL), field), size);
}

bool decode_field_ttl(struct bytes sub, struct bytes *field)
{
    uint8_t kind;
    *field = sub;
    return next_u8(field, &kind) && kind == FIELD_TTL;
}

struct bytes encode_field_time(struct arena *arena, uint64_t expire_ms, struct bytes field)
{
    size_t size = 8 + field.len;
    char *row = arena_alloc(arena, size);
    return written(row, write_bytes(write_u64(row, expire_ms), field), size);
}

bool decode_field_time(struct bytes sub, uint64_t *expire_ms, struct bytes *field)
{
    *field = sub;
    return next_u64(field, expire_ms);
}

struct bytes encode_rank_root(struct arena *arena, uint64_t levels, uint64_t tops)
{
    char *row = arena_alloc(arena, 2 * VARINT_BYTES_MAX + 1);
    char *end = write_varint(write_varint(row, levels), tops);
    *end++ = RANK_FORMAT;
    return (struct bytes){row, (size_t)(end - row)};
}

bool decode_rank_root(struct bytes value, uint64_t *levels, uint64_t *tops, bool *is_stale)
{
    uint8_t format = 0;
    if (!next_varint(&value, levels) || !next_varint(&value, tops))
        return false;
    *is_stale = value.len == 0;
    return *is_stale || (next_u8(&value, &format) && format == RANK_FORMAT && value.len == 0);
}

struct bytes encode_rank_block(struct arena *arena, uint64_t count, uint64_t children)
{
    char *row = arena_alloc(arena, 2 * VARINT_BYTES_MAX);
    char *end = write_varint(write_varint(row, count), children);
    return (struct bytes){row, (size_t)(end - row)};
}

bool decode_rank_block(struct bytes value, uint64_t *count, uint64_t *children)
{
    return next_varint(&value, count) && next_varint(&value, children) && value.len == 0;
}
