/*
 * rdb.c - lengths, strings, listpacks and ziplists of the RDB format.
 */
#include "backend/format/rdb.h"

#include "shared/number.h"

#include <liblzf/lzf.h>
#include <math.h>
#include <pthread.h>

enum {
    LENGTH_14BIT = 0x40,
    LENGTH_32BIT = 0x80,
    LENGTH_64BIT = 0x81,
    ENCODED_INT8 = 0xc0,
    ENCODED_INT16 = 0xc1,
    ENCODED_INT32 = 0xc2,
    ENCODED_LZF = 0xc3,
    INTEGER_TEXT_MAX = 11, /* longer texts are no 32-bit integers */
    COMPRESS_MIN = 20,     /* shorter texts are not compressed */
    FOOTER = 10,           /* version and checksum */
    /* highest compression of LZF: bounds the allocation for a damaged length */
    LZF_RATIO_MAX = 300,
};

/* ---- checksum ---- */

static uint64_t crc_table[256];

static void crc_table_fill(void)
{
    for (uint64_t i = 0; i < 256; i++) {
        uint64_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            /* Jones' polynomial, reflected */
            crc = crc & 1 ? crc >> 1 ^ 0x95ac9329ac4bc9b5ULL : crc >> 1;
        crc_table[i] = crc;
    }
}

uint64_t crc64(uint64_t crc, struct bytes data)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, crc_table_fill);
    for (size_t i = 0; i < data.len; i++)
        crc = crc_table[(uint8_t)crc ^ (uint8_t)data.data[i]] ^ crc >> 8;
    return crc;
}

/* ---- writing ---- */

void rdb_writer_init(struct rdb_writer *writer, struct arena *arena)
{
    *writer = (struct rdb_writer){.arena = arena, .version = RDB_VERSION};
}

static char *reserve_output(struct rdb_writer *writer, size_t len)
{
    if (writer->limit && writer->len + len > writer->limit) {
        writer->is_over = true;
        writer->len = 0;
    }
    if (writer->cap - writer->len < len) {
        size_t cap = writer->cap * 2 > writer->len + len ? writer->cap * 2 : writer->len + len + 64;
        char *data = arena_alloc(writer->arena, cap);
        if (writer->len)
            memcpy(data, writer->data, writer->len);
        writer->data = data;
        writer->cap = cap;
    }
    char *at = writer->data + writer->len;
    writer->len += len;
    return at;
}

static void append_bytes(struct rdb_writer *writer, struct bytes data)
{
    char *to = reserve_output(writer, data.len);
    if (data.len)
        memcpy(to, data.data, data.len);
}

static void write_little(struct rdb_writer *writer, uint64_t value, size_t size)
{
    char *to = reserve_output(writer, size);
    for (size_t i = 0; i < size; i++)
        to[i] = (char)(value >> (8 * i));
}

static void write_big(struct rdb_writer *writer, uint64_t value, size_t size)
{
    char *to = reserve_output(writer, size);
    for (size_t i = 0; i < size; i++)
        to[i] = (char)(value >> (8 * (size - 1 - i)));
}

void rdb_write_byte(struct rdb_writer *writer, uint8_t byte)
{
    *reserve_output(writer, 1) = (char)byte;
}

void rdb_write_length(struct rdb_writer *writer, uint64_t length)
{
    if (length < 1 << 6) {
        rdb_write_byte(writer, (uint8_t)length);
    } else if (length < 1 << 14) {
        write_big(writer, length | LENGTH_14BIT << 8, 2);
    } else if (length <= UINT32_MAX) {
        rdb_write_byte(writer, LENGTH_32BIT);
        write_big(writer, length, 4);
    } else {
        rdb_write_byte(writer, LENGTH_64BIT);
        write_big(writer, length, 8);
    }
}

static bool write_as_integer(struct rdb_writer *writer, struct bytes text)
{
    int64_t value;
    if (text.len > INTEGER_TEXT_MAX || !number_parse_int64(text, &value))
        return false;
    if (value == (int8_t)value) {
        rdb_write_byte(writer, ENCODED_INT8);
        write_little(writer, (uint64_t)value, 1);
    } else if (value == (int16_t)value) {
        rdb_write_byte(writer, ENCODED_INT16);
        write_little(writer, (uint64_t)value, 2);
    } else if (value == (int32_t)value) {
        rdb_write_byte(writer, ENCODED_INT32);
        write_little(writer, (uint64_t)value, 4);
    } else {
        return false;
    }
    return true;
}

static bool write_compressed(struct rdb_writer *writer, struct bytes text)
{
    if (text.len <= COMPRESS_MIN || text.len > UINT32_MAX)
        return false;
    unsigned limit = (unsigned)text.len - 4;
    if (writer->scratch.len < limit)
        writer->scratch = (struct bytes){arena_alloc(writer->arena, text.len * 2), text.len * 2};
    char *packed = (char *)writer->scratch.data;
    unsigned len = lzf_compress(text.data, (unsigned)text.len, packed, limit);
    if (len == 0)
        return false;
    rdb_write_byte(writer, ENCODED_LZF);
    rdb_write_length(writer, len);
    rdb_write_length(writer, text.len);
    append_bytes(writer, (struct bytes){packed, len});
    return true;
}

void rdb_write_string(struct rdb_writer *writer, struct bytes text)
{
    if (write_as_integer(writer, text) || write_compressed(writer, text))
        return;
    rdb_write_length(writer, text.len);
    append_bytes(writer, text);
}

void rdb_write_double(struct rdb_writer *writer, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    write_little(writer, bits, sizeof bits);
}

static const char module_letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* 6 bits for each of nine letters, then 10 bits for the version. */
static uint64_t module_id(const char *name, unsigned version)
{
    uint64_t id = 0;
    for (int i = 0; i < RDB_MODULE_NAME_LEN; i++)
        id = id << 6 | (uint64_t)(strchr(module_letters, name[i]) - module_letters);
    return id << 10 | version;
}

void rdb_module_name(uint64_t id, char name[RDB_MODULE_NAME_LEN + 1])
{
    for (int i = RDB_MODULE_NAME_LEN - 1; i >= 0; i--)
        name[i] = module_letters[id >> (10 + 6 * (RDB_MODULE_NAME_LEN - 1 - i)) & 63];
    name[RDB_MODULE_NAME_LEN] = '\0';
}

void rdb_write_module(struct rdb_writer *writer, const char *name, unsigned version)
{
    rdb_write_length(writer, module_id(name, version));
}

void rdb_write_raw(struct rdb_writer *writer, struct bytes data)
{
    append_bytes(writer, data);
}

void rdb_write_ms(struct rdb_writer *writer, uint64_t ms)
{
    write_little(writer, ms, sizeof ms);
}

/* ---- writing listpacks ---- */

enum { PACK_HEADER = 6, PACK_COUNT_MAX = UINT16_MAX };

void rdb_pack_begin(struct rdb_writer *pack, struct arena *arena)
{
    rdb_writer_init(pack, arena);
    (void)reserve_output(pack, PACK_HEADER);
}

/* Appends the size of the element, to be read backwards: 7 bits per byte, the highest first. */
static void pack_back(struct rdb_writer *pack, size_t start)
{
    size_t len = pack->len - start;
    int shift = 0;
    while (shift < 28 && len >> (shift + 7))
        shift += 7;
    for (bool is_first = true; shift >= 0; shift -= 7, is_first = false)
        rdb_write_byte(pack, (uint8_t)((len >> shift & 127) | (is_first ? 0 : 128)));
}

void rdb_pack_int(struct rdb_writer *pack, int64_t value)
{
    size_t start = pack->len;
    if (value >= 0 && value < 128) {
        rdb_write_byte(pack, (uint8_t)value);
    } else if (value == (int16_t)value) {
        rdb_write_byte(pack, 0xf1);
        write_little(pack, (uint64_t)value, 2);
    } else if (value == (int32_t)value) {
        rdb_write_byte(pack, 0xf3);
        write_little(pack, (uint64_t)value, 4);
    } else {
        rdb_write_byte(pack, 0xf4);
        write_little(pack, (uint64_t)value, 8);
    }
    pack_back(pack, start);
}

void rdb_pack_text(struct rdb_writer *pack, struct bytes text)
{
    size_t start = pack->len;
    int64_t number;
    if (number_parse_int64(text, &number)) {
        rdb_pack_int(pack, number);
        return;
    }
    if (text.len < 64) {
        rdb_write_byte(pack, (uint8_t)(0x80 | text.len));
    } else if (text.len < 4096) {
        rdb_write_byte(pack, (uint8_t)(0xe0 | text.len >> 8));
        rdb_write_byte(pack, (uint8_t)text.len);
    } else {
        rdb_write_byte(pack, 0xf0);
        write_little(pack, text.len, 4);
    }
    append_bytes(pack, text);
    pack_back(pack, start);
}

struct bytes rdb_pack_end(struct rdb_writer *pack, uint64_t count)
{
    rdb_write_byte(pack, 0xff);
    struct rdb_writer header = {.data = pack->data, .cap = PACK_HEADER};
    write_little(&header, pack->len, 4);
    write_little(&header, count < PACK_COUNT_MAX ? count : PACK_COUNT_MAX, 2);
    return (struct bytes){pack->data, pack->len};
}

struct bytes rdb_finish(struct rdb_writer *writer)
{
    write_little(writer, writer->version, 2);
    uint64_t crc = crc64(0, (struct bytes){writer->data, writer->len});
    write_little(writer, crc, 8);
    return (struct bytes){writer->data, writer->len};
}

/* ---- reading ---- */

static bool next_bytes(struct rdb_reader *reader, uint64_t len, struct bytes *data)
{
    if (len > reader->rest.len) {
        reader->missing = len - reader->rest.len;
        return false;
    }
    *data = (struct bytes){reader->rest.data, (size_t)len};
    reader->rest.data += len;
    reader->rest.len -= (size_t)len;
    return true;
}

static uint64_t little(const char *from, size_t size)
{
    uint64_t value = 0;
    for (size_t i = size; i > 0; i--)
        value = value << 8 | (uint8_t)from[i - 1];
    return value;
}

static uint64_t big(const char *from, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value = value << 8 | (uint8_t)from[i];
    return value;
}

/* A signed little-endian integer of `size` bytes. */
static int64_t little_signed(const char *from, size_t size)
{
    int shift = (int)(64 - 8 * size);
    return (int64_t)(little(from, size) << shift) >> shift;
}

static struct bytes integer_text(struct arena *arena, int64_t value)
{
    char *text = arena_alloc(arena, INT64_TEXT_MAX);
    return (struct bytes){text, number_format_int64(text, value)};
}

bool rdb_open(struct rdb_reader *reader, struct arena *arena, struct bytes payload)
{
    if (payload.len < FOOTER)
        return false;
    size_t body = payload.len - FOOTER;
    const char *footer = payload.data + body;
    *reader = (struct rdb_reader){.arena = arena, .rest = {payload.data, body}};
    uint64_t version = little(footer, 2);
    reader->version = version;
    return (version <= RDB_VERSION_REDIS_MAX || version == RDB_VERSION_VALKEY) &&
           little(footer + 2, 8) == crc64(0, (struct bytes){payload.data, body + 2});
}

bool rdb_read_byte(struct rdb_reader *reader, uint8_t *byte)
{
    struct bytes data;
    if (!next_bytes(reader, 1, &data))
        return false;
    *byte = (uint8_t)data.data[0];
    return true;
}

/* Reads the rest of a length after its first byte. */
static bool read_length_rest(struct rdb_reader *reader, uint8_t first, uint64_t *length)
{
    struct bytes data;
    if (first < LENGTH_14BIT) {
        *length = first;
        return true;
    }
    if (first < LENGTH_32BIT) {
        if (!next_bytes(reader, 1, &data))
            return false;
        *length = (uint64_t)(first & 0x3f) << 8 | (uint8_t)data.data[0];
        return true;
    }
    size_t size = first == LENGTH_32BIT ? 4 : 8;
    if (first > LENGTH_64BIT || !next_bytes(reader, size, &data))
        return false;
    *length = big(data.data, size);
    return true;
}

bool rdb_read_length(struct rdb_reader *reader, uint64_t *length)
{
    uint8_t first;
    return rdb_read_byte(reader, &first) && read_length_rest(reader, first, length);
}

/* Takes the bytes of a compressed string; `len` is its length when it is decompressed. */
static bool next_compressed(struct rdb_reader *reader, struct bytes *packed, uint64_t *len)
{
    uint64_t packed_len;
    if (!rdb_read_length(reader, &packed_len) || !rdb_read_length(reader, len) ||
        packed_len > UINT32_MAX || *len == 0 || *len > packed_len * LZF_RATIO_MAX ||
        *len > UINT32_MAX || !next_bytes(reader, packed_len, packed))
        return false;
    reader->unfolded += *len;
    return !rdb_is_over(reader);
}

/* A string as it is stored. */
struct stored_string {
    uint8_t first;     /* ENCODED_…; else the first byte of the length, and `data` is the text */
    struct bytes data; /* without the length */
    uint64_t len;      /* ENCODED_LZF: of the text */
};

static bool is_encoded_integer(const struct stored_string *string)
{
    return string->first >= ENCODED_INT8 && string->first <= ENCODED_INT32;
}

static bool next_string(struct rdb_reader *reader, struct stored_string *string)
{
    uint64_t length;
    if (!rdb_read_byte(reader, &string->first))
        return false;
    if (string->first == ENCODED_LZF)
        return next_compressed(reader, &string->data, &string->len);
    if (is_encoded_integer(string))
        return next_bytes(reader, (uint64_t)1 << (string->first - ENCODED_INT8), &string->data);
    return read_length_rest(reader, string->first, &length) &&
           next_bytes(reader, length, &string->data);
}

static bool decompress(struct rdb_reader *reader, const struct stored_string *string,
                       struct bytes *text)
{
    size_t len = (size_t)string->len;
    char *data = arena_alloc(reader->arena, len);
    *text = (struct bytes){data, len};
    return lzf_decompress(string->data.data, (unsigned)string->data.len, data, (unsigned)len) ==
           len;
}

bool rdb_read_string(struct rdb_reader *reader, struct bytes *text)
{
    struct stored_string string;
    if (!next_string(reader, &string))
        return false;
    if (string.first == ENCODED_LZF)
        return decompress(reader, &string, text);
    *text = is_encoded_integer(&string)
                ? integer_text(reader->arena, little_signed(string.data.data, string.data.len))
                : string.data;
    return true;
}

bool rdb_skip_string(struct rdb_reader *reader)
{
    struct stored_string string;
    return next_string(reader, &string);
}

bool rdb_read_double(struct rdb_reader *reader, double *value)
{
    struct bytes data;
    if (!next_bytes(reader, 8, &data))
        return false;
    uint64_t bits = little(data.data, 8);
    memcpy(value, &bits, sizeof bits);
    return true;
}

bool rdb_read_raw(struct rdb_reader *reader, size_t len, struct bytes *data)
{
    return next_bytes(reader, len, data);
}

bool rdb_read_ms(struct rdb_reader *reader, uint64_t *ms)
{
    struct bytes data;
    if (!next_bytes(reader, sizeof *ms, &data))
        return false;
    *ms = little(data.data, sizeof *ms);
    return true;
}

bool rdb_read_seconds(struct rdb_reader *reader, uint64_t *ms)
{
    struct bytes data;
    if (!next_bytes(reader, 4, &data))
        return false;
    *ms = little(data.data, 4) * 1000;
    return true;
}

bool rdb_read_double_text(struct rdb_reader *reader, double *value)
{
    uint8_t len;
    struct bytes text;
    if (!rdb_read_byte(reader, &len))
        return false;
    if (len >= RDB_SCORE_NAN) {
        *value = len == RDB_SCORE_NAN ? NAN : len == RDB_SCORE_INF ? INFINITY : -INFINITY;
        return true;
    }
    return next_bytes(reader, len, &text) && number_parse_double(text, value);
}

bool rdb_read_module(struct rdb_reader *reader, const char *name)
{
    uint64_t id;
    return rdb_read_length(reader, &id) && id >> 10 == module_id(name, 0) >> 10;
}

/* ---- packed lists ---- */

/* Where the content of an encoded element is. */
struct packed {
    size_t header;   /* bytes before the content */
    size_t len;      /* bytes of the content */
    bool is_integer; /* the content is a little-endian integer, or `value` when it has no bytes */
    int64_t value;
};

/* Bytes of the backwards length after a listpack element of `len` bytes. */
static size_t backlen_size(size_t len)
{
    return len <= 127 ? 1 : len < 16383 ? 2 : len < 2097151 ? 3 : len < 268435455 ? 4 : 5;
}

static bool listpack_element(struct bytes rest, struct packed *packed)
{
    uint8_t first = (uint8_t)rest.data[0];
    uint8_t second = rest.len > 1 ? (uint8_t)rest.data[1] : 0;
    if (first < 0x80)
        *packed = (struct packed){1, 0, true, first};
    else if (first < 0xc0)
        *packed = (struct packed){1, first & 0x3f, false, 0};
    else if (first < 0xe0)
        *packed = (struct packed){2, 0, true,
                                  (int64_t)((uint64_t)((first & 0x1f) << 8 | second) << 51) >> 51};
    else if (first < 0xf0)
        *packed = (struct packed){2, (size_t)(first & 0x0f) << 8 | second, false, 0};
    else if (first == 0xf0 && rest.len >= 5)
        *packed = (struct packed){5, (size_t)little(rest.data + 1, 4), false, 0};
    else if (first >= 0xf1 && first <= 0xf3)
        *packed = (struct packed){1, (size_t)(first - 0xf1 + 2), true, 0};
    else if (first == 0xf4)
        *packed = (struct packed){1, 8, true, 0};
    else
        return false;
    return true;
}

static bool ziplist_element(struct bytes rest, struct packed *packed)
{
    uint8_t first = (uint8_t)rest.data[0];
    uint8_t second = rest.len > 1 ? (uint8_t)rest.data[1] : 0;
    if (first < 0x40)
        *packed = (struct packed){1, first, false, 0};
    else if (first < 0x80)
        *packed = (struct packed){2, (size_t)(first & 0x3f) << 8 | second, false, 0};
    else if (first == 0x80 && rest.len >= 5)
        *packed = (struct packed){5, (size_t)big(rest.data + 1, 4), false, 0};
    else if (first == 0xc0)
        *packed = (struct packed){1, 2, true, 0};
    else if (first == 0xd0)
        *packed = (struct packed){1, 4, true, 0};
    else if (first == 0xe0)
        *packed = (struct packed){1, 8, true, 0};
    else if (first == 0xf0)
        *packed = (struct packed){1, 3, true, 0};
    else if (first == 0xfe)
        *packed = (struct packed){1, 1, true, 0};
    else if (first > 0xf0 && first < 0xfe)
        *packed = (struct packed){1, 0, true, (first & 0x0f) - 1};
    else
        return false;
    return true;
}

/* Reads the element at the front of `rest`; false: the element is longer than `rest`. */
static bool packed_value(struct arena *arena, struct bytes rest, const struct packed *packed,
                         struct bytes *element)
{
    if (packed->header > rest.len || packed->len > rest.len - packed->header)
        return false;
    const char *content = rest.data + packed->header;
    if (packed->is_integer)
        *element =
            integer_text(arena, packed->len ? little_signed(content, packed->len) : packed->value);
    else
        *element = (struct bytes){content, packed->len};
    return true;
}

/* Finds the next element of a listpack or ziplist: returns RDB_PACK_ELEMENT, and in *rest the bytes from that element on,
 * which may be empty. *at is the offset of the element; 0 before the first call. */
static enum rdb_pack pack_rest(struct bytes pack, size_t header, size_t *at, struct bytes *rest)
{
    if (pack.len <= header || little(pack.data, 4) != pack.len)
        return RDB_PACK_BAD;
    if (*at == 0)
        *at = header;
    *rest = (struct bytes){pack.data + *at, pack.len - *at};
    if (rest->len > 0 && (uint8_t)rest->data[0] == 0xff)
        return rest->len == 1 ? RDB_PACK_END : RDB_PACK_BAD;
    return RDB_PACK_ELEMENT;
}

enum rdb_pack rdb_listpack_next(struct arena *arena, struct bytes pack, size_t *at,
                                struct bytes *element)
{
    enum { HEADER = 6 };
    struct packed packed;
    struct bytes rest;
    enum rdb_pack found = pack_rest(pack, HEADER, at, &rest);
    if (found != RDB_PACK_ELEMENT)
        return found;
    if (rest.len == 0 || !listpack_element(rest, &packed) ||
        !packed_value(arena, rest, &packed, element))
        return RDB_PACK_BAD;
    size_t size = packed.header + packed.len;
    size += backlen_size(size);
    if (size >= rest.len)
        return RDB_PACK_BAD;
    *at += size;
    return RDB_PACK_ELEMENT;
}

enum rdb_pack rdb_ziplist_next(struct arena *arena, struct bytes pack, size_t *at,
                               struct bytes *element)
{
    enum { HEADER = 10 };
    struct packed packed;
    struct bytes rest;
    enum rdb_pack found = pack_rest(pack, HEADER, at, &rest);
    if (found != RDB_PACK_ELEMENT)
        return found;
    size_t previous = rest.len > 0 && (uint8_t)rest.data[0] == 0xfe ? 5 : 1;
    if (rest.len <= previous)
        return RDB_PACK_BAD;
    rest.data += previous;
    rest.len -= previous;
    if (!ziplist_element(rest, &packed) || !packed_value(arena, rest, &packed, element))
        return RDB_PACK_BAD;
    size_t size = packed.header + packed.len;
    if (size >= rest.len)
        return RDB_PACK_BAD;
    *at += previous + size;
    return RDB_PACK_ELEMENT;
}

/* u32 size of a number | u32 count | the numbers, ascending. */
enum rdb_pack rdb_intset_next(struct arena *arena, struct bytes pack, size_t *at,
                              struct bytes *element)
{
    enum { HEADER = 8 };
    if (pack.len < HEADER)
        return RDB_PACK_BAD;
    uint64_t size = little(pack.data, 4);
    uint64_t count = little(pack.data + 4, 4);
    if ((size != 2 && size != 4 && size != 8) || pack.len - HEADER != size * count)
        return RDB_PACK_BAD;
    if (*at == 0)
        *at = HEADER;
    if (*at == pack.len)
        return RDB_PACK_END;
    int64_t value = little_signed(pack.data + *at, size);
    if (*at > HEADER && value <= little_signed(pack.data + *at - size, size))
        return RDB_PACK_BAD;
    *element = integer_text(arena, value);
    *at += size;
    return RDB_PACK_ELEMENT;
}
