/*
 * coordinator_questions.c - what participants ask the coordinator: how a transaction has ended (OUTCOME), whether it goes on (OPEN), and
 * that it gives way to an older one (WOUND).
 */
#include "backend/transaction/coordinator_inner.h"

#include "backend/context/partition.h"
#include "backend/peer/messages.h"

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
        if (transaction->coordinator->partition->running.busy_error)
            return 'o'; /* perhaps its own attempt is running */
        if (!coordinated_begin_later(transaction))
            coordinated_fail(
                transaction, METRIC_BACKEND_FAILED_UNREACHABLE,
                "TRYAGAIN a shard lost the connection to shard '%s' in the transaction",
                transaction->id.shard);
        return 'a';
    }
}

/* The transaction that a participant asks about; *is_asked is false, and the request refused, if it names none. */
static struct coordinated *asked_about(struct partition *partition, struct peer_incoming *incoming,
                                       const struct peer_frame *frame, bool *is_asked)
{
    struct transaction_id id;
    *is_asked = transaction_id_read(frame->payload, &id);
    if (!*is_asked)
        peer_incoming_refuse(incoming, frame->id, REQUEST_IS_NOT_VALID);
    return *is_asked ? coordinator_find(partition->shards.coordinator, &id) : NULL;
}

static void answer_outcome(struct peer_incoming *incoming, const struct peer_frame *frame,
                           char outcome)
{
    peer_incoming_done(incoming, frame->id, (struct bytes){&outcome, 1});
}

/* peer_handle_fn */
void handle_outcome(struct partition *partition, struct peer_incoming *incoming,
                    const struct peer_frame *frame)
{
    bool is_asked;
    struct coordinated *transaction = asked_about(partition, incoming, frame, &is_asked);
    if (is_asked)
        answer_outcome(incoming, frame, outcome_of(transaction));
}

/* As outcome_of(), for a participant that has its connection and may go on to wait. */
static char open_outcome_of(const struct coordinated *transaction)
{
    if (!transaction || transaction->state == COORDINATED_FAILED)
        return 'a';
    return transaction->state == COORDINATED_DECIDED ? 'c' : 'o';
}

/* peer_handle_fn. Has the transaction ended? */
void handle_open(struct partition *partition, struct peer_incoming *incoming,
                 const struct peer_frame *frame)
{
    bool is_asked;
    const struct coordinated *transaction = asked_about(partition, incoming, frame, &is_asked);
    if (is_asked)
        answer_outcome(incoming, frame, open_outcome_of(transaction));
}

/* peer_handle_fn. An older transaction waits for a lock of this one. */
void handle_wound(struct partition *partition, struct peer_incoming *incoming,
                  const struct peer_frame *frame)
{
    bool is_asked;
    struct coordinated *transaction = asked_about(partition, incoming, frame, &is_asked);
    if (transaction)
        coordinated_begin_again(transaction);
    if (is_asked)
        answer_outcome(incoming, frame, transaction ? 'o' : 'a');
}
