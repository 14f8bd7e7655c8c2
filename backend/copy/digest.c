#include "backend/copy/digest.h"

#include "backend/format/rdb_skip.h"
#include "backend/format/xxh3.h"
#include "shared/clock.h"

/* What a number stands for, so that equal bytes in different places do not cancel out. */
enum digest_what {
    WHAT_TEXT = 100,
    WHAT_ENTRY,
    WHAT_TAIL,
    WHAT_GROUP,
    WHAT_PENDING,
    WHAT_CONSUMER,
    WHAT_GIVEN,
};

/* ---- one hash ---- */

static void hash_number(struct xxh3 *hash, uint64_t number)
{
    xxh3_add(hash, (struct bytes){(const char *)&number, sizeof number});
}

static void hash_text(struct xxh3 *hash, struct bytes text)
{
    hash_number(hash, text.len);
    xxh3_add(hash, text);
}

static void hash_stream_id(struct xxh3 *hash, struct stream_id id)
{
    hash_number(hash, id.ms);
    hash_number(hash, id.seq);
}

static void hash_begin(struct xxh3 *hash, unsigned what)
{
    xxh3_init(hash);
    hash_number(hash, what);
}

static void hash_end(struct digest *digest, const struct xxh3 *hash)
{
    digest->sum += xxh3_result(hash);
}

/* ---- collections ---- */

struct digest digest_new(void)
{
    return (struct digest){.cut_ms = clock_wall_us() / 1000 + DIGEST_CUT_MS};
}

static void note_length(struct digest *digest, size_t len)
{
    if (len > digest->longest)
        digest->longest = len;
}

void digest_text(struct digest *digest, uint64_t offset, struct bytes text)
{
    for (size_t at = 0; at < text.len; at += RDB_STRING_UNIT) {
        size_t left = text.len - at;
        struct xxh3 hash;
        hash_begin(&hash, TYPE_STRING);
        hash_number(&hash, offset + at);
        hash_text(&hash,
                  (struct bytes){text.data + at, left < RDB_STRING_UNIT ? left : RDB_STRING_UNIT});
        hash_end(digest, &hash);
    }
}

void digest_element(struct digest *digest, enum type type, const struct rdb_element *element)
{
    struct xxh3 hash;
    uint64_t score = 0;
    if (element->expire_ms && element->expire_ms <= digest->cut_ms) {
        digest->fields_cut++;
        return;
    }
    if (element->score < 0 || element->score > 0) /* -0 is 0 */
        memcpy(&score, &element->score, sizeof score);
    note_length(digest, element->name.len + element->value.len);
    hash_begin(&hash, type);
    if (type == TYPE_LIST)
        hash_number(&hash, digest->index++);
    hash_text(&hash, element->name);
    if (type == TYPE_HASH)
        hash_text(&hash, element->value);
    hash_number(&hash, score);
    hash_number(&hash, element->expire_ms);
    hash_end(digest, &hash);
}

bool digest_elements(struct digest *digest, struct rdb_elements *elements)
{
    struct rdb_element element;
    enum rdb_pack found;
    struct arena_mark mark = arena_mark(elements->reader->arena);
    while ((found = rdb_elements_next(elements, &element)) == RDB_PACK_ELEMENT) {
        digest_element(digest, elements->form->type, &element);
        if (elements->form->unit) /* nothing of the element is needed any more */
            arena_release(elements->reader->arena, &mark);
    }
    return found == RDB_PACK_END;
}

/* ---- streams ---- */

void digest_entry(struct digest *digest, const struct rdb_entry *entry)
{
    struct xxh3 hash;
    size_t len = 0;
    hash_begin(&hash, WHAT_ENTRY);
    hash_stream_id(&hash, entry->id);
    for (uint32_t i = 0; i < entry->count; i++) {
        hash_text(&hash, entry->strings[i]);
        len += entry->strings[i].len;
    }
    note_length(digest, len);
    hash_end(digest, &hash);
}

bool digest_nodes(struct digest *digest, struct rdb_reader *reader, uint64_t count)
{
    for (; count > 0; count--) {
        struct rdb_node node;
        struct rdb_entry entry;
        enum rdb_pack found;
        struct arena_mark mark = arena_mark(reader->arena);
        if (!rdb_node_open(&node, reader))
            return false;
        while ((found = rdb_node_next(&node, &entry)) == RDB_PACK_ELEMENT)
            if (!entry.is_deleted)
                digest_entry(digest, &entry);
        arena_release(reader->arena, &mark);
        if (found != RDB_PACK_END)
            return false;
    }
    return true;
}

void digest_pending(struct digest *digest, struct bytes group, const struct rdb_pending *pending)
{
    struct xxh3 hash;
    hash_begin(&hash, WHAT_PENDING);
    hash_text(&hash, group);
    hash_stream_id(&hash, pending->id);
    hash_number(&hash, digest->is_paged ? 0 : pending->delivered_ms);
    hash_number(&hash, pending->deliveries);
    hash_end(digest, &hash);
}

void digest_given(struct digest *digest, struct bytes group, struct bytes consumer,
                  struct stream_id id)
{
    struct xxh3 hash;
    hash_begin(&hash, WHAT_GIVEN);
    hash_text(&hash, group);
    hash_text(&hash, consumer);
    hash_stream_id(&hash, id);
    hash_end(digest, &hash);
}

void digest_consumer(struct digest *digest, struct bytes group, struct bytes consumer)
{
    struct xxh3 hash;
    hash_begin(&hash, WHAT_CONSUMER);
    hash_text(&hash, group);
    hash_text(&hash, consumer);
    hash_end(digest, &hash);
}

void digest_group(struct digest *digest, const struct rdb_group *group)
{
    struct xxh3 hash;
    hash_begin(&hash, WHAT_GROUP);
    hash_text(&hash, group->name);
    hash_stream_id(&hash, group->last);
    hash_number(&hash, digest->is_old_stream ? 0 : (uint64_t)group->entries_read);
    hash_end(digest, &hash);
}

void digest_ids(struct digest *digest, const struct rdb_tail *tail)
{
    struct xxh3 hash;
    hash_begin(&hash, WHAT_TAIL);
    hash_number(&hash, tail->length);
    hash_stream_id(&hash, tail->last);
    if (!digest->is_old_stream) {
        hash_stream_id(&hash, tail->max_deleted);
        hash_number(&hash, tail->entries_added);
    }
    hash_end(digest, &hash);
}

static bool read_all_pending(struct digest *digest, struct bytes group, struct rdb_reader *reader)
{
    uint64_t count;
    if (!rdb_read_length(reader, &count))
        return false;
    for (; count > 0; count--) {
        struct rdb_pending pending;
        if (!rdb_read_pending(reader, &pending))
            return false;
        digest_pending(digest, group, &pending);
    }
    return true;
}

static bool read_consumer(struct digest *digest, uint8_t type, struct bytes group,
                          struct rdb_reader *reader)
{
    struct rdb_consumer consumer;
    struct stream_id id;
    if (!rdb_read_consumer(reader, type, &consumer))
        return false;
    digest_consumer(digest, group, consumer.name);
    for (; consumer.pending > 0; consumer.pending--) {
        if (!rdb_read_raw_id(reader, &id))
            return false;
        digest_given(digest, group, consumer.name, id);
    }
    return true;
}

static bool read_group_tail(struct digest *digest, uint8_t type, struct rdb_reader *reader)
{
    struct rdb_group group;
    uint64_t consumers;
    if (!rdb_read_group(reader, type, &group) || !read_all_pending(digest, group.name, reader) ||
        !rdb_read_length(reader, &consumers))
        return false;
    digest_group(digest, &group);
    for (; consumers > 0; consumers--)
        if (!read_consumer(digest, type, group.name, reader))
            return false;
    return true;
}

bool digest_tail(struct digest *digest, uint8_t type, struct rdb_reader *reader)
{
    struct rdb_tail tail;
    uint64_t groups;
    digest->is_old_stream |= type == RDB_TYPE_STREAM_LISTPACKS;
    if (!rdb_read_tail(reader, type, &tail) || !rdb_read_length(reader, &groups))
        return false;
    digest_ids(digest, &tail);
    for (; groups > 0; groups--)
        if (!read_group_tail(digest, type, reader))
            return false;
    return true;
}

/* ---- whole values ---- */

static bool digest_string(struct digest *digest, struct rdb_reader *reader)
{
    struct xxh3 hash;
    struct bytes text;
    if (!rdb_read_string(reader, &text))
        return false;
    hash_begin(&hash, WHAT_TEXT);
    hash_text(&hash, text);
    hash_end(digest, &hash);
    return true;
}

bool digest_value(struct digest *digest, uint8_t type, struct rdb_reader *reader)
{
    const struct rdb_form *form = rdb_form_of(type, reader->version);
    struct rdb_elements elements;
    uint64_t nodes;
    if (type == RDB_TYPE_STRING)
        return digest_string(digest, reader);
    if (form)
        return rdb_elements_begin(&elements, reader, form) && digest_elements(digest, &elements);
    if (rdb_is_stream(type))
        return rdb_read_length(reader, &nodes) && digest_nodes(digest, reader, nodes) &&
               digest_tail(digest, type, reader);
    return type == RDB_TYPE_MODULE_2;
}
