/*
 * rdb_stream.c - streams in RDB format.
 *
 *   packs of entries: id of the first | listpack    up to 100 entries each, ids relative to the first
 *   length, ids, entries added
 *   groups: name, last id, entries read | pending: id, time, deliveries | consumers: name, time, ids of its pending
 *
 * A listpack begins with a master entry: count, deleted, fields of the first entry. An entry with equal fields omits
 * them. Redis' t_stream.c describes the format.
 */
#include "backend/commands/stream_group.h"
#include "backend/commands/types.h"
#include "backend/format/rdb.h"
#include "shared/number.h"

enum {
    PACK_ENTRIES = 100,
    PACK_BYTES = 4096,
    ENTRY_DELETED = 1,
    ENTRY_SAME_FIELDS = 2,
};

static const struct bytes NOTHING = {"", 0};

static void write_stream_id(struct rdb_writer *writer, struct stream_id id)
{
    rdb_write_length(writer, id.ms);
    rdb_write_length(writer, id.seq);
}

static void write_raw_id(struct rdb_writer *writer, struct stream_id id)
{
    char raw[STREAM_ID_BYTES];
    rdb_write_raw(writer, stream_id_encode(raw, id));
}

/* ---- writing entries ---- */

/* A listpack being written. Its master entry has no fields, so that every entry has its own. */
struct pack {
    struct rdb_writer bytes;
    struct stream_id first;
    uint64_t entries;
    uint64_t elements;
};

static void pack_entry(struct pack *pack, struct stream_id id, struct bytes row)
{
    struct bytes string;
    uint32_t strings = 0;
    (void)stream_entry_count(row, &strings);
    rdb_pack_int(&pack->bytes, 0);
    rdb_pack_int(&pack->bytes, (int64_t)(id.ms - pack->first.ms));
    rdb_pack_int(&pack->bytes, (int64_t)(id.seq - pack->first.seq));
    rdb_pack_int(&pack->bytes, strings / 2);
    while (row.len && stream_entry_next(&row, &string))
        rdb_pack_text(&pack->bytes, string);
    rdb_pack_int(&pack->bytes, (int64_t)strings + 4);
    pack->elements += strings + 5;
    pack->entries++;
}

/* Writes the pack with its master entry, now that the number of entries is known. */
static void pack_write(struct pack *pack, struct rdb_writer *writer, struct arena *arena)
{
    enum { HEADER = 6, MASTER_ELEMENTS = 4 };
    struct rdb_writer whole;
    char raw[STREAM_ID_BYTES];
    rdb_pack_begin(&whole, arena);
    rdb_pack_int(&whole, (int64_t)pack->entries);
    rdb_pack_int(&whole, 0); /* number of deleted entries */
    rdb_pack_int(&whole, 0); /* number of fields */
    rdb_pack_int(&whole, 0); /* end of the master entry */
    rdb_write_raw(&whole, (struct bytes){pack->bytes.data + HEADER, pack->bytes.len - HEADER});
    rdb_write_string(writer, stream_id_encode(raw, pack->first));
    rdb_write_string(writer, rdb_pack_end(&whole, pack->elements + MASTER_ELEMENTS));
}

static bool save_entries(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    struct rdb_writer packs;
    struct pack pack = {.entries = 0};
    struct sub_iter it;
    struct stream_id id;
    uint64_t count = 0;
    char from[STREAM_ID_BYTES];
    rdb_writer_init(&packs, call->arena);
    sub_iter_init(call, entry, CF_STREAM, stream_id_encode(from, entry->meta.stream_first), &it);
    while (sub_iter_next(&it) && stream_id_decode(it.sub, &id)) {
        if (pack.entries == PACK_ENTRIES || (pack.entries && pack.bytes.len > PACK_BYTES)) {
            pack_write(&pack, &packs, call->arena);
            pack.entries = 0;
        }
        if (pack.entries == 0) {
            pack = (struct pack){.first = id};
            rdb_pack_begin(&pack.bytes, call->arena);
            count++;
        }
        pack_entry(&pack, id, it.value);
    }
    if (pack.entries)
        pack_write(&pack, &packs, call->arena);
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
        write_raw_id(writer, id);
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
        write_raw_id(writer, id);
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
    write_stream_id(writer, group->last);
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
    write_stream_id(writer, meta->stream_last_generated);
    write_stream_id(writer, meta->stream_recorded_first);
    write_stream_id(writer, meta->stream_max_deleted);
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

/* ---- reading entries ---- */

static bool read_stream_id(struct rdb_reader *reader, struct stream_id *id)
{
    return rdb_read_length(reader, &id->ms) && rdb_read_length(reader, &id->seq);
}

static bool read_raw_id(struct rdb_reader *reader, struct stream_id *id)
{
    struct bytes raw;
    return rdb_read_raw(reader, STREAM_ID_BYTES, &raw) && stream_id_decode(raw, id);
}

/* A listpack being read. */
struct unpack {
    struct call *call;
    struct bytes pack;
    size_t at;
    uint32_t fields_count; /* fields of the master entry */
    struct bytes *fields;
};

static bool next_text(struct unpack *unpack, struct bytes *text)
{
    return rdb_listpack_next(unpack->call->arena, unpack->pack, &unpack->at, text) ==
           RDB_PACK_ELEMENT;
}

static bool next_int(struct unpack *unpack, int64_t *value)
{
    struct bytes text;
    return next_text(unpack, &text) && number_parse_int64(text, value);
}

static bool read_master(struct unpack *unpack, int64_t *entries)
{
    int64_t deleted;
    int64_t fields;
    int64_t end;
    if (!next_int(unpack, entries) || !next_int(unpack, &deleted) || !next_int(unpack, &fields) ||
        *entries < 0 || deleted < 0 || fields < 0 || fields > (int64_t)unpack->pack.len ||
        __builtin_add_overflow(*entries, deleted, entries))
        return false;
    unpack->fields_count = (uint32_t)fields;
    unpack->fields = arena_alloc(unpack->call->arena, ((size_t)fields + 1) * sizeof(struct bytes));
    for (int64_t i = 0; i < fields; i++)
        if (!next_text(unpack, &unpack->fields[i]))
            return false;
    return next_int(unpack, &end) && end == 0;
}

/* Reads the alternating fields and values of an entry into the arena. */
static bool read_strings(struct unpack *unpack, bool same_fields, struct bytes **strings,
                         uint32_t *count)
{
    int64_t fields = unpack->fields_count;
    if (!same_fields &&
        (!next_int(unpack, &fields) || fields < 0 || fields > (int64_t)unpack->pack.len))
        return false;
    *count = (uint32_t)fields * 2;
    *strings = arena_alloc(unpack->call->arena, ((size_t)*count + 1) * sizeof(struct bytes));
    for (uint32_t i = 0; i < *count; i += 2) {
        (*strings)[i] = same_fields ? unpack->fields[i / 2] : NOTHING;
        if ((!same_fields && !next_text(unpack, &(*strings)[i])) ||
            !next_text(unpack, &(*strings)[i + 1]))
            return false;
    }
    return true;
}

static bool load_entry(struct unpack *unpack, struct entry *entry, struct stream_id master)
{
    struct call *call = unpack->call;
    int64_t flags;
    int64_t ms;
    int64_t seq;
    int64_t back;
    struct bytes *strings;
    uint32_t count;
    char sub[STREAM_ID_BYTES];
    if (!next_int(unpack, &flags) || !next_int(unpack, &ms) || !next_int(unpack, &seq) ||
        !read_strings(unpack, flags & ENTRY_SAME_FIELDS, &strings, &count) ||
        !next_int(unpack, &back))
        return false;
    struct stream_id id = {master.ms + (uint64_t)ms, master.seq + (uint64_t)seq};
    if (flags & ENTRY_DELETED)
        return true;
    if (entry->meta.size && stream_id_compare(id, entry->meta.stream_last) <= 0)
        return false;
    sub_put(call, entry, CF_STREAM, stream_id_encode(sub, id),
            stream_entry_encode(call->arena, strings, count));
    if (entry->meta.size++ == 0)
        entry->meta.stream_first = id;
    entry->meta.stream_last = id;
    return true;
}

static bool load_pack(struct call *call, struct entry *entry, struct rdb_reader *reader)
{
    struct bytes raw;
    struct stream_id master;
    struct unpack unpack = {.call = call};
    int64_t entries;
    if (!rdb_read_string(reader, &raw) || !stream_id_decode(raw, &master) ||
        !rdb_read_string(reader, &unpack.pack) || !read_master(&unpack, &entries))
        return false;
    for (; entries > 0; entries--)
        if (!load_entry(&unpack, entry, master))
            return false;
    return true;
}

/* ---- reading groups ---- */

/* Loads pending entries without a consumer; load_consumer sets it. */
static bool load_pending(struct call *call, struct entry *entry, struct stream_group *group,
                         struct rdb_reader *reader)
{
    uint64_t count;
    if (!rdb_read_length(reader, &count))
        return false;
    for (; count > 0; count--) {
        struct stream_id id;
        struct stream_pending pending = {.consumer = NOTHING};
        struct stream_pending old;
        if (!read_raw_id(reader, &id) || !rdb_read_ms(reader, &pending.delivered_ms) ||
            !rdb_read_length(reader, &pending.deliveries) ||
            pending_find(call, entry, group->name, id, &old) != ERR_NOT_FOUND)
            return false;
        pending_put(call, entry, group->name, id, &pending);
        group->pending++;
    }
    return true;
}

static bool load_consumer(struct call *call, struct entry *entry, struct stream_group *group,
                          struct rdb_reader *reader, enum rdb_type type, uint64_t *given)
{
    struct stream_consumer consumer = {.exists = true};
    struct stream_consumer old;
    if (!rdb_read_string(reader, &consumer.name) || !rdb_read_ms(reader, &consumer.seen_ms) ||
        (type == RDB_TYPE_STREAM_LISTPACKS_3 && !rdb_read_ms(reader, &consumer.active_ms)) ||
        !rdb_read_length(reader, &consumer.pending) ||
        consumer_find(call, entry, group->name, consumer.name, &old) != ERR_NOT_FOUND)
        return false;
    if (type != RDB_TYPE_STREAM_LISTPACKS_3) /* before Redis 7.2 */
        consumer.active_ms = consumer.seen_ms;
    for (uint64_t i = 0; i < consumer.pending; i++) {
        struct stream_id id;
        struct stream_pending pending;
        if (!read_raw_id(reader, &id) ||
            pending_find(call, entry, group->name, id, &pending) != OK || pending.consumer.len)
            return false;
        pending.consumer = consumer.name;
        pending_put(call, entry, group->name, id, &pending);
        sub_put(call, entry, CF_DATA, given_row_key(call, group->name, consumer.name, id), NOTHING);
    }
    *given += consumer.pending;
    group->consumers++;
    consumer_put(call, entry, group->name, &consumer);
    return true;
}

static bool load_group(struct call *call, struct entry *entry, struct rdb_reader *reader,
                       enum rdb_type type)
{
    bool has_read = type != RDB_TYPE_STREAM_LISTPACKS;
    struct stream_group group;
    struct stream_group old;
    uint64_t read;
    uint64_t consumers;
    uint64_t given = 0;
    struct bytes name;
    struct stream_id last;
    if (!rdb_read_string(reader, &name) || !read_stream_id(reader, &last) ||
        (has_read && !rdb_read_length(reader, &read)) ||
        group_find(call, entry, name, &old) != ERR_NOT_FOUND)
        return false;
    if (!has_read) /* before Redis 7: computed from the ids, as Redis does */
        read = (uint64_t)stream_entries_before(&entry->meta, last);
    group = (struct stream_group){.name = name, .last = last, .entries_read = (int64_t)read};
    if (!load_pending(call, entry, &group, reader) || !rdb_read_length(reader, &consumers))
        return false;
    for (; consumers > 0; consumers--)
        if (!load_consumer(call, entry, &group, reader, type, &given))
            return false;
    group_put(call, entry, &group);
    return given == group.pending;
}

bool rdb_load_stream(struct call *call, struct entry *entry, struct rdb_reader *reader,
                     enum rdb_type type, uint64_t expire_ms)
{
    (void)expire_ms;
    entry_create(call, entry, TYPE_STREAM);
    struct metadata *meta = &entry->meta;
    bool second = type != RDB_TYPE_STREAM_LISTPACKS;
    uint64_t count;
    uint64_t length;
    if (!rdb_read_length(reader, &count))
        return false;
    for (; count > 0; count--)
        if (!load_pack(call, entry, reader))
            return false;
    if (!rdb_read_length(reader, &length) || length != meta->size ||
        !read_stream_id(reader, &meta->stream_last_generated))
        return false;
    meta->stream_recorded_first = meta->stream_first;
    meta->stream_entries_added = length;
    if (second && (!read_stream_id(reader, &meta->stream_recorded_first) ||
                   !read_stream_id(reader, &meta->stream_max_deleted) ||
                   !rdb_read_length(reader, &meta->stream_entries_added)))
        return false;
    if (!rdb_read_length(reader, &count))
        return false;
    for (; count > 0; count--)
        if (!load_group(call, entry, reader, type))
            return false;
    return true;
}
