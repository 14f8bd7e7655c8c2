#include "backend/session/session_reply.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/stats.h"
#include "backend/session/push_message.h"
#include "backend/session/reply_stream.h"
#include "backend/session/waits.h"
#include "shared/log.h"

static unsigned ticket_parity(const struct session *session)
{
    return overlay_ticket(session->partition->overlay) & 1;
}

struct out *session_reply_begin(struct session *session, bool is_write)
{
    struct partition *partition = session->partition;
    if (session->replies.mode == REPLY_MODE_SKIP_NEXT)
        session->replies.mode = REPLY_MODE_SKIP;
    session->replies.are_dropped = session->replies.mode != REPLY_MODE_ON;
    if (session->replies.are_dropped)
        return &partition->running.discarded;
    unsigned parity = ticket_parity(session);
    if (!session_holds(session, parity) && !is_write && commit_is_idle(partition->commit))
        return stream_out(session->stream);
    return &session->replies.held[parity];
}

/* The ticket that must be durable before new output is sent: the newer of `observed` (0: none) and the ticket of the
 * output already held; 0: none. */
static uint64_t wait_ticket(const struct session *session, uint64_t observed)
{
    uint64_t current = overlay_ticket(session->partition->overlay);
    if (session_holds(session, current & 1) || observed == current)
        return current;
    return session_holds(session, !(current & 1)) || observed ? current - 1 : 0;
}

static struct out *held_out(struct session *session, uint64_t ticket)
{
    unsigned parity = ticket & 1;
    if (!session_holds(session, parity)) {
        list_push(&session->partition->clients.waiting[parity], &session->replies.waiting[parity]);
        overlay_await(session->partition->overlay, ticket);
    }
    return &session->replies.held[parity];
}

/* The reply stream whose reply has begun; NULL: there is none. */
static struct reply_stream *streamed_in_reply(const struct session *session)
{
    return session->pending.streamed && !session->pending.streamed->is_counting
               ? session->pending.streamed
               : NULL;
}

static void streamed_open(struct reply_stream *streamed)
{
    streamed->is_open = true;
    reply_stream_wake(streamed);
}

/* Records where the first part of a streamed reply is: in `held`, or (NULL) in the stream. */
static void streamed_begin(struct session *session, const struct out *held)
{
    struct reply_stream *streamed = session->pending.streamed;
    streamed->parity = held == &session->replies.held[1];
    streamed->held_bytes = held ? held->bytes : 0;
    if (!held)
        streamed_open(streamed);
}

/* Moves a reply after all earlier replies: into the stream, or into the replies that wait for the WAL. */
static void reply_move(struct session *session, struct out *out, uint64_t observed)
{
    struct out *direct = stream_out(session->stream);
    uint64_t ticket = out == direct ? 0 : wait_ticket(session, observed);
    struct out *held = ticket ? held_out(session, ticket) : NULL;
    if (held) {
        if (out != held)
            out_move(held, out);
        session->replies.held_count[ticket & 1]++;
        waits_hold(session, ticket & 1);
    } else {
        if (out != direct)
            out_move(direct, out);
        stream_send(session->stream);
    }
    if (streamed_in_reply(session))
        streamed_begin(session, held);
}

/* Queues a complete reply. If it was written directly to the stream's output and must not be sent yet, it is moved:
 * because its command made or observed an effect (scripts may write although the command table says no), or because
 * push messages of the command to its own session precede the reply. */
static void reply_place(struct session *session, struct out *out, size_t begun, uint64_t observed,
                        bool has_messages)
{
    bool is_direct = out == stream_out(session->stream);
    if (!has_messages && !(is_direct && wait_ticket(session, observed))) {
        reply_move(session, out, observed);
        return;
    }
    struct out reply;
    struct out both;
    out_init(&reply);
    out_init(&both);
    out_cut(out, begun, &reply);
    if (has_messages)
        push_messages_move_before(session->partition->watchers.messages, session, &both);
    out_move(&both, &reply);
    reply_move(session, &both, observed);
}

void session_reply_end(struct session *session, struct out *out, size_t begun, uint64_t observed)
{
    struct push_messages *messages = session->partition->watchers.messages;
    bool has_messages = push_messages_ready(messages);
    uint64_t ticket = has_messages ? wait_ticket(session, observed) : 0;
    session->replies.last_bytes = out->bytes - begun;
    session->partition->metrics.stats->output_bytes += session->replies.last_bytes;
    session->partition->metrics.stats->replies_total++;
    if (session->replies.are_dropped && session->replies.mode != REPLY_MODE_ON)
        out_clear(out);
    else if (out->bytes == begun)
        ; /* no reply */
    else {
        session->replies.count++;
        reply_place(session, out, begun, observed, has_messages);
    }
    if (session->replies.mode == REPLY_MODE_SKIP)
        session->replies.mode = REPLY_MODE_ON;
    if (has_messages)
        push_messages_deliver(messages, ticket);
}

/* ---- messages ---- */

/* The session's class in client-output-buffer-limit. */
static enum output_class output_class_of(const struct session *session)
{
    return subscriber_count(&session->subscriber) ? OUTPUT_PUBSUB : OUTPUT_NORMAL;
}

/* True when more bytes are unsent than allowed. */
static bool owes_too_much(struct session *session)
{
    const struct config_snapshot *snapshot = session->partition->snapshot;
    size_t owed = session_owed_bytes(session);
    if (session->replies.last_bytes > owed)
        session->replies.last_bytes = owed;
    bool is_over = owed - session->replies.last_bytes > snapshot->config.client_output_limit_bytes;
    const char *which = is_over ? "client-output-limit" : "client-output-buffer-limit";
    /* a proxy's connection carries many clients: Redis' classes do not apply */
    if (!is_over && !session->login.is_internal)
        is_over = output_limit_exceeded(&snapshot->output_limits[output_class_of(session)], owed,
                                        loop_mono_ms(session->partition->loop),
                                        &session->replies.soft_limit_since_ms);
    if (!is_over || session->is_aborted)
        return false;
    log_event(LOG_WARN, "client_disconnected", "peer=%s reason=\"%s\" bytes=%zu",
              stream_peer(session->stream), which, owed);
    return true;
}

void session_push(struct session *session, struct block *frames, uint64_t ticket)
{
    CHECK(session->magic == SESSION_MAGIC);
    if (session->is_closing || !list_empty(&session->replies.overdue))
        return;
    ticket = wait_ticket(session, ticket);
    struct out *out = ticket                       ? held_out(session, ticket)
                      : streamed_in_reply(session) ? &session->pending.streamed->behind
                                                   : stream_out(session->stream);
    out_write_block(out, frames, frames->data, frames->used);
    session->partition->metrics.stats->output_bytes += frames->used;
    if (!ticket)
        stream_send(session->stream);
    session_check_later(session);
}

void session_check_later(struct session *session)
{
    if (list_empty(&session->replies.overdue) && owes_too_much(session))
        list_push(&session->partition->clients.overdue, &session->replies.overdue);
}

void session_reply_later(struct session *session)
{
    struct partition *partition = session->partition;
    if (session->replies.mode == REPLY_MODE_SKIP)
        session->replies.mode = REPLY_MODE_SKIP_NEXT;
    if (push_messages_ready(partition->watchers.messages))
        push_messages_deliver(partition->watchers.messages,
                              wait_ticket(session, overlay_observed(partition->overlay)));
}

size_t session_owed_bytes(const struct session *session)
{
    return stream_pending(session->stream) + session->replies.held[0].bytes +
           session->replies.held[1].bytes +
           (session->pending.streamed ? session->pending.streamed->behind.bytes : 0);
}

/* Sends held output. Other output may not come between the parts of a streamed reply. */
static void release_held(struct session *session, unsigned parity)
{
    struct reply_stream *streamed = streamed_in_reply(session);
    struct out *held = &session->replies.held[parity];
    if (streamed && !streamed->is_open && streamed->parity == parity) {
        out_cut(held, streamed->held_bytes, &streamed->behind);
        streamed_open(streamed);
    } else if (streamed && streamed->is_open) {
        out_move(&streamed->behind, held);
    }
    out_move(stream_out(session->stream), held);
}

/* The first part of a streamed reply was dropped. */
static void streamed_forget(struct session *session, unsigned parity)
{
    struct reply_stream *streamed = streamed_in_reply(session);
    if (!streamed || streamed->is_open || streamed->parity != parity)
        return;
    reply_stream_free(streamed);
    session->pending.streamed = NULL;
}

static void release(struct session *session, unsigned parity, int err)
{
    CHECK(session->magic == SESSION_MAGIC);
    struct out *to = stream_out(session->stream);
    list_remove(&session->replies.waiting[parity]);
    if (err) {
        struct reply reply = {.out = to, .resp = session->resp};
        out_clear(&session->replies.held[parity]);
        streamed_forget(session, parity);
        for (uint32_t i = 0; i < session->replies.held_count[parity]; i++) {
            waits_write_held_head(session, parity, i, to);
            reply_code(&reply, (enum error)err);
        }
    } else {
        release_held(session, parity);
    }
    session->replies.held_count[parity] = 0;
    waits_release(session, parity);
    stream_send(session->stream);
}

void sessions_release(struct partition *partition, unsigned parity, int err)
{
    struct list *waiting = &partition->clients.waiting[parity];
    while (!list_empty(waiting)) {
        struct list *first = waiting->next - parity; /* now waiting[0] of the session */
        struct session *session = container_of(first, struct session, replies.waiting);
        release(session, parity, err);
        session->ops->close_if_done(session);
    }
}

/* The older replies first. False: there are none, or they come after a streamed reply that has begun. The session may be freed. */
static bool fail_held(struct session *session, int err)
{
    const struct reply_stream *streamed = streamed_in_reply(session);
    const uint32_t *counts = session->replies.held_count;
    unsigned newer = ticket_parity(session);
    if ((!counts[0] && !counts[1]) || (streamed && streamed->is_open))
        return false;
    if (counts[!newer])
        release(session, !newer, err);
    if (counts[newer])
        release(session, newer, err);
    session->ops->close_if_done(session);
    return true;
}

bool sessions_fail_held(struct partition *partition, int err)
{
    bool any = false;
    struct list *next;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = next) {
        next = link->next;
        any |= fail_held(container_of(link, struct session, link), err);
    }
    return any;
}

void session_refuse(struct session *session, const char *error)
{
    struct out *out = session_reply_begin(session, false);
    size_t begun = out->bytes;
    struct reply reply = {.out = out, .resp = session->resp};
    reply_error(&reply, error);
    session_reply_end(session, out, begun, 0);
    session->is_closing = true;
}

void session_check_owed(struct session *session)
{
    if (owes_too_much(session))
        session_abort_later(session);
}
