/*
 * coordinator_aside.c - attempts of scripts and EXECs that wait where they are (attempt.h).
 */
#include "backend/transaction/coordinator_inner.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/session/attempt.h"
#include "backend/session/session.h"
#include "backend/storage/view.h"

void coordinated_drop_aside(struct coordinated *transaction)
{
    if (!transaction->aside)
        return;
    attempt_aside_free(transaction->aside, transaction->coordinator->partition);
    transaction->aside = NULL;
    transaction->time.waits_ms = 0;
    view_forget_written(transaction->borrow->view);
}

bool coordinator_has_halted(const struct session *session)
{
    return session->pending.across && session->pending.across->aside;
}

struct attempt_aside *coordinator_take_aside(struct call *call)
{
    struct coordinated *transaction = call->session->pending.across;
    struct attempt_aside *aside = transaction->aside;
    if (aside && !attempt_may_enter(call, aside)) {
        coordinated_drop_aside(transaction);
        return NULL;
    }
    transaction->aside = NULL;
    return aside;
}

void coordinator_set_aside(struct call *call, struct attempt_aside *aside)
{
    struct coordinated *transaction = call->session->pending.across;
    transaction->aside = aside;
    transaction->time.waits_ms = loop_mono_ms(call->partition->loop);
}

bool coordinator_may_leave(const struct session *session, uint64_t *since_ms)
{
    static const uint32_t collects = STATE_BIT(COORDINATED_COLLECTING) |
                                     STATE_BIT(COORDINATED_QUEUED) | STATE_BIT(COORDINATED_HELD);
    const struct coordinated *transaction = session->pending.across;
    if (!transaction || !state_is_in(transaction->state, collects))
        return false;
    *since_ms = transaction->time.started_ms;
    return true;
}

bool coordinated_is_late(const struct coordinated *transaction)
{
    const struct partition *partition = transaction->coordinator->partition;
    uint64_t since_ms = transaction->time.started_ms > transaction->time.waits_ms
                            ? transaction->time.started_ms
                            : transaction->time.waits_ms;
    return loop_mono_ms(partition->loop) >
           since_ms + partition->snapshot->config.transaction_timeout_ms;
}

bool coordinated_guesses_are_late(const struct coordinated *transaction)
{
    const struct partition *partition = transaction->coordinator->partition;
    uint64_t half_ms = partition->snapshot->config.transaction_timeout_ms / 2;
    return transaction->borrow &&
           loop_mono_ms(partition->loop) >= transaction->time.started_ms + half_ms &&
           borrow_misses_guesses(transaction->borrow);
}

static void forget_session(struct coordinated *transaction, const struct session *session)
{
    push_messages_forget(&transaction->messages, session);
    if (transaction->aside)
        push_messages_forget(&transaction->aside->messages, session);
}

/* A slow call that serves others has taken its attempt out of its transaction. */
static void forget_in_slow_call(const struct partition *partition, const struct session *session)
{
    const struct call_budget *slow = partition->running.aside;
    if (slow && slow->call && slow->call->aside)
        push_messages_forget(&slow->call->aside->messages, session);
}

void coordinator_forget(struct coordinator *coordinator, const struct session *session)
{
    if (!coordinator)
        return;
    forget_in_slow_call(coordinator->partition, session);
    for (struct list *at = coordinator->all.next; at != &coordinator->all; at = at->next)
        forget_session(coordinated_at(at), session);
}
