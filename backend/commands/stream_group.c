/*
 * stream_group.c - the rows of groups, consumers and pending entries.
 */
#include "backend/commands/stream_group.h"

#include "backend/context/partition.h"
#include "backend/keyspace/space.h"
#include "backend/session/notify.h"

/* ---- keys ---- */

struct bytes group_row_key(struct call *call, struct bytes group)
{
    return encode_group_row(call->arena, group);
}

struct bytes consumer_row_key(struct call *call, struct bytes group, struct bytes name)
{
    return encode_consumer_row(call->arena, group, name);
}

struct bytes pending_row_key(struct call *call, struct bytes group, struct stream_id id)
{
    return encode_pending_row(call->arena, group, id);
}

struct bytes given_row_key(struct call *call, struct bytes group, struct bytes consumer,
                           struct stream_id id)
{
    return encode_given_row(call->arena, group, consumer, id);
}

struct bytes time_row_key(struct call *call, struct bytes group, uint64_t delivered_ms,
                          struct stream_id id)
{
    return encode_time_row(call->arena, group, delivered_ms, id);
}

bool group_row_read(const struct sub_iter *it, struct stream_group *group)
{
    return decode_group_row(it->sub, it->value, group);
}

bool consumer_row_read(const struct sub_iter *it, struct bytes group,
                       struct stream_consumer *consumer)
{
    return decode_consumer_row(it->sub, it->value, group, consumer);
}

bool pending_row_read(const struct sub_iter *it, struct bytes group, struct stream_id *id,
                      struct stream_pending *pending)
{
    return decode_pending_row(it->sub, it->value, group, id, pending);
}

bool given_row_read(const struct sub_iter *it, struct bytes group, struct bytes consumer,
                    struct stream_id *id)
{
    return decode_given_row(it->sub, group, consumer, id);
}

bool time_row_read(const struct sub_iter *it, struct bytes group, uint64_t *delivered_ms,
                   struct stream_id *id)
{
    return decode_time_row(it->sub, group, delivered_ms, id);
}

/* ---- reading ---- */

/* Replies ERR_STORE for a row that is damaged. */
static int checked(struct call *call, int err, bool good)
{
    if (err == OK && !good) {
        call_error(call, ERR_STORE);
        return ERR_STORE;
    }
    return err;
}

int group_find(struct call *call, struct entry *entry, struct bytes name,
               struct stream_group *group)
{
    struct bytes value;
    int err = sub_get(call, entry, CF_DATA, group_row_key(call, name), &value);
    *group = (struct stream_group){.name = name, .entries_read = ENTRIES_READ_UNKNOWN};
    return checked(call, err, err == OK && decode_group(value, group));
}

int consumer_find(struct call *call, struct entry *entry, struct bytes group, struct bytes name,
                  struct stream_consumer *consumer)
{
    struct bytes value;
    int err = sub_get(call, entry, CF_DATA, consumer_row_key(call, group, name), &value);
    *consumer = (struct stream_consumer){.name = name, .active_ms = NEVER_ACTIVE};
    return checked(call, err, err == OK && decode_consumer(value, consumer));
}

int pending_find(struct call *call, struct entry *entry, struct bytes group, struct stream_id id,
                 struct stream_pending *pending)
{
    struct bytes value;
    int err = sub_get(call, entry, CF_DATA, pending_row_key(call, group, id), &value);
    bool good = err == OK && decode_pending(value, pending);
    if (good)
        pending->consumer = arena_copy(call->arena, pending->consumer);
    return checked(call, err, good);
}

/* ---- writing ---- */

void group_put(struct call *call, struct entry *entry, const struct stream_group *group)
{
    sub_put(call, entry, CF_DATA, group_row_key(call, group->name),
            encode_group(call->arena, group));
}

void group_delete(struct call *call, struct entry *entry, struct bytes name)
{
    sub_delete(call, entry, CF_DATA, group_row_key(call, name));
}

void consumer_put(struct call *call, struct entry *entry, struct bytes group,
                  const struct stream_consumer *consumer)
{
    sub_put(call, entry, CF_DATA, consumer_row_key(call, group, consumer->name),
            encode_consumer(call->arena, consumer));
}

bool consumer_open(struct call *call, struct entry *entry, struct stream_group *group,
                   struct bytes name, struct stream_consumer *consumer)
{
    int err = consumer_find(call, entry, group->name, name, consumer);
    if (is_read_failure(err))
        return false;
    consumer->seen_ms = call->now_ms;
    if (err == OK)
        return true;
    consumer->exists = true;
    group->consumers++;
    notify(call, NOTIFY_STREAM, "xgroup-createconsumer", entry->key);
    return true;
}

/* Decrements the consumer's pending counter: in `consumer`, if it is this one, otherwise in its row. */
static bool consumer_lost(struct call *call, struct entry *entry, struct stream_group *group,
                          struct stream_consumer *consumer, struct bytes name)
{
    struct stream_consumer other;
    if (consumer && bytes_equal(consumer->name, name))
        return call_rows_end(call, consumer->pending-- == 0);
    int err = consumer_find(call, entry, group->name, name, &other);
    if (!call_rows_end(call, err != OK || other.pending == 0))
        return false;
    other.pending--;
    consumer_put(call, entry, group->name, &other);
    return true;
}

void pending_put(struct call *call, struct entry *entry, struct bytes group, struct stream_id id,
                 const struct stream_pending *pending)
{
    sub_put(call, entry, CF_DATA, pending_row_key(call, group, id),
            encode_pending(call->arena, pending));
}

void pending_time_put(struct call *call, struct entry *entry, struct stream_group *group,
                      uint64_t delivered_ms, struct stream_id id)
{
    if (delivered_ms < group->oldest_ms)
        group->oldest_ms = delivered_ms;
    sub_put(call, entry, CF_DATA, time_row_key(call, group->name, delivered_ms, id), BYTES(""));
}

void pending_time_delete(struct call *call, struct entry *entry, const struct stream_group *group,
                         uint64_t delivered_ms, struct stream_id id)
{
    sub_delete(call, entry, CF_DATA, time_row_key(call, group->name, delivered_ms, id));
}

bool pending_give(struct call *call, struct entry *entry, struct stream_group *group,
                  struct stream_consumer *consumer, struct stream_id id,
                  const struct stream_pending *old, const struct stream_pending *fresh)
{
    bool is_other = !old || !bytes_equal(old->consumer, consumer->name);
    pending_put(call, entry, group->name, id, fresh);
    if (group->has_times && old)
        pending_time_delete(call, entry, group, old->delivered_ms, id);
    if (group->has_times)
        pending_time_put(call, entry, group, fresh->delivered_ms, id);
    if (!old)
        group->pending++;
    if (!is_other)
        return true;
    if (old) {
        if (!consumer_lost(call, entry, group, consumer, old->consumer))
            return false;
        sub_delete(call, entry, CF_DATA, given_row_key(call, group->name, old->consumer, id));
    }
    consumer->pending++;
    sub_put(call, entry, CF_DATA, given_row_key(call, group->name, consumer->name, id), BYTES(""));
    return true;
}

bool pending_drop(struct call *call, struct entry *entry, struct stream_group *group,
                  struct stream_consumer *consumer, struct stream_id id,
                  const struct stream_pending *old)
{
    sub_delete(call, entry, CF_DATA, pending_row_key(call, group->name, id));
    sub_delete(call, entry, CF_DATA, given_row_key(call, group->name, old->consumer, id));
    if (group->has_times)
        pending_time_delete(call, entry, group, old->delivered_ms, id);
    if (!call_rows_end(call, group->pending-- == 0))
        return false;
    return consumer_lost(call, entry, group, consumer, old->consumer);
}

struct stream_group *groups_read(struct call *call, struct entry *entry, uint64_t *count)
{
    struct sub_iter it;
    struct stream_group group;
    struct stream_group *groups = arena_alloc(call->arena, sizeof *groups);
    uint64_t cap = 1;
    *count = 0;
    sub_iter_init(call, entry, CF_DATA, group_row_key(call, BYTES("")), &it);
    while (sub_iter_next(&it) && group_row_read(&it, &group)) {
        if (*count == cap) {
            struct stream_group *more = arena_alloc(call->arena, cap * 2 * sizeof *more);
            memcpy(more, groups, cap * sizeof *more);
            groups = more;
            cap *= 2;
        }
        group.name = arena_copy(call->arena, group.name);
        groups[(*count)++] = group;
    }
    return sub_iter_fini(&it) ? groups : NULL;
}

struct stream_consumer *consumers_read(struct call *call, struct entry *entry,
                                       const struct stream_group *group, uint64_t *count)
{
    struct sub_iter it;
    struct stream_consumer *consumers = call_array(call, group->consumers + 1, sizeof *consumers);
    *count = 0;
    if (!consumers)
        return NULL;
    sub_iter_init(call, entry, CF_DATA, consumer_row_key(call, group->name, BYTES("")), &it);
    while (*count < group->consumers && sub_iter_next(&it) &&
           consumer_row_read(&it, group->name, &consumers[*count])) {
        consumers[*count].name = arena_copy(call->arena, consumers[*count].name);
        ++*count;
    }
    return sub_iter_fini(&it) ? consumers : NULL;
}

/* ---- many rows ---- */

bool rows_drop(struct call *call, struct entry *entry, struct bytes prefix)
{
    enum { BATCH = 1024 };
    struct bytes subs[BATCH];
    struct bytes from = prefix; /* then the last row that was deleted */
    for (size_t count = BATCH; count == BATCH;) {
        struct sub_iter it;
        count = 0;
        sub_iter_init(call, entry, CF_DATA, from, &it);
        while (count < BATCH && sub_iter_next(&it) && it.sub.len >= prefix.len &&
               memcmp(it.sub.data, prefix.data, prefix.len) == 0)
            subs[count++] = arena_copy(call->arena, it.sub);
        if (!sub_iter_fini(&it))
            return false;
        for (size_t i = 0; i < count; i++)
            sub_delete(call, entry, CF_DATA, subs[i]);
        from = count ? subs[count - 1] : prefix;
    }
    return true;
}

bool group_rows_drop(struct call *call, struct entry *entry, struct bytes group)
{
    for (unsigned kind = 0; kind < STREAM_GROUP_KINDS; kind++)
        if (!rows_drop(call, entry, encode_group_rows(call->arena, kind, group)))
            return false;
    return true;
}

/* ---- entries read by a group ---- */

bool stream_has_holes_from(const struct metadata *meta, struct stream_id id)
{
    return meta->size && !stream_id_is_zero(meta->stream_max_deleted) &&
           stream_id_compare(id, meta->stream_max_deleted) <= 0;
}

int64_t stream_entries_before(const struct metadata *meta, struct stream_id id)
{
    int64_t added = (int64_t)meta->stream_entries_added;
    int order = stream_id_compare(id, meta->stream_last_generated);
    if (added == 0)
        return 0;
    if (order == 0 || (meta->size == 0 && order < 0))
        return added;
    if (order > 0)
        return ENTRIES_READ_UNKNOWN;
    bool is_whole = stream_id_is_zero(meta->stream_max_deleted) ||
                    stream_id_compare(meta->stream_max_deleted, meta->stream_recorded_first) < 0;
    int to_first = stream_id_compare(id, meta->stream_recorded_first);
    if (is_whole && to_first <= 0)
        return added - (int64_t)meta->size + (to_first == 0);
    return ENTRIES_READ_UNKNOWN;
}
