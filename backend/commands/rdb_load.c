/*
 * rdb_load.c - loads a key's value from RDB format, in the plain and the compact forms of each type.
 *
 *   source      counted strings | a listpack | a ziplist | an intset
 *      │ source_next
 *      ▼
 *   add_field, add_element, add_member, add_scored ──► rows
 */
#include "backend/commands/json.h"
#include "backend/commands/list.h"
#include "backend/commands/types.h"
#include "backend/format/rdb.h"
#include "backend/keyspace/field_expiry.h"
#include "backend/rank/rank.h"
#include "shared/check.h"
#include "shared/number.h"

#include <math.h>

typedef enum rdb_pack pack_next_fn(struct arena *arena, struct bytes pack, size_t *at,
                                   struct bytes *element);

/* Yields the elements of a collection one by one. */
struct source {
    struct call *call;
    struct rdb_reader *reader;
    pack_next_fn *next; /* NULL: plain strings of the reader */
    struct bytes pack;
    size_t at;
    uint64_t left; /* plain strings that follow */
};

/* Begins a source of plain strings: a count, then `each` strings per counted item. */
static bool source_plain(struct call *call, struct rdb_reader *reader, uint64_t each,
                         struct source *source)
{
    *source = (struct source){.call = call, .reader = reader};
    return rdb_read_length(reader, &source->left) &&
           !__builtin_mul_overflow(source->left, each, &source->left);
}

static bool source_packed(struct call *call, struct rdb_reader *reader, pack_next_fn *next,
                          struct source *source)
{
    *source = (struct source){.call = call, .reader = reader, .next = next};
    return rdb_read_string(reader, &source->pack);
}

static enum rdb_pack source_next(struct source *source, struct bytes *element)
{
    if (source->next)
        return source->next(source->call->arena, source->pack, &source->at, element);
    if (source->left == 0)
        return RDB_PACK_END;
    source->left--;
    return rdb_read_string(source->reader, element) ? RDB_PACK_ELEMENT : RDB_PACK_BAD;
}

/* ---- rows ---- */

/* Adds a row; false: it exists already. */
static bool add_loaded_row(struct call *call, struct entry *entry, struct bytes sub,
                           struct bytes value)
{
    struct bytes old;
    if (sub_get(call, entry, CF_DATA, sub, &old) != ERR_NOT_FOUND)
        return false; /* a duplicate: the payload is damaged */
    sub_put(call, entry, CF_DATA, sub, value);
    entry->meta.size++;
    return true;
}

static bool add_scored(struct call *call, struct entry *entry, struct bytes member, double score)
{
    if (isnan(score))
        return false;
    struct bytes bits = encode_u64(call->arena, encode_score(score));
    char *sub = arena_alloc(call->arena, bits.len + member.len);
    memcpy(sub, bits.data, bits.len);
    if (member.len)
        memcpy(sub + bits.len, member.data, member.len);
    sub_put(call, entry, CF_ZSET_SCORE, (struct bytes){sub, bits.len + member.len}, BYTES(""));
    return add_loaded_row(call, entry, member, bits);
}

/* ---- collections ---- */

static bool load_elements(struct entry *entry, struct source *source)
{
    struct bytes element;
    enum rdb_pack result;
    while ((result = source_next(source, &element)) == RDB_PACK_ELEMENT) {
        list_push_end(source->call, entry, LIST_TAIL, element);
        if (source->call->failed)
            return false;
    }
    return result == RDB_PACK_END;
}

/* Loads a quicklist: each node is packed, or, in the second form, may be a plain element. */
static bool load_quicklist(struct call *call, struct entry *entry, struct rdb_reader *reader,
                           bool second)
{
    enum { PLAIN = 1, PACKED = 2 };
    uint64_t nodes;
    if (!rdb_read_length(reader, &nodes))
        return false;
    for (; nodes > 0 && !call->failed; nodes--) {
        struct source source;
        struct bytes element;
        uint64_t container = PACKED;
        if (second && !rdb_read_length(reader, &container))
            return false;
        if (container == PLAIN) {
            if (!rdb_read_string(reader, &element))
                return false;
            list_push_end(call, entry, LIST_TAIL, element);
            continue;
        }
        pack_next_fn *next = second ? rdb_listpack_next : rdb_ziplist_next;
        if (container != PACKED || !source_packed(call, reader, next, &source) ||
            !load_elements(entry, &source))
            return false;
    }
    return true;
}

static bool load_fields(struct entry *entry, struct source *source)
{
    struct bytes field;
    struct bytes value;
    enum rdb_pack result;
    while ((result = source_next(source, &field)) == RDB_PACK_ELEMENT)
        if (source_next(source, &value) != RDB_PACK_ELEMENT ||
            !add_loaded_row(source->call, entry, field, value))
            return false;
    return result == RDB_PACK_END;
}

static bool load_members(struct entry *entry, struct source *source)
{
    struct bytes member;
    enum rdb_pack result;
    while ((result = source_next(source, &member)) == RDB_PACK_ELEMENT)
        if (!add_loaded_row(source->call, entry, member, BYTES("")))
            return false;
    return result == RDB_PACK_END && rank_build(source->call, entry, CF_DATA);
}

/* Loads members and scores, which alternate, both as text. */
static bool load_scored(struct entry *entry, struct source *source)
{
    struct bytes member;
    struct bytes text;
    double score;
    enum rdb_pack result;
    while ((result = source_next(source, &member)) == RDB_PACK_ELEMENT)
        if (source_next(source, &text) != RDB_PACK_ELEMENT || !number_parse_double(text, &score) ||
            !add_scored(source->call, entry, member, score))
            return false;
    return result == RDB_PACK_END && rank_build(source->call, entry, CF_ZSET_SCORE);
}

static bool load_plain_zset(struct call *call, struct entry *entry, struct rdb_reader *reader,
                            bool second)
{
    uint64_t count;
    if (!rdb_read_length(reader, &count))
        return false;
    for (; count > 0; count--) {
        struct bytes member;
        double score;
        if (!rdb_read_string(reader, &member) ||
            !(second ? rdb_read_double(reader, &score) : rdb_read_double_text(reader, &score)) ||
            !add_scored(call, entry, member, score))
            return false;
    }
    return rank_build(call, entry, CF_ZSET_SCORE);
}

bool rdb_load_sortedint(struct call *call, struct entry *entry, struct rdb_reader *reader,
                        enum rdb_type form, uint64_t expire_ms)
{
    (void)form;
    (void)expire_ms;
    uint64_t opcode;
    uint64_t count;
    uint64_t value;
    if (!rdb_read_length(reader, &opcode) || opcode != RDB_OPCODE_UINT ||
        !rdb_read_length(reader, &count))
        return false;
    entry_create(call, entry, TYPE_SORTEDINT);
    for (; count > 0; count--)
        if (!rdb_read_length(reader, &opcode) || opcode != RDB_OPCODE_UINT ||
            !rdb_read_length(reader, &value) ||
            !add_loaded_row(call, entry, encode_u64(call->arena, value), BYTES("")))
            return false;
    return rdb_read_length(reader, &opcode) && opcode == RDB_OPCODE_END &&
           rank_build(call, entry, CF_DATA);
}

/* ---- types ---- */

/* How to load a value by its RDB type: the resulting type, and the form of the source. */
struct form {
    enum rdb_type rdb;
    enum type type;
    bool (*load)(struct entry *entry, struct source *source);
    pack_next_fn *next; /* NULL: plain strings */
    uint64_t each;      /* plain strings per counted item */
};

static const struct form FORMS[] = {
    {RDB_TYPE_LIST, TYPE_LIST, load_elements, NULL, 1},
    {RDB_TYPE_LIST_ZIPLIST, TYPE_LIST, load_elements, rdb_ziplist_next, 0},
    {RDB_TYPE_SET, TYPE_SET, load_members, NULL, 1},
    {RDB_TYPE_SET_INTSET, TYPE_SET, load_members, rdb_intset_next, 0},
    {RDB_TYPE_SET_LISTPACK, TYPE_SET, load_members, rdb_listpack_next, 0},
    {RDB_TYPE_HASH, TYPE_HASH, load_fields, NULL, 2},
    {RDB_TYPE_HASH_ZIPLIST, TYPE_HASH, load_fields, rdb_ziplist_next, 0},
    {RDB_TYPE_HASH_LISTPACK, TYPE_HASH, load_fields, rdb_listpack_next, 0},
    {RDB_TYPE_ZSET_ZIPLIST, TYPE_ZSET, load_scored, rdb_ziplist_next, 0},
    {RDB_TYPE_ZSET_LISTPACK, TYPE_ZSET, load_scored, rdb_listpack_next, 0},
};

static bool load_form(struct call *call, struct entry *entry, struct rdb_reader *reader,
                      enum rdb_type type)
{
    struct source source;
    const struct form *form = NULL;
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS && !form; i++)
        form = FORMS[i].rdb == type ? &FORMS[i] : NULL;
    CHECK(form);
    entry_create(call, entry, form->type);
    return (form->next ? source_packed(call, reader, form->next, &source)
                       : source_plain(call, reader, form->each, &source)) &&
           form->load(entry, &source);
}

/* Adds a field with its TTL; 0: none. A time that has passed is not an error: the field is due. */
static bool add_field_ttl(struct call *call, struct entry *entry, struct bytes field,
                          struct bytes value, uint64_t expire_ms)
{
    if (expire_ms > INT64_MAX || !add_loaded_row(call, entry, field, value))
        return false;
    field_expiry_set(call, entry, field, 0, expire_ms);
    return true;
}

/* Fields of RDB_TYPE_HASH_TTL, whose TTLs are relative to `base_ms`, and its older form, where they are times. */
static bool load_field_ttls(struct call *call, struct entry *entry, struct rdb_reader *reader,
                            bool is_old, uint64_t base_ms)
{
    uint64_t count;
    if (base_ms > INT64_MAX || !rdb_read_length(reader, &count))
        return false;
    for (; count > 0; count--) {
        uint64_t ttl;
        struct bytes field;
        struct bytes value;
        if (!rdb_read_length(reader, &ttl) || ttl > INT64_MAX || !rdb_read_string(reader, &field) ||
            !rdb_read_string(reader, &value) ||
            !add_field_ttl(call, entry, field, value, ttl && !is_old ? base_ms + ttl - 1 : ttl))
            return false;
    }
    return true;
}

/* Valkey's form: the time follows the value; -1: none. */
static bool load_valkey_fields(struct call *call, struct entry *entry, struct rdb_reader *reader)
{
    uint64_t count;
    if (!rdb_read_length(reader, &count))
        return false;
    for (; count > 0; count--) {
        uint64_t expire_ms;
        struct bytes field;
        struct bytes value;
        if (!rdb_read_string(reader, &field) || !rdb_read_string(reader, &value) ||
            !rdb_read_ms(reader, &expire_ms) ||
            !add_field_ttl(call, entry, field, value, expire_ms == UINT64_MAX ? 0 : expire_ms))
            return false;
    }
    return true;
}

/* A listpack of fields, values and times; 0: none. */
static bool load_packed_ttls(struct call *call, struct entry *entry, struct rdb_reader *reader)
{
    struct source source;
    struct bytes field;
    struct bytes value;
    struct bytes text;
    enum rdb_pack result;
    if (!source_packed(call, reader, rdb_listpack_next, &source))
        return false;
    while ((result = source_next(&source, &field)) == RDB_PACK_ELEMENT) {
        int64_t expire_ms;
        if (source_next(&source, &value) != RDB_PACK_ELEMENT ||
            source_next(&source, &text) != RDB_PACK_ELEMENT ||
            !number_parse_int64(text, &expire_ms) || expire_ms < 0 ||
            !add_field_ttl(call, entry, field, value, (uint64_t)expire_ms))
            return false;
    }
    return result == RDB_PACK_END;
}

bool rdb_load_hash(struct call *call, struct entry *entry, struct rdb_reader *reader,
                   enum rdb_type form, uint64_t expire_ms)
{
    uint64_t base_ms = 0;
    bool is_old = form == RDB_TYPE_HASH_TTL_OLD || form == RDB_TYPE_HASH_TTL_LISTPACK_OLD;
    (void)expire_ms;
    if (form < RDB_TYPE_HASH_TTL_OLD)
        return load_form(call, entry, reader, form);
    entry_create(call, entry, TYPE_HASH);
    if (form == RDB_TYPE_HASH_TTL_OLD && reader->version == RDB_VERSION_VALKEY)
        return load_valkey_fields(call, entry, reader);
    if (!is_old && !rdb_read_ms(reader, &base_ms))
        return false;
    return form == RDB_TYPE_HASH_TTL_OLD || form == RDB_TYPE_HASH_TTL
               ? load_field_ttls(call, entry, reader, is_old, base_ms)
               : load_packed_ttls(call, entry, reader);
}

bool rdb_load_set(struct call *call, struct entry *entry, struct rdb_reader *reader,
                  enum rdb_type form, uint64_t expire_ms)
{
    (void)expire_ms;
    return load_form(call, entry, reader, form);
}

bool rdb_load_list(struct call *call, struct entry *entry, struct rdb_reader *reader,
                   enum rdb_type form, uint64_t expire_ms)
{
    (void)expire_ms;
    if (form != RDB_TYPE_LIST_QUICKLIST && form != RDB_TYPE_LIST_QUICKLIST_2)
        return load_form(call, entry, reader, form);
    entry_create(call, entry, TYPE_LIST);
    return load_quicklist(call, entry, reader, form == RDB_TYPE_LIST_QUICKLIST_2);
}

bool rdb_load_zset(struct call *call, struct entry *entry, struct rdb_reader *reader,
                   enum rdb_type form, uint64_t expire_ms)
{
    (void)expire_ms;
    if (form != RDB_TYPE_ZSET && form != RDB_TYPE_ZSET_2)
        return load_form(call, entry, reader, form);
    entry_create(call, entry, TYPE_ZSET);
    return load_plain_zset(call, entry, reader, form == RDB_TYPE_ZSET_2);
}

bool rdb_load_string(struct call *call, struct entry *entry, struct rdb_reader *reader,
                     enum rdb_type form, uint64_t expire_ms)
{
    struct bytes text;
    (void)form;
    if (!rdb_read_string(reader, &text))
        return false;
    entry_set_payload(call, entry, TYPE_STRING, text, expire_ms);
    return true;
}

/* Replies why the type cannot be loaded; for an unknown type byte the caller replies a general error. */
static void refuse_type(struct call *call, enum rdb_type type)
{
    if (type > RDB_TYPE_LAST)
        call_errorf(call, "ERR the payload has type %d of a newer server, which is not supported",
                    (int)type);
}

bool rdb_load_json(struct call *call, struct entry *entry, struct rdb_reader *reader,
                   enum rdb_type form, uint64_t expire_ms)
{
    (void)form;
    uint64_t opcode;
    struct bytes text;
    if (!rdb_read_length(reader, &opcode) || opcode != RDB_OPCODE_STRING ||
        !rdb_read_string(reader, &text) || !rdb_read_length(reader, &opcode) ||
        opcode != RDB_OPCODE_END)
        return false;
    char error[JSON_ERROR_MAX];
    json_use(call->arena);
    json *value = json_parse(text, error);
    if (!value)
        return false;
    entry->meta.expire_ms = expire_ms;
    json_save(call, entry, value);
    return !call->failed;
}

static bool save_collection(struct call *call, struct entry *entry, uint64_t expire_ms)
{
    if (entry->meta.size == 0 && !type_rows[entry->meta.type].exists_empty)
        return false;
    entry->meta.expire_ms = expire_ms;
    entry_save(call, entry);
    return true;
}

/* The type whose functions load this payload. The first byte has been read; a module's name is read here. NULL: no
 * type does. */
static const struct type_functions *find_loader(struct rdb_reader *reader, uint8_t form)
{
    for (unsigned type = 1; type < TYPE_COUNT; type++) {
        const struct type_functions *functions = type_functions_of((enum type)type);
        struct rdb_reader start = *reader;
        if (!functions)
            continue;
        if (form < 32 && functions->rdb_types & RDB_FORM(form))
            return functions;
        if (form == RDB_TYPE_MODULE_2 && functions->module &&
            rdb_read_module(reader, functions->module))
            return functions;
        *reader = start;
    }
    return NULL;
}

bool rdb_load(struct call *call, struct entry *entry, struct rdb_reader *reader, uint64_t expire_ms)
{
    uint8_t form;
    if (!rdb_read_byte(reader, &form))
        return false;
    const struct type_functions *functions = find_loader(reader, form);
    if (!functions) {
        refuse_type(call, (enum rdb_type)form);
        return false;
    }
    if (!functions->load(call, entry, reader, (enum rdb_type)form, expire_ms))
        return false;
    return type_is_inline(entry->meta.type) || save_collection(call, entry, expire_ms);
}
