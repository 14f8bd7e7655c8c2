#include "backend/copy/kvrocks.h"

#include "shared/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPCODE_FUNCTION = 245, OPCODE_AUX = 250, OPCODE_EXPIRE_MS = 252, OPCODE_EOF = 255 };
/* Keys that must have their slots in front until the directory counts as one of cluster mode. */
enum { SLOT_KEYS_LOOKED_AT = 1000, SPACES_SHOWN = 10 };

static const char default_space[] = "__namespace";

enum step { AT_START, AT_LIBRARIES, AT_KEYS, IN_VALUE, AT_END, BEHIND_END };

struct kvrocks {
    struct foreign *foreign;
    struct foreign_rows *keys;
    struct foreign_rows *elements;
    struct foreign_rows *entries;
    struct foreign_rows *libraries;
    struct bytes prefix; /* of the namespace's metadata keys; owned */
    bool has_slots;
    enum step step;
    struct arena piece; /* bytes that wait to be read */
    struct rdb_writer writer;
    size_t sent;
    struct arena value_arena;
    struct arena scratch;
    struct kvrocks_text text;
    char error[KVROCKS_ERROR_MAX];
};

/* ---- refused values ---- */

static const char *const REFUSALS[16] = {
    [KVROCKS_STRING] = "a string of Kvrocks of an unknown form, or damaged",
    [KVROCKS_HASH] = "a hash of Kvrocks of an unknown form (fields with times to live), or damaged",
    [KVROCKS_LIST] = "a list of Kvrocks of an unknown form, or damaged",
    [KVROCKS_SET] = "a set of Kvrocks of an unknown form, or damaged",
    [KVROCKS_ZSET] = "a zset of Kvrocks of an unknown form, or damaged",
    [KVROCKS_BITMAP] = "a bitmap of Kvrocks of an unknown form, or damaged",
    [KVROCKS_SORTEDINT] = "a sortedint of Kvrocks of an unknown form, or damaged",
    [KVROCKS_STREAM] = "a stream of Kvrocks of an unknown form, or damaged",
    [KVROCKS_BLOOM] = "a Bloom filter of Kvrocks, whose bits Scree cannot use",
    [KVROCKS_JSON] = "JSON of Kvrocks with an integer beyond 63 bits or bytes, or damaged",
    [KVROCKS_HYPERLOGLOG] = "a HyperLogLog of Kvrocks of an unknown form, or damaged",
    [12] = "a t-digest of Kvrocks, which scree-copy cannot read",
    [13] = "a time series of Kvrocks, which Scree does not have",
};

const char *kvrocks_refusal(const char *module)
{
    char *end;
    if (strncmp(module, "Kvrocks-", 8) != 0)
        return NULL;
    unsigned long type = strtoul(module + 8, &end, 16);
    const char *known = type < 16 && !*end ? REFUSALS[type] : NULL;
    return known ? known : "a value of Kvrocks of a type that scree-copy does not know";
}

/* A value of a module without content, under a name that says why it is none. */
static void write_refused(struct kvrocks_text *text)
{
    char module[RDB_MODULE_NAME_LEN + 1];
    (void)snprintf(module, sizeof module, "Kvrocks-%x", (unsigned)text->value.type & 0xf);
    kvrocks_write_key(text, RDB_TYPE_MODULE_2);
    rdb_write_module(text->to, module, 1);
    rdb_write_length(text->to, RDB_OPCODE_END);
}

/* ---- keys ---- */

void kvrocks_rows_seek(struct kvrocks_text *text, struct bytes sub)
{
    const struct kvrocks_rows *rows = &text->rows;
    struct arena_mark mark = arena_mark(text->scratch);
    char *data = arena_alloc(text->scratch, rows->prefix.len + sub.len);
    char *end = data;
    (void)bytes_copy_to(&end, rows->prefix);
    (void)bytes_copy_to(&end, sub);
    foreign_rows_seek(rows->all, (struct bytes){data, (size_t)(end - data)});
    arena_release(text->scratch, &mark);
}

/* Cuts the prefix off. False: the bytes do not begin with it. */
static bool take_prefix_off(struct bytes *bytes, struct bytes prefix)
{
    if (bytes->len < prefix.len || memcmp(bytes->data, prefix.data, prefix.len) != 0)
        return false;
    bytes->data += prefix.len;
    bytes->len -= prefix.len;
    return true;
}

bool kvrocks_rows_next(struct kvrocks_text *text, struct bytes *sub, struct bytes *value)
{
    return foreign_rows_next(text->rows.all, sub, value) && take_prefix_off(sub, text->rows.prefix);
}

void kvrocks_write_key(struct kvrocks_text *text, enum rdb_type type)
{
    if (text->value.expire_ms) {
        rdb_write_byte(text->to, OPCODE_EXPIRE_MS);
        rdb_write_ms(text->to, text->value.expire_ms);
    }
    rdb_write_byte(text->to, (uint8_t)type);
    kvrocks_write_text(text->to, text->key.key);
}

static void prepare_rows(struct kvrocks *kvrocks)
{
    struct kvrocks_text *text = &kvrocks->text;
    text->rows.all = text->value.type == KVROCKS_STREAM ? kvrocks->entries : kvrocks->elements;
    text->rows.prefix = kvrocks_rows_prefix(text->arena, &text->key, text->value.version);
}

static void begin_key_value(struct kvrocks *kvrocks, struct bytes row)
{
    struct kvrocks_text *text = &kvrocks->text;
    enum kvrocks_found found = FOUND_BAD;
    text->left = text->done = 0;
    if (kvrocks_value_read(row, &text->value)) {
        prepare_rows(kvrocks);
        found = kvrocks_value_begin(text);
    }
    if (found == FOUND_BAD && !*foreign_error(kvrocks->foreign))
        write_refused(text);
    if (found == FOUND_VALUE)
        kvrocks->step = IN_VALUE;
}

static void next_key(struct kvrocks *kvrocks)
{
    struct bytes key;
    struct bytes row;
    arena_reset(&kvrocks->value_arena);
    if (!foreign_rows_next(kvrocks->keys, &key, &row) || key.len < kvrocks->prefix.len ||
        memcmp(key.data, kvrocks->prefix.data, kvrocks->prefix.len) != 0) {
        kvrocks->step = AT_END;
    } else if (kvrocks_key_read(key, kvrocks->has_slots, &kvrocks->text.key)) {
        begin_key_value(kvrocks, row);
    } else {
        (void)snprintf(kvrocks->error, sizeof kvrocks->error,
                       "a key is too short: the directory is damaged");
    }
}

/* ---- the file ---- */

static void write_start(struct kvrocks *kvrocks)
{
    struct rdb_writer *to = &kvrocks->writer;
    rdb_write_raw(to, BYTES("REDIS0011"));
    rdb_write_byte(to, OPCODE_AUX);
    kvrocks_write_text(to, BYTES("kvrocks"));
    kvrocks_write_text(to, kvrocks->has_slots ? BYTES("cluster mode") : BYTES("one server"));
    kvrocks->step = AT_LIBRARIES;
    foreign_rows_seek(kvrocks->libraries, BYTES(KVROCKS_LIBRARY_PREFIX));
}

static void next_library(struct kvrocks *kvrocks)
{
    struct bytes name;
    struct bytes code;
    if (!foreign_rows_next(kvrocks->libraries, &name, &code) ||
        !take_prefix_off(&name, BYTES(KVROCKS_LIBRARY_PREFIX))) {
        kvrocks->step = AT_KEYS;
        foreign_rows_seek(kvrocks->keys, kvrocks->prefix);
        return;
    }
    rdb_write_byte(&kvrocks->writer, OPCODE_FUNCTION);
    kvrocks_write_text(&kvrocks->writer, code);
}

/* The end, and a checksum of zeros: there is none. */
static void write_end(struct kvrocks *kvrocks)
{
    rdb_write_byte(&kvrocks->writer, OPCODE_EOF);
    rdb_write_ms(&kvrocks->writer, 0);
    kvrocks->step = BEHIND_END;
}

static void write_next(struct kvrocks *kvrocks)
{
    switch (kvrocks->step) {
    case AT_START:
        write_start(kvrocks);
        break;
    case AT_LIBRARIES:
        next_library(kvrocks);
        break;
    case AT_KEYS:
        next_key(kvrocks);
        break;
    case IN_VALUE:
        if (!kvrocks_value_go_on(&kvrocks->text))
            kvrocks->step = AT_KEYS;
        break;
    case AT_END:
        write_end(kvrocks);
        break;
    case BEHIND_END:
        break;
    }
}

/* ---- reading ---- */

static bool has_failed(const struct kvrocks *kvrocks)
{
    return *kvrocks->error || *foreign_error(kvrocks->foreign);
}

/* Writes the next piece. False: nothing is left, or it failed. */
static bool next_piece(struct kvrocks *kvrocks)
{
    arena_reset(&kvrocks->piece);
    rdb_writer_init(&kvrocks->writer, &kvrocks->piece);
    while (kvrocks->step != BEHIND_END && !has_failed(kvrocks) &&
           kvrocks->writer.len < KVROCKS_PIECE_BYTES) {
        write_next(kvrocks);
        arena_reset(&kvrocks->scratch);
    }
    kvrocks->sent = 0;
    return kvrocks->writer.len && !has_failed(kvrocks);
}

ssize_t kvrocks_read(void *owner, char *to, size_t size)
{
    struct kvrocks *kvrocks = owner;
    if (kvrocks->sent == kvrocks->writer.len && !next_piece(kvrocks))
        return has_failed(kvrocks) ? -1 : 0;
    size_t left = kvrocks->writer.len - kvrocks->sent;
    size_t len = left < size ? left : size;
    memcpy(to, kvrocks->writer.data + kvrocks->sent, len);
    kvrocks->sent += len;
    return (ssize_t)len;
}

const char *kvrocks_error(const void *owner)
{
    const struct kvrocks *kvrocks = owner;
    return *kvrocks->error ? kvrocks->error : foreign_error(kvrocks->foreign);
}

/* ---- opening ---- */

static bool kvrocks_failed(struct kvrocks *kvrocks, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool kvrocks_failed(struct kvrocks *kvrocks, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    (void)vsnprintf(kvrocks->error, sizeof kvrocks->error, format, values);
    va_end(values);
    return false;
}

/* Cluster mode puts the slot before each key. That other keys begin with their own slot by accident has odds of 1 in 65536, each. */
static bool look_for_slots(struct kvrocks *kvrocks)
{
    struct bytes key;
    struct bytes row;
    unsigned count = 0;
    foreign_rows_seek(kvrocks->keys, BYTES(""));
    while (count < SLOT_KEYS_LOOKED_AT && foreign_rows_next(kvrocks->keys, &key, &row)) {
        if (!kvrocks_key_fits_slot(key))
            return false;
        count++;
    }
    return count > 0;
}

/* Finds the namespace that follows `after` in the order of the keys; `after` empty: the first one. False: there is none. */
static bool next_namespace(struct kvrocks *kvrocks, struct bytes after, struct bytes *prefix)
{
    struct bytes key;
    struct bytes row;
    struct kvrocks_key parts;
    struct bytes from = after.len ? encode_prefix_end(&kvrocks->scratch, after) : BYTES("");
    if (after.len && !from.len) /* nothing is behind a prefix of ff only */
        return false;
    foreign_rows_seek(kvrocks->keys, from);
    if (!foreign_rows_next(kvrocks->keys, &key, &row))
        return false;
    if (!kvrocks_key_read(key, false, &parts))
        return kvrocks_failed(kvrocks, "a key is too short: the directory is damaged");
    char *copy = arena_alloc(&kvrocks->scratch, parts.prefix.len);
    char *end = copy;
    *prefix = bytes_copy_to(&end, parts.prefix);
    return true;
}

/* Writes the names of the namespaces that have keys; returns their number. */
static unsigned list_spaces(struct kvrocks *kvrocks, char *to, size_t size, struct bytes *only)
{
    struct bytes prefix = {"", 0};
    unsigned count = 0;
    size_t len = 0;
    *to = '\0';
    for (; next_namespace(kvrocks, prefix, &prefix); count++) {
        *only = prefix;
        if (count < SPACES_SHOWN && len < size)
            len += (size_t)snprintf(to + len, size - len, "%s%.*s", count ? ", " : "",
                                    (int)(prefix.len - 1), prefix.data + 1);
    }
    if (count > SPACES_SHOWN && len < size)
        (void)snprintf(to + len, size - len, " and %u more", count - SPACES_SHOWN);
    return count;
}

static void set_prefix(struct kvrocks *kvrocks, struct bytes name)
{
    char *data = malloc(name.len + 1);
    CHECK(data);
    char *end = data;
    *end++ = (char)(uint8_t)name.len;
    (void)bytes_copy_to(&end, name);
    kvrocks->prefix = (struct bytes){data, (size_t)(end - data)};
}

static bool has_keys_of(struct kvrocks *kvrocks, struct bytes prefix)
{
    struct bytes key;
    struct bytes row;
    foreign_rows_seek(kvrocks->keys, prefix);
    return foreign_rows_next(kvrocks->keys, &key, &row) && take_prefix_off(&key, prefix);
}

/* Several namespaces are copied one by one, since each needs its own login. */
static bool choose_space(struct kvrocks *kvrocks, const char *space)
{
    char names[KVROCKS_ERROR_MAX / 2];
    struct bytes only = BYTES("");
    unsigned count = list_spaces(kvrocks, names, sizeof names, &only);
    if (space && strlen(space) > UINT8_MAX)
        return kvrocks_failed(kvrocks, "--namespace: at most %d bytes", UINT8_MAX);
    if (!space && count > 1)
        return kvrocks_failed(
            kvrocks,
            "it has keys of several namespaces: %s; copy one after the other: --namespace NAME",
            names);
    if (space || count == 0)
        set_prefix(kvrocks, bytes_of(space ? space : default_space));
    else
        set_prefix(kvrocks, (struct bytes){only.data + 1, only.len - 1});
    if (space && count && !has_keys_of(kvrocks, kvrocks->prefix))
        return kvrocks_failed(kvrocks, "it has no keys of the namespace %s, but of: %s", space,
                              names);
    return true;
}

static void open_iterators(struct kvrocks *kvrocks)
{
    kvrocks->keys = foreign_rows_new(kvrocks->foreign, FAMILY_METADATA);
    kvrocks->elements = foreign_rows_new(kvrocks->foreign, FAMILY_ELEMENTS);
    kvrocks->entries = foreign_rows_new(kvrocks->foreign, FAMILY_STREAM);
    kvrocks->libraries = foreign_rows_new(kvrocks->foreign, FAMILY_PROPAGATE);
}

static bool open_kvrocks_directory(struct kvrocks *kvrocks, const char *path, const char *space)
{
    static const char *const families[FAMILIES] = {"metadata", "default", "stream", "propagate",
                                                   "data"};
    char reason[FOREIGN_ERROR_MAX];
    kvrocks->foreign = foreign_open(path, families, FAMILIES, reason);
    if (!kvrocks->foreign)
        return kvrocks_failed(kvrocks, "%s", reason);
    open_iterators(kvrocks);
    if (!foreign_has(kvrocks->foreign, FAMILY_METADATA) ||
        foreign_has(kvrocks->foreign, FAMILY_SCREE))
        return kvrocks_failed(kvrocks, "%s: is no directory of Kvrocks, though one of RocksDB",
                              path);
    kvrocks->has_slots = look_for_slots(kvrocks);
    return choose_space(kvrocks, space) && !has_failed(kvrocks);
}

struct kvrocks *kvrocks_open(const char *path, const char *space, char error[KVROCKS_ERROR_MAX])
{
    struct kvrocks *kvrocks = calloc(1, sizeof *kvrocks);
    CHECK(kvrocks);
    arena_init(&kvrocks->piece);
    arena_init(&kvrocks->value_arena);
    arena_init(&kvrocks->scratch);
    kvrocks->text.to = &kvrocks->writer;
    kvrocks->text.arena = &kvrocks->value_arena;
    kvrocks->text.scratch = &kvrocks->scratch;
    if (open_kvrocks_directory(kvrocks, path, space))
        return kvrocks;
    (void)snprintf(error, KVROCKS_ERROR_MAX, "%s",
                   *kvrocks->error ? kvrocks->error : foreign_error(kvrocks->foreign));
    kvrocks_close(kvrocks);
    return NULL;
}

static void close_rows(struct kvrocks *kvrocks)
{
    foreign_rows_free(kvrocks->keys);
    foreign_rows_free(kvrocks->elements);
    foreign_rows_free(kvrocks->entries);
    foreign_rows_free(kvrocks->libraries);
    foreign_close(kvrocks->foreign);
}

void kvrocks_close(struct kvrocks *kvrocks)
{
    if (kvrocks->foreign)
        close_rows(kvrocks);
    arena_fini(&kvrocks->piece);
    arena_fini(&kvrocks->value_arena);
    arena_fini(&kvrocks->scratch);
    free((char *)kvrocks->prefix.data);
    free(kvrocks);
}
