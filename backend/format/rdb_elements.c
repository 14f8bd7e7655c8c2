#include "backend/format/rdb_elements.h"

#include "shared/check.h"
#include "shared/number.h"

#include <math.h>

enum { NODE_PLAIN = 1, NODE_PACKED = 2 };

static const struct rdb_form FORMS[] = {
    {RDB_TYPE_LIST, TYPE_LIST, .unit = "s"},
    {RDB_TYPE_LIST_ZIPLIST, TYPE_LIST, .next = rdb_ziplist_next, .each = 1},
    {RDB_TYPE_LIST_QUICKLIST, TYPE_LIST, .next = rdb_ziplist_next, .each = 1, .has_nodes = true},
    {RDB_TYPE_LIST_QUICKLIST_2, TYPE_LIST, .next = rdb_listpack_next, .each = 1, .has_nodes = true,
     .may_be_plain = true},
    {RDB_TYPE_SET, TYPE_SET, .unit = "s"},
    {RDB_TYPE_SET_INTSET, TYPE_SET, .next = rdb_intset_next, .each = 1},
    {RDB_TYPE_SET_LISTPACK, TYPE_SET, .next = rdb_listpack_next, .each = 1},
    {RDB_TYPE_ZSET, TYPE_ZSET, .unit = "sx"},
    {RDB_TYPE_ZSET_2, TYPE_ZSET, .unit = "sd"},
    {RDB_TYPE_ZSET_ZIPLIST, TYPE_ZSET, .next = rdb_ziplist_next, .each = 2},
    {RDB_TYPE_ZSET_LISTPACK, TYPE_ZSET, .next = rdb_listpack_next, .each = 2},
    {RDB_TYPE_HASH, TYPE_HASH, .unit = "sv"},
    {RDB_TYPE_HASH_ZIPLIST, TYPE_HASH, .next = rdb_ziplist_next, .each = 2},
    {RDB_TYPE_HASH_LISTPACK, TYPE_HASH, .next = rdb_listpack_next, .each = 2},
    {RDB_TYPE_HASH_TTL_OLD, TYPE_HASH, .unit = "tsv"},
    {RDB_TYPE_HASH_TTL_LISTPACK_OLD, TYPE_HASH, .next = rdb_listpack_next, .each = 3},
    {RDB_TYPE_HASH_TTL, TYPE_HASH, .unit = "tsv", .has_base = true, .is_relative = true},
    {RDB_TYPE_HASH_TTL_LISTPACK, TYPE_HASH, .next = rdb_listpack_next, .each = 3, .has_base = true},
};
/* Valkey's form of RDB_TYPE_HASH_TTL_OLD. */
static const struct rdb_form VALKEY_HASH = {RDB_TYPE_HASH_TTL_OLD, TYPE_HASH, .unit = "svm"};

const struct rdb_form *rdb_form_of(uint8_t type, uint64_t version)
{
    if (type == RDB_TYPE_HASH_TTL_OLD && version == RDB_VERSION_VALKEY)
        return &VALKEY_HASH;
    for (size_t i = 0; i < COUNT_OF(FORMS); i++)
        if (FORMS[i].rdb == type)
            return &FORMS[i];
    return NULL;
}

bool rdb_elements_begin(struct rdb_elements *elements, struct rdb_reader *reader,
                        const struct rdb_form *form)
{
    *elements = (struct rdb_elements){.form = form, .reader = reader, .left = 1};
    if (form->has_base &&
        (!rdb_read_ms(reader, &elements->base_ms) || elements->base_ms > INT64_MAX))
        return false;
    return !(form->unit || form->has_nodes) || rdb_read_length(reader, &elements->left);
}

void rdb_elements_part(struct rdb_elements *elements, struct rdb_reader *reader,
                       const struct rdb_elements *whole, uint64_t count)
{
    *elements = (struct rdb_elements){
        .form = whole->form, .reader = reader, .base_ms = whole->base_ms, .left = count};
}

/* ---- units ---- */

/* A time to live, which counts from the soonest one plus one; 0: none. */
static bool read_field_ttl(struct rdb_elements *elements, uint64_t *expire_ms)
{
    uint64_t ttl;
    if (!rdb_read_length(elements->reader, &ttl) || ttl > INT64_MAX)
        return false;
    *expire_ms = ttl && elements->form->is_relative ? elements->base_ms + ttl - 1 : ttl;
    return *expire_ms <= INT64_MAX;
}

/* Valkey's time: -1 is none. */
static bool read_field_time(struct rdb_elements *elements, uint64_t *expire_ms)
{
    if (!rdb_read_ms(elements->reader, expire_ms))
        return false;
    if (*expire_ms == UINT64_MAX)
        *expire_ms = 0;
    return *expire_ms <= INT64_MAX;
}

static bool read_unit_part(struct rdb_elements *elements, char part, struct rdb_element *element)
{
    struct rdb_reader *reader = elements->reader;
    switch (part) {
    case 's':
        return rdb_read_string(reader, &element->name);
    case 'v':
        return rdb_read_string(reader, &element->value);
    case 'x':
        return rdb_read_double_text(reader, &element->score) && !isnan(element->score);
    case 'd':
        return rdb_read_double(reader, &element->score) && !isnan(element->score);
    case 't':
        return read_field_ttl(elements, &element->expire_ms);
    default:
        return read_field_time(elements, &element->expire_ms);
    }
}

static bool read_unit(struct rdb_elements *elements, struct rdb_element *element)
{
    for (const char *part = elements->form->unit; *part; part++)
        if (!read_unit_part(elements, *part, element))
            return false;
    return true;
}

static bool skip_part(struct rdb_reader *reader, char part)
{
    struct bytes raw;
    uint64_t number;
    uint8_t len;
    switch (part) {
    case 's':
    case 'v':
        return rdb_skip_string(reader);
    case 'x': /* special lengths have no text */
        return rdb_read_byte(reader, &len) &&
               (len >= RDB_SCORE_NAN || rdb_read_raw(reader, len, &raw));
    case 't':
        return rdb_read_length(reader, &number);
    default:
        return rdb_read_raw(reader, 8, &raw);
    }
}

/* ---- packs ---- */

static enum rdb_pack next_of_pack(struct rdb_elements *elements, struct bytes *text)
{
    return elements->form->next(elements->reader->arena, elements->pack, &elements->at, text);
}

/* Reads what follows the name in a pack: a score, or a value, or a value and a time. */
static bool read_pack_rest(struct rdb_elements *elements, struct rdb_element *element)
{
    int64_t expire_ms;
    struct bytes text;
    if (elements->form->each == 1)
        return true;
    if (next_of_pack(elements, &element->value) != RDB_PACK_ELEMENT)
        return false;
    if (elements->form->type == TYPE_ZSET)
        return number_parse_double(element->value, &element->score);
    if (elements->form->each == 2)
        return true;
    if (next_of_pack(elements, &text) != RDB_PACK_ELEMENT ||
        !number_parse_int64(text, &expire_ms) || expire_ms < 0)
        return false;
    element->expire_ms = (uint64_t)expire_ms;
    return true;
}

static enum rdb_pack read_packed(struct rdb_elements *elements, struct rdb_element *element)
{
    enum rdb_pack found = next_of_pack(elements, &element->name);
    if (found == RDB_PACK_ELEMENT && !read_pack_rest(elements, element))
        return RDB_PACK_BAD;
    return found;
}

/* Reads whether the next node is a pack. */
static bool read_node_kind(struct rdb_elements *elements, uint64_t *kind)
{
    *kind = NODE_PACKED;
    return !elements->form->may_be_plain || (rdb_read_length(elements->reader, kind) &&
                                             (*kind == NODE_PACKED || *kind == NODE_PLAIN));
}

/* Begins the next node. True with !in_pack: it is a single element. */
static bool open_node(struct rdb_elements *elements, struct rdb_element *element)
{
    uint64_t kind;
    if (!read_node_kind(elements, &kind))
        return false;
    elements->in_pack = kind == NODE_PACKED;
    elements->at = 0;
    return rdb_read_string(elements->reader, elements->in_pack ? &elements->pack : &element->name);
}

/* ---- both ---- */

enum rdb_pack rdb_elements_next(struct rdb_elements *elements, struct rdb_element *element)
{
    *element = (struct rdb_element){.expire_ms = 0};
    for (;;) {
        if (elements->in_pack) {
            enum rdb_pack found = read_packed(elements, element);
            if (found != RDB_PACK_END)
                return found;
            elements->in_pack = false;
        }
        if (elements->left == 0)
            return RDB_PACK_END;
        elements->left--;
        if (elements->form->unit)
            return read_unit(elements, element) ? RDB_PACK_ELEMENT : RDB_PACK_BAD;
        if (!open_node(elements, element))
            return RDB_PACK_BAD;
        if (!elements->in_pack)
            return RDB_PACK_ELEMENT;
    }
}

bool rdb_elements_skip(struct rdb_elements *elements)
{
    uint64_t kind;
    CHECK(elements->left > 0);
    elements->left--;
    if (!elements->form->unit)
        return read_node_kind(elements, &kind) && rdb_skip_string(elements->reader);
    for (const char *part = elements->form->unit; *part; part++)
        if (!skip_part(elements->reader, *part))
            return false;
    return true;
}

/* ---- writing ---- */

static void write_integer_element(struct rdb_writer *writer, struct bytes sub)
{
    uint64_t value = 0;
    (void)decode_u64(sub, &value);
    rdb_write_length(writer, RDB_OPCODE_UINT);
    rdb_write_length(writer, value);
}

static void write_scored_element(struct rdb_writer *writer, struct bytes sub, struct bytes value)
{
    uint64_t bits = 0;
    (void)decode_u64(value, &bits);
    rdb_write_string(writer, sub);
    rdb_write_double(writer, decode_score(bits));
}

void rdb_write_element(struct rdb_writer *writer, enum type type, struct bytes sub,
                       struct bytes value)
{
    if (type == TYPE_SORTEDINT) {
        write_integer_element(writer, sub);
    } else if (type == TYPE_ZSET) {
        write_scored_element(writer, sub, value);
    } else {
        if (type != TYPE_LIST)
            rdb_write_string(writer, sub);
        if (type != TYPE_SET)
            rdb_write_string(writer, value);
    }
}

enum rdb_type rdb_plain_type(enum type type)
{
    static const enum rdb_type types[TYPE_COUNT] = {
        [TYPE_HASH] = RDB_TYPE_HASH,
        [TYPE_LIST] = RDB_TYPE_LIST,
        [TYPE_SET] = RDB_TYPE_SET,
        [TYPE_ZSET] = RDB_TYPE_ZSET_2,
        [TYPE_SORTEDINT] = RDB_TYPE_MODULE_2,
    };
    return types[type];
}
