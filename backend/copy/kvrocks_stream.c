/*
 * kvrocks_stream.c - streams of Kvrocks: entries become nodes, and the rows of groups are gathered into what follows them.
 */
#include "backend/copy/kvrocks.h"

#include "backend/format/rdb_stream.h"

#include <stdlib.h>

struct given {
    struct kvrocks_pending pending;
    size_t consumer; /* its number */
};

/* A consumer group with everything that belongs to it. */
struct group {
    struct kvrocks_group is;
    struct kvrocks_consumer *consumers;
    size_t consumer_count;
    size_t stored_count; /* those that have rows, sorted by length and name */
    struct given *given;
    size_t given_count;
};

struct kvrocks_stream {
    uint64_t entries;
    struct stream_id first, last;
    struct group *groups;
    size_t group_count;
};

/* ---- lists in the arena ---- */

/* Makes room for one more item: lists double when their length is a power of two. */
static void *list_room(struct arena *arena, void *items, size_t count, size_t size)
{
    if (count & (count - 1))
        return items;
    void *bigger = arena_alloc(arena, (count ? 2 * count : 1) * size);
    if (count)
        memcpy(bigger, items, count * size);
    return bigger;
}

static struct bytes copy_group_text(struct arena *arena, struct bytes text)
{
    char *copy = arena_alloc(arena, text.len);
    char *end = copy;
    return bytes_copy_to(&end, text);
}

/* ---- groups ---- */

/* Moves to the rows of one kind, of one group or of all. */
static struct bytes seek_group(struct kvrocks_text *text, enum kvrocks_group_row kind,
                               struct bytes name)
{
    struct bytes prefix = kvrocks_group_prefix(text->arena, kind, name);
    kvrocks_rows_seek(text, prefix);
    return prefix;
}

static bool next_group_row(struct kvrocks_text *text, struct bytes prefix, struct bytes *sub,
                           struct bytes *row)
{
    return kvrocks_rows_next(text, sub, row) && sub->len >= prefix.len &&
           memcmp(sub->data, prefix.data, prefix.len) == 0;
}

static bool read_groups(struct kvrocks_text *text)
{
    struct kvrocks_stream *stream = text->stream;
    struct bytes prefix = seek_group(text, KVROCKS_GROUP, (struct bytes){NULL, 0});
    struct bytes sub;
    struct bytes row;
    while (next_group_row(text, prefix, &sub, &row)) {
        struct group group = {.given = NULL};
        if (!kvrocks_group_read(sub, row, &group.is))
            return false;
        group.is.name = copy_group_text(text->arena, group.is.name);
        stream->groups = list_room(text->arena, stream->groups, stream->group_count, sizeof group);
        stream->groups[stream->group_count++] = group;
    }
    return true;
}

static void add_read_consumer(struct kvrocks_text *text, struct group *group,
                              const struct kvrocks_consumer *consumer)
{
    group->consumers =
        list_room(text->arena, group->consumers, group->consumer_count, sizeof *group->consumers);
    group->consumers[group->consumer_count] = *consumer;
    group->consumers[group->consumer_count++].name = copy_group_text(text->arena, consumer->name);
}

static bool read_consumers(struct kvrocks_text *text, struct group *group)
{
    struct bytes prefix = seek_group(text, KVROCKS_CONSUMER, group->is.name);
    struct kvrocks_consumer consumer;
    struct bytes sub;
    struct bytes row;
    while (next_group_row(text, prefix, &sub, &row)) {
        if (!kvrocks_consumer_read(sub, row, &consumer))
            return false;
        add_read_consumer(text, group, &consumer);
    }
    group->stored_count = group->consumer_count;
    return true;
}

static int compare_consumers(const void *a, const void *b)
{
    const struct kvrocks_consumer *one = a;
    const struct kvrocks_consumer *other = b;
    if (one->name.len != other->name.len)
        return one->name.len < other->name.len ? -1 : 1;
    return bytes_compare(one->name, other->name);
}

/* The consumer's number. One without a row is added: its pending entries are not lost. */
static size_t consumer_of(struct kvrocks_text *text, struct group *group, struct bytes name)
{
    struct kvrocks_consumer wanted = {.group = group->is.name, .name = name};
    struct kvrocks_consumer *found = NULL;
    if (group->stored_count)
        found = bsearch(&wanted, group->consumers, group->stored_count, sizeof wanted,
                        compare_consumers);
    size_t at = found ? (size_t)(found - group->consumers) : group->stored_count;
    while (at < group->consumer_count && !bytes_equal(group->consumers[at].name, name))
        at++;
    if (at == group->consumer_count)
        add_read_consumer(text, group, &wanted);
    return at;
}

/* XREADGROUP of Kvrocks 2.10 does not store when it delivered. Then it was when the consumer was last active, for the first time. */
static void complete_times(struct given *given, const struct kvrocks_consumer *consumer)
{
    if (given->pending.delivered_ms == 0)
        given->pending.delivered_ms = consumer->active_ms;
    if (given->pending.deliveries == 0)
        given->pending.deliveries = 1;
}

static bool read_given(struct kvrocks_text *text, struct group *group)
{
    struct bytes prefix = seek_group(text, KVROCKS_PENDING, group->is.name);
    struct bytes sub;
    struct bytes row;
    while (next_group_row(text, prefix, &sub, &row)) {
        struct given given;
        if (!kvrocks_pending_read(sub, row, &given.pending))
            return false;
        given.consumer = consumer_of(text, group, given.pending.consumer);
        complete_times(&given, &group->consumers[given.consumer]);
        group->given = list_room(text->arena, group->given, group->given_count, sizeof given);
        group->given[group->given_count++] = given;
    }
    return true;
}

static bool read_all_groups(struct kvrocks_text *text)
{
    struct kvrocks_stream *stream = text->stream;
    if (!read_groups(text))
        return false;
    for (size_t i = 0; i < stream->group_count; i++)
        if (!read_consumers(text, &stream->groups[i]) || !read_given(text, &stream->groups[i]))
            return false;
    return true;
}

/* ---- entries ---- */

static bool next_entry(struct kvrocks_text *text, struct stream_id *id, struct bytes *row)
{
    struct bytes sub;
    return kvrocks_rows_next(text, &sub, row) && stream_id_decode(sub, id);
}

/* Cuts the entries into nodes. Without `to` the nodes are only counted. Ends after a piece; true: more entries are left. */
static bool write_nodes(struct kvrocks_text *text, struct rdb_writer *to, uint64_t *nodes)
{
    struct rdb_node_writer node = {.entries = 0};
    struct stream_id id;
    struct bytes row;
    bool is_left = true;
    while (is_left && (!to || to->len < KVROCKS_PIECE_BYTES)) {
        struct arena_mark mark = arena_mark(text->scratch);
        while (!rdb_node_is_full(&node) && (is_left = next_entry(text, &id, &row)))
            rdb_node_add(&node, text->scratch, id, row);
        *nodes += node.entries > 0;
        if (to && node.entries)
            rdb_node_write(&node, to, text->scratch);
        node.entries = 0;
        arena_release(text->scratch, &mark);
    }
    return is_left;
}

static bool note_entry(struct kvrocks_stream *stream, struct stream_id id, struct bytes row)
{
    if (!kvrocks_entry_is_good(row))
        return false;
    if (stream->entries++ == 0)
        stream->first = id;
    stream->last = id;
    return true;
}

/* Looks at all rows: only those of groups may stand behind the entries. Before 2.10 Kvrocks wrote other rows of groups, and these stand
 * before the entries. */
static bool survey_entries(struct kvrocks_text *text)
{
    bool are_groups = false;
    struct stream_id id;
    struct bytes sub;
    struct bytes row;
    for (kvrocks_rows_seek(text, BYTES("")); kvrocks_rows_next(text, &sub, &row);) {
        bool is_entry = stream_id_decode(sub, &id);
        are_groups |= !is_entry;
        if (is_entry ? are_groups || !note_entry(text->stream, id, row)
                     : !kvrocks_is_group_row(sub))
            return false;
    }
    return true;
}

enum kvrocks_found kvrocks_stream_begin(struct kvrocks_text *text)
{
    uint64_t nodes = 0;
    text->stream = arena_alloc(text->arena, sizeof *text->stream);
    *text->stream = (struct kvrocks_stream){.entries = 0};
    if (!survey_entries(text) || !read_all_groups(text))
        return FOUND_BAD;
    kvrocks_rows_seek(text, BYTES(""));
    (void)write_nodes(text, NULL, &nodes);
    kvrocks_write_key(text, RDB_TYPE_STREAM_LISTPACKS_3);
    rdb_write_length(text->to, nodes);
    kvrocks_rows_seek(text, BYTES(""));
    return FOUND_VALUE;
}

/* ---- the tail ---- */

static void put_pending(struct rdb_writer *to, const struct group *group)
{
    rdb_write_length(to, group->given_count);
    for (size_t i = 0; i < group->given_count; i++) {
        rdb_write_raw_id(to, group->given[i].pending.id);
        rdb_write_ms(to, group->given[i].pending.delivered_ms);
        rdb_write_length(to, group->given[i].pending.deliveries);
    }
}

static int compare_given(const void *a, const void *b)
{
    const struct given *one = a;
    const struct given *other = b;
    if (one->consumer != other->consumer)
        return one->consumer < other->consumer ? -1 : 1;
    return stream_id_compare(one->pending.id, other->pending.id);
}

/* The consumers, each with the ids of its pending entries. */
static void put_consumers(struct rdb_writer *to, const struct group *group)
{
    const struct given *at = group->given;
    const struct given *end = at + group->given_count;
    if (group->given_count)
        qsort(group->given, group->given_count, sizeof *at, compare_given);
    rdb_write_length(to, group->consumer_count);
    for (size_t i = 0; i < group->consumer_count; i++) {
        const struct given *first = at;
        while (at < end && at->consumer == i)
            at++;
        kvrocks_write_text(to, group->consumers[i].name);
        rdb_write_ms(to, group->consumers[i].seen_ms);
        rdb_write_ms(to, group->consumers[i].active_ms);
        rdb_write_length(to, (uint64_t)(at - first));
        for (; first < at; first++)
            rdb_write_raw_id(to, first->pending.id);
    }
}

static void put_whole_group(struct rdb_writer *to, const struct group *group)
{
    kvrocks_write_text(to, group->is.name);
    rdb_write_stream_id(to, group->is.last);
    rdb_write_length(to, group->is.entries_read);
    put_pending(to, group);
    put_consumers(to, group);
}

static void put_tail(struct kvrocks_text *text)
{
    const struct kvrocks_stream *stream = text->stream;
    const struct kvrocks_value *value = &text->value;
    bool is_later = stream_id_compare(stream->last, value->last_generated) > 0;
    rdb_write_length(text->to, stream->entries);
    rdb_write_stream_id(text->to, is_later ? stream->last : value->last_generated);
    rdb_write_stream_id(text->to, stream->first);
    rdb_write_stream_id(text->to, value->max_deleted);
    rdb_write_length(text->to, value->entries_added > stream->entries ? value->entries_added
                                                                      : stream->entries);
    rdb_write_length(text->to, stream->group_count);
    for (size_t i = 0; i < stream->group_count; i++)
        put_whole_group(text->to, &stream->groups[i]);
}

bool kvrocks_stream_go_on(struct kvrocks_text *text)
{
    uint64_t nodes = 0;
    if (write_nodes(text, text->to, &nodes))
        return true;
    put_tail(text);
    return false;
}
