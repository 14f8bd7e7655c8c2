#include "backend/transaction/coordinator.h"

#include "backend/context/change.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/format/effects.h"
#include "backend/keyspace/apply_effects.h"
#include "backend/keyspace/space.h"
#include "backend/peer/peer_set.h"
#include "backend/session/attempt.h"
#include "backend/session/command_stats.h"
#include "backend/session/session.h"
#include "backend/transaction/coordinator_inner.h"
#include "shared/clock.h"
#include "shared/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    AWAIT_SHARD_MS = 3000, /* how long to wait for a shard that restarts */
};

static void on_own_wounded(struct lock_owner *owner);
static void on_own_granted(struct lock_owner *owner);

/* ---- life ---- */

const struct state_row coordinated_states[COORDINATED_STATES] = {
    [COORDINATED_COLLECTING] = {"COLLECTING", "collecting",
                                STATE_BIT(COORDINATED_COLLECTING) |
                                    STATE_BIT(COORDINATED_PREPARING) |
                                    STATE_BIT(COORDINATED_FAILED) | STATE_BIT(COORDINATED_HELD) |
                                    STATE_BIT(COORDINATED_QUEUED)},
    [COORDINATED_PREPARING] = {"PREPARING", "preparing",
                               STATE_BIT(COORDINATED_RELEASING) |
                                   STATE_BIT(COORDINATED_COLLECTING) |
                                   STATE_BIT(COORDINATED_FAILED)},
    [COORDINATED_RELEASING] = {"RELEASING", "releasing",
                               STATE_BIT(COORDINATED_PREPARED) | STATE_BIT(COORDINATED_COLLECTING) |
                                   STATE_BIT(COORDINATED_FAILED)},
    [COORDINATED_PREPARED] = {"PREPARED", "prepared",
                              STATE_BIT(COORDINATED_DECIDING) | STATE_BIT(COORDINATED_FAILED)},
    [COORDINATED_FAILED] = {"FAILED", "failed", 0},
    [COORDINATED_DECIDING] = {"DECIDING", "deciding",
                              STATE_BIT(COORDINATED_DECIDED) | STATE_BIT(COORDINATED_UNCERTAIN)},
    [COORDINATED_DECIDED] = {"DECIDED", "decided", 0},
    [COORDINATED_UNCERTAIN] = {"UNCERTAIN", "uncertain", STATE_BIT(COORDINATED_DECIDED)},
    [COORDINATED_HELD] = {"HELD", "held",
                          STATE_BIT(COORDINATED_COLLECTING) | STATE_BIT(COORDINATED_FAILED)},
    [COORDINATED_QUEUED] = {"QUEUED", "queued",
                            STATE_BIT(COORDINATED_COLLECTING) | STATE_BIT(COORDINATED_FAILED)},
};

/* Nothing was changed, and the locks of the attempt may be released. */
static const uint32_t MAY_BEGIN_AGAIN = STATE_BIT(COORDINATED_COLLECTING) |
                                        STATE_BIT(COORDINATED_PREPARING) |
                                        STATE_BIT(COORDINATED_RELEASING);

void coordinated_set_state(struct coordinated *transaction, enum coordinated_state state)
{
    CHECK(state_may_follow(coordinated_states, transaction->state, state));
    transaction->state = state;
}

struct coordinated *coordinated_new(struct coordinator *coordinator)
{
    struct coordinated *transaction = calloc(1, sizeof *transaction);
    CHECK(transaction);
    transaction->coordinator = coordinator;
    list_init(&transaction->participants);
    list_init(&transaction->turn);
    lock_owner_init(&transaction->owner);
    transaction->owner.on_wounded = on_own_wounded;
    transaction->owner.on_granted = on_own_granted;
    out_init(&transaction->reply);
    ticket_wait_init(&transaction->ticket, coordinated_on_durable);
    list_push(&coordinator->all, &transaction->link);
    return transaction;
}

/* The shard that has the slot; empty: none is known, so it cannot be reached. */
const char *coordinated_shard_of(const struct partition *partition, uint16_t slot)
{
    const char *shard = partition->shards.slot_owner(partition, slot);
    return shard ? shard : "";
}

struct participation *participation_of(struct coordinated *transaction, const char *shard)
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

/* NULL: it is decided, and holds no needs, locks or rows any more. */
struct tally *coordinated_tally(const struct coordinated *transaction)
{
    return transaction->borrow ? &transaction->borrow->tally : NULL;
}

static void cancel_request(struct participation *part)
{
    struct peer_link *link = part->sent ? link_of(part) : NULL;
    if (link)
        peer_link_cancel(link, &part->request);
    part->transaction->outstanding -= part->sent != 0;
    part->sent = 0;
    needs_free(part->needs, coordinated_tally(part->transaction));
    part->needs = NULL;
    participation_drop_arrived(part);
    portions_clear(&part->to_send);
}

void participation_free(struct participation *part)
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

void coordinated_free(struct coordinated *transaction)
{
    struct partition *partition = transaction->coordinator->partition;
    if (transaction->session)
        transaction->session->pending.across = NULL;
    timer_free(transaction->next_turn);
    coordinated_drop_aside(transaction);
    drop_participants(transaction);
    lock_release(partition->shards.locks, &transaction->owner);
    borrow_free(transaction->borrow);
    effects_free(transaction->own);
    out_clear(&transaction->reply);
    push_messages_clear(&transaction->messages);
    ticket_wait_cancel(&transaction->ticket);
    coordinated_end_grant(transaction);
    list_remove(&transaction->link);
    free(transaction);
}

struct coordinator *coordinator_new(struct partition *partition)
{
    struct coordinator *coordinator = calloc(1, sizeof *coordinator);
    CHECK(coordinator);
    coordinator->partition = partition;
    list_init(&coordinator->all);
    fair_queue_init(&coordinator->grants);
    coordinator->script_keys = script_keys_new();
    return coordinator;
}

void coordinator_drop(struct coordinator *coordinator)
{
    while (!list_empty(&coordinator->all))
        coordinated_free(coordinated_at(coordinator->all.next));
}

void coordinator_free(struct coordinator *coordinator)
{
    if (!coordinator)
        return;
    coordinator_drop(coordinator);
    fair_queue_fini(&coordinator->grants);
    script_keys_free(coordinator->script_keys);
    free(coordinator);
}

/* ---- requests ---- */

void coordinated_put_id(struct out *out, const struct transaction_id *id)
{
    char text[TRANSACTION_ID_BYTES_MAX];
    message_put_bytes(out, (struct bytes){text, transaction_id_write(id, text)});
}

/* Sends the bytes of `out`, which is cleared. False: the shard cannot be reached. */
bool participation_send(struct participation *part, enum peer_kind kind, struct out *out)
{
    CHECK(!part->sent);
    part->request = (struct peer_request){.on_reply = participation_on_reply};
    if (peer_link_send_out(link_of(part), &part->request, (uint8_t)kind, out) != PEER_SENT)
        return false;
    part->sent = (uint8_t)kind;
    part->transaction->outstanding++;
    return true;
}

/* Sends RELEASE: the shard releases all locks of the transaction, and aborts it if it is prepared. If the message is lost, the
 * shard notices that the connection has ended, or asks for the outcome. */
void participation_release(struct participation *part)
{
    struct peer_link *link = link_of(part);
    struct out out;
    char payload[TRANSACTION_ID_BYTES_MAX + 8];
    cancel_request(part);
    if (!part->is_locked || !link)
        return;
    part->is_locked = false;
    out_init(&out);
    coordinated_put_id(&out, &part->transaction->id);
    size_t len = out.bytes;
    CHECK(len <= sizeof payload);
    out_copy(&out, payload);
    out_clear(&out);
    peer_link_tell(link, PEER_RELEASE, (struct bytes){payload, len});
}

static void release_shards(struct coordinated *transaction)
{
    for (struct list *at = transaction->participants.next; at != &transaction->participants;
         at = at->next)
        participation_release(participation_at(at));
    lock_release(transaction->coordinator->partition->shards.locks, &transaction->owner);
}

/* Runs the session's request again. */
void coordinated_resume(struct coordinated *transaction)
{
    if (transaction->borrow && !list_empty(&transaction->borrow->wants))
        retry_done(&transaction->borrow->wants);
}

void coordinated_count(const struct coordinated *transaction, enum metric metric)
{
    metric_add(transaction->coordinator->partition->metrics.process, metric, 1);
}

/* Releases all locks and forgets what was fetched. */
void coordinated_forget_attempts(struct coordinated *transaction)
{
    release_shards(transaction);
    drop_participants(transaction);
    if (transaction->next_turn)
        timer_stop(transaction->next_turn);
    coordinated_drop_aside(transaction);
    borrow_clear(transaction->borrow);
    /* participants must not take a late message for this attempt */
    transaction->id.number = ++transaction->coordinator->last_number;
}

/* Nothing is decided: the transaction begins again at the next tick. False: it has taken too long. */
bool coordinated_begin_later(struct coordinated *transaction)
{
    const struct partition *partition = transaction->coordinator->partition;
    uint64_t timeout_ms = partition->snapshot->config.transaction_timeout_ms;
    if (!state_is_in(transaction->state, MAY_BEGIN_AGAIN) ||
        loop_mono_ms(partition->loop) >= transaction->time.started_ms + timeout_ms)
        return false;
    coordinated_forget_attempts(transaction);
    effects_free(transaction->own);
    transaction->own = NULL;
    out_clear(&transaction->reply);
    push_messages_clear(&transaction->messages);
    transaction->owner.is_prepared = false;
    transaction->shards = 0;
    if (transaction->session->scope.db != transaction->db)
        session_select(transaction->session, transaction->db);
    coordinated_set_state(transaction, COORDINATED_COLLECTING);
    transaction->is_deferred = true;
    coordinated_count(transaction, METRIC_BACKEND_ACROSS_RETRIES);
    return true;
}

/* Keys that were only guessed may stop it, if a shard is down or silent, or a value is too big. So it begins again without them. */
static bool goes_without_guesses(struct coordinated *transaction, enum metric reason)
{
    struct borrow *borrow = transaction->borrow;
    if (!borrow || !borrow->has_guessed || reason == METRIC_BACKEND_FAILED_LOG)
        return false;
    borrow_blame_guesses(borrow);
    borrow->is_without_guesses = true;
    if (!coordinated_begin_later(transaction))
        return false;
    borrow->tally.is_over = false; /* what was borrowed is freed */
    return true;
}

/* Fails the transaction, which has changed nothing: releases all locks, and the request will reply the error. The reason is one of
 * transaction_failures (backend_metrics.h). */
void coordinated_fail(struct coordinated *transaction, enum metric reason, const char *format, ...)
{
    va_list args;
    if (goes_without_guesses(transaction, reason))
        return;
    va_start(args, format);
    (void)vsnprintf(transaction->error, sizeof transaction->error, format, args);
    va_end(args);
    release_shards(transaction);
    coordinated_end_grant(transaction);
    coordinated_set_state(transaction, COORDINATED_FAILED);
    coordinated_count(transaction, reason);
    coordinated_resume(transaction);
}

/* The shard restarts: the transaction begins again at the next tick. False: the shard is away for too long. */
bool coordinated_await_shard(struct coordinated *transaction, const char *shard, bool is_stopping)
{
    const struct partition *partition = transaction->coordinator->partition;
    const struct peer_link *link = peer_set_find(partition->shards.peers, bytes_of(shard));
    uint64_t now_ms = loop_mono_ms(partition->loop);
    bool is_away = link && link->state != PEER_LINK_UP && now_ms < link->since_ms + AWAIT_SHARD_MS;
    return (is_away || is_stopping) && coordinated_begin_later(transaction);
}

/* Fails the transaction because a request could not be sent to the shard, or waits for the shard. */
void coordinated_cannot_send(struct coordinated *transaction, const char *shard)
{
    const struct peer_set *peers = transaction->coordinator->partition->shards.peers;
    const struct peer_link *link = peers ? peer_set_find(peers, bytes_of(shard)) : NULL;
    if (coordinated_await_shard(transaction, shard, false))
        return;
    coordinated_fail(transaction, METRIC_BACKEND_FAILED_UNREACHABLE,
                     link && link->state == PEER_LINK_UP
                         ? "TRYAGAIN too many bytes or requests are on their way to shard '%s' "
                           "(peer-output-limit)"
                         : "TRYAGAIN shard '%s', which has one of the keys, cannot be reached",
                     shard);
}

void coordinated_begin_again(struct coordinated *transaction)
{
    if (transaction->state != COORDINATED_COLLECTING)
        return;
    coordinated_forget_attempts(transaction);
    coordinated_count(transaction, METRIC_BACKEND_ACROSS_RETRIES);
    coordinated_resume(transaction);
}

static void on_own_wounded(struct lock_owner *owner)
{
    coordinated_begin_again(container_of(owner, struct coordinated, owner));
}

/* Resumes the session when everything that the attempt needed is here. */
void coordinated_check_fetched(struct coordinated *transaction)
{
    if (transaction->state == COORDINATED_COLLECTING && !transaction->outstanding &&
        list_empty(&transaction->owner.requests))
        coordinated_resume(transaction);
}

static void on_own_granted(struct lock_owner *owner)
{
    struct coordinated *transaction = container_of(owner, struct coordinated, owner);
    coordinated_check_fetched(transaction);
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
        transaction->time.started_ms = loop_mono_ms(partition->loop);
        transaction->time.started_us = partition->running.started_us;
        transaction->db = session->scope.db;
        transaction->owner.begun_us = call->now_us;
        transaction->owner.tie_breaker =
            hash_bytes(bytes_of(transaction->id.shard)) ^ transaction->id.number;
        transaction->owner.reserver = &session->watcher.reserver;
        transaction->borrow =
            borrow_new(&transaction->owner, &partition->running.budget, budget_memory_max(call));
        transaction->borrow->script_keys = partition->shards.coordinator->script_keys;
        session->pending.across = transaction;
    }
    return transaction->borrow;
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

static bool send_release(struct participation *part)
{
    struct out out;
    out_init(&out);
    coordinated_put_id(&out, &part->transaction->id);
    bool is_sent = participation_send(part, PEER_RELEASE, &out);
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
        } else if (prepares && !participation_may_prepare(part)) {
            return;
        } else if (!(prepares ? participation_prepare(part) : send_release(part))) {
            coordinated_cannot_send(transaction, part->shard);
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
        coordinated_set_state(transaction, COORDINATED_RELEASING);
        transaction->owner.is_prepared = true;
        send_to_all(transaction, false);
    }
    if (transaction->state == COORDINATED_RELEASING && !transaction->outstanding)
        coordinated_set_state(transaction, COORDINATED_PREPARED);
}

/* Counts a committed transaction by the number of other shards that it has changed, which are its participants. */
void coordinated_count_committed(const struct coordinated *transaction)
{
    const struct list *first = transaction->participants.next;
    bool is_one = first == &transaction->participants;
    bool is_two = !is_one && first->next == &transaction->participants;
    coordinated_count(transaction, is_one   ? METRIC_BACKEND_ACROSS_ONE
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

/* Adds the command, which has its reply, to the statistics of commands over several shards. */
static void log_ended(const struct call *call, const struct coordinated *transaction)
{
    command_stats_across(call, clock_mono_us() - transaction->time.started_us,
                         transaction->shards ? transaction->shards : count_shards(transaction));
}

void coordinator_forget_locks(struct call *call)
{
    coordinated_forget_attempts(call->session->pending.across);
}

bool coordinator_has_attempted(const struct session *session)
{
    const struct coordinated *transaction = session->pending.across;
    return transaction && borrow_is_used(transaction->borrow) && !transaction->borrow->ahead.keys;
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
    coordinated_set_state(transaction, COORDINATED_PREPARING);
    out_cut(call->reply.out, call->begun, &transaction->reply);
    transaction->observed = overlay_observed(call->partition->overlay);
    send_to_all(transaction, true);
    advance(transaction);
    if (transaction->state == COORDINATED_FAILED || transaction->state == COORDINATED_PREPARED)
        return coordinator_finish(call);
    retry_wait(&call->session->pending.retry, &transaction->borrow->wants);
    return false;
}

void coordinated_on_prepared(struct coordinated *transaction)
{
    advance(transaction);
    if (transaction->state == COORDINATED_PREPARED)
        coordinated_resume(transaction);
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
    attempt_savepoint(partition);
    bool is_good =
        !(is_write && commit_is_failed(partition->commit, NULL)) && apply_own(transaction);
    if (!is_good) {
        attempt_rollback(partition);
        coordinated_fail(transaction, METRIC_BACKEND_FAILED_LOG, "%s",
                         error_text((enum error)commit_error(partition->commit)));
        (void)coordinator_finish(call);
        return;
    }
    log_ended(call, transaction);
    out_move(call->reply.out, &transaction->reply);
    overlay_observe(partition->overlay, transaction->observed);
    if (!has_effects) {
        coordinated_count_committed(transaction);
        coordinated_free(transaction);
        return;
    }
    put_decision(transaction);
    commit_sync_next(partition->commit);
    coordinated_set_state(transaction, COORDINATED_DECIDING);
    transaction->session->pending.across = NULL;
    transaction->session = NULL;
    lock_release(partition->shards.locks, &transaction->owner);
    borrow_free(transaction->borrow);
    transaction->borrow = NULL;
    coordinated_end_grant(transaction);
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

/* ---- requests of participants ---- */

struct coordinated *coordinator_find(const struct coordinator *coordinator,
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

/* ---- time ---- */

static void tick_one(struct coordinated *transaction)
{
    struct partition *partition = transaction->coordinator->partition;
    bool waits = transaction->outstanding || !list_empty(&transaction->owner.requests);
    bool is_over = coordinated_is_late(transaction);
    /* the transaction has no locks at other shards, and a backup may hold the command for which it waits */
    bool is_paused = partition->pause.is_quiescing && list_empty(&transaction->participants);
    switch (transaction->state) {
    case COORDINATED_COLLECTING:
        if (transaction->is_deferred) {
            transaction->is_deferred = false;
            coordinated_resume(transaction);
        } else if (waits && is_over && !is_paused)
            coordinated_fail_late(transaction);
        else if (waits && !is_paused && coordinated_guesses_are_late(transaction))
            (void)goes_without_guesses(transaction, METRIC_BACKEND_FAILED_TIMEOUT);
        break;
    case COORDINATED_QUEUED:
        if (is_over && !partition->pause.is_quiescing)
            coordinated_fail(transaction, METRIC_BACKEND_FAILED_TIMEOUT,
                             "TRYAGAIN other commands use as many bytes of keys of other shards "
                             "as all may (borrow-memory, transaction-timeout)");
        break;
    case COORDINATED_DECIDED:
        coordinated_apply_all(transaction);
        break;
    case COORDINATED_UNCERTAIN:
        if (!commit_is_failed(partition->commit, NULL))
            coordinated_look_up(transaction);
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

/* ---- for a backup ---- */

void coordinator_go_on(struct coordinator *coordinator)
{
    for (struct list *at = coordinator->all.next; at != &coordinator->all; at = at->next) {
        struct coordinated *transaction = coordinated_at(at);
        transaction->time.started_ms = loop_mono_ms(coordinator->partition->loop);
        if (transaction->state != COORDINATED_HELD)
            continue;
        coordinated_set_state(transaction, COORDINATED_COLLECTING);
        transaction->session->pending.retry.since_ms = 0;
        coordinated_resume(transaction);
    }
}
