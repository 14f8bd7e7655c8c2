/*
 * stream_group.c - the rows of groups, consumers and pending entries.
 */
#include "backend/commands/stream_group.h"

#include "backend/context/partition.h"
#include "backend/keyspace/space.h"
#include "backend/session/notify.h"

enum {
    KIND_CONSUMER = 'c',
    KIND_GROUP = 'g',
    KIND_GIVEN = 'i',
    KIND_PENDING = 'p',
    KIND_TIME = 't',
    GROUP_BYTES = STREAM_ID_BYTES + 3 * 8,
    GROUP_BYTES_TIMES = GROUP_BYTES + 8, /* of a group with an index by time */
    CONSUMER_BYTES = 3 * 8,
    CONSUMER_BYTES_OLD =
        2 * 8, /* without the time when it was active, which counts as the time when it was seen */
    PENDING_BYTES = 2 * 8,
};

/* ---- keys ---- */

/* Begins a key: kind | u32 len | group, with room for `more` bytes. */
static char *start_key(struct call *call, char kind, struct bytes group, size_t more, char **to)
{
    char *key = arena_alloc(call->arena, 5 + group.len + more);
    key[0] = kind;
    put_be32(key + 1, (uint32_t)group.len);
    if (group.len)
        memcpy(key + 5, group.data, group.len);
    *to = key + 5 + group.len;
    return key;
}

struct bytes group_row_key(struct call *call, struct bytes group)
{
    char *key = arena_alloc(call->arena, 1 + group.len);
    key[0] = KIND_GROUP;
    if (group.len)
        memcpy(key + 1, group.data, group.len);
    return (struct bytes){key, 1 + group.len};
}

struct bytes consumer_row_key(struct call *call, struct bytes group, struct bytes name)
{
    char *to;
    char *key = start_key(call, KIND_CONSUMER, group, name.len, &to);
    if (name.len)
        memcpy(to, name.data, name.len);
    return (struct bytes){key, (size_t)(to - key) + name.len};
}

struct bytes pending_row_key(struct call *call, struct bytes group, struct stream_id id)
{
    char *to;
    char *key = start_key(call, KIND_PENDING, group, STREAM_ID_BYTES, &to);
    (void)stream_id_encode(to, id);
    return (struct bytes){key, (size_t)(to - key) + STREAM_ID_BYTES};
}

struct bytes given_row_key(struct call *call, struct bytes group, struct bytes consumer,
                           struct stream_id id)
{
    char *to;
    char *key = start_key(call, KIND_GIVEN, group, 4 + consumer.len + STREAM_ID_BYTES, &to);
    put_be32(to, (uint32_t)consumer.len);
    if (consumer.len)
        memcpy(to + 4, consumer.data, consumer.len);
    to += 4 + consumer.len;
    (void)stream_id_encode(to, id);
    return (struct bytes){key, (size_t)(to - key) + STREAM_ID_BYTES};
}

struct bytes time_row_key(struct call *call, struct bytes group, uint64_t delivered_ms,
                          struct stream_id id)
{
    char *to;
    char *key = start_key(call, KIND_TIME, group, 8 + STREAM_ID_BYTES, &to);
    put_be64(to, delivered_ms);
    (void)stream_id_encode(to + 8, id);
    return (struct bytes){key, (size_t)(to - key) + 8 + STREAM_ID_BYTES};
}

/* Consumes a kind, or a text with its length, from the front of *row. */
static bool match_text(struct bytes *row, struct bytes wanted)
{
    if (row->len < 4)
        return false;
    uint32_t len = get_be32(row->data);
    if (len != wanted.len || row->len - 4 < len ||
        (len && memcmp(row->data + 4, wanted.data, len) != 0))
        return false;
    row->data += 4 + len;
    row->len -= 4 + len;
    return true;
}

static bool parse_start(struct bytes *row, char kind, struct bytes group)
{
    if (row->len == 0 || *row->data != kind)
        return false;
    row->data++;
    row->len--;
    return match_text(row, group);
}

/* ---- values ---- */

static bool group_decode(struct bytes value, struct stream_group *group)
{
    if (value.len != GROUP_BYTES && value.len != GROUP_BYTES_TIMES)
        return false;
    (void)stream_id_decode((struct bytes){value.data, STREAM_ID_BYTES}, &group->last);
    const char *rest = value.data + STREAM_ID_BYTES;
    group->entries_read = (int64_t)get_be64(rest);
    group->pending = get_be64(rest + 8);
    group->consumers = get_be64(rest + 16);
    group->has_times = value.len == GROUP_BYTES_TIMES;
    group->oldest_ms = group->has_times ? get_be64(rest + 24) : 0;
    return group->pending <= COLLECTION_SIZE_MAX && group->consumers <= COLLECTION_SIZE_MAX;
}

static bool consumer_decode(struct bytes value, struct stream_consumer *consumer)
{
    if (value.len != CONSUMER_BYTES && value.len != CONSUMER_BYTES_OLD)
        return false;
    consumer->seen_ms = get_be64(value.data);
    consumer->pending = get_be64(value.data + 8);
    consumer->active_ms =
        value.len == CONSUMER_BYTES ? get_be64(value.data + 16) : consumer->seen_ms;
    consumer->exists = true;
    return consumer->pending <= COLLECTION_SIZE_MAX;
}

static bool pending_decode(struct bytes value, struct stream_pending *pending)
{
    if (value.len < PENDING_BYTES)
        return false;
    pending->delivered_ms = get_be64(value.data);
    pending->deliveries = get_be64(value.data + 8);
    pending->consumer = (struct bytes){value.data + PENDING_BYTES, value.len - PENDING_BYTES};
    return true;
}

bool group_row_read(const struct sub_iter *it, struct stream_group *group)
{
    if (it->sub.len == 0 || *it->sub.data != KIND_GROUP)
        return false;
    group->name = (struct bytes){it->sub.data + 1, it->sub.len - 1};
    return group_decode(it->value, group);
}

bool consumer_row_read(const struct sub_iter *it, struct bytes group,
                       struct stream_consumer *consumer)
{
    struct bytes row = it->sub;
    if (!parse_start(&row, KIND_CONSUMER, group))
        return false;
    consumer->name = row;
    return consumer_decode(it->value, consumer);
}

bool pending_row_read(const struct sub_iter *it, struct bytes group, struct stream_id *id,
                      struct stream_pending *pending)
{
    struct bytes row = it->sub;
    return parse_start(&row, KIND_PENDING, group) && stream_id_decode(row, id) &&
           pending_decode(it->value, pending);
}

bool given_row_read(const struct sub_iter *it, struct bytes group, struct bytes consumer,
                    struct stream_id *id)
{
    struct bytes row = it->sub;
    return parse_start(&row, KIND_GIVEN, group) && match_text(&row, consumer) &&
           stream_id_decode(row, id);
}

bool time_row_read(const struct sub_iter *it, struct bytes group, uint64_t *delivered_ms,
                   struct stream_id *id)
{
    struct bytes row = it->sub;
    if (!parse_start(&row, KIND_TIME, group) || row.len != 8 + STREAM_ID_BYTES)
        return false;
    *delivered_ms = get_be64(row.data);
    return stream_id_decode((struct bytes){row.data + 8, STREAM_ID_BYTES}, id);
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
    return checked(call, err, err == OK && group_decode(value, group));
}

int consumer_find(struct call *call, struct entry *entry, struct bytes group, struct bytes name,
                  struct stream_consumer *consumer)
{
    struct bytes value;
    int err = sub_get(call, entry, CF_DATA, consumer_row_key(call, group, name), &value);
    *consumer = (struct stream_consumer){.name = name, .active_ms = NEVER_ACTIVE};
    return checked(call, err, err == OK && consumer_decode(value, consumer));
}

int pending_find(struct call *call, struct entry *entry, struct bytes group, struct stream_id id,
                 struct stream_pending *pending)
{
    struct bytes value;
    int err = sub_get(call, entry, CF_DATA, pending_row_key(call, group, id), &value);
    bool good = err == OK && pending_decode(value, pending);
    if (good)
        pending->consumer = arena_copy(call->arena, pending->consumer);
    return checked(call, err, good);
}

/* ---- writing ---- */

void group_put(struct call *call, struct entry *entry, const struct stream_group *group)
{
    char value[GROUP_BYTES_TIMES];
    (void)stream_id_encode(value, group->last);
    put_be64(value + STREAM_ID_BYTES, (uint64_t)group->entries_read);
    put_be64(value + STREAM_ID_BYTES + 8, group->pending);
    put_be64(value + STREAM_ID_BYTES + 16, group->consumers);
    put_be64(value + GROUP_BYTES, group->oldest_ms);
    sub_put(call, entry, CF_DATA, group_row_key(call, group->name),
            (struct bytes){value, group->has_times ? GROUP_BYTES_TIMES : GROUP_BYTES});
}

void group_delete(struct call *call, struct entry *entry, struct bytes name)
{
    sub_delete(call, entry, CF_DATA, group_row_key(call, name));
}

void consumer_put(struct call *call, struct entry *entry, struct bytes group,
                  const struct stream_consumer *consumer)
{
    char value[CONSUMER_BYTES];
    put_be64(value, consumer->seen_ms);
    put_be64(value + 8, consumer->pending);
    put_be64(value + 16, consumer->active_ms);
    sub_put(call, entry, CF_DATA, consumer_row_key(call, group, consumer->name),
            (struct bytes){value, sizeof value});
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
    size_t len = PENDING_BYTES + pending->consumer.len;
    char *value = arena_alloc(call->arena, len);
    put_be64(value, pending->delivered_ms);
    put_be64(value + 8, pending->deliveries);
    if (pending->consumer.len)
        memcpy(value + PENDING_BYTES, pending->consumer.data, pending->consumer.len);
    sub_put(call, entry, CF_DATA, pending_row_key(call, group, id), (struct bytes){value, len});
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
    char *end;
    char *key = start_key(call, KIND_CONSUMER, group, 0, &end);
    struct bytes prefix = {key, (size_t)(end - key)};
    static const char kinds[] = {KIND_CONSUMER, KIND_GIVEN, KIND_PENDING, KIND_TIME};
    for (size_t i = 0; i < sizeof kinds; i++) {
        key[0] = kinds[i];
        if (!rows_drop(call, entry, prefix))
            return false;
    }
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
