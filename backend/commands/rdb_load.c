/*
 * rdb_load.c - loads a key's value from RDB format: makes rows of the elements that format/rdb_elements.h finds.
 */
#include "backend/commands/json.h"
#include "backend/commands/list.h"
#include "backend/commands/types.h"
#include "backend/format/rdb_elements.h"
#include "backend/keyspace/field_expiry.h"
#include "backend/rank/rank.h"
#include "shared/check.h"

#include <math.h>

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

/* A time to live that has passed is not an error: the field is due. */
static bool add_hash_field(struct call *call, struct entry *entry,
                           const struct rdb_element *element)
{
    if (!add_loaded_row(call, entry, element->name, element->value))
        return false;
    field_expiry_set(call, entry, element->name, 0, element->expire_ms);
    return true;
}

/* ---- collections ---- */

static bool add_element(struct call *call, struct entry *entry, const struct rdb_element *element)
{
    switch (entry->meta.type) {
    case TYPE_LIST:
        list_push_end(call, entry, LIST_TAIL, element->name);
        return !call->failed;
    case TYPE_SET:
        return add_loaded_row(call, entry, element->name, BYTES(""));
    case TYPE_ZSET:
        return add_scored(call, entry, element->name, element->score);
    default:
        return add_hash_field(call, entry, element);
    }
}

/* Builds the rank tree of a type that has one. */
static bool build_ranks(struct call *call, struct entry *entry, enum type type)
{
    if (type == TYPE_SET)
        return rank_build(call, entry, CF_DATA);
    return type != TYPE_ZSET || rank_build(call, entry, CF_ZSET_SCORE);
}

bool rdb_load_collection(struct call *call, struct entry *entry, struct rdb_reader *reader,
                         enum rdb_type type, uint64_t expire_ms)
{
    const struct rdb_form *form = rdb_form_of((uint8_t)type, reader->version);
    struct rdb_elements elements;
    struct rdb_element element;
    enum rdb_pack found;
    (void)expire_ms;
    CHECK(form);
    entry_create(call, entry, form->type);
    if (!rdb_elements_begin(&elements, reader, form))
        return false;
    while ((found = rdb_elements_next(&elements, &element)) == RDB_PACK_ELEMENT)
        if (!add_element(call, entry, &element))
            return false;
    return found == RDB_PACK_END && build_ranks(call, entry, form->type);
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
