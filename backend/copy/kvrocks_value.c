/*
 * kvrocks_value.c - values of Kvrocks but streams: collections row by row, bitmaps and HyperLogLogs as strings, JSON as text.
 */
#include "backend/copy/kvrocks.h"

#include "backend/format/cbor.h"
#include "backend/format/hll.h"
#include "shared/number.h"

#include <string.h>

/* ---- collections ---- */

/* What a row is to its value. */
enum row { ROW_ELEMENT, ROW_OTHER, ROW_BAD };

struct row_kind {
    enum rdb_type type;
    const char *module; /* NULL: none */
    enum row (*look)(const struct kvrocks_value *value, struct bytes sub, struct bytes row);
    void (*write)(struct rdb_writer *to, struct bytes sub, struct bytes row);
};

static enum row look_any(const struct kvrocks_value *value, struct bytes sub, struct bytes row)
{
    (void)value;
    (void)sub;
    (void)row;
    return ROW_ELEMENT;
}

static enum row look_element(const struct kvrocks_value *value, struct bytes sub, struct bytes row)
{
    uint64_t index;
    (void)row;
    if (!decode_u64(sub, &index))
        return ROW_BAD;
    return index >= value->head && index < value->tail ? ROW_ELEMENT : ROW_OTHER;
}

static enum row look_scored(const struct kvrocks_value *value, struct bytes sub, struct bytes row)
{
    double score;
    (void)value;
    (void)sub;
    return kvrocks_score_read(row, &score) ? ROW_ELEMENT : ROW_BAD;
}

static enum row look_int(const struct kvrocks_value *value, struct bytes sub, struct bytes row)
{
    (void)value;
    (void)row;
    return sub.len == 8 ? ROW_ELEMENT : ROW_BAD;
}

static void write_sub_and_row(struct rdb_writer *to, struct bytes sub, struct bytes row)
{
    kvrocks_write_text(to, sub);
    kvrocks_write_text(to, row);
}

static void write_sub(struct rdb_writer *to, struct bytes sub, struct bytes row)
{
    (void)row;
    kvrocks_write_text(to, sub);
}

static void write_listed(struct rdb_writer *to, struct bytes sub, struct bytes row)
{
    (void)sub;
    kvrocks_write_text(to, row);
}

static void write_member_score(struct rdb_writer *to, struct bytes sub, struct bytes row)
{
    double score = 0;
    (void)kvrocks_score_read(row, &score);
    kvrocks_write_text(to, sub);
    rdb_write_double(to, score);
}

static void write_int(struct rdb_writer *to, struct bytes sub, struct bytes row)
{
    uint64_t number = 0;
    (void)row;
    (void)decode_u64(sub, &number);
    rdb_write_length(to, RDB_OPCODE_UINT);
    rdb_write_length(to, number);
}

static const struct row_kind KINDS[KVROCKS_TYPES] = {
    [KVROCKS_HASH] = {RDB_TYPE_HASH, NULL, look_any, write_sub_and_row},
    [KVROCKS_LIST] = {RDB_TYPE_LIST, NULL, look_element, write_listed},
    [KVROCKS_SET] = {RDB_TYPE_SET, NULL, look_any, write_sub},
    [KVROCKS_ZSET] = {RDB_TYPE_ZSET_2, NULL, look_scored, write_member_score},
    [KVROCKS_SORTEDINT] = {RDB_TYPE_MODULE_2, "sortedint", look_int, write_int},
};

/* The elements of a list begin at its head: rows before it may remain as tombstones. */
static void seek_first(struct kvrocks_text *text)
{
    char head[8];
    put_be64(head, text->value.head);
    kvrocks_rows_seek(text,
                      (struct bytes){head, text->value.type == KVROCKS_LIST ? sizeof head : 0});
}

/* A stored count may be wrong, but Kvrocks leaves no list with a hole, and no collection without any row: a log is missing, for example.
 * Only of sorted ints have such counts been seen. */
static bool lacks_rows(const struct kvrocks_text *text)
{
    const struct kvrocks_value *value = &text->value;
    if (value->type == KVROCKS_LIST)
        return text->left != value->tail - value->head;
    return text->left == 0 && value->type != KVROCKS_SORTEDINT;
}

static enum kvrocks_found survey_rows(struct kvrocks_text *text)
{
    const struct row_kind *kind = &KINDS[text->value.type];
    struct bytes sub;
    struct bytes row;
    for (seek_first(text); kvrocks_rows_next(text, &sub, &row);) {
        enum row is = kind->look(&text->value, sub, row);
        if (is == ROW_BAD)
            return FOUND_BAD;
        text->left += is == ROW_ELEMENT;
    }
    if (lacks_rows(text))
        return FOUND_BAD;
    return text->left ? FOUND_VALUE : FOUND_NOTHING;
}

static enum kvrocks_found begin_rows(struct kvrocks_text *text)
{
    const struct row_kind *kind = &KINDS[text->value.type];
    enum kvrocks_found found = text->value.size ? survey_rows(text) : FOUND_NOTHING;
    if (found != FOUND_VALUE)
        return found;
    kvrocks_write_key(text, kind->type);
    if (kind->module) {
        rdb_write_module(text->to, kind->module, 1);
        rdb_write_length(text->to, RDB_OPCODE_UINT);
    }
    rdb_write_length(text->to, text->left);
    seek_first(text);
    return FOUND_VALUE;
}

static bool write_rows(struct kvrocks_text *text)
{
    const struct row_kind *kind = &KINDS[text->value.type];
    struct bytes sub;
    struct bytes row;
    while (text->left && text->to->len < KVROCKS_PIECE_BYTES &&
           kvrocks_rows_next(text, &sub, &row)) {
        if (kind->look(&text->value, sub, row) != ROW_ELEMENT)
            continue;
        kind->write(text->to, sub, row);
        text->left--;
    }
    if (text->left == 0 && kind->module)
        rdb_write_length(text->to, RDB_OPCODE_END);
    return text->left > 0;
}

/* ---- bitmaps ---- */

static bool are_parts_good(struct kvrocks_text *text)
{
    struct bytes sub;
    struct bytes row;
    uint64_t offset;
    for (kvrocks_rows_seek(text, BYTES("")); kvrocks_rows_next(text, &sub, &row);)
        if (!kvrocks_part_read(sub, &offset) || row.len > KVROCKS_PART_BYTES)
            return false;
    return true;
}

static enum kvrocks_found begin_bitmap(struct kvrocks_text *text)
{
    if (text->value.size == 0)
        return FOUND_NOTHING;
    if (!are_parts_good(text))
        return FOUND_BAD;
    kvrocks_write_key(text, RDB_TYPE_STRING);
    rdb_write_length(text->to, text->value.size);
    text->left = text->value.size;
    return FOUND_VALUE;
}

/* Finds the row with this decimal number as sub key; the rows are sorted as texts. */
static struct bytes find_numbered(struct kvrocks_text *text, uint64_t number)
{
    struct bytes wanted = kvrocks_part_sub(text->scratch, number);
    struct bytes sub;
    struct bytes row;
    kvrocks_rows_seek(text, wanted);
    bool is_there = kvrocks_rows_next(text, &sub, &row) && bytes_equal(sub, wanted);
    return is_there ? row : BYTES("");
}

/* A part that has no row is zeros, and so is what its row lacks; a row may be longer than the bitmap. */
static void write_bitmap_part(struct kvrocks_text *text)
{
    char part[KVROCKS_PART_BYTES] = {0};
    struct bytes row = find_numbered(text, text->done);
    size_t len = text->left < sizeof part ? (size_t)text->left : sizeof part;
    for (size_t i = 0; i < len && i < row.len; i++)
        part[i] = (char)kvrocks_reverse_bits((uint8_t)row.data[i]);
    rdb_write_raw(text->to, (struct bytes){part, len});
    text->left -= len;
    text->done += len;
}

static bool write_bitmap(struct kvrocks_text *text)
{
    while (text->left && text->to->len < KVROCKS_PIECE_BYTES)
        write_bitmap_part(text);
    return text->left > 0;
}

/* ---- HyperLogLogs ---- */

static bool are_registers_good(struct kvrocks_text *text)
{
    struct bytes sub;
    struct bytes row;
    uint64_t index;
    for (kvrocks_rows_seek(text, BYTES("")); kvrocks_rows_next(text, &sub, &row);)
        if (!number_parse_uint64(sub, &index) || index >= KVROCKS_HLL_ROWS ||
            row.len != KVROCKS_HLL_ROW_BYTES)
            return false;
    return true;
}

/* Kvrocks has the registers of Redis' dense form, in 16 rows; a row that is missing is zeros. */
static enum kvrocks_found write_hyperloglog(struct kvrocks_text *text)
{
    char all[HLL_DENSE_BYTES] = "HYLL";
    if (!are_registers_good(text))
        return FOUND_BAD;
    hll_uncache(all);
    for (uint64_t i = 0; i < KVROCKS_HLL_ROWS; i++) {
        struct bytes row = find_numbered(text, i);
        memcpy(all + HLL_HEADER_BYTES + i * KVROCKS_HLL_ROW_BYTES, row.data, row.len);
    }
    kvrocks_write_key(text, RDB_TYPE_STRING);
    kvrocks_write_text(text->to, (struct bytes){all, sizeof all});
    return FOUND_VALUE;
}

/* ---- values without rows ---- */

static enum kvrocks_found write_string(struct kvrocks_text *text)
{
    kvrocks_write_key(text, RDB_TYPE_STRING);
    kvrocks_write_text(text->to, text->value.payload);
    return FOUND_VALUE;
}

/* The end of a text in JSON that begins at `at`. */
static size_t skip_json_text(struct bytes json, size_t at)
{
    for (at++; at < json.len && json.data[at] != '"'; at++)
        at += json.data[at] == '\\';
    return at + 1;
}

static size_t json_number_len(struct bytes json, size_t at)
{
    size_t len = 0;
    while (at + len < json.len && json.data[at + len] &&
           strchr("+-.eE0123456789", json.data[at + len]))
        len++;
    return len;
}

/* Does an integer need more than 63 bits? Scree would round it to a double. */
static bool has_big_integer(struct bytes json)
{
    size_t len;
    int64_t value;
    for (size_t at = 0; at < json.len; at += len ? len : 1) {
        len = 0;
        if (json.data[at] == '"') {
            len = skip_json_text(json, at) - at;
            continue;
        }
        len = json_number_len(json, at);
        struct bytes number = {json.data + at, len};
        bool is_fraction = len && (memchr(number.data, '.', len) || memchr(number.data, 'e', len) ||
                                   memchr(number.data, 'E', len));
        /* 'e' of true and false are numbers here, but fractions */
        if (len && !is_fraction && !bytes_is(number, "-0") && !number_parse_int64(number, &value))
            return true;
    }
    return false;
}

static enum kvrocks_found write_json(struct kvrocks_text *text)
{
    struct bytes json = text->value.payload;
    if (text->value.is_cbor && !cbor_to_json(text->scratch, json, &json))
        return FOUND_BAD;
    if (has_big_integer(json))
        return FOUND_BAD;
    kvrocks_write_key(text, RDB_TYPE_MODULE_2);
    rdb_write_module(text->to, "ReJSON-RL", 3);
    rdb_write_length(text->to, RDB_OPCODE_STRING);
    kvrocks_write_text(text->to, json);
    rdb_write_length(text->to, RDB_OPCODE_END);
    return FOUND_VALUE;
}

/* ---- all ---- */

enum kvrocks_found kvrocks_value_begin(struct kvrocks_text *text)
{
    switch (text->value.type) {
    case KVROCKS_STRING:
        return write_string(text);
    case KVROCKS_JSON:
        return write_json(text);
    case KVROCKS_HYPERLOGLOG:
        return write_hyperloglog(text);
    case KVROCKS_BITMAP:
        return begin_bitmap(text);
    case KVROCKS_STREAM:
        return kvrocks_stream_begin(text);
    default:
        return begin_rows(text);
    }
}

bool kvrocks_value_go_on(struct kvrocks_text *text)
{
    switch (text->value.type) {
    case KVROCKS_STRING:
    case KVROCKS_JSON:
    case KVROCKS_HYPERLOGLOG:
        return false;
    case KVROCKS_BITMAP:
        return write_bitmap(text);
    case KVROCKS_STREAM:
        return kvrocks_stream_go_on(text);
    default:
        return write_rows(text);
    }
}
