/*
 * backup_rdb_stream.c - streams of a backup: entries become nodes; groups, consumers and pending entries follow them.
 *
 *   nodes    counted first, because their number stands before them
 *   groups   read into memory; their pending entries are written row by row
 *
 * As commands/rdb_stream.c writes them for DUMP.
 */
#include "backend/format/rdb_stream.h"
#include "backend/format/stream_entry.h"
#include "backend/rdb/backup_rdb.h"

/* ---- entries ---- */

static bool next_stream_row(struct backup_value *value, struct stream_id *id, struct bytes *row)
{
    struct bytes sub;
    if (!backup_rows_here(value, value->rows.entries, &sub, row))
        return false;
    bool is_good = stream_id_decode(sub, id);
    value->is_damaged |= !is_good;
    return is_good;
}

/* Adds entries until the node is full. False: there is no more entry. */
static bool fill_node(struct backup_value *value, struct rdb_node_writer *node)
{
    struct stream_id id;
    struct bytes row;
    uint32_t strings;
    while (!rdb_node_is_full(node)) {
        if (!next_stream_row(value, &id, &row))
            return false;
        value->is_damaged |= !stream_entry_count(row, &strings);
        if (value->is_damaged)
            return false;
        rdb_node_add(node, value->scratch, id, row);
        value->done++;
        store_iter_next(value->rows.entries);
    }
    return true;
}

/* Cuts entries into nodes, until a piece is full. Without `to` all are only counted. True: more are left. */
static bool cut_nodes(struct backup_value *value, struct rdb_writer *to, uint64_t *nodes)
{
    bool is_left = true;
    while (is_left && (!to || to->len < BACKUP_PIECE_BYTES)) {
        struct arena_mark mark = arena_mark(value->scratch);
        struct rdb_node_writer node = {.entries = 0};
        is_left = fill_node(value, &node);
        *nodes += node.entries > 0;
        if (to && node.entries)
            rdb_node_write(&node, to, value->scratch);
        arena_release(value->scratch, &mark);
    }
    return is_left;
}

static void seek_first_entry(struct backup_value *value)
{
    char first[STREAM_ID_BYTES];
    value->done = 0;
    backup_rows_seek(value, value->rows.entries, stream_id_encode(first, value->meta.stream_first));
}

bool backup_stream_begin(struct backup_value *value)
{
    uint64_t nodes = 0;
    seek_first_entry(value);
    (void)cut_nodes(value, NULL, &nodes);
    value->is_damaged |= value->done != value->meta.size;
    if (value->is_damaged)
        return false;
    backup_value_put_key(value, RDB_TYPE_STREAM_LISTPACKS_2);
    rdb_write_length(value->to, nodes);
    seek_first_entry(value);
    return true;
}

/* ---- groups ---- */

static struct bytes copy_name(struct backup_value *value, struct bytes name)
{
    return arena_copy(value->arena, name);
}

static bool next_group_here(struct backup_value *value, struct stream_group *group)
{
    struct bytes sub;
    struct bytes row;
    if (!backup_rows_here(value, value->rows.elements, &sub, &row) ||
        !decode_group_row(sub, row, group))
        return false;
    group->name = copy_name(value, group->name);
    store_iter_next(value->rows.elements);
    return true;
}

/* The groups, in the arena. */
static struct stream_group *list_groups(struct backup_value *value, uint64_t *count)
{
    struct stream_group group;
    struct stream_group *all = NULL;
    struct bytes first = encode_group_row(value->arena, BYTES(""));
    for (unsigned round = 0; round < 2; round++) {
        *count = 0;
        backup_rows_seek(value, value->rows.elements, first);
        while (next_group_here(value, &group)) {
            if (all)
                all[*count] = group;
            ++*count;
        }
        if (!all)
            all = arena_alloc(value->arena, (*count + 1) * sizeof *all);
        value->is_damaged |= store_iter_failed(value->rows.elements); /* a seek forgets it */
    }
    return all;
}

static void put_group_pending(struct backup_value *value, const struct stream_group *group)
{
    struct bytes sub;
    struct bytes row;
    struct stream_id id;
    struct stream_pending pending;
    uint64_t left = group->pending;
    rdb_write_length(value->to, group->pending);
    for (backup_rows_seek(value, value->rows.elements,
                          encode_pending_row(value->arena, group->name, STREAM_ID_MIN));
         left && backup_rows_here(value, value->rows.elements, &sub, &row) &&
         decode_pending_row(sub, row, group->name, &id, &pending);
         store_iter_next(value->rows.elements)) {
        rdb_write_raw_id(value->to, id);
        rdb_write_ms(value->to, pending.delivered_ms);
        rdb_write_length(value->to, pending.deliveries);
        left--;
    }
    value->is_damaged |= left > 0;
}

static void put_consumer_given(struct backup_value *value, const struct stream_group *group,
                               const struct stream_consumer *consumer)
{
    struct bytes sub;
    struct bytes row;
    struct stream_id id;
    uint64_t left = consumer->pending;
    rdb_write_string(value->to, consumer->name);
    rdb_write_ms(value->to, consumer->seen_ms);
    rdb_write_length(value->to, consumer->pending);
    for (backup_rows_seek(
             value, value->rows.elements,
             encode_given_row(value->arena, group->name, consumer->name, STREAM_ID_MIN));
         left && backup_rows_here(value, value->rows.elements, &sub, &row) &&
         decode_given_row(sub, group->name, consumer->name, &id);
         store_iter_next(value->rows.elements)) {
        rdb_write_raw_id(value->to, id);
        left--;
    }
    value->is_damaged |= left > 0;
}

/* The consumers of the group, in the arena. There are as many as the group says, or the value is damaged. */
static struct stream_consumer *list_consumers(struct backup_value *value,
                                              const struct stream_group *group)
{
    struct bytes sub;
    struct bytes row;
    uint64_t count = 0;
    struct stream_consumer *all = arena_alloc(value->arena, (group->consumers + 1) * sizeof *all);
    for (backup_rows_seek(value, value->rows.elements,
                          encode_consumer_row(value->arena, group->name, BYTES("")));
         count < group->consumers && backup_rows_here(value, value->rows.elements, &sub, &row) &&
         decode_consumer_row(sub, row, group->name, &all[count]);
         store_iter_next(value->rows.elements)) {
        all[count].name = copy_name(value, all[count].name);
        count++;
    }
    value->is_damaged |= count < group->consumers;
    return all;
}

/* Rows of consumers, each of which has some bytes, cannot be more than the value has bytes: a damaged number must not take all memory. */
enum { CONSUMERS_MAX = 1 << 24 };

static void put_group_consumers(struct backup_value *value, const struct stream_group *group)
{
    uint64_t given = 0;
    if (group->consumers > CONSUMERS_MAX) {
        value->is_damaged = true;
        return;
    }
    const struct stream_consumer *all = list_consumers(value, group);
    rdb_write_length(value->to, group->consumers);
    for (uint64_t i = 0; i < group->consumers && !value->is_damaged; i++) {
        put_consumer_given(value, group, &all[i]);
        given += all[i].pending;
    }
    value->is_damaged |= given != group->pending;
}

static void put_stream_tail(struct backup_value *value)
{
    const struct metadata *meta = &value->meta;
    struct rdb_writer *to = value->to;
    uint64_t count;
    rdb_write_length(to, meta->size);
    rdb_write_stream_id(to, meta->stream_last_generated);
    rdb_write_stream_id(to, meta->stream_recorded_first);
    rdb_write_stream_id(to, meta->stream_max_deleted);
    rdb_write_length(to, meta->stream_entries_added);
    const struct stream_group *groups = list_groups(value, &count);
    rdb_write_length(to, count);
    for (uint64_t i = 0; i < count && !value->is_damaged; i++) {
        rdb_write_string(to, groups[i].name);
        rdb_write_stream_id(to, groups[i].last);
        rdb_write_length(to, (uint64_t)groups[i].entries_read);
        put_group_pending(value, &groups[i]);
        put_group_consumers(value, &groups[i]);
    }
}

bool backup_stream_go_on(struct backup_value *value)
{
    uint64_t nodes = 0;
    if (cut_nodes(value, value->to, &nodes))
        return true;
    put_stream_tail(value);
    return false;
}
