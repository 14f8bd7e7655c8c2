/*
 * stream_admin.c - XGROUP and XINFO: create, change, delete and describe groups.
 */
#include "backend/commands/stream_group.h"
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/notify.h"
#include "shared/command/command_reply.h"

/* ---- XGROUP ---- */

static void wrong_count(struct call *call, const char *container)
{
    call_errorf(call,
                "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try %s HELP.",
                (int)call->argv[1].len, call->argv[1].data, container);
}

struct creation {
    bool makes_stream;
    int64_t entries_read;
};

static bool creation_options(struct call *call, bool may_make, struct creation *creation)
{
    *creation = (struct creation){.entries_read = ENTRIES_READ_UNKNOWN};
    for (uint32_t i = 5; i < call->argc; i++) {
        if (may_make && bytes_is(call->argv[i], "MKSTREAM")) {
            creation->makes_stream = true;
        } else if (bytes_is(call->argv[i], "ENTRIESREAD") && i + 1 < call->argc) {
            if (!call_int64(call, ++i, &creation->entries_read))
                return false;
            if (creation->entries_read < ENTRIES_READ_UNKNOWN) {
                call_error_text(call, "ERR value for ENTRIESREAD must be positive or -1");
                return false;
            }
        } else {
            wrong_count(call, "XGROUP");
            return false;
        }
    }
    return true;
}

static bool need_stream(struct call *call, struct entry *entry)
{
    if (!keyspace_open_type(call, call->argv[2], TYPE_STREAM, OPEN_WRITE, entry))
        return false;
    if (!entry->exists)
        call_error_text(call, "ERR The XGROUP subcommand requires the key to exist. Note that for "
                              "CREATE you may want to use the MKSTREAM option to create an empty "
                              "stream automatically.");
    return entry->exists;
}

static bool need_group(struct call *call, struct entry *entry, struct stream_group *group)
{
    int err = group_find(call, entry, call->argv[3], group);
    if (err == ERR_NOT_FOUND)
        call_errorf(call, "NOGROUP No such consumer group '%.*s' for key name '%.*s'",
                    (int)call->argv[3].len, call->argv[3].data, (int)call->argv[2].len,
                    call->argv[2].data);
    return err == OK;
}

/* Parses argument 4: an id, or $ for the last id of the stream; unless is_strict also - and +. */
static bool start_id(struct call *call, const struct entry *entry, bool is_strict,
                     struct stream_id *id)
{
    if (bytes_equal(call->argv[4], BYTES("$"))) {
        *id = entry->exists ? entry->meta.stream_last_generated : STREAM_ID_MIN;
        return true;
    }
    if (stream_id_parse(call->argv[4], 0, is_strict, id, NULL))
        return true;
    stream_id_invalid(call);
    return false;
}

void cmd_xgroup_create(struct call *call)
{
    struct creation creation;
    struct entry entry;
    struct stream_group group;
    struct stream_id id;
    if (!creation_options(call, true, &creation))
        return;
    if (creation.makes_stream
            ? !keyspace_open_type(call, call->argv[2], TYPE_STREAM, OPEN_WRITE, &entry)
            : !need_stream(call, &entry))
        return;
    if (call->argc > 8) {
        wrong_count(call, "XGROUP");
        return;
    }
    if (!start_id(call, &entry, true, &id))
        return;
    int err = entry.exists ? group_find(call, &entry, call->argv[3], &group) : ERR_NOT_FOUND;
    if (err == OK)
        call_error_text(call, "BUSYGROUP Consumer Group name already exists");
    if (err != ERR_NOT_FOUND)
        return;
    if (!entry.exists) {
        entry_create(call, &entry, TYPE_STREAM);
        entry_save(call, &entry);
    } else {
        call_changes(call, 1);
    }
    group = (struct stream_group){
        .name = call->argv[3], .last = id, .entries_read = creation.entries_read};
    group_put(call, &entry, &group);
    reply_ok(&call->reply);
    notify(call, NOTIFY_STREAM, "xgroup-create", call->argv[2]);
}

void cmd_xgroup_setid(struct call *call)
{
    struct creation creation;
    struct entry entry;
    struct stream_group group;
    if (!creation_options(call, false, &creation) || !need_stream(call, &entry) ||
        !need_group(call, &entry, &group))
        return;
    if (call->argc != 5 && call->argc != 7) {
        wrong_count(call, "XGROUP");
        return;
    }
    if (!start_id(call, &entry, false, &group.last))
        return;
    group.entries_read = creation.entries_read;
    group_put(call, &entry, &group);
    call_changes(call, 1);
    reply_ok(&call->reply);
    notify(call, NOTIFY_STREAM, "xgroup-setid", call->argv[2]);
}

void cmd_xgroup_destroy(struct call *call)
{
    struct entry entry;
    struct stream_group group;
    if (!need_stream(call, &entry))
        return;
    int err = group_find(call, &entry, call->argv[3], &group);
    if (is_read_failure(err) || (err == OK && !group_rows_drop(call, &entry, group.name)))
        return;
    if (err == OK) {
        group_delete(call, &entry, group.name);
        call_changes(call, 1);
        entry_group_deleted(call, &entry);
        notify(call, NOTIFY_STREAM, "xgroup-destroy", call->argv[2]);
    }
    reply_int(&call->reply, err == OK);
}

void cmd_xgroup_createconsumer(struct call *call)
{
    struct entry entry;
    struct stream_group group;
    struct stream_consumer consumer;
    if (!need_stream(call, &entry) || !need_group(call, &entry, &group))
        return;
    uint64_t before = group.consumers;
    if (!consumer_open(call, &entry, &group, call->argv[4], &consumer))
        return;
    reply_int(&call->reply, group.consumers > before);
    if (group.consumers == before)
        return;
    consumer_put(call, &entry, group.name, &consumer);
    group_put(call, &entry, &group);
    call_changes(call, 1);
}

enum {
    DROPPED_AT_ONCE = 256,
    NEAR = 16, /* rows that are passed before a seek: one costs about as much */
};

/* A pending entry of the consumer that is deleted. */
struct dropped {
    struct stream_id id;
    uint64_t delivered_ms;
};

/* Reads ids that are pending for the consumer, from `from` on. Returns their number; 0: there are none, or the store failed. */
static uint32_t given_read(struct call *call, struct entry *entry, const struct stream_group *group,
                           const struct stream_consumer *consumer, struct stream_id from,
                           struct dropped dropped[DROPPED_AT_ONCE])
{
    struct sub_iter it;
    uint32_t count = 0;
    sub_iter_init(call, entry, CF_DATA, given_row_key(call, group->name, consumer->name, from),
                  &it);
    while (count < DROPPED_AT_ONCE && sub_iter_next(&it) &&
           given_row_read(&it, group->name, consumer->name, &dropped[count].id))
        count++;
    return sub_iter_fini(&it) ? count : 0;
}

/* Moves forwards to the pending entry with this id. */
static bool pending_seek(struct sub_iter *it, const struct stream_group *group, struct stream_id id,
                         struct stream_pending *pending)
{
    struct stream_id found;
    int order = -1;
    for (int i = 0; i < NEAR && order < 0; i++) {
        if (!sub_iter_next(it) || !pending_row_read(it, group->name, &found, pending))
            return false;
        order = stream_id_compare(found, id);
    }
    if (order >= 0)
        return order == 0;
    sub_iter_seek(it, pending_row_key(it->call, group->name, id));
    return sub_iter_next(it) && pending_row_read(it, group->name, &found, pending) &&
           stream_id_compare(found, id) == 0;
}

/* Reads when the entries were delivered. An iterator brings rows that are only on the disk by ranges; reading them one by one, the
 * command would wait for each. */
static bool times_read(struct call *call, struct entry *entry, const struct stream_group *group,
                       struct dropped *dropped, uint32_t count)
{
    struct sub_iter it;
    struct stream_pending pending;
    uint32_t read = 0;
    sub_iter_init(call, entry, CF_DATA, pending_row_key(call, group->name, dropped[0].id), &it);
    while (read < count && pending_seek(&it, group, dropped[read].id, &pending))
        dropped[read++].delivered_ms = pending.delivered_ms;
    return sub_iter_fini(&it) && read == count;
}

static bool pending_error(struct call *call)
{
    if (!call->failed)
        call_error(call, ERR_STORE);
    return false;
}

/* Deletes the consumer's pending entries and its row. Each iteration begins behind the rows that the one before deleted. */
static bool consumer_drop(struct call *call, struct entry *entry, struct stream_group *group,
                          struct stream_consumer *consumer)
{
    struct dropped dropped[DROPPED_AT_ONCE];
    struct stream_id from = STREAM_ID_MIN;
    while (consumer->pending) {
        uint32_t count = given_read(call, entry, group, consumer, from, dropped);
        if (count == 0 || !times_read(call, entry, group, dropped, count))
            return pending_error(call);
        for (uint32_t i = 0; i < count; i++) {
            const struct stream_pending pending = {.delivered_ms = dropped[i].delivered_ms,
                                                   .consumer = consumer->name};
            if (!pending_drop(call, entry, group, consumer, dropped[i].id, &pending))
                return false;
        }
        from = dropped[count - 1].id;
        (void)stream_id_next(&from);
    }
    sub_delete(call, entry, CF_DATA, consumer_row_key(call, group->name, consumer->name));
    return call_rows_end(call, group->consumers-- == 0);
}

void cmd_xgroup_delconsumer(struct call *call)
{
    struct entry entry;
    struct stream_group group;
    struct stream_consumer consumer;
    if (!need_stream(call, &entry) || !need_group(call, &entry, &group))
        return;
    int err = consumer_find(call, &entry, group.name, call->argv[4], &consumer);
    int64_t pending = (int64_t)consumer.pending;
    if (is_read_failure(err) || (err == OK && !consumer_drop(call, &entry, &group, &consumer)))
        return;
    if (err == OK) {
        group_put(call, &entry, &group);
        call_changes(call, 1);
        notify(call, NOTIFY_STREAM, "xgroup-delconsumer", call->argv[2]);
    }
    reply_int(&call->reply, err == OK ? pending : 0);
}

void cmd_xgroup_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}

/* ---- XINFO ---- */

enum { NODE_ENTRIES = 100, FULL_COUNT = 10 };

static bool info_open(struct call *call, struct entry *entry)
{
    if (!keyspace_open_type(call, call->argv[2], TYPE_STREAM, OPEN_READ, entry))
        return false;
    if (!entry->exists)
        call_error(call, ERR_NO_SUCH_KEY);
    return entry->exists;
}

static void reply_lag(struct call *call, const struct metadata *meta,
                      const struct stream_group *group)
{
    int64_t added = (int64_t)meta->stream_entries_added;
    int64_t read = group->entries_read;
    if (added == 0)
        read = 0;
    else if (read == ENTRIES_READ_UNKNOWN || stream_has_holes_from(meta, group->last))
        read = stream_entries_before(meta, group->last);
    if (read == ENTRIES_READ_UNKNOWN)
        reply_null(&call->reply);
    else
        reply_int(&call->reply, added == 0 ? 0 : added - read);
}

static void reply_entries_read(struct call *call, const struct stream_group *group)
{
    reply_bulk_text(&call->reply, "entries-read");
    if (group->entries_read == ENTRIES_READ_UNKNOWN)
        reply_null(&call->reply);
    else
        reply_int(&call->reply, group->entries_read);
}

void cmd_xinfo_groups(struct call *call)
{
    struct entry entry;
    struct reply *reply = &call->reply;
    uint64_t count;
    if (!info_open(call, &entry))
        return;
    const struct stream_group *groups = groups_read(call, &entry, &count);
    if (!groups)
        return;
    reply_array(reply, (int64_t)count);
    for (uint64_t i = 0; i < count; i++) {
        reply_map(reply, 6);
        reply_bulk_text(reply, "name");
        reply_bulk(reply, groups[i].name);
        reply_bulk_text(reply, "consumers");
        reply_int(reply, (int64_t)groups[i].consumers);
        reply_bulk_text(reply, "pending");
        reply_int(reply, (int64_t)groups[i].pending);
        reply_bulk_text(reply, "last-delivered-id");
        stream_id_reply(reply, groups[i].last);
        reply_entries_read(call, &groups[i]);
        reply_bulk_text(reply, "lag");
        reply_lag(call, &entry.meta, &groups[i]);
    }
}

static int64_t ms_since(const struct call *call, uint64_t ms)
{
    return call->now_ms > ms ? (int64_t)(call->now_ms - ms) : 0;
}

void cmd_xinfo_consumers(struct call *call)
{
    struct entry entry;
    struct stream_group group;
    struct reply *reply = &call->reply;
    uint64_t count;
    if (!info_open(call, &entry) || !need_group(call, &entry, &group))
        return;
    const struct stream_consumer *consumers = consumers_read(call, &entry, &group, &count);
    if (!consumers)
        return;
    reply_array(reply, (int64_t)count);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t active = consumers[i].active_ms;
        reply_map(reply, 4);
        reply_bulk_text(reply, "name");
        reply_bulk(reply, consumers[i].name);
        reply_bulk_text(reply, "pending");
        reply_int(reply, (int64_t)consumers[i].pending);
        reply_bulk_text(reply, "idle");
        reply_int(reply, ms_since(call, consumers[i].seen_ms));
        reply_bulk_text(reply, "inactive");
        reply_int(reply, active == NEVER_ACTIVE ? -1 : ms_since(call, active));
    }
}

/* Replies the fields that both forms of XINFO STREAM begin with. The numbers of radix tree nodes are those that
 * Redis would have if all its nodes were full. */
static void reply_stream(struct call *call, const struct metadata *meta)
{
    struct reply *reply = &call->reply;
    int64_t nodes = (int64_t)((meta->size + NODE_ENTRIES - 1) / NODE_ENTRIES);
    reply_bulk_text(reply, "length");
    reply_int(reply, (int64_t)meta->size);
    reply_bulk_text(reply, "radix-tree-keys");
    reply_int(reply, nodes);
    reply_bulk_text(reply, "radix-tree-nodes");
    reply_int(reply, nodes + 1);
    reply_bulk_text(reply, "last-generated-id");
    stream_id_reply(reply, meta->stream_last_generated);
    reply_bulk_text(reply, "max-deleted-entry-id");
    stream_id_reply(reply, meta->stream_max_deleted);
    reply_bulk_text(reply, "entries-added");
    reply_int(reply, (int64_t)meta->stream_entries_added);
    reply_bulk_text(reply, "recorded-first-entry-id");
    stream_id_reply(reply, meta->stream_recorded_first);
}

static bool reply_end(struct call *call, struct entry *entry, const char *name, struct stream_id id)
{
    char sub[STREAM_ID_BYTES];
    struct bytes row;
    reply_bulk_text(&call->reply, name);
    if (entry->meta.size == 0) {
        reply_null(&call->reply);
        return true;
    }
    int err = sub_get(call, entry, CF_STREAM, stream_id_encode(sub, id), &row);
    if (err == ERR_NOT_FOUND)
        call_error(call, ERR_STORE);
    return err == OK && stream_entry_reply(call, id, row);
}

static void info_short(struct call *call, struct entry *entry)
{
    uint64_t groups;
    reply_map(&call->reply, 10);
    reply_stream(call, &entry->meta);
    if (!groups_read(call, entry, &groups))
        return;
    reply_bulk_text(&call->reply, "groups");
    reply_int(&call->reply, (int64_t)groups);
    if (reply_end(call, entry, "first-entry", entry->meta.stream_first))
        (void)reply_end(call, entry, "last-entry", entry->meta.stream_last);
}

/* Replies the pending entries of a group, or, without consumer names, those of one consumer. */
static bool reply_pending(struct call *call, struct entry *entry, const struct stream_group *group,
                          const struct stream_consumer *consumer, uint64_t most)
{
    struct sub_iter it;
    struct stream_id id;
    struct stream_pending pending;
    uint64_t all = consumer ? consumer->pending : group->pending;
    uint64_t count = most && most < all ? most : all;
    reply_bulk_text(&call->reply, "pending");
    reply_array(&call->reply, (int64_t)count);
    sub_iter_init(call, entry, CF_DATA, pending_row_key(call, group->name, STREAM_ID_MIN), &it);
    while (count > 0 && sub_iter_next(&it) && pending_row_read(&it, group->name, &id, &pending)) {
        if (consumer && !bytes_equal(pending.consumer, consumer->name))
            continue;
        reply_array(&call->reply, consumer ? 3 : 4);
        stream_id_reply(&call->reply, id);
        if (!consumer)
            reply_bulk(&call->reply, pending.consumer);
        reply_int(&call->reply, (int64_t)pending.delivered_ms);
        reply_int(&call->reply, (int64_t)pending.deliveries);
        count--;
    }
    return sub_iter_fini(&it) && call_rows_end(call, count);
}

static bool reply_full_group(struct call *call, struct entry *entry,
                             const struct stream_group *group, uint64_t most)
{
    struct reply *reply = &call->reply;
    uint64_t count;
    const struct stream_consumer *consumers = consumers_read(call, entry, group, &count);
    if (!consumers)
        return false;
    reply_map(reply, 7);
    reply_bulk_text(reply, "name");
    reply_bulk(reply, group->name);
    reply_bulk_text(reply, "last-delivered-id");
    stream_id_reply(reply, group->last);
    reply_entries_read(call, group);
    reply_bulk_text(reply, "lag");
    reply_lag(call, &entry->meta, group);
    reply_bulk_text(reply, "pel-count");
    reply_int(reply, (int64_t)group->pending);
    if (!reply_pending(call, entry, group, NULL, most))
        return false;
    reply_bulk_text(reply, "consumers");
    reply_array(reply, (int64_t)count);
    for (uint64_t i = 0; i < count; i++) {
        reply_map(reply, 5);
        reply_bulk_text(reply, "name");
        reply_bulk(reply, consumers[i].name);
        reply_bulk_text(reply, "seen-time");
        reply_int(reply, (int64_t)consumers[i].seen_ms);
        reply_bulk_text(reply, "active-time");
        reply_int(reply, (int64_t)consumers[i].active_ms); /* NEVER_ACTIVE: -1 */
        reply_bulk_text(reply, "pel-count");
        reply_int(reply, (int64_t)consumers[i].pending);
        if (!reply_pending(call, entry, group, &consumers[i], most))
            return false;
    }
    return true;
}

static void info_full(struct call *call, struct entry *entry, uint64_t most)
{
    uint64_t count;
    const struct stream_group *groups = groups_read(call, entry, &count);
    if (!groups)
        return;
    reply_map(&call->reply, 9);
    reply_stream(call, &entry->meta);
    reply_bulk_text(&call->reply, "entries");
    if (!stream_range_reply(call, entry, STREAM_ID_MIN, STREAM_ID_MAX, most ? most : UINT64_MAX, 0))
        return;
    reply_bulk_text(&call->reply, "groups");
    reply_array(&call->reply, (int64_t)count);
    for (uint64_t i = 0; i < count; i++)
        if (!reply_full_group(call, entry, &groups[i], most))
            return;
}

void cmd_xinfo_stream(struct call *call)
{
    struct entry entry;
    int64_t most = FULL_COUNT;
    if (!info_open(call, &entry))
        return;
    if (call->argc == 3) {
        info_short(call, &entry);
        return;
    }
    if ((call->argc != 4 && call->argc != 6) || !bytes_is(call->argv[3], "FULL") ||
        (call->argc == 6 && !bytes_is(call->argv[4], "COUNT"))) {
        wrong_count(call, "XINFO");
        return;
    }
    if (call->argc == 6 && !call_int64(call, 5, &most))
        return;
    info_full(call, &entry, most < 0 ? FULL_COUNT : (uint64_t)most);
}

void cmd_xinfo_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}
