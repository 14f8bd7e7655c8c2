#include "backend/dispatch/line.h"

#include "backend/context/backend_metrics.h"
#include "backend/context/partition.h"
#include "backend/keyspace/slot_set.h"
#include "backend/session/limits.h"
#include "backend/session/session.h"
#include "backend/transaction/coordinator.h"
#include "shared/check.h"

#include <stdlib.h>

enum { SPELL_MS = 100, BUSY_MS = 5 };

struct line {
    struct partition *partition;
    struct list waiting; /* of struct session, by pending.line.link */
    struct timer *timer; /* runs while there are any */
};

static struct session *session_at(struct list *link)
{
    return container_of(link, struct session, pending.line.link);
}

/* Can a request of the session be sent back, and come again? After STOPPING_FRAME the proxy opens no connection to this process. */
static bool may_bounce(const struct session *session)
{
    const struct session_login *login = &session->login;
    const struct partition_shards *shards = &session->partition->shards;
    unsigned from = 0;
    uint16_t first;
    uint16_t last;
    return login->shares_line && login->follows_bounces && !login->was_told && shards->is_gated &&
           slot_set_next_run(shards->here, &from, &first, &last);
}

/* When the request may leave; 0: it does not, as it waits for rows only, or its transaction is about to end. */
static uint64_t due_ms(const struct session *session, uint64_t now_ms)
{
    const struct transaction_steps *steps = &session->partition->shards.steps;
    uint64_t since_ms = session->pending.retry.since_ms;
    bool is_next = session->partition->running.next == session; /* others wait until it has run */
    if (!may_bounce(session) || is_next || !session->pending.retry.pending)
        return 0;
    if (session->pending.across)
        return coordinator_may_leave(session, &since_ms) ? since_ms + steps->line_across_ms : 0;
    bool is_spell =
        session->pending.line.left_ms && now_ms < session->pending.line.left_ms + SPELL_MS;
    return since_ms ? since_ms + (is_spell ? 0 : steps->line_ms) : 0;
}

/* The request runs again at once, and bounces then (bounce_line). */
static void leave_line(struct session *session, uint64_t now_ms)
{
    struct partition *partition = session->partition;
    session->pending.line.leaves = true;
    session->pending.line.left_ms = now_ms;
    if (session->pending.retry.pending)
        metric_sub(partition->metrics.process, METRIC_BACKEND_SUSPENDED_CLIENTS, 1);
    limits_leave(session);
    retry_cancel(&session->pending.retry);
    coordinator_abandon(session);
    session_resume(session);
}

static void start_line_timer(struct line *line, uint64_t now_ms)
{
    uint64_t due_ms = UINT64_MAX;
    for (struct list *at = line->waiting.next; at != &line->waiting; at = at->next)
        if (session_at(at)->pending.line.due_ms < due_ms)
            due_ms = session_at(at)->pending.line.due_ms;
    if (due_ms != UINT64_MAX)
        timer_start(line->timer, due_ms > now_ms ? due_ms - now_ms : 1, 0);
}

/* `link`: of a session that has been taken out of `waiting`. */
static void leave_if_due(struct line *line, struct list *link, uint64_t now_ms)
{
    struct session *session = session_at(link);
    uint64_t due = due_ms(session, now_ms);
    session->pending.line.due_ms = due;
    if (due > now_ms)
        list_push(&line->waiting, link);
    else if (due)
        leave_line(session, now_ms);
}

/* While a slow call is on the stack, requests get BUSY, and those that wait go on waiting. */
static void on_timer(void *owner)
{
    struct line *line = owner;
    uint64_t now_ms = loop_mono_ms(line->partition->loop);
    if (line->partition->running.busy_error) {
        timer_start(line->timer, BUSY_MS, 0);
        return;
    }
    /* one that leaves releases locks, so that others may end their wait, in any order */
    struct list looked_at;
    list_init(&looked_at);
    struct list *link;
    while ((link = list_pop(&line->waiting)))
        list_push(&looked_at, link);
    while ((link = list_pop(&looked_at)))
        leave_if_due(line, link, now_ms);
    start_line_timer(line, now_ms);
}

struct line *line_new(struct partition *partition)
{
    struct line *line = calloc(1, sizeof *line);
    CHECK(line);
    line->partition = partition;
    list_init(&line->waiting);
    partition->shards.steps.line_ms = LINE_MS;
    partition->shards.steps.line_across_ms = LINE_ACROSS_MS;
    line->timer = timer_new(partition->loop, on_timer, line);
    return line;
}

void line_free(struct line *line)
{
    if (!line)
        return;
    CHECK(list_empty(&line->waiting));
    timer_free(line->timer);
    free(line);
}

void line_wait(struct session *session)
{
    struct line *line = session->partition->clients.line;
    uint64_t now_ms = loop_mono_ms(session->partition->loop);
    if (!session->login.shares_line)
        return;
    session->pending.line.due_ms = due_ms(session, now_ms);
    if (!session->pending.line.due_ms)
        return;
    list_remove(&session->pending.line.link);
    list_push(&line->waiting, &session->pending.line.link);
    start_line_timer(line, now_ms);
}
