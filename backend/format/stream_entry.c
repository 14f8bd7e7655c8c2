#include "backend/format/stream_entry.h"

#include "backend/format/encoding.h"

struct bytes stream_entry_encode(struct arena *arena, const struct bytes *strings, uint32_t count)
{
    size_t size = 0;
    for (uint32_t i = 0; i < count; i++)
        size += VARINT_BYTES_MAX + strings[i].len;
    char *row = arena_alloc(arena, size);
    char *to = row;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t len = strings[i].len;
        for (; len >= 0x80; len >>= 7)
            *to++ = (char)(uint8_t)(len | 0x80);
        *to++ = (char)(uint8_t)len;
        if (strings[i].len)
            memcpy(to, strings[i].data, strings[i].len);
        to += strings[i].len;
    }
    return (struct bytes){row, (size_t)(to - row)};
}

bool stream_entry_next(struct bytes *row, struct bytes *string)
{
    uint64_t len = 0;
    size_t at = 0;
    uint8_t byte = 0x80;
    for (unsigned shift = 0; byte & 0x80; shift += 7) {
        if (shift > 56 || at == row->len)
            return false;
        byte = (uint8_t)row->data[at++];
        len |= (uint64_t)(byte & 0x7f) << shift;
    }
    if (len > row->len - at)
        return false;
    *string = (struct bytes){row->data + at, len};
    row->data += at + len;
    row->len -= at + len;
    return true;
}

bool stream_entry_count(struct bytes row, uint32_t *count)
{
    struct bytes string;
    for (*count = 0; row.len; ++*count)
        if (!stream_entry_next(&row, &string))
            return false;
    return true;
}

/* ---- keys of groups ---- */

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

/* Begins a key: kind | u32 len | group, with room for `more` bytes. */
static char *start_group_key(struct arena *arena, char kind, struct bytes group, size_t more,
                             char **to)
{
    char *key = arena_alloc(arena, 5 + group.len + more);
    key[0] = kind;
    put_be32(key + 1, (uint32_t)group.len);
    *to = key + 5;
    (void)bytes_copy_to(to, group);
    return key;
}

struct bytes encode_group_row(struct arena *arena, struct bytes group)
{
    char *key = arena_alloc(arena, 1 + group.len);
    char *to = key + 1;
    key[0] = KIND_GROUP;
    (void)bytes_copy_to(&to, group);
    return (struct bytes){key, 1 + group.len};
}

struct bytes encode_consumer_row(struct arena *arena, struct bytes group, struct bytes name)
{
    char *to;
    char *key = start_group_key(arena, KIND_CONSUMER, group, name.len, &to);
    (void)bytes_copy_to(&to, name);
    return (struct bytes){key, (size_t)(to - key)};
}

struct bytes encode_pending_row(struct arena *arena, struct bytes group, struct stream_id id)
{
    char *to;
    char *key = start_group_key(arena, KIND_PENDING, group, STREAM_ID_BYTES, &to);
    (void)stream_id_encode(to, id);
    return (struct bytes){key, (size_t)(to - key) + STREAM_ID_BYTES};
}

struct bytes encode_given_row(struct arena *arena, struct bytes group, struct bytes consumer,
                              struct stream_id id)
{
    char *to;
    char *key = start_group_key(arena, KIND_GIVEN, group, 4 + consumer.len + STREAM_ID_BYTES, &to);
    put_be32(to, (uint32_t)consumer.len);
    to += 4;
    (void)bytes_copy_to(&to, consumer);
    (void)stream_id_encode(to, id);
    return (struct bytes){key, (size_t)(to - key) + STREAM_ID_BYTES};
}

struct bytes encode_time_row(struct arena *arena, struct bytes group, uint64_t delivered_ms,
                             struct stream_id id)
{
    char *to;
    char *key = start_group_key(arena, KIND_TIME, group, 8 + STREAM_ID_BYTES, &to);
    put_be64(to, delivered_ms);
    (void)stream_id_encode(to + 8, id);
    return (struct bytes){key, (size_t)(to - key) + 8 + STREAM_ID_BYTES};
}

struct bytes encode_group_rows(struct arena *arena, unsigned kind, struct bytes group)
{
    static const char kinds[STREAM_GROUP_KINDS] = {KIND_CONSUMER, KIND_GIVEN, KIND_PENDING,
                                                   KIND_TIME};
    char *to;
    char *key = start_group_key(arena, kinds[kind], group, 0, &to);
    return (struct bytes){key, (size_t)(to - key)};
}

/* Consumes a text with its length from the front of *row. */
static bool match_group_text(struct bytes *row, struct bytes wanted)
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

static bool parse_group_key(struct bytes *row, char kind, struct bytes group)
{
    if (row->len == 0 || *row->data != kind)
        return false;
    row->data++;
    row->len--;
    return match_group_text(row, group);
}

/* ---- values of groups ---- */

struct bytes encode_group(struct arena *arena, const struct stream_group *group)
{
    char *value = arena_alloc(arena, GROUP_BYTES_TIMES);
    (void)stream_id_encode(value, group->last);
    put_be64(value + STREAM_ID_BYTES, (uint64_t)group->entries_read);
    put_be64(value + STREAM_ID_BYTES + 8, group->pending);
    put_be64(value + STREAM_ID_BYTES + 16, group->consumers);
    put_be64(value + GROUP_BYTES, group->oldest_ms);
    return (struct bytes){value, group->has_times ? GROUP_BYTES_TIMES : GROUP_BYTES};
}

struct bytes encode_consumer(struct arena *arena, const struct stream_consumer *consumer)
{
    char *value = arena_alloc(arena, CONSUMER_BYTES);
    put_be64(value, consumer->seen_ms);
    put_be64(value + 8, consumer->pending);
    put_be64(value + 16, consumer->active_ms);
    return (struct bytes){value, CONSUMER_BYTES};
}

struct bytes encode_pending(struct arena *arena, const struct stream_pending *pending)
{
    size_t len = PENDING_BYTES + pending->consumer.len;
    char *value = arena_alloc(arena, len);
    char *to = value + PENDING_BYTES;
    put_be64(value, pending->delivered_ms);
    put_be64(value + 8, pending->deliveries);
    (void)bytes_copy_to(&to, pending->consumer);
    return (struct bytes){value, len};
}

bool decode_group(struct bytes value, struct stream_group *group)
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

bool decode_consumer(struct bytes value, struct stream_consumer *consumer)
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

bool decode_pending(struct bytes value, struct stream_pending *pending)
{
    if (value.len < PENDING_BYTES)
        return false;
    pending->delivered_ms = get_be64(value.data);
    pending->deliveries = get_be64(value.data + 8);
    pending->consumer = (struct bytes){value.data + PENDING_BYTES, value.len - PENDING_BYTES};
    return true;
}

/* ---- rows of groups ---- */

bool decode_group_row(struct bytes sub, struct bytes value, struct stream_group *group)
{
    if (sub.len == 0 || *sub.data != KIND_GROUP)
        return false;
    group->name = (struct bytes){sub.data + 1, sub.len - 1};
    return decode_group(value, group);
}

bool decode_consumer_row(struct bytes sub, struct bytes value, struct bytes group,
                         struct stream_consumer *consumer)
{
    if (!parse_group_key(&sub, KIND_CONSUMER, group))
        return false;
    consumer->name = sub;
    return decode_consumer(value, consumer);
}

bool decode_pending_row(struct bytes sub, struct bytes value, struct bytes group,
                        struct stream_id *id, struct stream_pending *pending)
{
    return parse_group_key(&sub, KIND_PENDING, group) && stream_id_decode(sub, id) &&
           decode_pending(value, pending);
}

bool decode_given_row(struct bytes sub, struct bytes group, struct bytes consumer,
                      struct stream_id *id)
{
    return parse_group_key(&sub, KIND_GIVEN, group) && match_group_text(&sub, consumer) &&
           stream_id_decode(sub, id);
}

bool decode_time_row(struct bytes sub, struct bytes group, uint64_t *delivered_ms,
                     struct stream_id *id)
{
    if (!parse_group_key(&sub, KIND_TIME, group) || sub.len != 8 + STREAM_ID_BYTES)
        return false;
    *delivered_ms = get_be64(sub.data);
    return stream_id_decode((struct bytes){sub.data + 8, STREAM_ID_BYTES}, id);
}
