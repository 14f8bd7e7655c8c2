#include "backend/partition/step_down.h"

#include "backend/context/backend_metrics.h"
#include "backend/context/partition.h"
#include "backend/dispatch/blocking.h"
#include "backend/keyspace/watch.h"
#include "backend/partition/leader_line.h"
#include "backend/partition/leadership.h"
#include "backend/partition/shards.h"
#include "backend/partition/stopping.h"
#include "backend/session/push_message.h"
#include "backend/session/reply_stream.h"
#include "backend/session/session.h"
#include "backend/session/session_reply.h"
#include "backend/session/ticket_wait.h"
#include "backend/session/tracking.h"
#include "backend/session/waits.h"
#include "backend/slots/peering.h"
#include "shared/error.h"
#include "shared/metrics.h"
#include "shared/slot.h"

typedef void session_fn(struct session *session);

/* The function may free the session. */
static void for_each_session(struct partition *partition, session_fn *fn)
{
    struct list *next;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = next) {
        next = link->next;
        fn(container_of(link, struct session, link));
    }
}

/* ---- requests that wait ------------------------------------------------------------------------ */

/* What the request waits for may never come: it runs again at once. */
static void run_request_again(struct session *session)
{
    if (session->pending.retry.pending)
        metric_sub(session->partition->metrics.process, METRIC_BACKEND_SUSPENDED_CLIENTS,
                   session->is_throttled);
    retry_cancel(&session->pending.retry);
    session->pending.was_slow = false;
    session_resume(session);
}

static void void_waits(struct partition *partition)
{
    partition->running.next = NULL;
    for_each_session(partition, run_request_again);
}

/* ---- commands that wait for keys --------------------------------------------------------------- */

static void refuse_wait(struct waiter *waiter)
{
    blocking_refuse(waiter, "UNBLOCKED force unblock from blocking operation, instance state "
                            "changed (master -> replica?)");
}

static void end_blocking(struct session *session)
{
    if (session->is_closing)
        return;
    if (session->pending.waiter)
        refuse_wait(session->pending.waiter);
    waits_cancel(session, session->login.hears_stop ? blocking_give_back : refuse_wait);
    stream_send(session->stream);
}

static void end_subscriber(struct session *session)
{
    if (subscriber_count(&session->subscriber) && !session->is_closing)
        session_end(session);
}

/* ---- replies ----------------------------------------------------------------------------------- */

/* `open`: the ticket of the batch that was open. All that waits for it and for those before is rolled back. */
static void end_tickets(struct partition *partition, uint64_t open)
{
    metric_add(partition->metrics.process, METRIC_BACKEND_COMMIT_FAILURES, 1);
    leadership_not_logged(partition);
    sessions_release(partition, !(open & 1), ERR_LEADER_CHANGED);
    sessions_release(partition, open & 1, ERR_NOT_LEADER);
    ticket_waits_end(partition, open, ERR_LEADER_CHANGED);
}

static void forget_what_clients_know(struct partition *partition)
{
    watch_touch_slots(partition->watchers.watches, 0, SLOT_COUNT - 1);
    tracking_forget_all(partition);
    push_messages_deliver(partition->watchers.messages, 0);
}

/* ---- in order ---------------------------------------------------------------------------------- */

static void roll_back(struct partition *partition)
{
    uint64_t open = overlay_ticket(partition->overlay);
    (void)commit_step_down(partition->commit);
    partition->copies.is_following = true;
    end_tickets(partition, open);
}

void step_down(struct partition *partition)
{
    leader_line_remember(partition);
    partition->copies.is_closed = true;
    partition->copies.is_powerless = false;
    stopping_tell(partition);
    void_waits(partition);
    shards_drop(partition);
    reply_streams_abort(partition);
    roll_back(partition);
    shards_renew(partition);
    if (!partition->copies.read_anew(partition))
        leadership_end_process(partition, "rows of the partition cannot be read");
    peering_configure(partition);
    forget_what_clients_know(partition);
    for_each_session(partition, end_blocking);
    for_each_session(partition, end_subscriber);
}
