/*
 * participant_rows.c - reads the rows that a LOCK request asks for, and writes the reply.
 */
#include "backend/transaction/participant_inner.h"

#include "backend/context/partition.h"
#include "backend/format/effects.h"
#include "backend/keyspace/borrow_all.h"
#include "backend/keyspace/space.h"
#include "backend/peer/message.h"
#include "backend/session/internal_call.h"
#include "backend/storage/retry.h"
#include "shared/byte_order.h"

#include <stdlib.h>

enum {
    WHOLE_BYTES = 64 * 1024,   /* a collection of up to so many bytes is sent whole … */
    BARE_SIZE = 8,             /* … or so many elements, if only some members are needed; else */
    BARE_RANK_BYTES = 4096,    /* only its rank tree, up to so many bytes, is */
    REPLY_BYTES = 1024 * 1024, /* rows of a reply, apart from its last row */
    REFUSAL_BYTES = 512,       /* a longer error of a call is not passed on */
};

struct lock_item lock_item_next(struct message_reader *reader)
{
    struct lock_item item = {.kind = (enum need_kind)message_u8(reader)};
    item.mode = (enum lock_mode)message_u8(reader);
    item.cf = (enum cf)message_u8(reader);
    item.db = message_u8(reader);
    item.namespace_name = message_bytes(reader);
    item.row_key = message_bytes(reader);
    item.row = message_bytes(reader);
    return item;
}

/* What is sent in reply to a LOCK request. */
struct sent {
    struct part *part;
    struct call *call;
    struct partition *partition;
    struct effects *rows;
    struct out items;
    /* the first items of the request; the coordinator asks again for the others */
    uint32_t answered;
    bool has_failed;  /* a row could not be read, or the part waits for it */
    bool is_too_long; /* a row has more bytes than the coordinator may borrow */
};

static size_t sent_bytes(const struct sent *sent)
{
    return effects_bytes(sent->rows).len;
}

static bool is_reply_full(const struct sent *sent)
{
    return sent->is_too_long || sent_bytes(sent) + sent->items.bytes >= REPLY_BYTES;
}

/* Sends the row, if the coordinator may borrow so many bytes. */
static void put_row(struct sent *sent, enum cf cf, struct bytes row, struct bytes value)
{
    if (value.len > sent->part->room)
        sent->is_too_long = true;
    else
        effects_put(sent->rows, cf, row, value);
}

/* Sends the rows from `from` on that begin with the prefix, up to `limit` bytes. True: all of them; else *next, in the
 * arena, is the first row that was not sent. */
static bool send_rows(struct sent *sent, enum cf cf, struct bytes prefix, struct bytes from,
                      size_t limit, struct bytes *next)
{
    struct partition *partition = sent->partition;
    struct arena *arena = &partition->running.arena;
    struct overlay_iter *iter =
        overlay_iter_new(partition->overlay, cf, prefix, encode_prefix_end(arena, prefix));
    size_t begun = sent_bytes(sent);
    *next = (struct bytes){"", 0};
    for (overlay_iter_seek(iter, from); overlay_iter_valid(iter); overlay_iter_next(iter)) {
        if (sent_bytes(sent) - begun > limit) {
            *next = arena_copy(arena, overlay_iter_key(iter));
            break;
        }
        put_row(sent, cf, overlay_iter_key(iter), overlay_iter_value(iter));
    }
    sent->has_failed |= overlay_iter_error(iter) != OK;
    overlay_iter_free(iter);
    return next->len == 0;
}

static void send_row(struct sent *sent, enum cf cf, struct bytes row, struct bytes *value)
{
    struct slice slice;
    int err = overlay_get(sent->partition->overlay, cf, row, &slice);
    if (err == ERR_NOT_FOUND)
        effects_delete(sent->rows, cf, row);
    if (value)
        *value = (struct bytes){0};
    sent->has_failed |= is_read_failure(err);
    if (err != OK)
        return;
    put_row(sent, cf, row, slice_bytes(&slice));
    if (value && !sent->is_too_long)
        *value = arena_copy(&sent->partition->running.arena, slice_bytes(&slice));
    slice_release(&slice);
}

/* Up to how many bytes of rows in this column family are sent with the collection. */
static size_t whole_limit(const struct metadata *meta, enum cf cf, bool is_bare)
{
    if (meta->size > WHOLE_BYTES)
        return 0;
    if (!is_bare || meta->size <= BARE_SIZE)
        return WHOLE_BYTES;
    return cf == CF_RANK ? BARE_RANK_BYTES : 0;
}

/* Sends a metadata row, and all rows of the collection if they are few, or those of its rank tree. Returns the column
 * families of which all rows were sent. */
static unsigned send_key(struct sent *sent, struct bytes row_key, bool is_bare)
{
    static const enum cf families[] = {CF_DATA, CF_ZSET_SCORE, CF_STREAM, CF_RANK};
    struct metadata meta;
    struct bytes space;
    struct bytes key;
    struct bytes value;
    struct bytes next;
    uint16_t slot;
    unsigned whole = 0;
    send_row(sent, CF_METADATA, row_key, &value);
    bool is_collection = value.data && decode_metadata(value, &meta) && !type_is_inline(meta.type);
    CHECK(decode_metadata_key(row_key, &space, &slot, &key));
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        bool is_whole = !is_collection;
        size_t limit = is_collection ? whole_limit(&meta, families[i], is_bare) : 0;
        if (limit) {
            struct bytes prefix = encode_collection_prefix(&sent->partition->running.arena, space,
                                                           slot, key, meta.version);
            is_whole = send_rows(sent, families[i], prefix, prefix, limit, &next);
        }
        whole |= is_whole ? 1u << families[i] : 0;
    }
    return whole;
}

/* Sends the row of a member or field, if the key is a collection. */
static void send_member(struct sent *sent, const struct lock_item *item)
{
    struct arena *arena = &sent->partition->running.arena;
    struct slice slice;
    struct metadata meta;
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    int err = overlay_get(sent->partition->overlay, CF_METADATA, item->row_key, &slice);
    sent->has_failed |= is_read_failure(err);
    if (err != OK)
        return;
    bool is_collection = decode_metadata(slice_bytes(&slice), &meta) && !type_is_inline(meta.type);
    slice_release(&slice);
    if (!is_collection)
        return;
    CHECK(decode_metadata_key(item->row_key, &space, &slot, &key));
    struct bytes prefix = encode_collection_prefix(arena, space, slot, key, meta.version);
    send_row(sent, CF_DATA, encode_sub_key(arena, prefix, item->row), NULL);
}

/* Registers a watched key, after it was opened, so that a key that has expired before does not count as changed. */
static void send_watch(struct sent *sent, const struct lock_item *item)
{
    struct bytes space;
    struct bytes key;
    struct entry entry;
    uint16_t slot;
    struct partition *partition = sent->partition;
    CHECK(decode_metadata_key(item->row_key, &space, &slot, &key));
    struct space *in = space_find(partition->spaces, space);
    if (!keyspace_await_writer(sent->call, item->row_key) ||
        !keyspace_open_row(sent->call, in, slot, key, &entry)) {
        sent->has_failed = true;
        return;
    }
    struct remote_watcher *remote = participant_watcher(
        sent->part->participant, sent->part->incoming, get_le64(item->row.data));
    participant_watch(sent->part->participant, remote, item->row_key);
    lock_reserve(partition->shards.locks, &remote->watcher.reserver, item->row_key);
}

/* A key that is not watched here was watched at another shard before its slot moved: it may have changed there. */
static unsigned send_check(struct sent *sent, const struct lock_item *item)
{
    const struct part *part = sent->part;
    const struct remote_watcher *remote =
        participant_find_watcher(part->participant, part->incoming, get_le64(item->row.data));
    return remote_watcher_is_dirty(sent->partition, remote) ||
           !remote_watcher_has(remote, item->row_key);
}

static void send_answer(struct sent *sent, const struct lock_item *item)
{
    struct out answer;
    out_init(&answer);
    struct space *space = space_open(sent->partition->spaces, item->namespace_name, item->db);
    if (!borrow_answer_all(sent->call, space, item->kind, item->row, &answer))
        sent->has_failed = true;
    message_put_u8(&sent->items, 0);
    message_put_u32(&sent->items, (uint32_t)answer.bytes);
    out_move(&sent->items, &answer);
}

static void send_item(struct sent *sent, const struct lock_item *item)
{
    struct bytes next = {"", 0};
    struct bytes prefix;
    unsigned whole = 0;
    if (lock_item_is_question(item)) {
        send_answer(sent, item);
        return;
    }
    if (item->kind == NEED_KEY || item->kind == NEED_BARE)
        whole = send_key(sent, item->row_key, item->kind == NEED_BARE);
    else if (item->kind == NEED_MEMBER)
        send_member(sent, item);
    else if (item->kind == NEED_WATCH)
        send_watch(sent, item);
    else if (item->kind == NEED_CHECK)
        whole = send_check(sent, item);
    else if (item->kind == NEED_ROW)
        send_row(sent, item->cf, item->row, NULL);
    else if (item->kind == NEED_RANGE && decode_collection_prefix(item->row, &prefix))
        (void)send_rows(sent, item->cf, prefix, item->row, REPLY_BYTES, &next);
    message_put_u8(&sent->items, (uint8_t)whole);
    message_put_bytes(&sent->items, next);
}

static void finish_rows(struct part *part, struct sent *sent)
{
    struct partition *partition = sent->partition;
    part->is_too_long = sent->is_too_long;
    if (sent->is_too_long) {
        ticket_wait_begin(partition, &part->ticket);
        return;
    }
    message_put_u64(&part->reply, partition->batch.version);
    message_put_u32(&part->reply, sent->answered);
    out_move(&part->reply, &sent->items);
    message_put_bytes(&part->reply, effects_bytes(sent->rows));
    ticket_wait_begin(partition, &part->ticket);
}

/* The text with which LOCK is refused when not all rows can be sent. If the call has replied an error, for example that a transaction has
 * locked a key, it is this error, copied to `text`; if not, RocksDB could not read a row. */
static const char *failure_text(const struct call *call, char *text, size_t size)
{
    const struct out *reply = call->reply.out;
    if (!call->failed || reply->bytes < sizeof "-\r\n" || reply->bytes > size)
        return error_text(ERR_STORE);
    out_copy(reply, text);
    text[reply->bytes - strlen("\r\n")] = '\0';
    return text + strlen("-");
}

/* Reads the rows that LOCK asks for. When one is uncached, all are read again as soon as it is in memory. */
void part_read_rows(struct part *part)
{
    struct partition *partition = part->participant->partition;
    struct message_reader reader = message_read(part->request);
    char text[REFUSAL_BYTES];
    struct call call;
    struct sent sent = {.part = part, .call = &call, .partition = partition, .rows = effects_new()};
    out_init(&sent.items);
    internal_call_begin(partition, &call);
    overlay_observe_begin(partition->overlay);
    bool may_wait = partition->reader && part->tries++ < ROW_TRIES_MAX;
    overlay_nonblocking_begin(partition->overlay, may_wait ? &part->rows : NULL);
    uint32_t count = message_u32(&reader);
    while (sent.answered < count && !is_reply_full(&sent)) {
        struct lock_item item = lock_item_next(&reader);
        send_item(&sent, &item);
        sent.answered++;
    }
    overlay_nonblocking_begin(partition->overlay, NULL);
    part->rows.ranges += part->rows.has_range;
    part->rows.has_range = false;
    const char *refused = part->rows.refusal;
    if (!refused && !part->rows.pending && sent.has_failed)
        refused = failure_text(&call, text, sizeof text);
    if (!refused && !part->rows.pending)
        finish_rows(part, &sent);
    call.failed = false;
    internal_call_end(partition, &call);
    out_clear(&sent.items);
    effects_free(sent.rows);
    if (refused)
        part_end(part, REFUSAL(OTHER, refused));
}
