/*
 * coordinator_fetch.c - what an attempt needs is asked of the owners of the keys with LOCK, and what they send is kept (borrow.h).
 */
#include "backend/transaction/coordinator_inner.h"

#include "backend/context/backend_metrics.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/keyspace/borrow_all.h"
#include "backend/keyspace/space.h"
#include "backend/session/session.h"
#include "backend/transaction/participant.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    LOCK_ITEMS_MAX = 1000,     /* needs in a request, … */
    LOCK_BYTES = 256 * 1024,   /* … and bytes, apart from the last one */
    ROOM_MAX = UINT32_MAX / 2, /* of rows in one reply, whose length is an u32 */
    BESIDE_ROWS =
        2 * PEER_PAYLOAD_MAX, /* names of keys and rows in one reply, apart from the values */
};

static void write_need(struct partition *partition, struct out *out, const struct need *need)
{
    struct bytes namespace_name;
    uint8_t db;
    space_place(partition->spaces, need->space, &namespace_name, &db);
    message_put_u8(out, (uint8_t)need->kind);
    message_put_u8(out, (uint8_t)need->mode);
    message_put_u8(out, (uint8_t)need->cf);
    message_put_u8(out, db);
    message_put_bytes(out, namespace_name);
    message_put_bytes(out, need->row_key);
    message_put_bytes(out, need->row);
}

/* So many bytes of rows may still be borrowed, because of command-memory. They are here twice: as they have arrived, and in the write
 * buffer while an attempt runs. */
static uint64_t memory_room(const struct coordinated *transaction)
{
    return tally_room(&transaction->borrow->tally) / 2;
}

/* So many may be, because of borrow-limit. */
static uint64_t borrow_room(const struct coordinated *transaction)
{
    uint64_t limit = transaction->coordinator->partition->snapshot->config.borrow_limit_bytes;
    uint64_t used = transaction->borrow->bytes;
    return used < limit ? limit - used : 0;
}

static uint64_t room_of(const struct coordinated *transaction)
{
    uint64_t room = borrow_room(transaction);
    if (room > memory_room(transaction))
        room = memory_room(transaction);
    return room < ROOM_MAX ? room : ROOM_MAX;
}

static uint8_t lock_flags(const struct participation *part)
{
    bool is_last = partition_takes_no_more(part->transaction->coordinator->partition);
    return (uint8_t)((part->is_locked ? LOCK_HAS_LOCKS : 0) | (is_last ? LOCK_IS_LAST : 0));
}

/* Sends LOCK for the first of part->needs; the others follow when they are answered, so that no shard is busy with one
 * request for long. */
static bool send_lock(struct participation *part)
{
    struct coordinated *transaction = part->transaction;
    struct partition *partition = transaction->coordinator->partition;
    struct out out;
    struct out items;
    uint32_t count = 0;
    out_init(&items);
    for (const struct need *need = part->needs; need; need = need->next) {
        if (count == LOCK_ITEMS_MAX || items.bytes >= LOCK_BYTES)
            break;
        write_need(partition, &items, need);
        count++;
    }
    out_init(&out);
    coordinated_put_id(&out, &transaction->id);
    message_put_u64(&out, transaction->owner.begun_us);
    message_put_u64(&out, transaction->owner.tie_breaker);
    message_put_u64(&out, room_of(transaction));
    message_put_u8(&out, lock_flags(part));
    message_put_u32(&out, count);
    out_move(&out, &items);
    bool is_sent = participation_send(part, PEER_LOCK, &out);
    part->is_locked |= is_sent;
    part->asked = is_sent ? count : 0;
    return is_sent;
}

/* Distributes the needs of the attempt over the shards that have the keys. */
static void assign_needs(struct coordinated *transaction)
{
    struct partition *partition = transaction->coordinator->partition;
    struct need *need = need_set_take(&transaction->borrow->needs);
    while (need) {
        struct need *next = need->next;
        const char *shard = coordinated_shard_of(partition, need->slot);
        struct participation *part = participation_of(transaction, shard);
        if (!part->needs)
            part->needs_end = &part->needs;
        need->next = NULL;
        *part->needs_end = need;
        part->needs_end = &need->next;
        need = next;
    }
}

/* Must the transaction wait for a backup before it uses another shard? One that uses others goes on to its end. */
static bool must_hold(const struct coordinated *transaction)
{
    return transaction->coordinator->partition->pause.is_quiescing &&
           transaction->borrow->needs.first && list_empty(&transaction->participants);
}

/* timer_fn */
static void on_next_turn(void *owner)
{
    coordinated_check_fetched(owner);
}

/* The command waits for nothing: it only goes on in the next turn (lock_ahead.h). */
static void go_on_next_turn(struct coordinated *transaction)
{
    if (!transaction->next_turn)
        transaction->next_turn =
            timer_new(transaction->coordinator->partition->loop, on_next_turn, transaction);
    timer_start(transaction->next_turn, 0, 0);
}

void coordinator_fetch(struct call *call)
{
    struct coordinated *transaction = call->session->pending.across;
    if (!transaction || transaction->state != COORDINATED_COLLECTING)
        return;
    transaction->is_deferred = false;
    if (transaction->borrow->has_declared)
        coordinator_remember_scripts(call);
    if (transaction->borrow->tally.is_over) {
        coordinated_fail_memory(transaction);
        return;
    }
    if (must_hold(transaction)) {
        coordinated_forget_attempts(transaction);
        coordinated_set_state(transaction, COORDINATED_HELD);
        return;
    }
    assign_needs(transaction);
    for (struct list *at = transaction->participants.next; at != &transaction->participants;
         at = at->next) {
        struct participation *part = participation_at(at);
        if (!part->needs || send_lock(part))
            continue;
        coordinated_cannot_send(transaction, part->shard);
        return;
    }
    if (!transaction->outstanding && list_empty(&transaction->owner.requests) &&
        !list_empty(&transaction->borrow->wants))
        go_on_next_turn(transaction);
}

/* The rest of a range of which some rows have arrived: those from `next` on. */
static struct need *rest_of(struct borrow *borrow, const struct need *need, struct bytes next)
{
    struct need *rest = malloc(sizeof *rest + need->row_key.len + next.len);
    CHECK(rest);
    *rest = *need;
    char *text = (char *)(rest + 1);
    rest->next = NULL;
    rest->row_key = bytes_copy_to(&text, need->row_key);
    rest->row = bytes_copy_to(&text, next);
    tally_add(&borrow->tally, need_memory(rest));
    return rest;
}

/* Adds a need for the names that follow those of an answer. */
static struct need *rest_of_names(struct borrow *borrow, const struct need *need, struct bytes next)
{
    char *question = malloc(4 + next.len);
    CHECK(question);
    memcpy(question, need->row.data, 4);
    memcpy(question + 4, next.data, next.len);
    struct need *rest = rest_of(borrow, need, (struct bytes){question, 4 + next.len});
    free(question);
    return rest;
}

/* Takes the answer to a question about all keys of a database. Returns what is still needed. */
static struct need *take_answer(struct borrow *borrow, const struct need *need,
                                struct message_reader *reader, struct bytes answer)
{
    struct bytes next;
    reader->is_good = borrow_add_answer(borrow, need, answer, &next);
    return next.len ? rest_of_names(borrow, need, next) : NULL;
}

/* Reads the item of a reply to LOCK. Returns what is still needed; NULL: nothing. */
static struct need *take_item(struct borrow *borrow, const struct need *need,
                              struct message_reader *reader)
{
    unsigned whole = message_u8(reader);
    struct bytes next = message_bytes(reader);
    if (!reader->is_good)
        return NULL;
    if (need_is_question(need->kind))
        return take_answer(borrow, need, reader, next);
    if (need_locks(need->kind))
        borrow_add_key(borrow, need->row_key, need->mode, whole);
    if (need->kind == NEED_WATCH || need->kind == NEED_CHECK) {
        borrow_add_watch(borrow, need->row_key, need->kind);
        borrow->is_dirty |= whole != 0;
    }
    if (need->kind == NEED_RANGE && next.len) {
        reader->is_good = bytes_compare(need->row, next) < 0; /* or it would never end */
        return rest_of(borrow, need, next);
    }
    if (need->kind == NEED_RANGE)
        borrow_add_range(borrow, need->row_key, need->cf);
    return NULL;
}

/* Reads the items of a reply to LOCK, and moves the needs that they answer from the participation to *answered; what they leave is needed
 * next. False: it is not valid. */
static bool take_items(struct participation *part, struct message_reader *reader,
                       struct need **answered)
{
    uint32_t count = message_u32(reader);
    struct need *rest = NULL; /* what the answers have left */
    struct need **rest_end = &rest;
    struct need **answered_end = answered;
    if (count == 0 || count > part->asked)
        return false;
    for (; count > 0 && reader->is_good; count--) {
        struct need *need = part->needs;
        *rest_end = take_item(part->transaction->borrow, need, reader);
        rest_end = *rest_end ? &(*rest_end)->next : rest_end;
        part->needs = need->next;
        need->next = NULL;
        *answered_end = need;
        answered_end = &need->next;
    }
    *rest_end = part->needs;
    if (!part->needs)
        part->needs_end = rest_end;
    part->needs = rest;
    return reader->is_good;
}

/* Reads the items and rows of a reply to LOCK. False: it is not valid. */
static bool take_rows(struct participation *part, struct message_reader *reader)
{
    struct need *answered = NULL;
    bool is_good = take_items(part, reader, &answered);
    struct bytes rows = message_bytes(reader);
    is_good = is_good && message_is_read(reader) && borrow_rows_are_valid(answered, rows);
    if (is_good)
        borrow_add_rows(part->transaction->borrow, rows);
    needs_free(answered, &part->transaction->borrow->tally);
    return is_good;
}

void coordinated_fail_memory(struct coordinated *transaction)
{
    char text[COORDINATED_ERROR_MAX];
    budget_memory_text(transaction->borrow->tally.max, text, sizeof text);
    coordinated_fail(transaction, METRIC_BACKEND_FAILED_MEMORY, "%s", text);
}

static void fail_over_limit(struct coordinated *transaction)
{
    coordinated_fail(transaction, METRIC_BACKEND_FAILED_BORROW_LIMIT,
                     "ERR the command needs more than %" PRIu64
                     " bytes of keys of other shards (borrow-limit)",
                     transaction->coordinator->partition->snapshot->config.borrow_limit_bytes);
}

/* The rows are longer than room_of. */
static void fail_over_room(struct coordinated *transaction)
{
    if (memory_room(transaction) < borrow_room(transaction))
        coordinated_fail_memory(transaction);
    else
        fail_over_limit(transaction);
}

/* The whole reply to LOCK is here. */
static void take_reply(struct participation *part, struct bytes payload)
{
    struct coordinated *transaction = part->transaction;
    struct partition *partition = transaction->coordinator->partition;
    struct message_reader reader = message_read(payload);
    uint64_t version = message_u64(&reader);
    if (!partition_hear_version(partition, version) || !take_rows(part, &reader)) {
        coordinated_fail(transaction, METRIC_BACKEND_FAILED_REFUSED,
                         "ERR shard '%s' sent rows that are not valid", part->shard);
        return;
    }
    metric_add(partition->metrics.process, METRIC_BACKEND_ACROSS_BYTES, payload.len);
    if (transaction->borrow->bytes > partition->snapshot->config.borrow_limit_bytes)
        fail_over_limit(transaction);
    else if (transaction->borrow->tally.is_over)
        coordinated_fail_memory(transaction);
    else if (!coordinated_may_borrow(transaction))
        return;
    else if (part->needs && !send_lock(part))
        coordinated_cannot_send(transaction, part->shard);
    else
        coordinated_check_fetched(transaction);
}

/* Adds a portion of the reply, and asks for the next one. True: part->arrived has the whole. */
static bool add_portion(struct participation *part, struct bytes portion)
{
    struct portions *arrived = &part->arrived;
    struct out out;
    if (portion.len > arrived->len - arrived->at || !portion.len) {
        coordinated_fail(part->transaction, METRIC_BACKEND_FAILED_REFUSED,
                         "ERR shard '%s' sent rows that are not valid", part->shard);
        return false;
    }
    arrived->bytes = message_join(arrived->bytes, arrived->at, portion);
    arrived->at += portion.len;
    if (portions_are_whole(arrived))
        return true;
    out_init(&out);
    coordinated_put_id(&out, &part->transaction->id);
    if (!participation_send(part, PEER_LOCK_REST, &out))
        coordinated_cannot_send(part->transaction, part->shard);
    return false;
}

void participation_drop_arrived(struct participation *part)
{
    tally_remove(coordinated_tally(part->transaction), part->arrived.len);
    portions_clear(&part->arrived);
}

/* The first portion says how long the reply is. */
static void take_first_portion(struct participation *part, struct bytes payload)
{
    struct message_reader reader = message_read(payload);
    uint64_t len = message_u64(&reader);
    if (len == reader.rest.len && reader.is_good) {
        take_reply(part, reader.rest);
        return;
    }
    if (reader.is_good && len > room_of(part->transaction) + BESIDE_ROWS) {
        fail_over_room(part->transaction);
        return;
    }
    part->arrived.len = len;
    tally_add(&part->transaction->borrow->tally, len);
    if (part->transaction->borrow->tally.is_over)
        coordinated_fail_memory(part->transaction);
    else
        (void)add_portion(part, reader.rest);
}

void participation_locked(struct participation *part, struct bytes payload)
{
    if (!part->arrived.len) {
        take_first_portion(part, payload);
    } else if (add_portion(part, payload)) {
        struct portions arrived = part->arrived;
        part->arrived = (struct portions){0};
        tally_remove(coordinated_tally(part->transaction), arrived.len);
        take_reply(part, (struct bytes){arrived.bytes, arrived.len});
        portions_clear(&arrived);
    }
}
