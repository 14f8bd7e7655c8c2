#include "backend/copy/stream_commands.h"

#include "backend/format/rdb_stream.h"
#include "shared/check.h"
#include "shared/number.h"

#include <stdlib.h>

/* ---- entries ---- */

static void send_entry(const struct destination *to, struct arena *arena,
                       const struct rdb_entry *entry)
{
    char id[STREAM_ID_TEXT_MAX];
    struct bytes *words = arena_alloc(arena, (entry->count + 3) * sizeof *words);
    words[0] = BYTES("XADD");
    words[1] = to->key;
    words[2] = (struct bytes){id, stream_id_format(id, entry->id)};
    memcpy(words + 3, entry->strings, entry->count * sizeof *words);
    (void)commands_send(to, REQUEST_PART, words, entry->count + 3);
}

static bool send_entries(const struct destination *to, struct rdb_node *node)
{
    struct rdb_entry entry;
    enum rdb_pack found;
    while ((found = rdb_node_next(node, &entry)) == RDB_PACK_ELEMENT)
        if (!entry.is_deleted)
            send_entry(to, node->arena, &entry);
    return found == RDB_PACK_END;
}

bool stream_commands_nodes(const struct destination *to, struct rdb_reader *reader, uint64_t count)
{
    for (; count > 0; count--) {
        struct rdb_node node;
        struct arena_mark mark = arena_mark(reader->arena);
        bool is_good = rdb_node_open(&node, reader) && send_entries(to, &node);
        arena_release(reader->arena, &mark);
        if (!is_good)
            return false;
    }
    return true;
}

/* ---- ids ---- */

static void set_ids(const struct destination *to, const struct rdb_tail *tail)
{
    char last[STREAM_ID_TEXT_MAX];
    char deleted[STREAM_ID_TEXT_MAX];
    char added[INT64_TEXT_MAX];
    struct bytes words[] = {
        BYTES("XSETID"),
        to->key,
        {last, stream_id_format(last, tail->last)},
        BYTES("ENTRIESADDED"),
        {added, number_format_int64(added, (int64_t)tail->entries_added)},
        BYTES("MAXDELETEDID"),
        {deleted, stream_id_format(deleted, tail->max_deleted)},
    };
    (void)commands_send(to, REQUEST_PART, words, tail->is_full ? 7 : 3);
}

/* ---- groups ---- */

/* The pending entries of a group, in the order of their ids. */
struct pendings {
    struct rdb_pending *all;
    uint64_t count;
};

static void create_group(const struct destination *to, const struct rdb_group *group)
{
    char last[STREAM_ID_TEXT_MAX];
    char read[INT64_TEXT_MAX];
    struct bytes words[] = {
        BYTES("XGROUP"),
        BYTES("CREATE"),
        to->key,
        group->name,
        {last, stream_id_format(last, group->last)},
        BYTES("ENTRIESREAD"),
        {read, number_format_int64(read, group->entries_read)},
    };
    (void)commands_send(to, REQUEST_PART, words, group->has_read ? 7 : 5);
}

static void claim(const struct destination *to, struct bytes group, struct bytes consumer,
                  const struct rdb_pending *pending)
{
    char id[STREAM_ID_TEXT_MAX];
    char time[INT64_TEXT_MAX];
    char times[INT64_TEXT_MAX];
    struct bytes words[] = {
        BYTES("XCLAIM"),
        to->key,
        group,
        consumer,
        BYTES("0"),
        {id, stream_id_format(id, pending->id)},
        BYTES("TIME"),
        {time, number_format_int64(time, (int64_t)pending->delivered_ms)},
        BYTES("RETRYCOUNT"),
        {times, number_format_int64(times, (int64_t)pending->deliveries)},
        BYTES("FORCE"),
        BYTES("JUSTID"),
    };
    (void)commands_send(to, REQUEST_CLAIM, words, COUNT_OF(words));
}

static bool read_pendings(struct rdb_reader *reader, struct pendings *pendings)
{
    uint64_t count;
    /* each takes more bytes than its record's third, so a damaged count allocates little */
    if (!rdb_read_length(reader, &count) || count > reader->rest.len / 25)
        return false;
    *pendings = (struct pendings){.count = count};
    pendings->all = arena_alloc(reader->arena, (size_t)count * sizeof *pendings->all + 1);
    for (uint64_t i = 0; i < count; i++)
        if (!rdb_read_pending(reader, &pendings->all[i]))
            return false;
    return true;
}

static int compare_pending(const void *id, const void *pending)
{
    return stream_id_compare(*(const struct stream_id *)id,
                             ((const struct rdb_pending *)pending)->id);
}

static bool claim_given(const struct destination *to, struct bytes group,
                        const struct pendings *pendings, const struct rdb_consumer *consumer,
                        struct rdb_reader *reader)
{
    for (uint64_t i = 0; i < consumer->pending; i++) {
        struct stream_id id;
        if (!rdb_read_raw_id(reader, &id))
            return false;
        const struct rdb_pending *pending = bsearch(&id, pendings->all, (size_t)pendings->count,
                                                    sizeof *pendings->all, compare_pending);
        if (!pending)
            return false;
        claim(to, group, consumer->name, pending);
    }
    return true;
}

static bool add_consumer(const struct destination *to, struct bytes group,
                         const struct pendings *pendings, struct rdb_reader *reader, uint8_t type)
{
    struct rdb_consumer consumer;
    if (!rdb_read_consumer(reader, type, &consumer))
        return false;
    struct bytes words[] = {BYTES("XGROUP"), BYTES("CREATECONSUMER"), to->key, group,
                            consumer.name};
    (void)commands_send(to, REQUEST_PART, words, COUNT_OF(words));
    return claim_given(to, group, pendings, &consumer, reader);
}

static bool add_group(const struct destination *to, struct rdb_reader *reader, uint8_t type)
{
    struct rdb_group group;
    struct pendings pendings;
    uint64_t consumers;
    if (!rdb_read_group(reader, type, &group) || !read_pendings(reader, &pendings) ||
        !rdb_read_length(reader, &consumers))
        return false;
    create_group(to, &group);
    for (; consumers > 0; consumers--)
        if (!add_consumer(to, group.name, &pendings, reader, type))
            return false;
    return true;
}

bool stream_commands_tail(const struct destination *to, struct rdb_reader *reader, uint8_t type)
{
    struct rdb_tail tail;
    uint64_t groups;
    if (!rdb_read_tail(reader, type, &tail) || !rdb_read_length(reader, &groups))
        return false;
    set_ids(to, &tail);
    for (; groups > 0; groups--)
        if (!add_group(to, reader, type))
            return false;
    return true;
}
