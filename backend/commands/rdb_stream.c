/*
 * rdb_stream.c - streams in RDB format (format/rdb_stream.h): saves rows as nodes and groups, and makes rows of these.
 */
#include "backend/format/rdb_stream.h"
#include "backend/commands/stream_group.h"
#include "backend/commands/types.h"

static const struct bytes NOTHING = {"", 0};

/* ---- writing entries ---- */

static bool save_entries(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    struct rdb_writer packs;
    struct rdb_node_writer node = {.entries = 0};
    struct sub_iter it;
    struct stream_id id;
    uint64_t count = 0;
    char from[STREAM_ID_BYTES];
    rdb_writer_init(&packs, call->arena);
    sub_iter_init(call, entry, CF_STREAM, stream_id_encode(from, entry->meta.stream_first), &it);
    while (sub_iter_next(&it) && stream_id_decode(it.sub, &id)) {
        if (rdb_node_is_full(&node))
            rdb_node_write(&node, &packs, call->arena);
        count += node.entries == 0;
        rdb_node_add(&node, call->arena, id, it.value);
    }
    if (node.entries)
        rdb_node_write(&node, &packs, call->arena);
    rdb_write_length(writer, count);
    rdb_write_raw(writer, (struct bytes){packs.data, packs.len});
    return sub_iter_fini(&it);
}

/* ---- writing groups ---- */

static bool save_pending(struct call *call, struct entry *entry, const struct stream_group *group,
                         struct rdb_writer *writer)
{
    struct sub_iter it;
    struct stream_id id;
    struct stream_pending pending;
    rdb_write_length(writer, group->pending);
    sub_iter_init(call, entry, CF_DATA, pending_row_key(call, group->name, STREAM_ID_MIN), &it);
    while (sub_iter_next(&it) && pending_row_read(&it, group->name, &id, &pending)) {
        rdb_write_raw_id(writer, id);
        rdb_write_ms(writer, pending.delivered_ms);
        rdb_write_length(writer, pending.deliveries);
    }
    return sub_iter_fini(&it);
}

static bool save_given(struct call *call, struct entry *entry, struct bytes group,
                       const struct stream_consumer *consumer, struct rdb_writer *writer)
{
    struct sub_iter it;
    struct stream_id id;
    rdb_write_string(writer, consumer->name);
    rdb_write_ms(writer, consumer->seen_ms);
    rdb_write_length(writer, consumer->pending);
    sub_iter_init(call, entry, CF_DATA, given_row_key(call, group, consumer->name, STREAM_ID_MIN),
                  &it);
    while (sub_iter_next(&it) && given_row_read(&it, group, consumer->name, &id))
        rdb_write_raw_id(writer, id);
    return sub_iter_fini(&it);
}

static bool save_group(struct call *call, struct entry *entry, const struct stream_group *group,
                       struct rdb_writer *writer)
{
    uint64_t count;
    const struct stream_consumer *consumers = consumers_read(call, entry, group, &count);
    if (!consumers)
        return false;
    rdb_write_string(writer, group->name);
    rdb_write_stream_id(writer, group->last);
    rdb_write_length(writer, (uint64_t)group->entries_read);
    if (!save_pending(call, entry, group, writer))
        return false;
    rdb_write_length(writer, count);
    for (uint64_t i = 0; i < count; i++)
        if (!save_given(call, entry, group->name, &consumers[i], writer))
            return false;
    return true;
}

bool rdb_save_stream(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    const struct metadata *meta = &entry->meta;
    uint64_t count;
    rdb_write_byte(writer, RDB_TYPE_STREAM_LISTPACKS_2);
    if (!save_entries(call, entry, writer))
        return false;
    rdb_write_length(writer, meta->size);
    rdb_write_stream_id(writer, meta->stream_last_generated);
    rdb_write_stream_id(writer, meta->stream_recorded_first);
    rdb_write_stream_id(writer, meta->stream_max_deleted);
    rdb_write_length(writer, meta->stream_entries_added);
    const struct stream_group *groups = groups_read(call, entry, &count);
    if (!groups)
        return false;
    rdb_write_length(writer, count);
    for (uint64_t i = 0; i < count; i++)
        if (!save_group(call, entry, &groups[i], writer))
            return false;
    return true;
}

/* ---- reading ---- */

static bool load_entry(struct call *call, struct entry *entry, const struct rdb_entry *read)
{
    char sub[STREAM_ID_BYTES];
    if (read->is_deleted)
        return true;
    if (entry->meta.size && stream_id_compare(read->id, entry->meta.stream_last) <= 0)
        return false;
    sub_put(call, entry, CF_STREAM, stream_id_encode(sub, read->id),
            stream_entry_encode(call->arena, read->strings, read->count));
    if (entry->meta.size++ == 0)
        entry->meta.stream_first = read->id;
    entry->meta.stream_last = read->id;
    return true;
}

static bool load_node(struct call *call, struct entry *entry, struct rdb_reader *reader)
{
    struct rdb_node node;
    struct rdb_entry read;
    enum rdb_pack found;
    if (!rdb_node_open(&node, reader))
        return false;
    while ((found = rdb_node_next(&node, &read)) == RDB_PACK_ELEMENT)
        if (!load_entry(call, entry, &read))
            return false;
    return found == RDB_PACK_END;
}

/* Loads pending entries without a consumer; load_consumer sets it. */
static bool load_pending(struct call *call, struct entry *entry, struct stream_group *group,
                         struct rdb_reader *reader)
{
    uint64_t count;
    if (!rdb_read_length(reader, &count))
        return false;
    for (; count > 0; count--) {
        struct rdb_pending read;
        struct stream_pending old;
        if (!rdb_read_pending(reader, &read) ||
            pending_find(call, entry, group->name, read.id, &old) != ERR_NOT_FOUND)
            return false;
        struct stream_pending pending = {
            .consumer = NOTHING, .delivered_ms = read.delivered_ms, .deliveries = read.deliveries};
        pending_put(call, entry, group->name, read.id, &pending);
        group->pending++;
    }
    return true;
}

/* Gives the consumer its pending entries. */
static bool load_given(struct call *call, struct entry *entry, struct bytes group,
                       const struct stream_consumer *consumer, struct rdb_reader *reader)
{
    for (uint64_t i = 0; i < consumer->pending; i++) {
        struct stream_id id;
        struct stream_pending pending;
        if (!rdb_read_raw_id(reader, &id) || pending_find(call, entry, group, id, &pending) != OK ||
            pending.consumer.len)
            return false;
        pending.consumer = consumer->name;
        pending_put(call, entry, group, id, &pending);
        sub_put(call, entry, CF_DATA, given_row_key(call, group, consumer->name, id), NOTHING);
    }
    return true;
}

static bool load_consumer(struct call *call, struct entry *entry, struct stream_group *group,
                          struct rdb_reader *reader, enum rdb_type type, uint64_t *given)
{
    struct rdb_consumer read;
    struct stream_consumer old;
    if (!rdb_read_consumer(reader, (uint8_t)type, &read) ||
        consumer_find(call, entry, group->name, read.name, &old) != ERR_NOT_FOUND)
        return false;
    struct stream_consumer consumer = {.exists = true,
                                       .name = read.name,
                                       .seen_ms = read.seen_ms,
                                       .active_ms = read.active_ms,
                                       .pending = read.pending};
    if (!load_given(call, entry, group->name, &consumer, reader))
        return false;
    *given += consumer.pending;
    group->consumers++;
    consumer_put(call, entry, group->name, &consumer);
    return true;
}

static bool load_group(struct call *call, struct entry *entry, struct rdb_reader *reader,
                       enum rdb_type type)
{
    struct rdb_group read;
    struct stream_group old;
    uint64_t consumers;
    uint64_t given = 0;
    if (!rdb_read_group(reader, (uint8_t)type, &read) ||
        group_find(call, entry, read.name, &old) != ERR_NOT_FOUND)
        return false;
    if (!read.has_read) /* before Redis 7: computed from the ids, as Redis does */
        read.entries_read = stream_entries_before(&entry->meta, read.last);
    struct stream_group group = {
        .name = read.name, .last = read.last, .entries_read = read.entries_read};
    if (!load_pending(call, entry, &group, reader) || !rdb_read_length(reader, &consumers))
        return false;
    for (; consumers > 0; consumers--)
        if (!load_consumer(call, entry, &group, reader, type, &given))
            return false;
    group_put(call, entry, &group);
    return given == group.pending;
}

static bool load_tail(struct metadata *meta, struct rdb_reader *reader, enum rdb_type type)
{
    struct rdb_tail tail;
    if (!rdb_read_tail(reader, (uint8_t)type, &tail) || tail.length != meta->size)
        return false;
    meta->stream_last_generated = tail.last;
    meta->stream_recorded_first = tail.is_full ? tail.first : meta->stream_first;
    meta->stream_entries_added = tail.is_full ? tail.entries_added : tail.length;
    if (tail.is_full)
        meta->stream_max_deleted = tail.max_deleted;
    return true;
}

bool rdb_load_stream(struct call *call, struct entry *entry, struct rdb_reader *reader,
                     enum rdb_type type, uint64_t expire_ms)
{
    uint64_t count;
    (void)expire_ms;
    entry_create(call, entry, TYPE_STREAM);
    if (!rdb_read_length(reader, &count))
        return false;
    for (; count > 0; count--)
        if (!load_node(call, entry, reader))
            return false;
    if (!load_tail(&entry->meta, reader, type) || !rdb_read_length(reader, &count))
        return false;
    for (; count > 0; count--)
        if (!load_group(call, entry, reader, type))
            return false;
    return true;
}
