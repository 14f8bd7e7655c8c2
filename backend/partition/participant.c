#include "backend/partition/participant.h"

#include "backend/context/change.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/format/effects.h"
#include "backend/keyspace/apply_effects.h"
#include "backend/keyspace/borrow_all.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/partition/blocking.h"
#include "backend/partition/forced.h"
#include "backend/partition/internal_call.h"
#include "backend/partition/limits.h"
#include "backend/partition/ticket_wait.h"
#include "backend/peer/message.h"
#include "backend/peer/peer_set.h"
#include "backend/storage/reader.h"
#include "shared/byte_order.h"
#include "shared/log.h"
#include "shared/table.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    WHOLE_BYTES = 64 * 1024,   /* a collection of up to so many bytes is sent whole … */
    BARE_SIZE = 8,             /* … or so many elements, if only some members are needed; else */
    BARE_RANK_BYTES = 4096,    /* only its rank tree, up to so many bytes, is */
    REPLY_BYTES = 1024 * 1024, /* rows of a reply, apart from its last row */
    ROW_TRIES_MAX = 16,        /* then reads block on the disk */
    REFUSAL_BYTES = 512,       /* a longer error of a call is not passed on */
    ASK_AFTER_MS = 2000,
};

enum part_state {
    PART_LOCKING, /* LOCK is being executed */
    PART_LOCKED,
    PART_PREPARING, /* the record is in a batch that is not durable yet */
    PART_PREPARED,
    PART_APPLYING, /* the effects are in a batch that is not durable yet */
};

/* A transaction at this partition. */
struct part {
    struct lock_owner owner;
    struct participant *participant;
    struct transaction_id id;
    enum part_state state;
    struct peer_incoming *incoming; /* of the coordinator; NULL: it has ended */
    struct peer_call call;          /* the request that is being executed */
    bool has_call;
    struct bytes request; /* of LOCK; heap */
    struct reader_wait rows;
    uint32_t tries;
    struct out reply;
    struct ticket_wait ticket;
    struct bytes effects; /* prepared; heap */
    struct bytes changes; /* to be reported when the effects are applied; heap */
    uint32_t changes_count;
    struct peer_request question;
    uint8_t asked;     /* enum peer_kind of the question: OUTCOME, OPEN or WOUND; 0: none */
    bool is_wounded;   /* WOUND must be sent to the coordinator, or has no answer yet */
    uint64_t heard_ms; /* monotonic: last request of the coordinator */
};

/* The watched keys of a session at another partition. */
struct remote_watcher {
    struct list link;
    struct peer_incoming *incoming;
    uint64_t name; /* chosen by the other partition */
    struct watcher watcher;
    struct bytes *row_keys; /* heap, and so is each */
    uint32_t count;
};

struct participant {
    struct partition *partition;
    struct table *parts;  /* by id */
    struct list watchers; /* struct remote_watcher */
    struct forced_set *forced;
};

static const char SWAP_RUNS[] = "SWAPDB has not reached all shards: run it again";

static void on_part_rows(struct reader_wait *wait);
static void on_part_durable(struct ticket_wait *wait, int err);
static void on_part_wounded(struct lock_owner *owner);
static void on_part_granted(struct lock_owner *owner);
static void on_abandoned(struct peer_call *call);

/* ---- life ---- */

static struct bytes id_bytes(const struct transaction_id *id, char to[TRANSACTION_ID_BYTES_MAX])
{
    return (struct bytes){to, transaction_id_write(id, to)};
}

static struct part *part_find(const struct participant *participant,
                              const struct transaction_id *id)
{
    char text[TRANSACTION_ID_BYTES_MAX];
    return table_get(participant->parts, id_bytes(id, text));
}

static struct part *part_new(struct participant *participant, const struct transaction_id *id,
                             struct peer_incoming *incoming)
{
    char text[TRANSACTION_ID_BYTES_MAX];
    struct part *part = calloc(1, sizeof *part);
    CHECK(part);
    part->participant = participant;
    part->id = *id;
    part->incoming = incoming;
    part->heard_ms = loop_mono_ms(participant->partition->loop);
    lock_owner_init(&part->owner);
    part->owner.on_wounded = on_part_wounded;
    part->owner.on_granted = on_part_granted;
    part->call.on_abandoned = on_abandoned;
    reader_wait_init(&part->rows, on_part_rows);
    ticket_wait_init(&part->ticket, on_part_durable);
    out_init(&part->reply);
    (void)table_put(participant->parts, id_bytes(id, text), part);
    return part;
}

static struct bytes heap_copy(struct bytes bytes)
{
    char *copy = malloc(bytes.len + 1);
    CHECK(copy);
    memcpy(copy, bytes.data, bytes.len);
    return (struct bytes){copy, bytes.len};
}

static void heap_free(struct bytes *bytes)
{
    free((char *)bytes->data);
    *bytes = (struct bytes){0};
}

static void reply(struct part *part, uint8_t kind, struct bytes payload)
{
    if (part->has_call)
        peer_call_reply(&part->call, kind, payload);
    part->has_call = false;
}

static void cancel_question(struct part *part)
{
    struct peer_link *link = part->asked ? peer_set_find(part->participant->partition->shards.peers,
                                                         bytes_of(part->id.shard))
                                         : NULL;
    if (link)
        peer_link_cancel(link, &part->question);
    part->asked = 0;
}

/* Releases the locks and frees the transaction. An open request is refused with the reason. */
static void part_end(struct part *part, const char *reason)
{
    struct participant *participant = part->participant;
    char text[TRANSACTION_ID_BYTES_MAX];
    reply(part, PEER_FAILED, bytes_of(reason));
    (void)table_remove(participant->parts, id_bytes(&part->id, text));
    lock_release(participant->partition->shards.locks, &part->owner);
    cancel_question(part);
    reader_wait_cancel(&part->rows);
    ticket_wait_cancel(&part->ticket);
    out_clear(&part->reply);
    heap_free(&part->request);
    heap_free(&part->effects);
    heap_free(&part->changes);
    free(part);
}

/* A new array with all transactions; *count is its length. */
static struct part **all_parts(const struct participant *participant, size_t *count)
{
    struct part **parts = malloc((table_count(participant->parts) + 1) * sizeof *parts);
    CHECK(parts);
    size_t cursor = 0;
    struct bytes key;
    void *value;
    *count = 0;
    while (table_next(participant->parts, &cursor, &key, &value))
        parts[(*count)++] = value;
    return parts;
}

static void end_all(struct participant *participant, const char *reason)
{
    size_t count;
    struct part **parts = all_parts(participant, &count);
    for (size_t i = 0; i < count; i++)
        part_end(parts[i], reason);
    free(parts);
}

struct participant *participant_new(struct partition *partition)
{
    struct participant *participant = calloc(1, sizeof *participant);
    CHECK(participant);
    participant->partition = partition;
    participant->parts = table_new();
    participant->forced = forced_set_new(partition);
    list_init(&participant->watchers);
    return participant;
}

void participant_free(struct participant *participant)
{
    if (!participant)
        return;
    end_all(participant, "the partition stops");
    CHECK(list_empty(&participant->watchers)); /* they end with their connections */
    table_free(participant->parts);
    forced_set_free(participant->forced);
    free(participant);
}

/* ---- watchers ---- */

static struct remote_watcher *find_watcher(const struct participant *participant,
                                           const struct peer_incoming *incoming, uint64_t name)
{
    const struct list *all = &participant->watchers;
    for (struct list *at = all->next; at != all; at = at->next) {
        struct remote_watcher *remote = container_of(at, struct remote_watcher, link);
        if (remote->incoming == incoming && remote->name == name)
            return remote;
    }
    return NULL;
}

static void free_watcher(struct participant *participant, struct remote_watcher *remote)
{
    watch_clear(participant->partition->watchers.watches, &remote->watcher);
    lock_unreserve(participant->partition->shards.locks, &remote->watcher.reserver);
    for (uint32_t i = 0; i < remote->count; i++)
        free((char *)remote->row_keys[i].data);
    free(remote->row_keys);
    list_remove(&remote->link);
    free(remote);
}

static struct remote_watcher *watcher_of(struct participant *participant,
                                         struct peer_incoming *incoming, uint64_t name)
{
    struct remote_watcher *remote = find_watcher(participant, incoming, name);
    if (remote)
        return remote;
    remote = calloc(1, sizeof *remote);
    CHECK(remote);
    remote->incoming = incoming;
    remote->name = name;
    watcher_init(&remote->watcher);
    list_push(&participant->watchers, &remote->link);
    return remote;
}

static bool watches_key(const struct remote_watcher *remote, struct bytes row_key)
{
    for (uint32_t i = 0; i < remote->count; i++)
        if (bytes_equal(remote->row_keys[i], row_key))
            return true;
    return false;
}

/* Watches a key; nothing happens if the watcher has it. */
static void watch_key_of(struct participant *participant, struct remote_watcher *remote,
                         struct bytes row_key)
{
    struct partition *partition = participant->partition;
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    if (watches_key(remote, row_key))
        return;
    CHECK(decode_metadata_key(row_key, &space, &slot, &key));
    watch_add(partition->watchers.watches, &remote->watcher, space_find(partition->spaces, space),
              slot, key);
    remote->row_keys = realloc(remote->row_keys, (remote->count + 1) * sizeof *remote->row_keys);
    CHECK(remote->row_keys);
    remote->row_keys[remote->count++] = heap_copy(row_key);
}

static void drop_watchers(struct participant *participant, const struct peer_incoming *incoming)
{
    struct list *next;
    for (struct list *at = participant->watchers.next; at != &participant->watchers; at = next) {
        struct remote_watcher *remote = container_of(at, struct remote_watcher, link);
        next = at->next;
        if (remote->incoming == incoming)
            free_watcher(participant, remote);
    }
}

/* Has the key, or perhaps a field, expired without being deleted so far? An unreadable row counts as expired. */
static bool has_expired(struct partition *partition, struct bytes row_key)
{
    struct slice slice;
    struct metadata meta;
    int err = overlay_get(partition->overlay, CF_METADATA, row_key, &slice);
    if (err != OK)
        return is_read_failure(err);
    bool is_over =
        !decode_metadata(slice_bytes(&slice), &meta) ||
        (metadata_due_ms(&meta) && metadata_due_ms(&meta) < loop_wall_ms(partition->loop));
    slice_release(&slice);
    return is_over;
}

/* Has a key of the watcher changed since it is watched? An unknown watcher has lost its watches with a connection. */
static bool is_watcher_dirty(struct partition *partition, const struct remote_watcher *remote)
{
    bool is_dirty = !remote || remote->watcher.dirty;
    for (uint32_t i = 0; remote && i < remote->count; i++)
        is_dirty |= has_expired(partition, remote->row_keys[i]);
    return is_dirty;
}

/* ---- LOCK: reading ---- */

/* An item of a LOCK request. */
struct item {
    enum need_kind kind;
    enum lock_mode mode;
    enum cf cf;
    uint8_t db;
    struct bytes namespace_name;
    struct bytes row_key;
    struct bytes row;
};

static struct item next_item(struct message_reader *reader)
{
    struct item item = {.kind = (enum need_kind)message_u8(reader)};
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
    bool has_failed; /* a row could not be read, or is uncached and will be fetched */
};

static size_t sent_bytes(const struct sent *sent)
{
    return effects_bytes(sent->rows).len;
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
        effects_put(sent->rows, cf, overlay_iter_key(iter), overlay_iter_value(iter));
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
    effects_put(sent->rows, cf, row, slice_bytes(&slice));
    if (value)
        *value = arena_copy(&sent->partition->running.arena, slice_bytes(&slice));
    slice_release(&slice);
}

/* Up to how many bytes of rows in this column family are sent with the collection. */
static size_t whole_limit(const struct sent *sent, const struct metadata *meta, enum cf cf,
                          bool is_bare)
{
    if (sent_bytes(sent) >= REPLY_BYTES || meta->size > WHOLE_BYTES)
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
        size_t limit = is_collection ? whole_limit(sent, &meta, families[i], is_bare) : 0;
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
static void send_member(struct sent *sent, const struct item *item)
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
static void send_watch(struct sent *sent, const struct item *item)
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
    struct remote_watcher *remote =
        watcher_of(sent->part->participant, sent->part->incoming, get_le64(item->row.data));
    watch_key_of(sent->part->participant, remote, item->row_key);
    lock_reserve(partition->shards.locks, &remote->watcher.reserver, item->row_key);
}

/* A key that is not watched here was watched at another shard before its slot moved: it may have changed there. */
static unsigned send_check(struct sent *sent, const struct item *item)
{
    const struct part *part = sent->part;
    const struct remote_watcher *remote =
        find_watcher(part->participant, part->incoming, get_le64(item->row.data));
    return is_watcher_dirty(sent->partition, remote) || !watches_key(remote, item->row_key);
}

/* Is the item a question about all keys of a database? */
static bool is_about_all(const struct item *item)
{
    return item->kind >= NEED_ALL;
}

static void send_answer(struct sent *sent, const struct item *item)
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

static void send_item(struct sent *sent, const struct item *item)
{
    struct bytes next = {"", 0};
    struct bytes prefix;
    unsigned whole = 0;
    if (is_about_all(item)) {
        send_answer(sent, item);
        return;
    }
    if (need_locks(item->kind))
        whole = send_key(sent, item->row_key, item->kind == NEED_BARE);
    else if (item->kind == NEED_MEMBER)
        send_member(sent, item);
    else if (item->kind == NEED_WATCH)
        send_watch(sent, item);
    else if (item->kind == NEED_CHECK)
        whole = send_check(sent, item);
    else if (item->kind == NEED_ROW)
        send_row(sent, item->cf, item->row, NULL);
    else if (decode_collection_prefix(item->row, &prefix))
        (void)send_rows(sent, item->cf, prefix, item->row, REPLY_BYTES, &next);
    message_put_u8(&sent->items, (uint8_t)whole);
    message_put_bytes(&sent->items, next);
}

static void finish_rows(struct part *part, struct sent *sent)
{
    struct partition *partition = sent->partition;
    message_put_u64(&part->reply, partition->batch.version);
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
static void read_rows(struct part *part)
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
    for (uint32_t i = 0; i < count; i++) {
        struct item item = next_item(&reader);
        send_item(&sent, &item);
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
        part_end(part, refused);
}

static void on_part_rows(struct reader_wait *wait)
{
    struct part *part = container_of(wait, struct part, rows);
    if (part->participant->partition->running.busy_error) {
        part_end(part, part->participant->partition->running.busy_error);
        return;
    }
    part->tries = wait->has_failed ? ROW_TRIES_MAX : part->tries;
    wait->has_failed = false;
    read_rows(part);
}

static void on_part_granted(struct lock_owner *owner)
{
    struct part *part = container_of(owner, struct part, owner);
    if (part->state == PART_LOCKING)
        read_rows(part);
}

/* ---- LOCK: locking ---- */

/* refuse_item for a question about all keys of a database */
static const char *refuse_question(struct partition *partition, const struct item *item)
{
    const struct space *space = space_open(partition->spaces, item->namespace_name, item->db);
    struct bytes prefix = encode_space_prefix(&partition->running.arena, space->name);
    if (item->mode < LOCK_READ)
        return "the request is not valid";
    if (!bytes_equal(item->row_key, prefix))
        return SWAP_RUNS;
    return borrow_refuse_all(partition, item->kind, item->row);
}

/* NULL: the item is valid; else the reason of the refusal. */
static const char *refuse_item(struct partition *partition, const struct item *item)
{
    struct bytes space, other, key, other_key, prefix;
    uint16_t slot, other_slot;
    uint64_t version;
    struct bytes sub;
    if (item->kind < NEED_KEY || item->kind > NEED_PLACE || item->mode > LOCK_WRITE ||
        item->cf >= CF_COUNT || item->db >= DATABASES_MAX ||
        item->namespace_name.len > NAMESPACE_BYTES_MAX)
        return "the request is not valid";
    if (is_about_all(item))
        return refuse_question(partition, item);
    if (!decode_metadata_key(item->row_key, &space, &slot, &key))
        return "the request is not valid";
    if (partition->shards.is_gated && !slot_set_has(partition->shards.here, slot))
        return SLOT_IS_ELSEWHERE;
    if (slot_is_frozen(partition, slot))
        return SLOT_IS_LEAVING;
    if (!bytes_equal(space_open(partition->spaces, item->namespace_name, item->db)->name, space))
        return SWAP_RUNS;
    bool is_watch = item->kind == NEED_WATCH || item->kind == NEED_CHECK;
    if (need_locks(item->kind) || item->kind == NEED_MEMBER || (is_watch && item->row.len == 8))
        return NULL;
    bool is_row =
        item->kind == NEED_RANGE && decode_collection_prefix(item->row, &prefix)
            ? decode_collection_key(item->row, &other, &other_slot, &other_key, &version, &sub)
            : item->kind == NEED_ROW &&
                  decode_collection_key(item->row, &other, &other_slot, &other_key, &version, &sub);
    return is_row && other_slot == slot && bytes_equal(other, space) && bytes_equal(other_key, key)
               ? NULL
               : "the request is not valid";
}

/* Locks the watched keys. NULL: done; else the reason of the refusal. */
static const char *lock_watched(struct part *part, const struct remote_watcher *remote)
{
    struct partition *partition = part->participant->partition;
    for (uint32_t i = 0; remote && i < remote->count; i++) {
        struct bytes space;
        struct bytes key;
        uint16_t slot;
        CHECK(decode_metadata_key(remote->row_keys[i], &space, &slot, &key));
        if (slot_is_frozen(partition, slot))
            return SLOT_IS_LEAVING;
        (void)lock_take(partition->shards.locks, &part->owner, remote->row_keys[i], LOCK_READ);
    }
    return NULL;
}

/* The request of an EXEC whose session watches keys here names its watcher, which may have reserved them. */
static void find_reserver(struct part *part)
{
    struct message_reader reader = message_read(part->request);
    uint32_t count = message_u32(&reader);
    for (uint32_t i = 0; i < count && reader.is_good; i++) {
        struct item item = next_item(&reader);
        const struct remote_watcher *remote =
            reader.is_good && item.kind == NEED_CHECK && item.row.len == 8
                ? find_watcher(part->participant, part->incoming, get_le64(item.row.data))
                : NULL;
        if (remote)
            part->owner.reserver = &remote->watcher.reserver;
    }
}

/* Checks the items of the request and takes their locks. */
static const char *lock_items(struct part *part)
{
    struct partition *partition = part->participant->partition;
    struct message_reader reader = message_read(part->request);
    uint32_t count = message_u32(&reader);
    if (!list_empty(&part->participant->watchers))
        find_reserver(part);
    for (uint32_t i = 0; i < count && reader.is_good; i++) {
        struct item item = next_item(&reader);
        const char *refused = reader.is_good ? refuse_item(partition, &item) : NULL;
        if (refused)
            return refused;
        if (reader.is_good && (need_locks(item.kind) || is_about_all(&item)))
            (void)lock_take(partition->shards.locks, &part->owner, item.row_key, item.mode);
        if (reader.is_good && item.kind == NEED_CHECK)
            refused = lock_watched(
                part, find_watcher(part->participant, part->incoming, get_le64(item.row.data)));
        if (refused)
            return refused;
    }
    return message_is_read(&reader) ? NULL : "the request is not valid";
}

static void open_call(struct part *part, struct peer_incoming *incoming,
                      const struct peer_frame *frame)
{
    part->heard_ms = loop_mono_ms(part->participant->partition->loop);
    part->has_call = true;
    part->call.on_abandoned = on_abandoned;
    peer_call_open(&part->call, incoming, frame->id, frame->payload.len);
}

static void on_abandoned(struct peer_call *call)
{
    container_of(call, struct part, call)->has_call = false;
}

static void refuse(struct peer_incoming *incoming, const struct peer_frame *frame,
                   const char *reason)
{
    peer_incoming_reply(incoming, PEER_FAILED, frame->id, bytes_of(reason));
}

/* Reads the id at the front of a request of this coordinator. */
static bool read_id(struct message_reader *reader, const struct peer_incoming *incoming,
                    struct transaction_id *id)
{
    return transaction_id_read(message_bytes(reader), id) &&
           strcmp(id->shard, incoming->peer.shard) == 0;
}

/* Does a partition of this process coordinate the transaction? It cannot wait until this one has restarted: if it stops too, this one
 * serves it until it has no transactions any more (stopping.h). */
static bool is_of_process(const struct participant *participant, const struct transaction_id *id)
{
    return strcmp(id->run_id, participant->partition->process->run_id) == 0;
}

static void handle_lock(struct participant *participant, struct peer_incoming *incoming,
                        const struct peer_frame *frame)
{
    struct message_reader reader = message_read(frame->payload);
    struct transaction_id id;
    bool is_good = read_id(&reader, incoming, &id);
    uint64_t begun_us = message_u64(&reader);
    uint64_t tie_breaker = message_u64(&reader);
    bool has_locks = message_u8(&reader);
    if (!is_good || !reader.is_good) {
        refuse(incoming, frame, "the request is not valid");
        return;
    }
    struct part *part = part_find(participant, &id);
    if (!part && has_locks) {
        refuse(incoming, frame, LOCKS_ARE_LOST);
        return;
    }
    if (!part && participant->partition->thread.is_draining && !is_of_process(participant, &id)) {
        refuse(incoming, frame, SHARD_STOPS);
        return;
    }
    if (!part) {
        part = part_new(participant, &id, incoming);
        part->owner.begun_us = begun_us;
        part->owner.tie_breaker = tie_breaker;
        part->state = PART_LOCKED;
    }
    if (part->state != PART_LOCKED || part->incoming != incoming) {
        refuse(incoming, frame, STATE_IS_ANOTHER);
        return;
    }
    open_call(part, incoming, frame);
    part->state = PART_LOCKING;
    part->tries = 0;
    part->rows.ranges = 0;
    heap_free(&part->request);
    part->request = heap_copy(reader.rest);
    const char *refused = lock_items(part);
    if (refused)
        part_end(part, refused);
    else if (list_empty(&part->owner.requests))
        read_rows(part);
}

static void on_coordinator_answered(struct peer_request *request, enum peer_result result,
                                    struct bytes payload);

static void ask(struct part *part, enum peer_kind kind)
{
    struct partition *partition = part->participant->partition;
    struct peer_link *link = peer_set_find(partition->shards.peers, bytes_of(part->id.shard));
    char text[TRANSACTION_ID_BYTES_MAX];
    if (part->asked || !link)
        return;
    part->question = (struct peer_request){.on_reply = on_coordinator_answered};
    if (peer_link_send(link, &part->question, (uint8_t)kind, id_bytes(&part->id, text)) ==
        PEER_SENT)
        part->asked = (uint8_t)kind;
}

/* An older transaction waits for a lock of this one: the coordinator is asked to begin again. If another question is
 * open, or the link is down, participant_tick asks. */
static void on_part_wounded(struct lock_owner *owner)
{
    struct part *part = container_of(owner, struct part, owner);
    part->is_wounded = true;
    ask(part, PEER_WOUND);
}

/* ---- PREPARE ---- */

/* For effects_each_key. */
struct prepared_keys {
    struct part *part;
    bool were_locked;
};

static void lock_prepared_key(void *owner, struct bytes row_key)
{
    struct prepared_keys *keys = owner;
    struct part *part = keys->part;
    struct lock_set *locks = part->participant->partition->shards.locks;
    keys->were_locked &= lock_is_held(locks, &part->owner, row_key);
    (void)lock_take(locks, &part->owner, row_key, LOCK_WRITE);
}

/* The keys that the effects change are locked, for writing, by this transaction alone. *were_locked: it had locked each of them
 * before. If not, the coordinator takes this shard for the owner of a slot whose keys it has locked at another one. */
static bool lock_prepared_keys(struct part *part, bool *were_locked)
{
    struct prepared_keys keys = {.part = part, .were_locked = true};
    bool is_good = effects_each_key(part->effects, lock_prepared_key, &keys);
    *were_locked = keys.were_locked;
    return is_good && list_empty(&part->owner.requests);
}

static void put_record(struct part *part)
{
    struct partition *partition = part->participant->partition;
    struct arena *arena = &partition->running.arena;
    overlay_put(partition->overlay, CF_SYSTEM,
                encode_transaction_key(arena, TRANSACTION_PREPARED, &part->id),
                encode_prepared(arena, part->effects));
}

static void delete_record(struct part *part)
{
    struct partition *partition = part->participant->partition;
    overlay_delete(
        partition->overlay, CF_SYSTEM,
        encode_transaction_key(&partition->running.arena, TRANSACTION_PREPARED, &part->id));
}

static void prepare(struct part *part)
{
    struct partition *partition = part->participant->partition;
    struct call call;
    internal_call_begin(partition, &call);
    overlay_observe_begin(partition->overlay);
    put_record(part);
    internal_call_end(partition, &call);
    part->state = PART_PREPARING;
    part->owner.is_prepared = true;
    commit_sync_next(partition->commit);
    ticket_wait_begin(partition, &part->ticket);
}

static void handle_prepare(struct participant *participant, struct peer_incoming *incoming,
                           const struct peer_frame *frame)
{
    struct message_reader reader = message_read(frame->payload);
    struct transaction_id id;
    struct part *part = read_id(&reader, incoming, &id) ? part_find(participant, &id) : NULL;
    struct bytes effects = message_bytes(&reader);
    uint32_t changes_count = message_u32(&reader);
    struct bytes changes = message_bytes(&reader);
    if (!part || part->state != PART_LOCKED || part->incoming != incoming) {
        refuse(incoming, frame, LOCKS_ARE_LOST);
        return;
    }
    open_call(part, incoming, frame);
    part->effects = heap_copy(effects);
    part->changes = heap_copy(changes);
    part->changes_count = changes_count;
    bool were_locked = true;
    bool is_valid = message_is_read(&reader) && lock_prepared_keys(part, &were_locked);
    if (!were_locked)
        part_end(part, KEYS_ARE_UNLOCKED);
    else if (!is_valid)
        part_end(part, "the request is not valid");
    else if (commit_is_failed(participant->partition->commit, NULL))
        part_end(part, error_text((enum error)commit_error(participant->partition->commit)));
    else
        prepare(part);
}

/* ---- APPLY and RELEASE ---- */

static void tell_part_changes(struct part *part, struct call *call)
{
    struct partition *partition = call->partition;
    struct message_reader reader = message_read(part->changes);
    for (uint32_t i = 0; i < part->changes_count; i++) {
        struct change change = {.kind = (enum change_kind)message_u8(&reader)};
        change.type = (enum type)message_u8(&reader);
        change.by_client = message_u8(&reader);
        struct bytes space;
        uint16_t slot;
        bool is_key = decode_metadata_key(message_bytes(&reader), &space, &slot, &change.key);
        if (!reader.is_good || !is_key || change.kind > CHANGE_GROUP_DELETED)
            return;
        change.space = space_find(partition->spaces, space);
        if (partition->watchers.changes->concerns(call, change.space, change.key))
            partition->watchers.changes->add(call, &change);
    }
}

/* For effects_each_flush. */
struct flushed {
    struct call *call;
    struct space *last;
};

static void tell_flush(void *owner, struct bytes name)
{
    struct flushed *flushed = owner;
    struct space *space = space_find(flushed->call->partition->spaces, name);
    if (space == flushed->last)
        return; /* another run of its slots */
    flushed->last = space;
    keyspace_tell_flush(flushed->call, space);
}

/* Reports flushes among the effects to watchers, blocked clients and tracking clients. */
static void tell_flushes(const struct part *part, struct call *call)
{
    struct flushed flushed = {.call = call};
    (void)effects_each_flush(part->effects, tell_flush, &flushed);
    if (!flushed.last)
        return;
    const struct change change = {.kind = CHANGE_FORGOTTEN, .space = flushed.last};
    call->partition->watchers.changes->add(call, &change);
}

/* Limits of the transaction's namespace; NULL: it has none. */
static struct space_limit *limit_of(const struct part *part)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect = {0};
    struct space_set *spaces = part->participant->partition->spaces;
    size_t cursor = 0;
    if (!space_limit_next(spaces, &cursor))
        return NULL; /* no namespace has limits: the effects need not be read */
    enum effects_read result = effects_open(part->effects, &header, &reader);
    while (result == EFFECTS_READ && (result = effects_next(&reader, &effect)) == EFFECTS_READ)
        if (effect.cf == CF_METADATA && !effect.place.is_any_space)
            return space_find(spaces, effect.place.space)->limit;
    return NULL;
}

/* Applies the effects. False: they cannot be applied now. */
static bool apply(struct part *part)
{
    struct partition *partition = part->participant->partition;
    struct space_limit *limit = limit_of(part);
    struct call call;
    if (commit_is_failed(partition->commit, NULL))
        return false;
    internal_call_begin(partition, &call);
    overlay_observe_begin(partition->overlay);
    tell_flushes(part, &call);
    overlay_secured_begin(partition->overlay);
    if (limit)
        limits_measure(limit);
    call.failed = call.failed || !apply_effects(partition, part->effects);
    if (limit)
        limits_note_left(
            limit); /* what is deleted here makes room where the transaction creates keys */
    delete_record(part);
    tell_part_changes(part, &call);
    bool is_good = !call.failed;
    internal_call_end(partition, &call);
    overlay_secured_end(partition->overlay);
    if (!is_good)
        return false;
    part->state = PART_APPLYING;
    lock_release(partition->shards.locks, &part->owner);
    commit_sync_next(partition->commit);
    ticket_wait_begin_patient(partition, &part->ticket);
    blocking_resume(partition->watchers.blocking);
    return true;
}

static void handle_apply(struct participant *participant, struct peer_incoming *incoming,
                         const struct peer_frame *frame)
{
    struct message_reader reader = message_read(frame->payload);
    struct transaction_id id;
    if (!read_id(&reader, incoming, &id)) {
        refuse(incoming, frame, "the request is not valid");
        return;
    }
    struct part *part = part_find(participant, &id);
    if (!part) {
        forced_decided(participant->forced, &id, true);
        peer_incoming_reply(incoming, PEER_DONE, frame->id, (struct bytes){"", 0});
        return;
    }
    if (part->state != PART_PREPARED || part->has_call) {
        refuse(incoming, frame, STATE_IS_ANOTHER);
        return;
    }
    open_call(part, incoming, frame);
    part->incoming = incoming;
    if (!apply(part))
        reply(part, PEER_FAILED, bytes_of("writes are refused at present"));
}

/* Aborts a transaction that is not applied yet. */
static void abort_part(struct part *part)
{
    struct partition *partition = part->participant->partition;
    struct call call;
    if (part->state == PART_PREPARING || part->state == PART_PREPARED) {
        internal_call_begin(partition, &call);
        overlay_secured_begin(partition->overlay);
        delete_record(part);
        internal_call_end(partition, &call);
        overlay_secured_end(partition->overlay);
    }
    part_end(part, "the transaction was aborted");
}

static void handle_release(struct participant *participant, struct peer_incoming *incoming,
                           const struct peer_frame *frame)
{
    struct message_reader reader = message_read(frame->payload);
    struct transaction_id id;
    struct part *part = read_id(&reader, incoming, &id) ? part_find(participant, &id) : NULL;
    bool had_locks = part && part->state == PART_LOCKED && part->incoming == incoming;
    if (part && part->state != PART_APPLYING)
        abort_part(part);
    if (had_locks)
        peer_incoming_reply(incoming, PEER_DONE, frame->id, (struct bytes){"", 0});
    else
        refuse(incoming, frame, LOCKS_ARE_LOST);
}

/* ---- durable ---- */

/* ticket_wait.on_end. After a failed batch participant_load() rebuilds everything. */
static void on_part_durable(struct ticket_wait *wait, int err)
{
    struct part *part = container_of(wait, struct part, ticket);
    if (err)
        return;
    switch (part->state) {
    case PART_LOCKING: {
        size_t len = part->reply.bytes;
        char *payload = malloc(len + 1);
        CHECK(payload);
        out_copy(&part->reply, payload);
        out_clear(&part->reply);
        part->state = PART_LOCKED;
        reply(part, PEER_DONE, (struct bytes){payload, len});
        free(payload);
        break;
    }
    case PART_PREPARING:
        part->state = PART_PREPARED;
        reply(part, PEER_DONE, (struct bytes){"", 0});
        break;
    case PART_APPLYING:
        reply(part, PEER_DONE, (struct bytes){"", 0});
        part_end(part, "");
        break;
    default:
        break;
    }
}

static bool load_part(struct participant *participant, struct bytes row, struct bytes value)
{
    enum transaction_record record;
    struct transaction_id id;
    struct bytes effects;
    if (!decode_transaction_key(row, &record, &id))
        return false;
    if (record == TRANSACTION_FORCED)
        return forced_load(participant->forced, &id, value);
    if (record != TRANSACTION_PREPARED)
        return true;
    if (!decode_prepared(value, &effects))
        return false;
    struct part *part = part_new(participant, &id, NULL);
    part->state = PART_PREPARED;
    part->effects = heap_copy(effects);
    part->owner.is_prepared = part->owner.is_in_doubt = true;
    part->heard_ms = 0;
    bool were_locked; /* the locks of before the start are gone */
    return lock_prepared_keys(part, &were_locked);
}

bool participant_load(struct participant *participant)
{
    struct partition *partition = participant->partition;
    end_all(participant, "a batch could not be written");
    forced_clear(participant->forced);
    struct overlay_iter *iter = overlay_iter_new(partition->overlay, CF_SYSTEM,
                                                 transaction_rows_from(), transaction_rows_to());
    bool is_good = true;
    for (overlay_iter_seek_first(iter); is_good && overlay_iter_valid(iter);
         overlay_iter_next(iter))
        is_good = load_part(participant, overlay_iter_key(iter), overlay_iter_value(iter));
    is_good = is_good && overlay_iter_error(iter) == OK;
    overlay_iter_free(iter);
    if (!is_good)
        log_event(LOG_ERROR, "transactions_unreadable", "partition=%u", partition->index);
    return is_good;
}

/* ---- the coordinator is asked ---- */

static void on_coordinator_answered(struct peer_request *request, enum peer_result result,
                                    struct bytes payload)
{
    struct part *part = container_of(request, struct part, question);
    uint8_t outcome = result == PEER_OK && payload.len == 1 ? (uint8_t)payload.data[0] : 'o';
    part->is_wounded = part->is_wounded && (part->asked != PEER_WOUND || result != PEER_OK);
    part->asked = 0;
    bool may_end =
        part->state == PART_PREPARED || part->state == PART_LOCKED || part->state == PART_LOCKING;
    if (!may_end || result != PEER_OK || part->participant->partition->running.busy_error)
        return;
    part->heard_ms = loop_mono_ms(part->participant->partition->loop);
    part->owner.is_in_doubt = false;
    if (outcome == 'a')
        abort_part(part);
    else if (outcome == 'c' && part->state == PART_PREPARED)
        (void)apply(part);
}

void participant_closed(struct participant *participant, struct peer_incoming *incoming)
{
    size_t count;
    struct part **parts = all_parts(participant, &count);
    for (size_t i = 0; i < count; i++) {
        struct part *part = parts[i];
        if (part->incoming != incoming)
            continue;
        part->incoming = NULL;
        if (part->state == PART_LOCKING || part->state == PART_LOCKED)
            part_end(part, "");
    }
    free(parts);
    drop_watchers(participant, incoming);
}

void participant_tick(struct participant *participant)
{
    uint64_t now_ms = loop_mono_ms(participant->partition->loop);
    size_t count;
    forced_tick(participant->forced);
    if (!table_count(participant->parts))
        return;
    struct part **parts = all_parts(participant, &count);
    for (size_t i = 0; i < count; i++) {
        struct part *part = parts[i];
        bool is_late = now_ms >= part->heard_ms + ASK_AFTER_MS;
        bool is_collecting = part->state == PART_LOCKING || part->state == PART_LOCKED;
        if (is_collecting && part->is_wounded)
            ask(part, PEER_WOUND);
        else if (is_collecting && is_late)
            ask(part, PEER_OPEN);
        if (part->state != PART_PREPARED || (part->incoming && !is_late))
            continue;
        part->owner.is_in_doubt = is_late;
        ask(part, PEER_OUTCOME);
    }
    free(parts);
}

/* ---- an operator decides ---- */

static struct part *find_printed(const struct participant *participant, struct bytes text)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    char id[TRANSACTION_ID_TEXT_MAX];
    while (table_next(participant->parts, &cursor, &key, &value)) {
        struct part *part = value;
        transaction_id_print(&part->id, id);
        if (bytes_equal(bytes_of(id), text))
            return part;
    }
    return NULL;
}

/* Why the transaction may not be ended by an operator; NULL: it may. */
static const char *refuse_force(const struct part *part)
{
    const struct partition *partition = part->participant->partition;
    const struct peer_link *link = peer_set_find(partition->shards.peers, bytes_of(part->id.shard));
    if (part->state != PART_PREPARED || !part->owner.is_in_doubt)
        return "ERR the transaction is not in doubt";
    if (link && link->state == PEER_LINK_UP)
        return "ERR the shard that decides the transaction is reachable: it ends by itself";
    if (commit_is_failed(partition->commit, NULL))
        return error_text((enum error)commit_error(partition->commit));
    return NULL;
}

bool participant_force(struct participant *participant, struct bytes id, bool is_commit,
                       const char **why)
{
    struct part *part = find_printed(participant, id);
    struct overlay *overlay = participant->partition->overlay;
    *why = part ? refuse_force(part) : NULL;
    if (!part || *why)
        return false;
    struct transaction_id forced = part->id;
    if (is_commit && !apply(part)) {
        *why = error_text(ERR_STORE);
        return false;
    }
    if (!is_commit)
        abort_part(part);
    forced_add(participant->forced, &forced, is_commit);
    commit_sync_next(participant->partition->commit);
    overlay_observe(overlay, overlay_ticket(overlay)); /* the reply leaves when it is durable */
    return true;
}

bool participant_forget(struct participant *participant, struct bytes id)
{
    return forced_forget(participant->forced, id);
}

/* ---- requests ---- */

static void handle_unwatch(struct participant *participant, struct peer_incoming *incoming,
                           const struct peer_frame *frame)
{
    struct remote_watcher *remote =
        frame->payload.len == 8 ? find_watcher(participant, incoming, get_le64(frame->payload.data))
                                : NULL;
    if (remote)
        free_watcher(participant, remote);
    peer_incoming_reply(incoming, PEER_DONE, frame->id, (struct bytes){"", 0});
}

bool participant_handle(struct participant *participant, struct peer_incoming *incoming,
                        const struct peer_frame *frame)
{
    bool is_known = frame->kind >= PEER_LOCK && frame->kind <= PEER_RELEASE;
    /* the data must not change during a slow script, which lets the loop handle events */
    if (is_known && participant->partition->running.busy_error) {
        refuse(incoming, frame, participant->partition->running.busy_error);
        return true;
    }
    switch (frame->kind) {
    case PEER_UNWATCH:
        handle_unwatch(participant, incoming, frame);
        return true;
    case PEER_LOCK:
        handle_lock(participant, incoming, frame);
        return true;
    case PEER_PREPARE:
        handle_prepare(participant, incoming, frame);
        return true;
    case PEER_APPLY:
        handle_apply(participant, incoming, frame);
        return true;
    case PEER_RELEASE:
        handle_release(participant, incoming, frame);
        return true;
    default:
        return false;
    }
}

/* ---- figures ---- */

static const char *const part_words[] = {"locking", "locked", "preparing", "prepared", "applying"};

bool participant_is_quiet(const struct participant *participant, char *why, size_t size)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    char id[TRANSACTION_ID_TEXT_MAX];
    if (!table_next(participant->parts, &cursor, &key, &value))
        return true;
    const struct part *part = value;
    transaction_id_print(&part->id, id);
    if (part->owner.is_in_doubt)
        (void)snprintf(why, size,
                       "transaction %s is %s, and shard '%s', which decides it, does not answer: "
                       "check that shard '%s' runs",
                       id, part_words[part->state], part->id.shard, part->id.shard);
    else
        (void)snprintf(why, size, "transaction %s is %s (SCREE TRANSACTIONS)", id,
                       part_words[part->state]);
    return false;
}

struct participant_figures participant_figures(const struct participant *participant)
{
    struct participant_figures figures = {.count = (uint32_t)table_count(participant->parts),
                                          .forced = forced_count(participant->forced)};
    size_t cursor = 0;
    struct bytes key;
    void *value;
    while (table_next(participant->parts, &cursor, &key, &value)) {
        const struct part *part = value;
        figures.prepared += part->owner.is_prepared;
        figures.in_doubt += part->owner.is_in_doubt;
    }
    return figures;
}

static const char *what_it_waits_for(const struct part *part)
{
    if (!list_empty(&part->owner.requests))
        return "locks";
    if (part->rows.pending)
        return "rows";
    return list_empty(&part->ticket.link) ? "coordinator" : "log";
}

void participant_list(const struct participant *participant,
                      void (*on_line)(void *owner, const char *line), void *owner)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    char line[512];
    char id[TRANSACTION_ID_TEXT_MAX];
    while (table_next(participant->parts, &cursor, &key, &value)) {
        const struct part *part = value;
        transaction_id_print(&part->id, id);
        (void)snprintf(line, sizeof line,
                       "id=%s role=participant state=%s waits_for=%s in_doubt=%s", id,
                       part_words[part->state], what_it_waits_for(part),
                       part->owner.is_in_doubt ? "yes" : "no");
        on_line(owner, line);
    }
    forced_list(participant->forced, on_line, owner);
}
