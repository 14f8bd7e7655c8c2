#include "backend/format/rdb_stream.h"

#include "backend/format/stream_entry.h"
#include "shared/number.h"

static const struct bytes NO_TEXT = {"", 0};

static bool read_stream_id(struct rdb_reader *reader, struct stream_id *id)
{
    return rdb_read_length(reader, &id->ms) && rdb_read_length(reader, &id->seq);
}

bool rdb_read_raw_id(struct rdb_reader *reader, struct stream_id *id)
{
    struct bytes raw;
    return rdb_read_raw(reader, STREAM_ID_BYTES, &raw) && stream_id_decode(raw, id);
}

/* ---- entries ---- */

static bool next_text(struct rdb_node *node, struct bytes *text)
{
    return rdb_listpack_next(node->arena, node->pack, &node->at, text) == RDB_PACK_ELEMENT;
}

static bool next_int(struct rdb_node *node, int64_t *value)
{
    struct bytes text;
    return next_text(node, &text) && number_parse_int64(text, value);
}

static bool read_master(struct rdb_node *node)
{
    int64_t entries;
    int64_t deleted;
    int64_t fields;
    int64_t end;
    if (!next_int(node, &entries) || !next_int(node, &deleted) || !next_int(node, &fields) ||
        entries < 0 || deleted < 0 || fields < 0 || fields > (int64_t)node->pack.len ||
        __builtin_add_overflow(entries, deleted, &entries))
        return false;
    node->left = (uint64_t)entries;
    node->fields_count = (uint32_t)fields;
    node->fields = arena_alloc(node->arena, ((size_t)fields + 1) * sizeof(struct bytes));
    for (int64_t i = 0; i < fields; i++)
        if (!next_text(node, &node->fields[i]))
            return false;
    return next_int(node, &end) && end == 0;
}

bool rdb_node_open(struct rdb_node *node, struct rdb_reader *reader)
{
    struct bytes raw;
    *node = (struct rdb_node){.arena = reader->arena};
    return rdb_read_string(reader, &raw) && stream_id_decode(raw, &node->master) &&
           rdb_read_string(reader, &node->pack) && read_master(node);
}

/* Reads the alternating fields and values of an entry into the arena. */
static bool read_strings(struct rdb_node *node, bool same_fields, struct rdb_entry *entry)
{
    int64_t fields = node->fields_count;
    if (!same_fields &&
        (!next_int(node, &fields) || fields < 0 || fields > (int64_t)node->pack.len))
        return false;
    entry->count = (uint32_t)fields * 2;
    entry->strings = arena_alloc(node->arena, ((size_t)entry->count + 1) * sizeof(struct bytes));
    for (uint32_t i = 0; i < entry->count; i += 2) {
        entry->strings[i] = same_fields ? node->fields[i / 2] : NO_TEXT;
        if ((!same_fields && !next_text(node, &entry->strings[i])) ||
            !next_text(node, &entry->strings[i + 1]))
            return false;
    }
    return true;
}

enum rdb_pack rdb_node_next(struct rdb_node *node, struct rdb_entry *entry)
{
    int64_t flags;
    int64_t ms;
    int64_t seq;
    int64_t back;
    if (node->left == 0)
        return RDB_PACK_END;
    node->left--;
    if (!next_int(node, &flags) || !next_int(node, &ms) || !next_int(node, &seq) ||
        !read_strings(node, flags & RDB_ENTRY_SAME_FIELDS, entry) || !next_int(node, &back))
        return RDB_PACK_BAD;
    entry->id =
        (struct stream_id){node->master.ms + (uint64_t)ms, node->master.seq + (uint64_t)seq};
    entry->is_deleted = flags & RDB_ENTRY_DELETED;
    return RDB_PACK_ELEMENT;
}

/* ---- tail ---- */

bool rdb_read_tail(struct rdb_reader *reader, uint8_t type, struct rdb_tail *tail)
{
    *tail = (struct rdb_tail){.is_full = type != RDB_TYPE_STREAM_LISTPACKS};
    return rdb_read_length(reader, &tail->length) && read_stream_id(reader, &tail->last) &&
           (!tail->is_full ||
            (read_stream_id(reader, &tail->first) && read_stream_id(reader, &tail->max_deleted) &&
             rdb_read_length(reader, &tail->entries_added)));
}

bool rdb_read_group(struct rdb_reader *reader, uint8_t type, struct rdb_group *group)
{
    uint64_t read = UINT64_MAX;
    *group = (struct rdb_group){.has_read = type != RDB_TYPE_STREAM_LISTPACKS};
    if (!rdb_read_string(reader, &group->name) || !read_stream_id(reader, &group->last) ||
        (group->has_read && !rdb_read_length(reader, &read)))
        return false;
    group->entries_read = (int64_t)read;
    return true;
}

bool rdb_read_pending(struct rdb_reader *reader, struct rdb_pending *pending)
{
    return rdb_read_raw_id(reader, &pending->id) && rdb_read_ms(reader, &pending->delivered_ms) &&
           rdb_read_length(reader, &pending->deliveries);
}

bool rdb_read_consumer(struct rdb_reader *reader, uint8_t type, struct rdb_consumer *consumer)
{
    bool has_active = type == RDB_TYPE_STREAM_LISTPACKS_3; /* since Redis 7.2 */
    if (!rdb_read_string(reader, &consumer->name) || !rdb_read_ms(reader, &consumer->seen_ms) ||
        (has_active && !rdb_read_ms(reader, &consumer->active_ms)))
        return false;
    if (!has_active)
        consumer->active_ms = consumer->seen_ms;
    return rdb_read_length(reader, &consumer->pending);
}

/* ---- writing ---- */

enum { NODE_ENTRIES = 100, NODE_BYTES = 4096 };

bool rdb_node_is_full(const struct rdb_node_writer *node)
{
    return node->entries == NODE_ENTRIES || (node->entries && node->entries_text.len > NODE_BYTES);
}

static void begin_node(struct rdb_node_writer *node, struct arena *arena, struct stream_id first)
{
    *node = (struct rdb_node_writer){.first = first};
    rdb_pack_begin(&node->entries_text, arena);
}

void rdb_node_add(struct rdb_node_writer *node, struct arena *arena, struct stream_id id,
                  struct bytes row)
{
    struct rdb_writer *text = &node->entries_text;
    struct bytes string;
    uint32_t strings = 0;
    if (node->entries == 0)
        begin_node(node, arena, id);
    (void)stream_entry_count(row, &strings);
    rdb_pack_int(text, 0);
    rdb_pack_int(text, (int64_t)(id.ms - node->first.ms));
    rdb_pack_int(text, (int64_t)(id.seq - node->first.seq));
    rdb_pack_int(text, strings / 2);
    while (row.len && stream_entry_next(&row, &string))
        rdb_pack_text(text, string);
    rdb_pack_int(text, (int64_t)strings + 4);
    node->elements += strings + 5;
    node->entries++;
}

void rdb_node_write(struct rdb_node_writer *node, struct rdb_writer *writer, struct arena *arena)
{
    enum { HEADER = 6, MASTER_ELEMENTS = 4 };
    struct rdb_writer whole;
    char raw[STREAM_ID_BYTES];
    rdb_pack_begin(&whole, arena);
    rdb_pack_int(&whole, (int64_t)node->entries);
    rdb_pack_int(&whole, 0); /* number of deleted entries */
    rdb_pack_int(&whole, 0); /* number of fields */
    rdb_pack_int(&whole, 0); /* end of the master entry */
    rdb_write_raw(
        &whole, (struct bytes){node->entries_text.data + HEADER, node->entries_text.len - HEADER});
    rdb_write_string(writer, stream_id_encode(raw, node->first));
    rdb_write_string(writer, rdb_pack_end(&whole, node->elements + MASTER_ELEMENTS));
    node->entries = 0;
}

void rdb_write_stream_id(struct rdb_writer *writer, struct stream_id id)
{
    rdb_write_length(writer, id.ms);
    rdb_write_length(writer, id.seq);
}

void rdb_write_raw_id(struct rdb_writer *writer, struct stream_id id)
{
    char raw[STREAM_ID_BYTES];
    rdb_write_raw(writer, stream_id_encode(raw, id));
}
