#include "backend/partition/coordinator.h"

#include "backend/context/change.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/format/effects.h"
#include "backend/format/transaction_record.h"
#include "backend/keyspace/apply_effects.h"
#include "backend/keyspace/borrow_all.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/partition/command_stats.h"
#include "backend/partition/push_message.h"
#include "backend/partition/session.h"
#include "backend/partition/ticket_wait.h"
#include "backend/peer/message.h"
#include "backend/peer/peer_set.h"
#include "shared/byte_order.h"
#include "shared/clock.h"
#include "shared/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ERROR_MAX = 512,
    KEY_SHOWN = 128,       /* bytes of a key in an error */
    MOVED_MAX = 40,        /* ticks, of 50 ms each */
    AWAIT_SHARD_MS = 3000, /* how long to wait for a shard that restarts */
    SEEK_OWNER_MS = 3000,  /* how long to ask all shards often for the slots that they own */
};

enum coordinated_state {
    COORDINATED_COLLECTING, /* attempts run, keys are locked and fetched */
    COORDINATED_PREPARING,
    COORDINATED_RELEASING, /* shards without effects confirm that they had the locks */
    COORDINATED_PREPARED,  /* by all participants; the request runs again to decide */
    COORDINATED_FAILED,    /* the request runs again to reply the error */
    COORDINATED_DECIDING,  /* the decision is in a batch that is not durable yet */
    COORDINATED_DECIDED,   /* participants apply */
    COORDINATED_UNCERTAIN, /* the batch with the decision has failed */
    COORDINATED_HELD,      /* without locks, until a backup goes on: then it begins again */
};

struct coordinated {
    struct list link;
    struct coordinator *coordinator;
    struct session *session; /* NULL: it has closed, or the reply was given */
    struct transaction_id id;
    enum coordinated_state state;
    struct lock_owner owner; /* of locks on own keys */
    struct borrow *borrow;
    struct list participants;
    uint32_t outstanding; /* requests */
    uint8_t moved;        /* how often a slot, or the locks, were not at the shard that was asked */
    uint8_t db;           /* the session's, before the first attempt */
    bool is_deferred;     /* without locks, until the next tick: then it begins again */
    bool is_counted;      /* in the statistics; it may still begin again */
    uint64_t started_ms;  /* monotonic */
    uint64_t started_us;  /* monotonic, for the slow log */
    uint32_t shards;      /* that take part; 0: it still collects */
    struct effects *own;  /* effects on this partition; NULL: not collected */
    struct out reply;     /* of the command */
    uint64_t observed;    /* ticket that must be durable before the reply leaves */
    struct push_messages messages;
    struct ticket_wait ticket;
    char error[ERROR_MAX]; /* of FAILED */
};

/* Another shard in a transaction. */
struct participation {
    struct list link;
    struct coordinated *transaction;
    char shard[SHARD_NAME_MAX + 1];
    struct peer_request request;
    uint8_t sent;   /* enum peer_kind of the outstanding request; 0: none */
    bool is_locked; /* it has received LOCK, and neither RELEASE nor APPLY */
    bool is_applied;
    struct need *needs;      /* of the outstanding LOCK, in its order */
    struct effects *effects; /* NULL: none */
    struct out changes;      /* for the shard's watchers, trackers and blocked clients */
    uint32_t changes_count;
};

struct coordinator {
    struct partition *partition;
    struct list all;
    uint64_t last_number;
};

static void on_own_wounded(struct lock_owner *owner);
static void on_own_granted(struct lock_owner *owner);
static void on_decision_durable(struct ticket_wait *wait, int err);

/* ---- life ---- */

static struct coordinated *coordinated_new(struct coordinator *coordinator)
{
    struct coordinated *transaction = calloc(1, sizeof *transaction);
    CHECK(transaction);
    transaction->coordinator = coordinator;
    list_init(&transaction->participants);
    lock_owner_init(&transaction->owner);
    transaction->owner.on_wounded = on_own_wounded;
    transaction->owner.on_granted = on_own_granted;
    out_init(&transaction->reply);
    ticket_wait_init(&transaction->ticket, on_decision_durable);
    list_push(&coordinator->all, &transaction->link);
    return transaction;
}

/* The shard that has the slot; empty: none is known, so it cannot be reached. */
static const char *owner_of(const struct partition *partition, uint16_t slot)
{
    const char *shard = partition->shards.slot_owner(partition, slot);
    return shard ? shard : "";
}

static struct participation *participation_at(struct list *link)
{
    return container_of(link, struct participation, link);
}

static struct participation *participation_of(struct coordinated *transaction, const char *shard)
{
    for (struct list *at = transaction->participants.next; at != &transaction->participants;
         at = at->next)
        if (strcmp(participation_at(at)->shard, shard) == 0)
            return participation_at(at);
    struct participation *part = calloc(1, sizeof *part);
    CHECK(part);
    part->transaction = transaction;
    (void)snprintf(part->shard, sizeof part->shard, "%s", shard);
    out_init(&part->changes);
    list_push(&transaction->participants, &part->link);
    return part;
}

static struct peer_link *link_of(const struct participation *part)
{
    const struct peer_set *peers = part->transaction->coordinator->partition->shards.peers;
    return peers ? peer_set_find(peers, bytes_of(part->shard)) : NULL;
}

static void free_needs(struct need *needs)
{
    while (needs) {
        struct need *next = needs->next;
        free(needs);
        needs = next;
    }
}

static void cancel_request(struct participation *part)
{
    struct peer_link *link = part->sent ? link_of(part) : NULL;
    if (link)
        peer_link_cancel(link, &part->request);
    part->transaction->outstanding -= part->sent != 0;
    part->sent = 0;
    free_needs(part->needs);
    part->needs = NULL;
}

static void participation_free(struct participation *part)
{
    cancel_request(part);
    effects_free(part->effects);
    out_clear(&part->changes);
    list_remove(&part->link);
    free(part);
}

static void drop_participants(struct coordinated *transaction)
{
    while (!list_empty(&transaction->participants))
        participation_free(participation_at(transaction->participants.next));
}

static void coordinated_free(struct coordinated *transaction)
{
    struct partition *partition = transaction->coordinator->partition;
    if (transaction->session)
        transaction->session->pending.across = NULL;
    drop_participants(transaction);
    lock_release(partition->shards.locks, &transaction->owner);
    borrow_free(transaction->borrow);
    effects_free(transaction->own);
    out_clear(&transaction->reply);
    push_messages_clear(&transaction->messages);
    ticket_wait_cancel(&transaction->ticket);
    list_remove(&transaction->link);
    free(transaction);
}

struct coordinator *coordinator_new(struct partition *partition)
{
    struct coordinator *coordinator = calloc(1, sizeof *coordinator);
    CHECK(coordinator);
    coordinator->partition = partition;
    list_init(&coordinator->all);
    return coordinator;
}

static struct coordinated *coordinated_at(struct list *link)
{
    return container_of(link, struct coordinated, link);
}

void coordinator_free(struct coordinator *coordinator)
{
    if (!coordinator)
        return;
    while (!list_empty(&coordinator->all))
        coordinated_free(coordinated_at(coordinator->all.next));
    free(coordinator);
}

/* ---- requests ---- */

static void put_id(struct out *out, const struct transaction_id *id)
{
    char text[TRANSACTION_ID_BYTES_MAX];
    message_put_bytes(out, (struct bytes){text, transaction_id_write(id, text)});
}

static void on_reply(struct peer_request *request, enum peer_result result, struct bytes payload);

/* Sends the bytes of `out`, which is cleared. False: the shard cannot be reached. */
static bool send_request(struct participation *part, enum peer_kind kind, struct out *out)
{
    struct peer_link *link = link_of(part);
    size_t len = out->bytes;
    char *payload = malloc(len + 1);
    CHECK(payload && !part->sent);
    out_copy(out, payload);
    out_clear(out);
    part->request = (struct peer_request){.on_reply = on_reply};
    bool is_sent = link && len <= PEER_PAYLOAD_MAX &&
                   peer_link_send(link, &part->request, (uint8_t)kind,
                                  (struct bytes){payload, len}) == PEER_SENT;
    free(payload);
    if (!is_sent)
        return false;
    part->sent = (uint8_t)kind;
    part->transaction->outstanding++;
    return true;
}

/* A request whose reply does not matter. */
static void forget_reply(struct peer_request *request, enum peer_result result,
                         struct bytes payload)
{
    (void)result;
    (void)payload;
    free(request);
}

/* Tells the shard to release all locks of the transaction, and to abort if it is prepared. If the message is lost, the
 * shard notices that the connection has ended, or asks for the outcome. */
static void release_participant(struct participation *part)
{
    struct peer_link *link = link_of(part);
    struct out out;
    char payload[TRANSACTION_ID_BYTES_MAX + 8];
    cancel_request(part);
    if (!part->is_locked || !link)
        return;
    part->is_locked = false;
    out_init(&out);
    put_id(&out, &part->transaction->id);
    size_t len = out.bytes;
    CHECK(len <= sizeof payload);
    out_copy(&out, payload);
    out_clear(&out);
    struct peer_request *request = malloc(sizeof *request);
    CHECK(request);
    *request = (struct peer_request){.on_reply = forget_reply};
    if (peer_link_send(link, request, PEER_RELEASE, (struct bytes){payload, len}) != PEER_SENT)
        free(request);
}

static void release_shards(struct coordinated *transaction)
{
    for (struct list *at = transaction->participants.next; at != &transaction->participants;
         at = at->next)
        release_participant(participation_at(at));
    lock_release(transaction->coordinator->partition->shards.locks, &transaction->owner);
}

/* The session's request runs again. */
static void resume(struct coordinated *transaction)
{
    if (transaction->borrow && !list_empty(&transaction->borrow->wants))
        reader_wait_done(&transaction->borrow->wants);
}

static void count_one(const struct coordinated *transaction, enum metric metric)
{
    metric_add(transaction->coordinator->partition->metrics.process, metric, 1);
}

static void fail(struct coordinated *transaction, enum metric reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Nothing was done: releases all locks; the request will reply the error. The reason is one of
 * transaction_failures (backend_metrics.h). */
static void fail(struct coordinated *transaction, enum metric reason, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(transaction->error, sizeof transaction->error, format, args);
    va_end(args);
    release_shards(transaction);
    transaction->state = COORDINATED_FAILED;
    count_one(transaction, reason);
    resume(transaction);
}

/* Releases all locks and forgets what was fetched. */
static void forget_attempts(struct coordinated *transaction)
{
    release_shards(transaction);
    drop_participants(transaction);
    borrow_clear(transaction->borrow);
    /* participants must not take a late message for this attempt */
    transaction->id.number = ++transaction->coordinator->last_number;
}

/* Nothing is decided: the transaction begins again at the next tick. False: it has taken too long. */
static bool begin_later(struct coordinated *transaction)
{
    const struct partition *partition = transaction->coordinator->partition;
    uint64_t timeout_ms = partition->snapshot->config.transaction_timeout_ms;
    if (transaction->state > COORDINATED_RELEASING ||
        loop_mono_ms(partition->loop) >= transaction->started_ms + timeout_ms)
        return false;
    forget_attempts(transaction);
    effects_free(transaction->own);
    transaction->own = NULL;
    out_clear(&transaction->reply);
    push_messages_clear(&transaction->messages);
    transaction->owner.is_prepared = false;
    transaction->shards = 0;
    if (transaction->session->scope.db != transaction->db)
        session_select(transaction->session, transaction->db);
    transaction->state = COORDINATED_COLLECTING;
    transaction->is_deferred = true;
    count_one(transaction, METRIC_BACKEND_ACROSS_RETRIES);
    return true;
}

/* The shard restarts: the transaction begins again at the next tick. False: the shard is away for too long. */
static bool await_shard(struct coordinated *transaction, const char *shard, bool is_stopping)
{
    const struct partition *partition = transaction->coordinator->partition;
    const struct peer_link *link = peer_set_find(partition->shards.peers, bytes_of(shard));
    uint64_t now_ms = loop_mono_ms(partition->loop);
    bool is_away = link && link->state != PEER_LINK_UP && now_ms < link->since_ms + AWAIT_SHARD_MS;
    return (is_away || is_stopping) && begin_later(transaction);
}

/* Fails the transaction because a request could not be sent to the shard, or waits for the shard. */
static void cannot_send(struct coordinated *transaction, const char *shard)
{
    if (!await_shard(transaction, shard, false))
        fail(transaction, METRIC_BACKEND_FAILED_UNREACHABLE,
             "TRYAGAIN shard '%s', which has one of the keys, cannot be reached", shard);
}

/* An older transaction needs one of the locks. */
static void begin_again(struct coordinated *transaction)
{
    if (transaction->state != COORDINATED_COLLECTING)
        return;
    forget_attempts(transaction);
    count_one(transaction, METRIC_BACKEND_ACROSS_RETRIES);
    resume(transaction);
}

static void on_own_wounded(struct lock_owner *owner)
{
    begin_again(container_of(owner, struct coordinated, owner));
}

/* Resumes the session when everything that the attempt needed is here. */
static void check_fetched(struct coordinated *transaction)
{
    if (transaction->state == COORDINATED_COLLECTING && !transaction->outstanding &&
        list_empty(&transaction->owner.requests))
        resume(transaction);
}

static void on_own_granted(struct lock_owner *owner)
{
    struct coordinated *transaction = container_of(owner, struct coordinated, owner);
    check_fetched(transaction);
}

/* ---- collecting ---- */

struct borrow *coordinator_borrow(struct call *call)
{
    struct session *session = call->session;
    struct partition *partition = call->partition;
    struct coordinated *transaction = session->pending.across;
    if (!session->request.is_across || !*peer_set_shard(partition->shards.peers))
        return NULL;
    if (!transaction) {
        struct coordinator *coordinator = partition->shards.coordinator;
        transaction = coordinated_new(coordinator);
        transaction->session = session;
        transaction->id.number = ++coordinator->last_number;
        (void)snprintf(transaction->id.shard, sizeof transaction->id.shard, "%s",
                       peer_set_shard(partition->shards.peers));
        (void)snprintf(transaction->id.run_id, sizeof transaction->id.run_id, "%s",
                       partition->process->run_id);
        transaction->started_ms = loop_mono_ms(partition->loop);
        transaction->started_us = partition->running.started_us;
        transaction->db = session->scope.db;
        transaction->owner.begun_us = call->now_us;
        transaction->owner.tie_breaker =
            hash_bytes(bytes_of(transaction->id.shard)) ^ transaction->id.number;
        transaction->owner.reserver = &session->watcher.reserver;
        transaction->borrow = borrow_new(&transaction->owner);
        session->pending.across = transaction;
    }
    return transaction->borrow;
}

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

/* Sends LOCK for part->needs. */
static bool send_lock(struct participation *part)
{
    struct coordinated *transaction = part->transaction;
    struct out out;
    uint32_t count = 0;
    for (const struct need *need = part->needs; need; need = need->next)
        count++;
    out_init(&out);
    put_id(&out, &transaction->id);
    message_put_u64(&out, transaction->owner.begun_us);
    message_put_u64(&out, transaction->owner.tie_breaker);
    message_put_u8(&out, part->is_locked);
    message_put_u32(&out, count);
    for (const struct need *need = part->needs; need; need = need->next)
        write_need(transaction->coordinator->partition, &out, need);
    bool is_sent = send_request(part, PEER_LOCK, &out);
    part->is_locked |= is_sent;
    return is_sent;
}

/* Distributes the needs of the attempt over the shards that have the keys. */
static void assign_needs(struct coordinated *transaction)
{
    struct partition *partition = transaction->coordinator->partition;
    struct borrow *borrow = transaction->borrow;
    while (borrow->needs) {
        struct need *need = borrow->needs;
        const char *shard = owner_of(partition, need->slot);
        struct participation *part = participation_of(transaction, shard);
        borrow->needs = need->next;
        need->next = part->needs;
        part->needs = need;
    }
    borrow->needs_count = 0;
}

/* Must the transaction wait for a backup before it uses another shard? One that uses others goes on to its end. */
static bool must_hold(const struct coordinated *transaction)
{
    return transaction->coordinator->partition->pause.is_quiescing && transaction->borrow->needs &&
           list_empty(&transaction->participants);
}

void coordinator_fetch(struct call *call)
{
    struct coordinated *transaction = call->session->pending.across;
    if (!transaction || transaction->state != COORDINATED_COLLECTING)
        return;
    transaction->is_deferred = false;
    if (must_hold(transaction)) {
        forget_attempts(transaction);
        transaction->state = COORDINATED_HELD;
        return;
    }
    assign_needs(transaction);
    for (struct list *at = transaction->participants.next; at != &transaction->participants;
         at = at->next) {
        struct participation *part = participation_at(at);
        if (!part->needs || send_lock(part))
            continue;
        cannot_send(transaction, part->shard);
        return;
    }
}

/* The rest of a range of which some rows have arrived: those from `next` on. */
static struct need *rest_of(const struct need *need, struct bytes next)
{
    struct need *rest = malloc(sizeof *rest + need->row_key.len + next.len);
    CHECK(rest);
    *rest = *need;
    char *text = (char *)(rest + 1);
    rest->next = NULL;
    rest->row_key = bytes_copy_to(&text, need->row_key);
    rest->row = bytes_copy_to(&text, next);
    return rest;
}

/* Adds a need for the names that follow those of an answer. */
static struct need *rest_of_names(const struct need *need, struct bytes next)
{
    char *question = malloc(4 + next.len);
    CHECK(question);
    memcpy(question, need->row.data, 4);
    memcpy(question + 4, next.data, next.len);
    struct need *rest = rest_of(need, (struct bytes){question, 4 + next.len});
    free(question);
    return rest;
}

/* Takes the answer to a question about all keys of a database. Returns what is still needed. */
static struct need *take_answer(struct borrow *borrow, const struct need *need,
                                struct message_reader *reader, struct bytes answer)
{
    struct bytes next;
    reader->is_good = borrow_add_answer(borrow, need, answer, &next);
    return next.len ? rest_of_names(need, next) : NULL;
}

/* Reads the item of a reply to LOCK. Returns what is still needed; NULL: nothing. */
static struct need *take_item(struct borrow *borrow, const struct need *need,
                              struct message_reader *reader)
{
    unsigned whole = message_u8(reader);
    struct bytes next = message_bytes(reader);
    if (!reader->is_good)
        return NULL;
    if (need->kind >= NEED_ALL)
        return take_answer(borrow, need, reader, next);
    if (need_locks(need->kind))
        borrow_add_key(borrow, need->row_key, need->mode, whole);
    if (need->kind == NEED_WATCH || need->kind == NEED_CHECK) {
        borrow_add_watch(borrow, need->row_key, need->kind);
        borrow->is_dirty |= whole != 0;
    }
    if (need->kind == NEED_RANGE && next.len)
        return rest_of(need, next);
    if (need->kind == NEED_RANGE)
        borrow_add_range(borrow, need->row_key, need->cf);
    return NULL;
}

/* Reads the items and rows of a reply to LOCK. False: it is not valid. */
static bool take_rows(struct participation *part, struct message_reader *reader)
{
    struct borrow *borrow = part->transaction->borrow;
    struct need *asked = part->needs;
    struct need **rest = &part->needs;
    for (const struct need *need = asked; need; need = need->next) {
        *rest = take_item(borrow, need, reader);
        rest = *rest ? &(*rest)->next : rest;
    }
    *rest = NULL;
    free_needs(asked);
    struct bytes rows = message_bytes(reader);
    borrow_add_rows(borrow, rows);
    return message_is_read(reader);
}

static void on_locked(struct participation *part, struct bytes payload)
{
    struct coordinated *transaction = part->transaction;
    struct partition *partition = transaction->coordinator->partition;
    struct message_reader reader = message_read(payload);
    uint64_t version = message_u64(&reader);
    uint64_t limit = partition->snapshot->config.borrow_limit_bytes;
    if (!take_rows(part, &reader)) {
        fail(transaction, METRIC_BACKEND_FAILED_REFUSED,
             "ERR shard '%s' sent rows that are not valid", part->shard);
        return;
    }
    if (version > partition->batch.version)
        partition->batch.version = version;
    metric_add(partition->metrics.process, METRIC_BACKEND_ACROSS_BYTES, payload.len);
    if (transaction->borrow->bytes > limit)
        fail(transaction, METRIC_BACKEND_FAILED_BORROW_LIMIT,
             "ERR the command needs more than %" PRIu64
             " bytes of keys of other shards (borrow-limit)",
             limit);
    else if (part->needs && !send_lock(part))
        cannot_send(transaction, part->shard);
    else
        check_fetched(transaction);
}

/* ---- watched keys of other shards ---- */

/* A key that the session watches at another shard. */
struct watch_elsewhere {
    struct watch_elsewhere *next;
    uint16_t slot;
    bool is_first; /* the first one at its shard, which CHECK names */
    char shard[SHARD_NAME_MAX + 1];
    struct bytes row_key; /* follows the struct */
};

struct watches_elsewhere {
    char name[8]; /* of the watcher, among those of this partition */
    struct watch_elsewhere *first;
    size_t bytes;
};

static struct watches_elsewhere *watches_of(struct call *call)
{
    struct session *session = call->session;
    if (!session->pending.watches) {
        session->pending.watches = calloc(1, sizeof *session->pending.watches);
        CHECK(session->pending.watches);
        put_le64(session->pending.watches->name,
                 ++call->partition->shards.coordinator->last_number);
    }
    return session->pending.watches;
}

static void add_watch(struct call *call, uint16_t slot, struct bytes row_key)
{
    struct watches_elsewhere *watches = call->session->pending.watches;
    const char *shard = owner_of(call->partition, slot);
    bool is_first = true;
    for (const struct watch_elsewhere *watch = watches->first; watch; watch = watch->next) {
        if (bytes_equal(watch->row_key, row_key))
            return;
        is_first = is_first && strcmp(watch->shard, shard) != 0;
    }
    struct watch_elsewhere *watch = calloc(1, sizeof *watch + row_key.len);
    CHECK(watch);
    watch->slot = slot;
    watch->is_first = is_first;
    (void)snprintf(watch->shard, sizeof watch->shard, "%s", shard);
    memcpy(watch + 1, row_key.data, row_key.len);
    watch->row_key = (struct bytes){(char *)(watch + 1), row_key.len};
    watch->next = watches->first;
    watches->first = watch;
}

bool coordinator_watch(struct call *call, struct bytes key)
{
    uint16_t slot = slot_rule_slot(call->slot_rule, key);
    struct bytes row_key = encode_metadata_key(call->arena, call->space->name, slot, key);
    struct watches_elsewhere *watches = watches_of(call);
    if (borrow_watch(call, NEED_WATCH, slot, row_key,
                     (struct bytes){watches->name, sizeof watches->name}) == OK) {
        add_watch(call, slot, row_key);
        return true;
    }
    call_error(call, ERR_UNCACHED);
    return false;
}

/* Has the slot of a key that was watched elsewhere moved here since? */
static bool has_moved_here(const struct call *call, const struct watches_elsewhere *watches)
{
    const struct watch_elsewhere *watch = watches->first;
    while (watch && !slot_set_has(call->slots, watch->slot))
        watch = watch->next;
    return watch;
}

bool coordinator_ask_watches(struct call *call)
{
    const struct watches_elsewhere *watches = call->session->pending.watches;
    bool is_known = true;
    if (!watches || has_moved_here(call, watches))
        return true;
    for (const struct watch_elsewhere *watch = watches->first; watch; watch = watch->next)
        if (watch->is_first &&
            borrow_watch(call, NEED_CHECK, watch->slot, watch->row_key,
                         (struct bytes){watches->name, sizeof watches->name}) != OK)
            is_known = false;
    return is_known;
}

bool coordinator_watch_dirty(struct call *call)
{
    const struct watches_elsewhere *watches = call->session->pending.watches;
    if (!watches)
        return false;
    if (!call->borrow || has_moved_here(call, watches))
        return true; /* they cannot be checked */
    if (!coordinator_ask_watches(call))
        call_error(call, ERR_UNCACHED);
    return call->borrow->is_dirty;
}

static void send_unwatch(const struct partition *partition, const struct watches_elsewhere *watches,
                         const char *shard)
{
    struct peer_link *link =
        partition->shards.peers ? peer_set_find(partition->shards.peers, bytes_of(shard)) : NULL;
    if (!link)
        return;
    struct peer_request *request = malloc(sizeof *request);
    CHECK(request);
    *request = (struct peer_request){.on_reply = forget_reply};
    if (peer_link_send(link, request, PEER_UNWATCH,
                       (struct bytes){watches->name, sizeof watches->name}) != PEER_SENT)
        free(request);
}

void session_unwatch(struct session *session)
{
    struct watches_elsewhere *watches = session->pending.watches;
    watch_clear(session->partition->watchers.watches, &session->watcher);
    lock_unreserve(session->partition->shards.locks, &session->watcher.reserver);
    if (!watches)
        return;
    session->pending.watches = NULL;
    while (watches->first) {
        struct watch_elsewhere *watch = watches->first;
        watches->first = watch->next;
        if (watch->is_first)
            send_unwatch(session->partition, watches, watch->shard);
        free(watch);
    }
    free(watches);
}

/* ---- the last attempt ---- */

/* Where effects of an attempt go. */
struct collecting {
    struct call *call;
    struct coordinated *transaction;
};

static bool is_foreign(const struct call *call, uint16_t slot)
{
    return slot != EFFECT_NO_SLOT && call->slots && !slot_set_has(call->slots, slot);
}

static struct effects *begin_effects(const struct partition *partition)
{
    struct effects *effects = effects_new();
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_BATCH,
                                                    .origin_ms = loop_wall_ms(partition->loop),
                                                    .version = partition->batch.version});
    return effects;
}

/* The effects of the shard that has the rows of this place. */
static struct effects *effects_for(const struct collecting *collecting,
                                   const struct effect_place *place)
{
    struct coordinated *transaction = collecting->transaction;
    const struct partition *partition = collecting->call->partition;
    /* a range over several slots is a flush, by owner (borrow_each_run) */
    if (place->is_any_space || !is_foreign(collecting->call, place->first_slot))
        return transaction->own;
    struct participation *part =
        participation_of(transaction, owner_of(partition, place->first_slot));
    if (!part->effects)
        part->effects = begin_effects(partition);
    return part->effects;
}

static void collect_range(void *owner, enum cf cf, struct bytes from, struct bytes to)
{
    struct effect_place place = effect_place_of_range(cf, from, to);
    effects_delete_range(effects_for(owner, &place), cf, from, to);
}

static void collect_row(void *owner, enum cf cf, struct bytes key, const struct bytes *value)
{
    struct effect_place place = effect_place_of_row(cf, key);
    struct effects *effects = effects_for(owner, &place);
    if (value)
        effects_put(effects, cf, key, *value);
    else
        effects_delete(effects, cf, key);
}

/* Adds a change to those that another shard will tell. False: the key is of this partition. */
static bool collect_change(struct call *call, const struct change *change)
{
    if (change->kind > CHANGE_GROUP_DELETED || !change->space)
        return false;
    uint16_t slot = slot_rule_slot(call->slot_rule, change->key);
    if (!is_foreign(call, slot))
        return false;
    struct participation *part =
        participation_of(call->session->pending.across, owner_of(call->partition, slot));
    message_put_u8(&part->changes, (uint8_t)change->kind);
    message_put_u8(&part->changes, (uint8_t)change->type);
    message_put_u8(&part->changes, change->by_client);
    message_put_bytes(&part->changes,
                      encode_metadata_key(call->arena, change->space->name, slot, change->key));
    part->changes_count++;
    return true;
}

/* Moves the command's messages out of the partition's. */
static void collect_messages(struct call *call, uint32_t first)
{
    struct coordinated *transaction = call->session->pending.across;
    struct push_messages *messages = call->partition->watchers.messages;
    for (uint32_t i = first; i < messages->count; i++) {
        struct change *change = messages->items[i].change;
        if (change && collect_change(call, change))
            push_messages_erase(messages, i);
    }
    push_messages_take(messages, first, &transaction->messages);
}

void coordinator_collect(struct call *call, size_t position, uint32_t messages)
{
    struct coordinated *transaction = call->session->pending.across;
    struct collecting collecting = {call, transaction};
    const struct overlay_changes changes = {
        .on_range = collect_range, .on_row = collect_row, .owner = &collecting};
    transaction->own = begin_effects(call->partition);
    overlay_each_change(call->partition->overlay, position, &changes);
    collect_messages(call, messages);
}

/* ---- committing ---- */

/* Brings the own effects and messages into the open batch. */
static bool apply_own(struct coordinated *transaction)
{
    struct partition *partition = transaction->coordinator->partition;
    push_messages_give(partition->watchers.messages, &transaction->messages);
    return !effects_count(transaction->own) ||
           apply_effects(partition, effects_bytes(transaction->own));
}

static bool send_effects(struct participation *part)
{
    struct out out;
    struct bytes effects = effects_bytes(part->effects);
    size_t len = part->changes.bytes;
    char *changes = malloc(len + 1);
    CHECK(changes);
    out_copy(&part->changes, changes);
    out_clear(&part->changes);
    out_init(&out);
    put_id(&out, &part->transaction->id);
    message_put_bytes(&out, effects);
    message_put_u32(&out, part->changes_count);
    message_put_bytes(&out, (struct bytes){changes, len});
    free(changes);
    return send_request(part, PEER_PREPARE, &out);
}

static bool send_release(struct participation *part)
{
    struct out out;
    out_init(&out);
    put_id(&out, &part->transaction->id);
    bool is_sent = send_request(part, PEER_RELEASE, &out);
    out_clear(&out);
    part->is_locked &= !is_sent;
    return is_sent;
}

/* Sends PREPARE to the shards with effects, or RELEASE to the others, which confirm that they had the locks until now. */
static void send_to_all(struct coordinated *transaction, bool prepares)
{
    struct list *next;
    for (struct list *at = transaction->participants.next; at != &transaction->participants;
         at = next) {
        struct participation *part = participation_at(at);
        next = at->next;
        if (prepares != (part->effects != NULL))
            continue;
        if (!prepares && !part->is_locked) {
            participation_free(part);
        } else if (!(prepares ? send_effects(part) : send_release(part))) {
            cannot_send(transaction, part->shard);
            return;
        }
    }
}

/* Begins the next state when no reply is outstanding. When all shards with effects are prepared, changed keys can be
 * neither read nor written until the decision, and only then the first lock is released. So other clients see the
 * transaction at this moment. */
static void advance(struct coordinated *transaction)
{
    if (transaction->state == COORDINATED_PREPARING && !transaction->outstanding) {
        transaction->state = COORDINATED_RELEASING;
        transaction->owner.is_prepared = true;
        send_to_all(transaction, false);
    }
    if (transaction->state == COORDINATED_RELEASING && !transaction->outstanding)
        transaction->state = COORDINATED_PREPARED;
}

/* By the number of other shards that it has changed; the participants are these. */
static void count_committed(const struct coordinated *transaction)
{
    const struct list *first = transaction->participants.next;
    bool is_one = first == &transaction->participants;
    bool is_two = !is_one && first->next == &transaction->participants;
    count_one(transaction, is_one   ? METRIC_BACKEND_ACROSS_ONE
                           : is_two ? METRIC_BACKEND_ACROSS_TWO
                                    : METRIC_BACKEND_ACROSS_MANY);
}

static uint32_t count_shards(const struct coordinated *transaction)
{
    uint32_t count = 1;
    for (const struct list *at = transaction->participants.next; at != &transaction->participants;
         at = at->next)
        count++;
    return count;
}

/* The command has its reply. */
static void log_ended(const struct call *call, const struct coordinated *transaction)
{
    command_stats_across(call, clock_mono_us() - transaction->started_us,
                         transaction->shards ? transaction->shards : count_shards(transaction));
}

bool coordinator_is_counted(const struct session *session)
{
    return session->pending.across->is_counted;
}

bool coordinator_commit(struct call *call)
{
    struct coordinated *transaction = call->session->pending.across;
    transaction->is_counted = true;
    transaction->shards = count_shards(transaction);
    transaction->state = COORDINATED_PREPARING;
    out_cut(call->reply.out, call->begun, &transaction->reply);
    transaction->observed = overlay_observed(call->partition->overlay);
    send_to_all(transaction, true);
    advance(transaction);
    if (transaction->state == COORDINATED_FAILED || transaction->state == COORDINATED_PREPARED)
        return coordinator_finish(call);
    reader_wait_add(&call->session->pending.row_wait, &transaction->borrow->wants);
    return false;
}

static void on_prepared(struct coordinated *transaction)
{
    advance(transaction);
    if (transaction->state == COORDINATED_PREPARED)
        resume(transaction);
}

/* Writes the decision into the open batch. */
static void put_decision(struct coordinated *transaction)
{
    struct partition *partition = transaction->coordinator->partition;
    struct arena *arena = &partition->running.arena;
    size_t count = 0;
    for (struct list *at = transaction->participants.next; at != &transaction->participants;
         at = at->next)
        count++;
    const char **shards = arena_alloc(arena, count * sizeof *shards);
    count = 0;
    for (struct list *at = transaction->participants.next; at != &transaction->participants;
         at = at->next)
        shards[count++] = participation_at(at)->shard;
    overlay_put(partition->overlay, CF_SYSTEM,
                encode_transaction_key(arena, TRANSACTION_DECIDED, &transaction->id),
                encode_decision(arena, shards, count));
}

/* All shards with effects are prepared, and the others had their locks until the last attempt. */
static void decide(struct call *call, struct coordinated *transaction)
{
    struct partition *partition = call->partition;
    bool has_effects = !list_empty(&transaction->participants);
    bool is_write = has_effects || effects_count(transaction->own);
    overlay_savepoint(partition->overlay);
    space_savepoint(partition->spaces);
    bool is_good =
        !(is_write && commit_is_failed(partition->commit, NULL)) && apply_own(transaction);
    if (!is_good) {
        overlay_rollback(partition->overlay);
        space_rollback(partition->spaces);
        fail(transaction, METRIC_BACKEND_FAILED_LOG, "%s",
             error_text((enum error)commit_error(partition->commit)));
        (void)coordinator_finish(call);
        return;
    }
    log_ended(call, transaction);
    out_move(call->reply.out, &transaction->reply);
    overlay_observe(partition->overlay, transaction->observed);
    if (!has_effects) {
        count_committed(transaction);
        coordinated_free(transaction);
        return;
    }
    put_decision(transaction);
    commit_sync_next(partition->commit);
    transaction->state = COORDINATED_DECIDING;
    transaction->session->pending.across = NULL;
    transaction->session = NULL;
    lock_release(partition->shards.locks, &transaction->owner);
    ticket_wait_begin(partition, &transaction->ticket);
}

bool coordinator_is_ending(const struct session *session)
{
    const struct coordinated *transaction = session->pending.across;
    return transaction &&
           (transaction->state == COORDINATED_PREPARED || transaction->state == COORDINATED_FAILED);
}

/* EXEC has its reply: ends the queue and the watches. */
static void end_queue(const struct call *call)
{
    if (!(call->command->traits & TRAIT_RUNS_QUEUE))
        return;
    transaction_end(&call->session->transaction);
    session_unwatch(call->session);
}

bool coordinator_finish(struct call *call)
{
    struct coordinated *transaction = call->session->pending.across;
    if (!coordinator_is_ending(call->session))
        return false;
    if (transaction->state == COORDINATED_PREPARED) {
        decide(call, transaction);
        arena_reset(call->arena);
        end_queue(call);
        return true;
    }
    end_queue(call);
    log_ended(call, transaction);
    call_error_text(call, transaction->error);
    coordinated_free(transaction);
    return true;
}

void coordinator_abandon(struct session *session)
{
    struct coordinated *transaction = session->pending.across;
    if (!transaction)
        return;
    release_shards(transaction);
    coordinated_free(transaction);
}

void coordinator_forget(struct coordinator *coordinator, const struct session *session)
{
    if (!coordinator)
        return;
    for (struct list *at = coordinator->all.next; at != &coordinator->all; at = at->next)
        push_messages_forget(&coordinated_at(at)->messages, session);
}

/* ---- decided ---- */

static void forget_decision(struct coordinated *transaction)
{
    struct partition *partition = transaction->coordinator->partition;
    overlay_savepoint(partition->overlay);
    overlay_secured_begin(partition->overlay);
    overlay_delete(
        partition->overlay, CF_SYSTEM,
        encode_transaction_key(&partition->running.arena, TRANSACTION_DECIDED, &transaction->id));
    overlay_secured_end(partition->overlay);
    coordinated_free(transaction);
}

/* Sends APPLY to the shards that have not applied the effects; deletes the decision when there are none. */
static void apply_all(struct coordinated *transaction)
{
    struct partition *partition = transaction->coordinator->partition;
    bool is_done = true;
    for (struct list *at = transaction->participants.next; at != &transaction->participants;
         at = at->next) {
        struct participation *part = participation_at(at);
        struct out out;
        is_done = is_done && part->is_applied;
        if (part->is_applied || part->sent)
            continue;
        out_init(&out);
        put_id(&out, &transaction->id);
        (void)send_request(part, PEER_APPLY, &out);
        out_clear(&out);
    }
    bool may_write = !partition->running.busy_error && !commit_is_failed(partition->commit, NULL);
    if (is_done && may_write)
        forget_decision(transaction);
}

/* ticket_wait.on_end */
static void on_decision_durable(struct ticket_wait *wait, int err)
{
    struct coordinated *transaction = container_of(wait, struct coordinated, ticket);
    transaction->state = err ? COORDINATED_UNCERTAIN : COORDINATED_DECIDED;
    if (err)
        return;
    count_committed(transaction);
    apply_all(transaction);
}

/* The store was recovered: is the decision in it? */
static void look_up(struct coordinated *transaction)
{
    struct partition *partition = transaction->coordinator->partition;
    struct slice value;
    struct bytes key =
        encode_transaction_key(&partition->running.arena, TRANSACTION_DECIDED, &transaction->id);
    int err = overlay_get(partition->overlay, CF_SYSTEM, key, &value);
    if (err == OK) {
        slice_release(&value);
        transaction->state = COORDINATED_DECIDED;
        count_committed(transaction);
        apply_all(transaction);
    } else if (err == ERR_NOT_FOUND) {
        count_one(transaction, METRIC_BACKEND_FAILED_LOG);
        for (struct list *at = transaction->participants.next; at != &transaction->participants;
             at = at->next)
            release_participant(participation_at(at));
        coordinated_free(transaction);
    }
}

/* ---- replies ---- */

/* The shard does not own a key's slot any more: asks all shards for owners, and begins again at the next tick. False: that has
 * happened too often. */
static bool seek_owner(struct coordinated *transaction)
{
    struct partition_shards *shards = &transaction->coordinator->partition->shards;
    if (transaction->moved == MOVED_MAX || !begin_later(transaction))
        return false;
    transaction->moved++;
    if (!shards->unknown_until_ms)
        shards->unknown_until_ms =
            loop_mono_ms(transaction->coordinator->partition->loop) + SEEK_OWNER_MS;
    return true;
}

static bool is_elsewhere(struct bytes reason)
{
    return bytes_equal(reason, BYTES(SLOT_IS_ELSEWHERE)) ||
           bytes_equal(reason, BYTES(SLOT_IS_LEAVING));
}

static bool are_locks_lost(struct bytes reason)
{
    return bytes_equal(reason, BYTES(LOCKS_ARE_LOST)) ||
           bytes_equal(reason, BYTES(KEYS_ARE_UNLOCKED)) ||
           bytes_equal(reason, BYTES(STATE_IS_ANOTHER));
}

/* The shard has refused a request, or its link is lost. True: the transaction begins again. */
static bool outlives(struct participation *part, enum peer_result result, struct bytes reason)
{
    struct coordinated *transaction = part->transaction;
    bool is_stopping = result != PEER_LOST && bytes_equal(reason, BYTES(SHARD_STOPS));
    if (await_shard(transaction, part->shard, is_stopping))
        return true;
    if (result != PEER_LOST && is_elsewhere(reason))
        return seek_owner(transaction);
    if (result == PEER_LOST || !are_locks_lost(reason) || transaction->moved == MOVED_MAX ||
        !begin_later(transaction))
        return false;
    transaction->moved++;
    return true;
}

static void on_refused(struct participation *part, uint8_t sent, enum peer_result result,
                       struct bytes payload)
{
    struct coordinated *transaction = part->transaction;
    if (sent == PEER_APPLY)
        return; /* coordinator_tick sends it again */
    if (result == PEER_LOST)
        part->is_locked = sent == PEER_PREPARE; /* it may be prepared */
    if (outlives(part, result, payload))
        return;
    if (result == PEER_LOST) {
        fail(transaction, METRIC_BACKEND_FAILED_UNREACHABLE,
             "TRYAGAIN the connection to shard '%s' was lost", part->shard);
    } else if (payload.len > 5 && memcmp(payload.data, "BUSY ", 5) == 0) {
        /* a slow script runs there: the reply is that of a command for this shard alone */
        fail(transaction, METRIC_BACKEND_FAILED_REFUSED, "%.*s",
             (int)(payload.len < 256 ? payload.len : 256), payload.data);
    } else {
        fail(transaction, METRIC_BACKEND_FAILED_REFUSED, "TRYAGAIN shard '%s' refused: %.*s",
             part->shard, (int)(payload.len < 256 ? payload.len : 256), payload.data);
    }
}

static void on_reply(struct peer_request *request, enum peer_result result, struct bytes payload)
{
    struct participation *part = container_of(request, struct participation, request);
    struct coordinated *transaction = part->transaction;
    uint8_t sent = part->sent;
    part->sent = 0;
    transaction->outstanding--;
    if (result != PEER_OK) {
        on_refused(part, sent, result, payload);
    } else if (sent == PEER_LOCK) {
        on_locked(part, payload);
    } else if (sent == PEER_PREPARE) {
        on_prepared(transaction);
    } else if (sent == PEER_RELEASE) {
        participation_free(part);
        on_prepared(transaction);
    } else {
        part->is_applied = true;
        apply_all(transaction);
    }
}

/* ---- requests of participants ---- */

static struct coordinated *find_transaction(const struct coordinator *coordinator,
                                            const struct transaction_id *id)
{
    for (struct list *at = coordinator->all.next; at != &coordinator->all; at = at->next) {
        struct coordinated *transaction = coordinated_at(at);
        if (transaction->id.number == id->number &&
            strcmp(transaction->id.run_id, id->run_id) == 0 &&
            strcmp(transaction->id.shard, id->shard) == 0)
            return transaction;
    }
    return NULL;
}

/* 'c': committed; 'a': aborted; 'o': open. A participant that asks before the decision has lost its connection, so the
 * transaction is aborted. */
static char outcome_of(struct coordinated *transaction)
{
    if (!transaction)
        return 'a';
    switch (transaction->state) {
    case COORDINATED_DECIDED:
        return 'c';
    case COORDINATED_DECIDING:
    case COORDINATED_UNCERTAIN:
        return 'o';
    case COORDINATED_FAILED:
        return 'a';
    default:
        if (!begin_later(transaction))
            fail(transaction, METRIC_BACKEND_FAILED_UNREACHABLE,
                 "TRYAGAIN a shard lost the connection to shard '%s' in the transaction",
                 transaction->id.shard);
        return 'a';
    }
}

bool coordinator_handle(struct coordinator *coordinator, struct peer_incoming *incoming,
                        const struct peer_frame *frame)
{
    struct transaction_id id;
    if (frame->kind != PEER_OUTCOME && frame->kind != PEER_WOUND && frame->kind != PEER_OPEN)
        return false;
    if (!transaction_id_read(frame->payload, &id)) {
        peer_incoming_reply(incoming, PEER_FAILED, frame->id, BYTES("the request is not valid"));
        return true;
    }
    struct coordinated *transaction = find_transaction(coordinator, &id);
    char answer = transaction ? 'o' : 'a';
    if (frame->kind == PEER_OUTCOME)
        answer = outcome_of(transaction);
    else if (frame->kind == PEER_WOUND && transaction)
        begin_again(transaction);
    peer_incoming_reply(incoming, PEER_DONE, frame->id, (struct bytes){&answer, 1});
    return true;
}

/* ---- time ---- */

/* Writes the keys for an error: "key 'a'", "keys 'a' and 2 others", or "keys of the database". Returns `to`. */
static const char *name_keys(struct bytes row_key, uint32_t count, char to[ERROR_MAX])
{
    struct bytes space;
    struct bytes key = {"", 0};
    uint16_t slot;
    bool is_key = decode_metadata_key(row_key, &space, &slot, &key);
    int len = (int)(key.len < KEY_SHOWN ? key.len : KEY_SHOWN);
    if (!is_key)
        (void)snprintf(to, ERROR_MAX, "keys of the database");
    else if (count > 1)
        (void)snprintf(to, ERROR_MAX, "keys '%.*s' and %u other%s", len, key.data, count - 1,
                       count > 2 ? "s" : "");
    else
        (void)snprintf(to, ERROR_MAX, "key '%.*s'", len, key.data);
    return to;
}

/* Does the need concern rows of keys that are locked? */
static bool is_for_rows(const struct need *need)
{
    return need_is_rows(need->kind) || need->kind == NEED_NAMES || need->kind == NEED_PLACE;
}

/* Number of keys that the shard has not locked yet, or else of those whose rows it has not sent; *first: the first. */
static uint32_t count_awaited(const struct participation *part, bool *are_locked,
                              struct bytes *first)
{
    uint32_t keys = 0;
    *are_locked = true;
    for (const struct need *need = part->needs; need; need = need->next)
        *are_locked &= is_for_rows(need);
    for (const struct need *need = part->needs; need; need = need->next) {
        bool is_row = is_for_rows(need);
        if (is_row != *are_locked || (keys && bytes_equal(need->row_key, *first)))
            continue;
        if (keys++ == 0)
            *first = need->row_key;
    }
    return keys;
}

static void fail_at_shard(const struct participation *part)
{
    struct coordinated *transaction = part->transaction;
    struct bytes first = {"", 0};
    char text[ERROR_MAX];
    bool are_locked;
    uint32_t count = count_awaited(part, &are_locked, &first);
    const char *keys = name_keys(first, count, text);
    if (are_locked)
        fail(transaction, METRIC_BACKEND_FAILED_TIMEOUT,
             "TRYAGAIN shard '%s' has not sent the %s in time (transaction-timeout)", part->shard,
             keys);
    else
        fail(transaction, METRIC_BACKEND_FAILED_TIMEOUT,
             "TRYAGAIN shard '%s' has not locked the %s in time (transaction-timeout): another "
             "transaction over several shards has locked %s, or the shard does not answer",
             part->shard, keys, count > 1 ? "one of them" : "it");
}

/* The transaction has waited too long for its keys. The error names those of one shard. */
static void fail_late(struct coordinated *transaction)
{
    struct bytes first;
    char text[ERROR_MAX];
    uint32_t count = lock_requested(&transaction->owner, &first);
    if (count) {
        const char *keys = name_keys(first, count, text);
        fail(transaction, METRIC_BACKEND_FAILED_TIMEOUT,
             "TRYAGAIN the %s at shard '%s' %s locked by other transactions over several shards "
             "(transaction-timeout)",
             keys, transaction->id.shard, count > 1 ? "are" : "is");
        return;
    }
    struct list *at = transaction->participants.next;
    while (!participation_at(at)->sent)
        at = at->next; /* one is outstanding */
    fail_at_shard(participation_at(at));
}

static void tick_one(struct coordinated *transaction)
{
    struct partition *partition = transaction->coordinator->partition;
    uint64_t timeout_ms = partition->snapshot->config.transaction_timeout_ms;
    bool waits = transaction->outstanding || !list_empty(&transaction->owner.requests);
    bool is_over = loop_mono_ms(partition->loop) > transaction->started_ms + timeout_ms;
    /* it has no locks elsewhere, and a backup may hold the command that it waits for */
    bool is_paused = partition->pause.is_quiescing && list_empty(&transaction->participants);
    switch (transaction->state) {
    case COORDINATED_COLLECTING:
        if (transaction->is_deferred) {
            transaction->is_deferred = false;
            resume(transaction);
        } else if (waits && is_over && !is_paused)
            fail_late(transaction);
        break;
    case COORDINATED_DECIDED:
        apply_all(transaction);
        break;
    case COORDINATED_UNCERTAIN:
        if (!commit_is_failed(partition->commit, NULL))
            look_up(transaction);
        break;
    default:
        break;
    }
}

void coordinator_tick(struct coordinator *coordinator)
{
    struct list *next;
    for (struct list *at = coordinator->all.next; at != &coordinator->all; at = next) {
        next = at->next;
        tick_one(coordinated_at(at));
    }
}

/* ---- after a start, or a failed batch ---- */

static bool load_decision(struct coordinator *coordinator, struct bytes row, struct bytes value)
{
    enum transaction_record record;
    struct transaction_id id;
    struct bytes names;
    struct bytes name;
    if (!decode_transaction_key(row, &record, &id))
        return false;
    if (record != TRANSACTION_DECIDED || find_transaction(coordinator, &id))
        return true;
    if (!decode_decision(value, &names))
        return false;
    struct coordinated *transaction = coordinated_new(coordinator);
    transaction->id = id;
    transaction->state = COORDINATED_DECIDED;
    while (decode_next_name(&names, &name)) {
        char shard[SHARD_NAME_MAX + 1];
        (void)snprintf(shard, sizeof shard, "%.*s", (int)name.len, name.data);
        (void)participation_of(transaction, shard);
    }
    return names.len == 0;
}

bool coordinator_load(struct coordinator *coordinator)
{
    struct partition *partition = coordinator->partition;
    struct overlay_iter *iter = overlay_iter_new(partition->overlay, CF_SYSTEM,
                                                 transaction_rows_from(), transaction_rows_to());
    bool is_good = true;
    for (overlay_iter_seek_first(iter); is_good && overlay_iter_valid(iter);
         overlay_iter_next(iter))
        is_good = load_decision(coordinator, overlay_iter_key(iter), overlay_iter_value(iter));
    is_good = is_good && overlay_iter_error(iter) == OK;
    overlay_iter_free(iter);
    return is_good;
}

bool coordinator_reload(struct coordinator *coordinator)
{
    struct list *next;
    for (struct list *at = coordinator->all.next; at != &coordinator->all; at = next) {
        struct coordinated *transaction = coordinated_at(at);
        next = at->next;
        if (transaction->state <= COORDINATED_PREPARED)
            fail(transaction, METRIC_BACKEND_FAILED_LOG,
                 "TRYAGAIN a batch of shard '%s' could not be written", transaction->id.shard);
    }
    return coordinator_load(coordinator);
}

/* ---- for a backup ---- */

/* May a record of the transaction be in the log of a shard, or get there? A failed one has told its shards to abort. */
static bool is_open(const struct coordinated *transaction)
{
    switch (transaction->state) {
    case COORDINATED_COLLECTING:
        return !list_empty(&transaction->participants);
    case COORDINATED_FAILED:
    case COORDINATED_HELD:
        return false;
    default:
        return true;
    }
}

/* A shard that has not applied a decided transaction. */
static const char *late_shard(struct coordinated *transaction)
{
    struct list *at = transaction->participants.next;
    while (at->next != &transaction->participants && participation_at(at)->is_applied)
        at = at->next;
    return participation_at(at)->shard;
}

static void describe_open(struct coordinated *transaction, char *why, size_t size)
{
    char id[TRANSACTION_ID_TEXT_MAX];
    transaction_id_print(&transaction->id, id);
    if (transaction->state == COORDINATED_DECIDED)
        (void)snprintf(why, size,
                       "transaction %s is decided, and shard '%s' has not applied it: check that "
                       "shard '%s' runs and accepts writes",
                       id, late_shard(transaction), late_shard(transaction));
    else if (transaction->state == COORDINATED_UNCERTAIN)
        (void)snprintf(why, size,
                       "the decision of transaction %s could not be written: check the disk of "
                       "shard '%s'",
                       id, transaction->id.shard);
    else
        (void)snprintf(why, size, "transaction %s has not ended (SCREE TRANSACTIONS)", id);
}

bool coordinator_is_quiet(const struct coordinator *coordinator, char *why, size_t size)
{
    for (struct list *at = coordinator->all.next; at != &coordinator->all; at = at->next) {
        if (!is_open(coordinated_at(at)))
            continue;
        describe_open(coordinated_at(at), why, size);
        return false;
    }
    return true;
}

void coordinator_go_on(struct coordinator *coordinator)
{
    for (struct list *at = coordinator->all.next; at != &coordinator->all; at = at->next) {
        struct coordinated *transaction = coordinated_at(at);
        transaction->started_ms = loop_mono_ms(coordinator->partition->loop);
        if (transaction->state != COORDINATED_HELD)
            continue;
        transaction->state = COORDINATED_COLLECTING;
        transaction->session->pending.row_wait.lock_since_ms = 0;
        resume(transaction);
    }
}

/* ---- figures ---- */

struct coordinator_figures coordinator_figures(const struct coordinator *coordinator)
{
    struct coordinator_figures figures = {0};
    for (struct list *at = coordinator->all.next; at != &coordinator->all; at = at->next) {
        const struct coordinated *transaction = coordinated_at(at);
        figures.count++;
        figures.decided += transaction->state == COORDINATED_DECIDED;
        figures.uncertain += transaction->state == COORDINATED_UNCERTAIN;
    }
    return figures;
}

void coordinator_list(const struct coordinator *coordinator,
                      void (*on_line)(void *owner, const char *line), void *owner)
{
    static const char *const words[] = {"collecting", "preparing", "releasing",
                                        "prepared",   "failed",    "deciding",
                                        "decided",    "uncertain", "held"};
    char id[TRANSACTION_ID_TEXT_MAX];
    char line[ERROR_MAX];
    for (struct list *at = coordinator->all.next; at != &coordinator->all; at = at->next) {
        const struct coordinated *transaction = coordinated_at(at);
        transaction_id_print(&transaction->id, id);
        (void)snprintf(line, sizeof line, "id=%s role=coordinator state=%s outstanding=%u", id,
                       words[transaction->state], transaction->outstanding);
        on_line(owner, line);
    }
}
