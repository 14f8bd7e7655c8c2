#include "backend/transaction/participant.h"

#include "backend/context/change.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/format/effects.h"
#include "backend/keyspace/apply_effects.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/peer/message.h"
#include "backend/peer/messages.h"
#include "backend/peer/peer_set.h"
#include "backend/session/internal_call.h"
#include "backend/session/limits.h"
#include "backend/session/waiters.h"
#include "backend/transaction/forced.h"
#include "backend/transaction/participant_inner.h"
#include "shared/byte_order.h"
#include "shared/log.h"
#include "shared/table.h"

#include <stdlib.h>

enum {
    ASK_AFTER_MS = 2000,
};

static void on_part_rows(struct retry *retry);
static void on_part_durable(struct ticket_wait *wait, int err);
static void on_part_wounded(struct lock_owner *owner);
static void on_part_granted(struct lock_owner *owner);
static void on_abandoned(struct peer_call *call);

const struct state_row part_states[PART_STATES] = {
    [PART_LOCKING] = {"LOCKING", "locking", STATE_BIT(PART_LOCKED)},
    [PART_LOCKED] = {"LOCKED", "locked", STATE_BIT(PART_LOCKING) | STATE_BIT(PART_CHECKING)},
    [PART_CHECKING] = {"CHECKING", "checking", STATE_BIT(PART_PREPARING)},
    [PART_PREPARING] = {"PREPARING", "preparing", STATE_BIT(PART_PREPARED)},
    [PART_PREPARED] = {"PREPARED", "prepared", STATE_BIT(PART_APPLYING)},
    [PART_APPLYING] = {"APPLYING", "applying", 0},
};

/* Nothing is prepared: the transaction ends with its coordinator's connection. */
static const uint32_t COLLECTS =
    STATE_BIT(PART_LOCKING) | STATE_BIT(PART_LOCKED) | STATE_BIT(PART_CHECKING);

void part_set_state(struct part *part, enum part_state state)
{
    CHECK(state_may_follow(part_states, part->state, state));
    part->state = state;
}

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

size_t *participant_left(struct participant *participant, const char *shard)
{
    bool is_many = table_count(participant->left) >= SHARD_COUNT_MAX;
    struct bytes name = bytes_of(shard);
    size_t *left = table_get(participant->left, name);
    if (!left && is_many)
        left = table_get(participant->left, name = BYTES("?"));
    if (left)
        return left;
    left = calloc(1, sizeof *left);
    CHECK(left);
    (void)table_put(participant->left, name, left);
    return left;
}

/* The connection over which the coordinator is heard, and which its memory counts for; NULL: it has ended, and what is prepared counts for
 * its shard. */
static void use_incoming(struct part *part, struct peer_incoming *incoming)
{
    part->incoming = incoming;
    tally_set_total(&part->tally, incoming ? &incoming->held
                                           : participant_left(part->participant, part->id.shard));
}

static struct part *part_new(struct participant *participant, const struct transaction_id *id,
                             struct peer_incoming *incoming)
{
    char text[TRANSACTION_ID_BYTES_MAX];
    struct part *part = calloc(1, sizeof *part);
    CHECK(part);
    part->participant = participant;
    part->id = *id;
    part->heard_ms = loop_mono_ms(participant->partition->loop);
    lock_owner_init(&part->owner);
    part->owner.on_wounded = on_part_wounded;
    part->owner.on_granted = on_part_granted;
    part->owner.tally = &part->tally;
    part->tally.max = participant->partition->snapshot->memory.command;
    use_incoming(part, incoming);
    tally_add(&part->tally, sizeof *part);
    part->call.on_abandoned = on_abandoned;
    retry_init(&part->rows, on_part_rows);
    ticket_wait_init(&part->ticket, on_part_durable);
    out_init(&part->reply);
    (void)table_put(participant->parts, id_bytes(id, text), part);
    return part;
}

struct bytes bytes_heap_copy(struct bytes bytes)
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

void part_reply(struct part *part, struct bytes payload)
{
    if (part->has_call)
        peer_call_done(&part->call, payload);
    part->has_call = false;
}

static void part_refuse(struct part *part, struct refusal refusal)
{
    if (part->has_call)
        peer_call_refuse(&part->call, refusal);
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

void part_end(struct part *part, struct refusal reason)
{
    struct participant *participant = part->participant;
    char text[TRANSACTION_ID_BYTES_MAX];
    part_refuse(part, reason);
    (void)table_remove(participant->parts, id_bytes(&part->id, text));
    lock_release(participant->partition->shards.locks, &part->owner);
    cancel_question(part);
    retry_cancel(&part->rows);
    ticket_wait_cancel(&part->ticket);
    timer_free(part->progress.next_slice);
    out_clear(&part->reply);
    portions_clear(&part->to_send);
    portions_clear(&part->arrived);
    heap_free(&part->request);
    tally_set_total(&part->tally, NULL);
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

static void end_all(struct participant *participant, struct refusal reason)
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
    participant->left = table_new();
    participant->forced = forced_set_new(partition);
    list_init(&participant->watchers);
    return participant;
}

void participant_free(struct participant *participant)
{
    size_t cursor = 0;
    struct bytes key;
    void *left;
    if (!participant)
        return;
    end_all(participant, REFUSAL(OTHER, "the partition stops"));
    CHECK(list_empty(&participant->watchers)); /* they end with their connections */
    table_free(participant->parts);
    while (table_next(participant->left, &cursor, &key, &left))
        free(left);
    table_free(participant->left);
    forced_set_free(participant->forced);
    free(participant);
}

void participant_drop(struct participant *participant)
{
    end_all(participant, NO_REFUSAL);
    forced_clear(participant->forced);
}

static void on_part_rows(struct retry *retry)
{
    struct part *part = container_of(retry, struct part, rows);
    if (part->participant->partition->running.busy_error) {
        part_end(part, refusal_busy(part->participant->partition->running.busy_error));
        return;
    }
    part->tries = retry->has_failed ? ROW_TRIES_MAX : part->tries;
    retry->has_failed = false;
    part_read_rows(part);
}

static void on_part_granted(struct lock_owner *owner)
{
    struct part *part = container_of(owner, struct part, owner);
    if (part->state == PART_LOCKING)
        part_read_rows(part);
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

/* Reads the id at the front of a request, which the sender coordinates (messages.def). */
static struct transaction_id read_id(struct message_reader *reader)
{
    struct transaction_id id;
    CHECK(transaction_id_read(message_bytes(reader), &id));
    return id;
}

/* A partition that stops, or hands over, begins no transaction of another shard but of one that does the same, which waits for the end of its own:
 * else each would wait for the other. The partitions of a process stop together. */
static bool takes_no_more(const struct participant *participant, const struct transaction_id *id,
                          bool is_last)
{
    const struct partition *partition = participant->partition;
    bool is_of_process = strcmp(id->run_id, partition->process->run_id) == 0;
    return partition_takes_no_more(partition) && !is_of_process && !is_last;
}

#define LOCKS_ARE_LOST   REFUSAL(LOCKS_LOST, "the transaction has lost its locks")
#define STATE_IS_ANOTHER REFUSAL(LOCKS_LOST, "the transaction is in another state")

/* peer_handle_fn */
void handle_lock(struct partition *partition, struct peer_incoming *incoming,
                 const struct peer_frame *frame)
{
    struct participant *participant = partition->shards.participant;
    struct message_reader reader = message_read(frame->payload);
    struct transaction_id id = read_id(&reader);
    uint64_t begun_us = message_u64(&reader);
    uint64_t tie_breaker = message_u64(&reader);
    uint64_t room = message_u64(&reader);
    uint8_t flags = message_u8(&reader);
    bool has_locks = flags & LOCK_HAS_LOCKS;
    if (!reader.is_good) {
        peer_incoming_refuse(incoming, frame->id, REQUEST_IS_NOT_VALID);
        return;
    }
    struct part *part = part_find(participant, &id);
    if (!part && has_locks) {
        peer_incoming_refuse(incoming, frame->id, LOCKS_ARE_LOST);
        return;
    }
    if (!part && takes_no_more(participant, &id, flags & LOCK_IS_LAST)) {
        peer_incoming_refuse(incoming, frame->id, REFUSAL(STOPPING, "it stops"));
        return;
    }
    if (!part) {
        part = part_new(participant, &id, incoming);
        part->owner.begun_us = begun_us;
        part->owner.tie_breaker = tie_breaker;
        part->state = PART_LOCKED;
    }
    if (part->state != PART_LOCKED || part->incoming != incoming) {
        peer_incoming_refuse(incoming, frame->id, STATE_IS_ANOTHER);
        return;
    }
    open_call(part, incoming, frame);
    part_set_state(part, PART_LOCKING);
    part->tries = 0;
    part->rows.ranges = 0;
    part->room = room < part->tally.max ? room : part->tally.max;
    part->is_too_long = false;
    part_drop_reply(part);
    tally_remove(&part->tally, part->request.len);
    heap_free(&part->request);
    part->request = bytes_heap_copy(reader.rest);
    tally_add(&part->tally, part->request.len);
    struct refusal refused = part_lock_items(part);
    if (refused.code)
        part_end(part, refused);
    else if (list_empty(&part->owner.requests))
        part_read_rows(part);
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

/* ---- records ---- */

void part_put_applying(struct part *part)
{
    struct partition *partition = part->participant->partition;
    struct arena *arena = &partition->running.arena;
    size_t reported = part->changes.len - part->progress.apply.changes.rest.len;
    overlay_put(partition->overlay, CF_SYSTEM,
                encode_transaction_key(arena, TRANSACTION_APPLYING, &part->id),
                encode_applying(arena, (uint32_t)reported));
}

void part_delete_record(const struct part *part, enum transaction_record record)
{
    struct partition *partition = part->participant->partition;
    overlay_delete(partition->overlay, CF_SYSTEM,
                   encode_transaction_key(&partition->running.arena, record, &part->id));
}

/* ---- PREPARE ---- */

/* The transaction of a request that needs its locks, which must have come over this connection. NULL: the request was refused. `reader`
 * is behind the id. */
static struct part *locked_part(struct participant *participant, struct peer_incoming *incoming,
                                const struct peer_frame *frame, struct message_reader *reader)
{
    *reader = message_read(frame->payload);
    struct transaction_id id = read_id(reader);
    struct part *part = part_find(participant, &id);
    if (part && part->state == PART_LOCKED && part->incoming == incoming)
        return part;
    peer_incoming_refuse(incoming, frame->id, LOCKS_ARE_LOST);
    return NULL;
}

/* peer_handle_fn. PREPARE, or PREPARE_PART: a portion that comes before it. */
void handle_prepare(struct partition *partition, struct peer_incoming *incoming,
                    const struct peer_frame *frame)
{
    struct participant *participant = partition->shards.participant;
    struct message_reader reader;
    struct part *part = locked_part(participant, incoming, frame, &reader);
    if (!part)
        return;
    open_call(part, incoming, frame);
    struct refusal refused = part_add_portion(part, &reader);
    if (refused.code)
        part_end(part, refused);
    else if (frame->kind == PEER_PREPARE_PART)
        part_reply(part, BYTES(""));
    else
        part_prepare(part);
}

/* peer_handle_fn. The coordinator has the first portions of a reply to LOCK: sends the next one. */
void handle_lock_rest(struct partition *partition, struct peer_incoming *incoming,
                      const struct peer_frame *frame)
{
    struct participant *participant = partition->shards.participant;
    struct message_reader reader;
    struct part *part = locked_part(participant, incoming, frame, &reader);
    if (!part)
        return;
    part->heard_ms = loop_mono_ms(participant->partition->loop);
    if (!part_send_rest(part, incoming, frame->id))
        peer_incoming_refuse(incoming, frame->id, REQUEST_IS_NOT_VALID);
}

/* ---- APPLY and RELEASE ---- */

/* peer_handle_fn */
void handle_apply(struct partition *partition, struct peer_incoming *incoming,
                  const struct peer_frame *frame)
{
    struct participant *participant = partition->shards.participant;
    struct message_reader reader = message_read(frame->payload);
    struct transaction_id id = read_id(&reader);
    struct part *part = part_find(participant, &id);
    if (!part) {
        forced_decided(participant->forced, &id, true);
        peer_incoming_done(incoming, frame->id, BYTES(""));
        return;
    }
    if (part->state != PART_PREPARED || part->has_call) {
        peer_incoming_refuse(incoming, frame->id, STATE_IS_ANOTHER);
        return;
    }
    open_call(part, incoming, frame);
    use_incoming(part, incoming);
    if (!part_apply(part))
        part_refuse(part, REFUSAL(OTHER, "writes are refused at present"));
}

/* Aborts a transaction that is not applied yet. */
void part_abort(struct part *part)
{
    struct partition *partition = part->participant->partition;
    struct call call;
    if (part->state == PART_PREPARING || part->state == PART_PREPARED) {
        internal_call_begin(partition, &call);
        overlay_secured_begin(partition->overlay);
        part_delete_record(part, TRANSACTION_PREPARED);
        internal_call_end(partition, &call);
        overlay_secured_end(partition->overlay);
    }
    part_end(part, REFUSAL(OTHER, "the transaction was aborted"));
}

/* peer_handle_fn */
void handle_release(struct partition *partition, struct peer_incoming *incoming,
                    const struct peer_frame *frame)
{
    struct participant *participant = partition->shards.participant;
    struct message_reader reader = message_read(frame->payload);
    struct transaction_id id = read_id(&reader);
    struct part *part = part_find(participant, &id);
    bool had_locks = part && part->state == PART_LOCKED && part->incoming == incoming;
    if (part && part->state != PART_APPLYING)
        part_abort(part);
    if (had_locks)
        peer_incoming_done(incoming, frame->id, BYTES(""));
    else
        peer_incoming_refuse(incoming, frame->id, LOCKS_ARE_LOST);
}

/* ---- durable ---- */

/* ticket_wait.on_end. After a failed batch participant_load() rebuilds everything. */
static void on_part_durable(struct ticket_wait *wait, int err)
{
    struct part *part = container_of(wait, struct part, ticket);
    if (err)
        return;
    switch (part->state) {
    case PART_LOCKING:
        part_set_state(part, PART_LOCKED);
        part_send_reply(part);
        break;
    case PART_PREPARING:
        part_set_state(part, PART_PREPARED);
        part_reply(part, BYTES(""));
        break;
    case PART_APPLYING:
        part_reply(part, BYTES(""));
        part_end(part, NO_REFUSAL);
        break;
    default:
        break;
    }
}

static bool load_part(struct participant *participant, struct bytes row, struct bytes value)
{
    enum transaction_record record;
    struct transaction_id id;
    if (!decode_transaction_key(row, &record, &id))
        return false;
    if (record == TRANSACTION_FORCED)
        return forced_load(participant->forced, &id, value);
    if (record != TRANSACTION_PREPARED)
        return true;
    struct bytes kept = bytes_heap_copy(value);
    struct part *part = part_new(participant, &id, NULL);
    part->state = PART_PREPARED;
    part->arrived = (struct portions){.bytes = (char *)kept.data, .len = kept.len};
    tally_add(&part->tally, kept.len);
    if (!decode_prepared(kept, &part->effects, &part->changes)) {
        part_end(part, NO_REFUSAL);
        return false;
    }
    part->owner.is_prepared = part->owner.is_in_doubt = true;
    part->heard_ms = 0;
    return part_lock_again(part) && part_apply_again(part);
}

bool participant_load(struct participant *participant)
{
    struct partition *partition = participant->partition;
    end_all(participant, REFUSAL(OTHER, "a batch could not be written"));
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
    bool may_end = part->state == PART_PREPARED || state_is_in(part->state, COLLECTS);
    if (!may_end || result != PEER_OK || part->participant->partition->running.busy_error)
        return;
    part->heard_ms = loop_mono_ms(part->participant->partition->loop);
    part->owner.is_in_doubt = false;
    if (outcome == 'a')
        part_abort(part);
    else if (outcome == 'c' && part->state == PART_PREPARED)
        (void)part_apply(part);
}

void participant_closed(struct participant *participant, struct peer_incoming *incoming)
{
    size_t count;
    struct part **parts = all_parts(participant, &count);
    for (size_t i = 0; i < count; i++) {
        struct part *part = parts[i];
        if (part->incoming != incoming)
            continue;
        use_incoming(part, NULL);
        if (state_is_in(part->state, COLLECTS))
            part_end(part, NO_REFUSAL);
    }
    free(parts);
    participant_drop_watchers(participant, incoming);
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
        bool is_collecting = state_is_in(part->state, COLLECTS);
        if (is_collecting && part->is_wounded)
            ask(part, PEER_WOUND);
        else if (is_collecting && is_late)
            ask(part, PEER_OPEN);
        if (part->state != PART_PREPARED || (part->incoming && !is_late))
            continue;
        part->owner.is_in_doubt = is_late;
        ask(part, part->incoming ? PEER_OPEN : PEER_OUTCOME);
    }
    free(parts);
}

/* ---- requests ---- */

/* peer_handle_fn */
void handle_unwatch(struct partition *partition, struct peer_incoming *incoming,
                    const struct peer_frame *frame)
{
    struct participant *participant = partition->shards.participant;
    struct remote_watcher *remote =
        frame->payload.len == 8
            ? participant_find_watcher(participant, incoming, get_le64(frame->payload.data))
            : NULL;
    if (remote)
        participant_free_watcher(participant, remote);
    peer_incoming_done(incoming, frame->id, BYTES(""));
}
