/*
 * backup_rdb_value.c - values of a backup but streams: texts, whole or in fragments, and collections row by row.
 */
#include "backend/format/rdb_elements.h"
#include "backend/rdb/backup_rdb.h"
#include "shared/byte_order.h"

enum { OPCODE_EXPIRE_MS = 252, FRAGMENT_BYTES = 1024 };

/* ---- rows ---- */

void backup_rows_seek(struct backup_value *value, struct store_iter *iter, struct bytes sub)
{
    struct arena_mark mark = arena_mark(value->scratch);
    store_iter_seek(iter, encode_sub_key(value->scratch, value->prefix, sub));
    arena_release(value->scratch, &mark);
}

bool backup_rows_here(const struct backup_value *value, const struct store_iter *iter,
                      struct bytes *sub, struct bytes *row)
{
    struct bytes prefix = value->prefix;
    if (!store_iter_valid(iter))
        return false;
    *sub = store_iter_key(iter);
    if (sub->len < prefix.len || memcmp(sub->data, prefix.data, prefix.len) != 0)
        return false;
    *sub = (struct bytes){sub->data + prefix.len, sub->len - prefix.len};
    *row = store_iter_value(iter);
    return true;
}

void backup_value_put_key(struct backup_value *value, enum rdb_type type)
{
    if (value->meta.expire_ms) {
        rdb_write_byte(value->to, OPCODE_EXPIRE_MS);
        rdb_write_ms(value->to, value->meta.expire_ms);
    }
    rdb_write_byte(value->to, (uint8_t)type);
    rdb_write_string(value->to, value->key);
}

/* ---- texts ---- */

static void put_inline_text(struct backup_value *value)
{
    backup_value_put_key(value, RDB_TYPE_STRING);
    rdb_write_string(value->to, value->meta.payload);
}

static void begin_fragments(struct backup_value *value)
{
    backup_value_put_key(value, RDB_TYPE_STRING);
    value->left = value->meta.size;
    rdb_write_length(value->to, value->left);
    backup_rows_seek(value, value->rows.elements, BYTES(""));
}

/* The fragment with the next number; BYTES("") if it has no row: zeros. */
static struct bytes next_fragment(struct backup_value *value)
{
    struct bytes sub;
    struct bytes row;
    uint64_t index = value->done / FRAGMENT_BYTES;
    if (!backup_rows_here(value, value->rows.elements, &sub, &row))
        return BYTES("");
    bool is_good = sub.len == sizeof(uint32_t) && row.len <= FRAGMENT_BYTES;
    if (!is_good || get_be32(sub.data) < index) {
        value->is_damaged = true;
        return BYTES("");
    }
    return get_be32(sub.data) == index ? row : BYTES("");
}

/* What a fragment lacks at its end is zeros, too. */
static void put_fragment(struct backup_value *value)
{
    char text[FRAGMENT_BYTES] = {0};
    struct bytes row = next_fragment(value);
    size_t len = value->left < sizeof text ? (size_t)value->left : sizeof text;
    if (row.len)
        memcpy(text, row.data, row.len < len ? row.len : len);
    rdb_write_raw(value->to, (struct bytes){text, len});
    value->left -= len;
    value->done += len;
    if (row.len)
        store_iter_next(value->rows.elements);
}

static bool put_fragments(struct backup_value *value)
{
    while (value->left && !value->is_damaged && value->to->len < BACKUP_PIECE_BYTES)
        put_fragment(value);
    return value->left > 0;
}

/* ---- times to live of fields ---- */

/* Counts the fields that have expired at the cut, and finds the time at which the next one expires. */
static void look_at_times(struct backup_value *value, uint64_t *due)
{
    struct bytes sub;
    struct bytes row;
    struct bytes field;
    uint64_t expire_ms;
    *due = 0;
    for (backup_rows_seek(value, value->rows.times, BYTES(""));
         !value->soonest_ms && backup_rows_here(value, value->rows.times, &sub, &row);
         store_iter_next(value->rows.times)) {
        if (!decode_field_time(sub, &expire_ms, &field))
            value->is_damaged = true;
        else if (expire_ms <= value->cut_ms)
            ++*due;
        else
            value->soonest_ms = expire_ms;
    }
}

/* When the field that is read now expires; 0: never. Times of fields are rows of their own in the order of the fields. */
static uint64_t field_time(struct backup_value *value, struct bytes name)
{
    struct bytes sub;
    struct bytes row;
    struct bytes field;
    uint64_t expire_ms = 0;
    for (; backup_rows_here(value, value->rows.ttls, &sub, &row);
         store_iter_next(value->rows.ttls)) {
        if (!decode_field_ttl(sub, &field))
            continue;
        int order = bytes_compare(field, name);
        if (order >= 0)
            return order == 0 && decode_u64(row, &expire_ms) ? expire_ms : 0;
    }
    return 0;
}

static bool begin_fields(struct backup_value *value)
{
    uint64_t due = 0;
    if (value->meta.field_ttls)
        look_at_times(value, &due);
    if (due >= value->meta.size) {
        value->is_damaged |= due > value->meta.size;
        return false;
    }
    value->left = value->meta.size - due;
    backup_value_put_key(value, value->soonest_ms ? RDB_TYPE_HASH_TTL : RDB_TYPE_HASH);
    if (value->soonest_ms)
        rdb_write_ms(value->to, value->soonest_ms);
    rdb_write_length(value->to, value->left);
    backup_rows_seek(value, value->rows.elements, BYTES(""));
    if (value->meta.field_ttls)
        backup_rows_seek(value, value->rows.ttls, encode_field_ttl(value->arena, BYTES("")));
    return true;
}

/* ---- collections ---- */

static void begin_elements(struct backup_value *value)
{
    struct bytes first = BYTES("");
    if (value->meta.type == TYPE_LIST)
        first = encode_u64(value->arena, value->meta.head);
    value->left = value->meta.size;
    backup_value_put_key(value, rdb_plain_type(value->meta.type));
    rdb_write_length(value->to, value->left);
    backup_rows_seek(value, value->rows.elements, first);
}

/* Is it the row that follows in the list? */
static bool is_next_index(const struct backup_value *value, struct bytes sub)
{
    uint64_t index;
    return decode_u64(sub, &index) && index == value->meta.head + value->done;
}

/* Is it a score, and as long as it must be? */
static bool is_sound_row(const struct backup_value *value, struct bytes sub, struct bytes row)
{
    if (value->meta.type == TYPE_LIST)
        return is_next_index(value, sub);
    return value->meta.type != TYPE_ZSET || row.len == sizeof(uint64_t);
}

/* Writes a row; one of a field that has expired is left out. */
static void put_element(struct backup_value *value, struct bytes sub, struct bytes row)
{
    uint64_t expire_ms = value->meta.field_ttls ? field_time(value, sub) : 0;
    if (expire_ms && expire_ms <= value->cut_ms)
        return;
    if (value->left == 0 || !is_sound_row(value, sub, row)) {
        value->is_damaged = true;
        return;
    }
    if (value->soonest_ms)
        rdb_write_length(value->to, expire_ms ? expire_ms - value->soonest_ms + 1 : 0);
    rdb_write_element(value->to, value->meta.type, sub, row);
    value->left--;
    value->done++;
}

/* A list ends at its tail; other collections end with their last row. */
static bool is_list_end(const struct backup_value *value)
{
    return value->meta.type == TYPE_LIST && value->left == 0;
}

static bool put_elements(struct backup_value *value)
{
    struct bytes sub;
    struct bytes row;
    while (value->to->len < BACKUP_PIECE_BYTES) {
        if (is_list_end(value) || !backup_rows_here(value, value->rows.elements, &sub, &row)) {
            value->is_damaged |= value->left > 0;
            return false;
        }
        put_element(value, sub, row);
        if (value->is_damaged)
            return false;
        store_iter_next(value->rows.elements);
    }
    return true;
}

/* ---- all ---- */

/* A value of a type that Redis does not have: its name without its content. */
static void put_type_name(struct backup_value *value)
{
    backup_value_put_key(value, RDB_TYPE_MODULE_2);
    rdb_write_module(value->to, type_name(value->meta.type), 1);
    rdb_write_length(value->to, RDB_OPCODE_END);
}

bool backup_value_begin(struct backup_value *value)
{
    value->left = value->done = value->soonest_ms = 0;
    switch (value->meta.type) {
    case TYPE_STRING:
        put_inline_text(value);
        return true;
    case TYPE_BITMAP:
        begin_fragments(value);
        return true;
    case TYPE_HASH:
        return begin_fields(value);
    case TYPE_LIST:
    case TYPE_SET:
    case TYPE_ZSET:
        begin_elements(value);
        return true;
    case TYPE_STREAM:
        return backup_stream_begin(value);
    default:
        put_type_name(value);
        return true;
    }
}

bool backup_value_go_on(struct backup_value *value)
{
    switch (value->meta.type) {
    case TYPE_BITMAP:
        return put_fragments(value);
    case TYPE_HASH:
    case TYPE_LIST:
    case TYPE_SET:
    case TYPE_ZSET:
        return put_elements(value);
    case TYPE_STREAM:
        return backup_stream_go_on(value);
    default:
        return false;
    }
}
