#include "backend/format/rdb_file.h"

#include "backend/format/rdb_skip.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* Bytes that stand where a type byte could. */
enum opcode {
    OPCODE_SLOT_IMPORT = 243, /* of Valkey; Redis 8.4 has other data with this byte */
    OPCODE_SLOT_INFO = 244,
    OPCODE_FUNCTION = 245,
    OPCODE_FUNCTION_OLD = 246,
    OPCODE_MODULE_AUX = 247,
    OPCODE_IDLE = 248,
    OPCODE_FREQ = 249,
    OPCODE_AUX = 250,
    OPCODE_SIZES = 251,
    OPCODE_EXPIRE_MS = 252,
    OPCODE_EXPIRE_S = 253,
    OPCODE_SELECT_DB = 254,
    OPCODE_EOF = 255,
};

enum { MAGIC_BYTES = 9, VERSION_DIGITS_MAX = 4 };

/* A stream's nodes: an id and a listpack. */
static const struct rdb_form STREAM_NODES = {RDB_TYPE_STREAM_LISTPACKS, TYPE_STREAM, .unit = "sv"};
static const struct rdb_form STRING_BYTES = {RDB_TYPE_STRING, TYPE_STRING, .unit = ""};

void rdb_file_init(struct rdb_file *file, struct arena *arena, size_t part_max)
{
    *file = (struct rdb_file){.arena = arena, .part_max = part_max};
}

/* ---- results ---- */

static enum rdb_result file_bad(struct rdb_file *file, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static enum rdb_result file_bad(struct rdb_file *file, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    (void)vsnprintf(file->error, sizeof file->error, format, values);
    va_end(values);
    return RDB_BAD;
}

/* The reader failed: more bytes are needed, or the bytes are invalid. */
static enum rdb_result file_stopped(struct rdb_file *file, const struct rdb_reader *reader)
{
    if (reader->missing == 0)
        return file_bad(file, "the bytes behind type %d are not valid", file->type);
    file->missing = reader->missing;
    return RDB_MORE;
}

static enum rdb_result item_done(struct rdb_item *item, enum rdb_item_kind kind, struct bytes all,
                                 const struct rdb_reader *reader)
{
    item->kind = kind;
    item->size = all.len - reader->rest.len;
    return RDB_ITEM;
}

/* ---- header ---- */

static bool is_known_version(uint64_t version, bool is_valkey)
{
    return is_valkey ? version == RDB_VERSION_VALKEY
                     : version >= RDB_VERSION_MIN && version <= RDB_VERSION_REDIS_MAX;
}

/* REDIS0011, VALKEY080 */
static enum rdb_result read_header(struct rdb_file *file, struct bytes all, struct rdb_item *item)
{
    struct rdb_reader reader = {.rest = all};
    struct bytes magic;
    uint64_t version;
    if (!rdb_read_raw(&reader, MAGIC_BYTES, &magic))
        return file_stopped(file, &reader);
    bool is_valkey = memcmp(magic.data, "VALKEY", 6) == 0;
    size_t letters = is_valkey ? 6 : 5;
    struct bytes digits = {magic.data + letters, MAGIC_BYTES - letters};
    if (!is_valkey && memcmp(magic.data, "REDIS", 5) != 0)
        return file_bad(file, "it is no RDB file: it does not begin with REDIS or VALKEY");
    while (digits.len > 1 && *digits.data == '0')
        digits = (struct bytes){digits.data + 1, digits.len - 1};
    if (!number_parse_uint64(digits, &version))
        return file_bad(file, "it is no RDB file: its version is no number");
    if (!is_known_version(version, is_valkey))
        return file_bad(file,
                        "RDB version %" PRIu64 "%s is not known, only 9 to 12, and 80 of Valkey",
                        version, is_valkey ? " of Valkey" : "");
    file->version = version;
    return item_done(item, RDB_HEADER, all, &reader);
}

/* ---- values ---- */

/* Skips a module's id and value, and notes its name. */
static bool skip_module_value(struct rdb_reader *reader, struct rdb_item *item)
{
    uint64_t id;
    if (!rdb_read_length(reader, &id))
        return false;
    rdb_module_name(id, item->module);
    return rdb_skip_module(reader);
}

/* Reads the start of a value that has units: how many there are. */
static bool parts_begin(struct rdb_file *file, struct rdb_reader *reader)
{
    bool is_stream = rdb_is_stream(file->type);
    const struct rdb_form *form =
        is_stream ? &STREAM_NODES : rdb_form_of(file->type, file->version);
    file->has_tail = is_stream;
    if (!is_stream)
        return form && rdb_elements_begin(&file->parts, reader, form);
    file->parts = (struct rdb_elements){.form = form, .reader = reader};
    return rdb_read_length(reader, &file->parts.left);
}

static bool skip_units(struct rdb_file *file, struct rdb_reader *reader)
{
    struct rdb_elements units = file->parts;
    units.reader = reader;
    while (units.left > 0)
        if (!rdb_elements_skip(&units))
            return false;
    return !file->has_tail || rdb_skip_stream_tail(reader, file->type);
}

/* Notes what a string's parts begin with. False: its length is not there yet. */
static bool string_begin(struct rdb_file *file, struct rdb_reader *reader)
{
    enum { ENCODED = 3 };
    bool is_packed = reader->rest.len && (uint8_t)reader->rest.data[0] >> 6 == ENCODED;
    file->parts = (struct rdb_elements){.form = &STRING_BYTES};
    file->has_tail = false;
    file->string = (struct rdb_string){.is_packed = is_packed};
    return is_packed || rdb_read_length(reader, &file->string.left);
}

/* Reads a value to its end. For one that has units it also returns, in *head, the reader behind their number. */
static bool skip_value(struct rdb_file *file, struct rdb_reader *reader, struct rdb_item *item,
                       struct rdb_reader *head)
{
    if (file->type == RDB_TYPE_STRING)
        return rdb_skip_string(reader);
    if (file->type == RDB_TYPE_MODULE_2)
        return skip_module_value(reader, item);
    if (!parts_begin(file, reader))
        return false;
    *head = *reader;
    return skip_units(file, reader);
}

/* A type and a key have been read. */
static enum rdb_result read_value(struct rdb_file *file, struct bytes all,
                                  struct rdb_reader *reader, struct rdb_item *item)
{
    struct rdb_reader head = {.rest = {NULL, 0}};
    struct rdb_reader string = *reader;
    const char *start = reader->rest.data;
    bool is_string = file->type == RDB_TYPE_STRING;
    size_t max = is_string ? RDB_STRING_PARTS * file->part_max : file->part_max;
    reader->unfolded = 0;
    bool is_whole = skip_value(file, reader, item, &head);
    size_t len = (size_t)(reader->rest.data - start);
    bool is_long = len > max || reader->unfolded > max || (!is_whole && all.len > max);
    if (is_long && is_string && string_begin(file, &string))
        head = string;
    if (is_long && head.rest.data) {
        file->in_parts = true;
        return item_done(item, RDB_KEY_BEGIN, all, &head);
    }
    if (!is_whole)
        return file_stopped(file, reader);
    item->value = (struct bytes){start, len};
    return item_done(item, RDB_KEY, all, reader);
}

/* Is there a type with this byte, in this version? */
static bool is_known_type(const struct rdb_file *file)
{
    return file->type == RDB_TYPE_STRING || file->type == RDB_TYPE_MODULE_2 ||
           rdb_is_stream(file->type) || rdb_form_of(file->type, file->version);
}

static enum rdb_result read_key(struct rdb_file *file, struct bytes all, struct rdb_reader *reader,
                                struct rdb_item *item)
{
    if (!is_known_type(file))
        return file_bad(file, "a key has type %d, which is not known in version %" PRIu64,
                        file->type, file->version);
    if (!rdb_read_string(reader, &item->key))
        return file_stopped(file, reader);
    return read_value(file, all, reader, item);
}

/* ---- parts of a value ---- */

/* The number of whole units in the reader's bytes, at least one: part_max bytes of them, compressed or not, end a part. */
static uint64_t whole_units(struct rdb_file *file, struct rdb_reader *reader)
{
    struct bytes all = reader->rest;
    uint64_t count = 0;
    struct rdb_elements units = file->parts;
    units.reader = reader;
    while (units.left > 0 && all.len - reader->rest.len < file->part_max &&
           reader->unfolded < file->part_max) {
        struct rdb_reader start = *reader;
        if (!rdb_elements_skip(&units)) {
            start.missing = reader->missing;
            *reader = start;
            break;
        }
        count++;
    }
    return count;
}

static enum rdb_result next_units(struct rdb_file *file, struct bytes all, struct rdb_item *item)
{
    struct rdb_reader reader = {.arena = file->arena, .rest = all};
    item->units = whole_units(file, &reader);
    if (item->units == 0)
        return file_stopped(file, &reader);
    file->parts.left -= item->units;
    item->value = (struct bytes){all.data, all.len - reader.rest.len};
    return item_done(item, RDB_KEY_PART, all, &reader);
}

static enum rdb_result next_tail(struct rdb_file *file, struct bytes all, struct rdb_item *item)
{
    struct rdb_reader reader = {.arena = file->arena, .rest = all};
    if (!rdb_skip_stream_tail(&reader, file->type))
        return file_stopped(file, &reader);
    file->has_tail = false;
    item->is_tail = true;
    item->value = (struct bytes){all.data, all.len - reader.rest.len};
    return item_done(item, RDB_KEY_PART, all, &reader);
}

static enum rdb_result next_packed_string(struct rdb_file *file, struct bytes all,
                                          struct rdb_item *item)
{
    struct rdb_reader reader = {.arena = file->arena, .rest = all};
    if (!rdb_skip_string(&reader))
        return file_stopped(file, &reader);
    file->string.is_packed = false;
    item->is_packed = item->is_last = true;
    item->value = (struct bytes){all.data, all.len - reader.rest.len};
    return item_done(item, RDB_KEY_PART, all, &reader);
}

static size_t whole_string_units(size_t len)
{
    return len - len % RDB_STRING_UNIT;
}

/* Takes as many bytes as there are, but no more than part_max, and not a part of a unit. */
static enum rdb_result next_string_part(struct rdb_file *file, struct bytes all,
                                        struct rdb_item *item)
{
    struct rdb_string *string = &file->string;
    size_t max =
        file->part_max > RDB_STRING_UNIT ? whole_string_units(file->part_max) : RDB_STRING_UNIT;
    size_t len = string->left < max ? (size_t)string->left : max;
    struct rdb_reader reader = {.rest = all};
    if (len > all.len && whole_string_units(all.len))
        len = whole_string_units(all.len);
    if (!rdb_read_raw(&reader, len, &item->value))
        return file_stopped(file, &reader);
    item->offset = string->offset;
    string->offset += len;
    string->left -= len;
    item->is_last = string->left == 0;
    return item_done(item, RDB_KEY_PART, all, &reader);
}

static enum rdb_result next_of_parts(struct rdb_file *file, struct bytes all, struct rdb_item *item)
{
    if (file->string.is_packed)
        return next_packed_string(file, all, item);
    if (file->string.left > 0)
        return next_string_part(file, all, item);
    if (file->parts.left > 0)
        return next_units(file, all, item);
    if (file->has_tail)
        return next_tail(file, all, item);
    file->in_parts = false;
    item->kind = RDB_KEY_END;
    item->size = 0;
    return RDB_ITEM;
}

/* ---- what stands between keys ---- */

/* The times and counts before a key's type. False: a reader's failure. */
static bool read_before_key(struct rdb_file *file, struct rdb_reader *reader)
{
    uint64_t idle;
    uint8_t freq;
    for (;;) {
        bool is_good = true;
        if (!rdb_read_byte(reader, &file->type))
            return false;
        if (file->type == OPCODE_EXPIRE_MS)
            is_good = rdb_read_ms(reader, &file->expire_ms);
        else if (file->type == OPCODE_EXPIRE_S)
            is_good = rdb_read_seconds(reader, &file->expire_ms);
        else if (file->type == OPCODE_FREQ)
            is_good = rdb_read_byte(reader, &freq);
        else if (file->type == OPCODE_IDLE)
            is_good = rdb_read_length(reader, &idle);
        else
            return true;
        if (!is_good)
            return false;
        if (file->type == OPCODE_EXPIRE_MS && file->expire_ms == 0)
            file->expire_ms = 1; /* it is a time, not "none" */
    }
}

static bool skip_slot_import(struct rdb_reader *reader)
{
    uint64_t count;
    uint64_t slot;
    if (!rdb_skip_string(reader) || !rdb_read_length(reader, &count))
        return false;
    for (; count > 0; count--)
        if (!rdb_read_length(reader, &slot) || !rdb_read_length(reader, &slot))
            return false;
    return true;
}

/* Reads what belongs to no key. True: `kind` says what it was. */
static bool read_between(struct rdb_file *file, struct rdb_reader *reader, struct rdb_item *item,
                         enum rdb_item_kind *kind)
{
    uint64_t number;
    *kind = RDB_OTHER;
    switch (file->type) {
    case OPCODE_SELECT_DB:
        return rdb_read_length(reader, &file->db);
    case OPCODE_SIZES:
        return rdb_read_length(reader, &number) && rdb_read_length(reader, &number);
    case OPCODE_SLOT_INFO:
        return rdb_read_length(reader, &number) && rdb_read_length(reader, &number) &&
               rdb_read_length(reader, &number);
    case OPCODE_SLOT_IMPORT:
        return skip_slot_import(reader);
    case OPCODE_AUX:
        *kind = RDB_AUX;
        return rdb_read_string(reader, &item->key) && rdb_read_string(reader, &item->value);
    case OPCODE_FUNCTION:
        *kind = RDB_FUNCTION;
        return rdb_read_string(reader, &item->value);
    case OPCODE_MODULE_AUX:
        *kind = RDB_MODULE;
        return skip_module_value(reader, item);
    default:
        *kind = RDB_END;
        return true;
    }
}

static bool is_opcode(const struct rdb_file *file)
{
    return file->type > OPCODE_SLOT_IMPORT ||
           (file->type == OPCODE_SLOT_IMPORT && file->version == RDB_VERSION_VALKEY);
}

static enum rdb_result next_item(struct rdb_file *file, struct bytes all, struct rdb_item *item)
{
    struct rdb_reader reader = {.arena = file->arena, .rest = all, .version = file->version};
    enum rdb_item_kind kind;
    file->expire_ms = 0;
    if (!read_before_key(file, &reader))
        return file_stopped(file, &reader);
    if (file->type == OPCODE_FUNCTION_OLD)
        return file_bad(file, "it has a function in the form of a Redis 7.0 release candidate");
    if (!is_opcode(file))
        return read_key(file, all, &reader, item);
    if (file->expire_ms)
        return file_bad(file, "a time to live is followed by byte %d, not by a key", file->type);
    if (!read_between(file, &reader, item, &kind))
        return file_stopped(file, &reader);
    return item_done(item, kind, all, &reader);
}

enum rdb_result rdb_file_next(struct rdb_file *file, struct bytes rest, struct rdb_item *item)
{
    *item = (struct rdb_item){.size = 0};
    if (file->version == 0)
        return read_header(file, rest, item);
    return file->in_parts ? next_of_parts(file, rest, item) : next_item(file, rest, item);
}

const char *rdb_item_type(const struct rdb_file *file, const struct rdb_item *item)
{
    const struct rdb_form *form = rdb_form_of(file->type, file->version);
    if (*item->module)
        return item->module;
    if (rdb_is_stream(file->type))
        return "stream";
    return form ? type_rows[form->type].name : "string";
}
