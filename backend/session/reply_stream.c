#include "backend/session/reply_stream.h"

#include "backend/context/partition.h"
#include "backend/context/stats.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/session/command_stats.h"
#include "backend/session/session.h"
#include "backend/session/session_reply.h"
#include "backend/session/waits.h"
#include "shared/check.h"
#include "shared/glob.h"
#include "shared/log.h"

#include <stdlib.h>

/* ---- beginning a streamed reply ---- */

/* The store will not be opened anew soon, when it may have no iterators. */
static bool is_sound(const struct partition *partition)
{
    return partition->copies.is_following
               ? !commit_follow_is_broken(partition->commit)
               : !commit_is_failed(partition->commit, NULL) || commit_is_stalled(partition->commit);
}

bool reply_stream_is_allowed(const struct call *call)
{
    return call->session && !call->session->pending.streamed && !call->ready_key &&
           !call->in_exec && !call->in_script && !call->borrow && !waits_current(call->session) &&
           !(call->command->flags & CMD_WRITE) && is_sound(call->partition);
}

/* Will the reply be discarded (CLIENT REPLY)? */
static bool is_scrap(const struct call *call)
{
    return call->reply.out == &call->partition->running.discarded;
}

static struct bytes bytes_dup(struct bytes bytes)
{
    char *copy = malloc(bytes.len + 1);
    CHECK(copy);
    memcpy(copy, bytes.data, bytes.len);
    return (struct bytes){copy, bytes.len};
}

/* The reader threads have fetched rows. */
static void on_rows(void *owner)
{
    struct reply_stream *streamed = owner;
    if (streamed->is_counting || streamed->is_open)
        reply_stream_wake(streamed);
}

/* Makes a reply stream, which takes ownership of the iterator. */
static struct reply_stream *hand_over(struct call *call, struct overlay_iter *iter,
                                      size_t prefix_len, uint64_t rows, reply_stream_row_fn *row)
{
    struct reply_stream *streamed = calloc(1, sizeof *streamed);
    CHECK(streamed);
    overlay_iter_detach(iter, rows, on_rows, streamed);
    streamed->session = call->session;
    streamed->iter = iter;
    streamed->prefix_len = prefix_len;
    streamed->row = row;
    streamed->now_ms = call->now_ms;
    out_init(&streamed->behind);
    arena_init(&streamed->arena);
    streamed->command = command_stats_copy(call, &streamed->arena);
    list_init(&streamed->ready);
    list_push(&call->partition->streamed.all, &streamed->link);
    call->session->pending.streamed = streamed;
    return streamed;
}

bool reply_stream_rows(struct call *call, struct sub_iter *it, uint64_t rows,
                       reply_stream_row_fn *row, unsigned how)
{
    struct out *out = call->reply.out;
    /* rows that are hidden must be skipped by the sub_iter */
    bool parts = !it->ttls && rows <= REPLY_STREAM_ROWS_MAX && reply_stream_is_allowed(call);
    if (parts && is_scrap(call))
        return sub_iter_fini(it);
    for (uint64_t done = 1; rows > 0 && sub_iter_next(it); rows--, done++) {
        row(&call->reply, it->sub, it->value, how);
        bool is_long = (done >= REPLY_STREAM_STEP_ROWS && rows > REPLY_STREAM_REST_ROWS) ||
                       out->bytes - call->begun > REPLY_STREAM_STEP_BYTES;
        if (parts && rows > 1 && is_long && !out_is_over(out)) {
            struct reply_stream *streamed =
                hand_over(call, it->iter, it->prefix_len, rows - 1, row);
            streamed->rows = rows - 1;
            streamed->is_reverse = it->reverse;
            streamed->how = how;
            return true;
        }
    }
    return sub_iter_fini(it) && call_rows_end(call, rows);
}

/* The slots that the partition serves now, in the arena. */
static const struct slot_set *copy_of_slots(const struct partition *partition, struct arena *arena)
{
    const struct slot_set *served = slots_served(partition);
    if (!served)
        return NULL;
    struct slot_set *copy = arena_alloc(arena, sizeof *copy);
    *copy = *served;
    return copy;
}

void reply_stream_search(struct call *call, struct overlay_iter *iter, size_t prefix_len,
                         reply_stream_match_fn *match, struct bytes pattern,
                         reply_stream_row_fn *row)
{
    CHECK(reply_stream_is_allowed(call));
    int err = overlay_iter_error(iter);
    if (err != OK || is_scrap(call)) {
        overlay_iter_free(iter);
        if (err != OK)
            call_error(call, (enum error)err);
        return;
    }
    struct reply_stream *streamed = hand_over(call, iter, prefix_len, UINT64_MAX, row);
    streamed->match = match;
    streamed->slots = copy_of_slots(call->partition, &streamed->arena);
    streamed->pattern = glob_new(&streamed->arena, pattern, false);
    if (overlay_iter_valid(iter))
        streamed->first = bytes_dup(overlay_iter_key(iter));
    streamed->is_new_row = true;
    streamed->is_counting = true;
    streamed->observed = overlay_observed(call->partition->overlay);
    call->is_waiting = true;
    reply_stream_wake(streamed);
}

void reply_stream_free(struct reply_stream *streamed)
{
    if (!streamed)
        return;
    list_remove(&streamed->link);
    list_remove(&streamed->ready);
    overlay_iter_free(streamed->iter);
    out_clear(&streamed->behind);
    arena_fini(&streamed->arena);
    free((char *)streamed->first.data);
    free(streamed);
}

/* ---- steps ---- */

enum step { STEP_ON, STEP_DONE, STEP_FAILED, STEP_WAITS };

/* Moves to the next row. STEP_ON: there is one. STEP_DONE: there is none. */
static enum step next_row(struct reply_stream *streamed)
{
    struct overlay_iter *iter = streamed->iter;
    if (streamed->is_new_row)
        overlay_iter_go_on(iter);
    else if (streamed->is_reverse)
        overlay_iter_prev(iter);
    else
        overlay_iter_next(iter);
    streamed->is_new_row = overlay_iter_waits(iter);
    if (overlay_iter_valid(iter))
        return STEP_ON;
    if (streamed->is_new_row)
        return STEP_WAITS;
    return overlay_iter_error(iter) ? STEP_FAILED : STEP_DONE;
}

static bool row_matches(const struct reply_stream *streamed)
{
    return !streamed->match || streamed->match(streamed, overlay_iter_key(streamed->iter),
                                               overlay_iter_value(streamed->iter));
}

static enum step count_rows(struct reply_stream *streamed)
{
    for (int i = 0; i < REPLY_STREAM_STEP_ROWS; i++) {
        enum step step = next_row(streamed);
        if (step != STEP_ON)
            return step;
        streamed->rows += row_matches(streamed);
    }
    return STEP_ON;
}

static enum step reply_rows(struct reply_stream *streamed, struct reply *reply)
{
    size_t end = reply->out->bytes + REPLY_STREAM_STEP_BYTES;
    for (int i = 0; i < REPLY_STREAM_STEP_ROWS && streamed->rows > 0 && reply->out->bytes <= end;
         i++) {
        enum step step = next_row(streamed);
        if (step != STEP_ON)
            return step == STEP_DONE ? STEP_FAILED : step; /* fewer rows than in the header */
        if (!row_matches(streamed))
            continue;
        struct bytes key = overlay_iter_key(streamed->iter);
        struct bytes sub = {key.data + streamed->prefix_len, key.len - streamed->prefix_len};
        streamed->row(reply, sub, overlay_iter_value(streamed->iter), streamed->how);
        streamed->rows--;
    }
    if (streamed->rows)
        return STEP_ON;
    return overlay_iter_error(streamed->iter) ? STEP_FAILED : STEP_DONE;
}

static void abort_unreadable(struct session *session)
{
    log_event(LOG_ERROR, "client_disconnected", "peer=%s reason=\"the store cannot be read\"",
              stream_peer(session->stream));
    session_abort(session);
}

static void end_streamed_reply(struct reply_stream *streamed)
{
    struct session *session = streamed->session;
    command_stats_streamed(session, streamed->command);
    reply_stream_free(streamed);
    session->pending.streamed = NULL;
    session_resume(session);
}

/* `observed`, or 0 if that ticket is durable. */
static uint64_t still_open(const struct overlay *overlay, uint64_t observed)
{
    uint64_t oldest = overlay_ticket(overlay) - overlay_in_flight(overlay);
    return observed >= oldest ? observed : 0;
}

/* All rows are counted: begins the reply. */
static void reply_count(struct reply_stream *streamed)
{
    struct session *session = streamed->session;
    struct out *out = session_reply_begin(session, false);
    size_t begun = out->bytes;
    struct reply reply = {.out = out, .resp = session->resp};
    bool is_empty = streamed->rows == 0;
    streamed->is_counting = false;
    streamed->is_new_row = true;
    if (!is_empty)
        overlay_iter_seek(streamed->iter, streamed->first);
    session_write_owned(session, streamed->slots, out);
    reply_array(&reply, (int64_t)streamed->rows);
    if (streamed->command)
        streamed->command->bytes += out->bytes - begun;
    session_reply_end(session, out, begun,
                      still_open(session->partition->overlay, streamed->observed));
    if (is_empty)
        end_streamed_reply(streamed);
}

static void count_step(struct reply_stream *streamed)
{
    enum step step = count_rows(streamed);
    if (step == STEP_FAILED)
        abort_unreadable(streamed->session);
    else if (step == STEP_DONE)
        reply_count(streamed);
    else if (step == STEP_ON)
        reply_stream_wake(streamed);
}

static void reply_step(struct reply_stream *streamed)
{
    struct session *session = streamed->session;
    struct reply reply = {.out = stream_out(session->stream), .resp = session->resp};
    size_t begun = reply.out->bytes;
    if (stream_pending(session->stream) > STREAM_HIGH_WATER)
        return; /* on_drain calls reply_stream_wake */
    enum step step = reply_rows(streamed, &reply);
    session->partition->metrics.stats->output_bytes += reply.out->bytes - begun;
    if (streamed->command)
        streamed->command->bytes += reply.out->bytes - begun;
    if (step == STEP_FAILED) {
        abort_unreadable(session);
        return;
    }
    if (step == STEP_DONE)
        out_move(reply.out, &streamed->behind);
    stream_send(session->stream);
    if (step == STEP_DONE)
        end_streamed_reply(streamed);
    else if (step == STEP_ON)
        reply_stream_wake(streamed);
}

static void post_ready(struct partition *partition)
{
    if (list_empty(&partition->streamed.ready) || partition->streamed.is_posted)
        return;
    partition->streamed.is_posted = true;
    loop_post(partition->loop, &partition->streamed.task);
}

void reply_stream_wake(struct reply_stream *streamed)
{
    struct partition *partition = streamed->session->partition;
    list_remove(&streamed->ready);
    list_push(&partition->streamed.ready, &streamed->ready);
    post_ready(partition);
}

void reply_stream_run(struct task *task)
{
    struct partition *partition = container_of(task, struct partition, streamed.task);
    struct list *link;
    /* the reply streams that step in this turn, once each: a step may make them ready again */
    struct list stepping;
    list_init(&stepping);
    partition->streamed.is_posted = false;
    for (int i = 0; i < REPLY_STREAMS_A_TURN && (link = list_pop(&partition->streamed.ready)); i++)
        list_push(&stepping, link);
    while ((link = list_pop(&stepping))) {
        struct reply_stream *streamed = container_of(link, struct reply_stream, ready);
        if (streamed->is_counting)
            count_step(streamed);
        else
            reply_step(streamed);
    }
    post_ready(partition);
}

void reply_streams_abort(struct partition *partition)
{
    struct list *link;
    while ((link = list_pop(&partition->streamed.all)))
        session_abort(container_of(link, struct reply_stream, link)->session);
}
