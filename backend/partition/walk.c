#include "backend/partition/walk.h"

#include "backend/context/partition.h"
#include "backend/context/stats.h"
#include "backend/partition/session.h"
#include "backend/partition/session_reply.h"
#include "backend/partition/waits.h"
#include "shared/check.h"
#include "shared/glob.h"
#include "shared/log.h"

#include <stdlib.h>

/* ---- beginning ---- */

bool walk_is_allowed(const struct call *call)
{
    return call->session && !call->session->walk && !call->ready_key && !call->in_exec &&
           !call->in_script && !waits_current(call->session) &&
           !(call->command->flags & CMD_WRITE) && !commit_is_failed(call->partition->commit, NULL);
}

/* Nobody will read the reply (CLIENT REPLY). */
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

/* The reader threads have brought rows. */
static void on_rows(void *owner)
{
    struct walk *walk = owner;
    if (walk->is_counting || walk->is_open)
        walk_wake(walk);
}

/* Takes the iterator over. */
static struct walk *hand_over(struct call *call, struct overlay_iter *iter, size_t prefix_len,
                              uint64_t rows, walk_row_fn *row)
{
    struct walk *walk = calloc(1, sizeof *walk);
    CHECK(walk);
    overlay_iter_detach(iter, rows, on_rows, walk);
    walk->session = call->session;
    walk->iter = iter;
    walk->prefix_len = prefix_len;
    walk->row = row;
    walk->now_ms = call->now_ms;
    out_init(&walk->behind);
    arena_init(&walk->arena);
    list_init(&walk->ready);
    list_push(&call->partition->walks.all, &walk->link);
    call->session->walk = walk;
    return walk;
}

bool walk_rows(struct call *call, struct sub_iter *it, uint64_t rows, walk_row_fn *row,
               unsigned how)
{
    struct out *out = call->reply.out;
    bool parts = walk_is_allowed(call);
    if (parts && is_scrap(call))
        return sub_iter_fini(it);
    for (uint64_t done = 1; rows > 0 && sub_iter_next(it); rows--, done++) {
        row(&call->reply, it->sub, it->value, how);
        bool is_long = (done >= WALK_STEP_ROWS && rows > WALK_REST_ROWS) ||
                       out->bytes - call->begun > WALK_STEP_BYTES;
        if (parts && rows > 1 && is_long && !out_is_over(out)) {
            struct walk *walk = hand_over(call, it->iter, it->prefix_len, rows - 1, row);
            walk->rows = rows - 1;
            walk->is_reverse = it->reverse;
            walk->how = how;
            return true;
        }
    }
    return sub_iter_fini(it) && rows == 0;
}

void walk_search(struct call *call, struct overlay_iter *iter, size_t prefix_len,
                 walk_match_fn *match, struct bytes pattern, walk_row_fn *row)
{
    CHECK(walk_is_allowed(call));
    bool failed = overlay_iter_failed(iter);
    if (failed || is_scrap(call)) {
        overlay_iter_free(iter);
        if (failed)
            call_error(call, ERR_STORE);
        return;
    }
    struct walk *walk = hand_over(call, iter, prefix_len, UINT64_MAX, row);
    walk->match = match;
    walk->pattern = glob_new(&walk->arena, pattern, false);
    if (overlay_iter_valid(iter))
        walk->first = bytes_dup(overlay_iter_key(iter));
    walk->is_new_row = true;
    walk->is_counting = true;
    walk->observed = overlay_observed(call->partition->overlay);
    call->is_waiting = true;
    walk_wake(walk);
}

void walk_free(struct walk *walk)
{
    if (!walk)
        return;
    list_remove(&walk->link);
    list_remove(&walk->ready);
    overlay_iter_free(walk->iter);
    out_clear(&walk->behind);
    arena_fini(&walk->arena);
    free((char *)walk->first.data);
    free(walk);
}

/* ---- steps ---- */

enum step { STEP_ON, STEP_DONE, STEP_FAILED, STEP_WAITS };

/* To the next row. STEP_ON: there is one. STEP_DONE: none. */
static enum step next_row(struct walk *walk)
{
    struct overlay_iter *iter = walk->iter;
    if (walk->is_new_row)
        overlay_iter_go_on(iter);
    else if (walk->is_reverse)
        overlay_iter_prev(iter);
    else
        overlay_iter_next(iter);
    walk->is_new_row = overlay_iter_waits(iter);
    if (overlay_iter_valid(iter))
        return STEP_ON;
    if (walk->is_new_row)
        return STEP_WAITS;
    return overlay_iter_failed(iter) ? STEP_FAILED : STEP_DONE;
}

static bool row_matches(const struct walk *walk)
{
    return !walk->match ||
           walk->match(walk, overlay_iter_key(walk->iter), overlay_iter_value(walk->iter));
}

static enum step count_rows(struct walk *walk)
{
    for (int i = 0; i < WALK_STEP_ROWS; i++) {
        enum step step = next_row(walk);
        if (step != STEP_ON)
            return step;
        walk->rows += row_matches(walk);
    }
    return STEP_ON;
}

static enum step reply_rows(struct walk *walk, struct reply *reply)
{
    size_t end = reply->out->bytes + WALK_STEP_BYTES;
    for (int i = 0; i < WALK_STEP_ROWS && walk->rows > 0 && reply->out->bytes <= end; i++) {
        enum step step = next_row(walk);
        if (step != STEP_ON)
            return step == STEP_DONE ? STEP_FAILED : step; /* fewer rows than were promised */
        if (!row_matches(walk))
            continue;
        struct bytes key = overlay_iter_key(walk->iter);
        struct bytes sub = {key.data + walk->prefix_len, key.len - walk->prefix_len};
        walk->row(reply, sub, overlay_iter_value(walk->iter), walk->how);
        walk->rows--;
    }
    if (walk->rows)
        return STEP_ON;
    return overlay_iter_failed(walk->iter) ? STEP_FAILED : STEP_DONE;
}

static void abort_unreadable(struct session *session)
{
    log_event(LOG_ERROR, "client_cut", "peer=%s reason=\"the store cannot be read\"",
              stream_peer(session->stream));
    session_abort(session);
}

static void end_streamed_reply(struct walk *walk)
{
    struct session *session = walk->session;
    walk_free(walk);
    session->walk = NULL;
    session_resume(session);
}

/* The ticket that a reply waits for which observed this one; 0: it is on the disk. */
static uint64_t still_open(const struct overlay *overlay, uint64_t observed)
{
    uint64_t oldest = overlay_ticket(overlay) - overlay_in_flight(overlay);
    return observed >= oldest ? observed : 0;
}

/* All rows are counted: the reply begins, and the walk with it. */
static void reply_count(struct walk *walk)
{
    struct session *session = walk->session;
    struct out *out = session_reply_begin(session, false);
    size_t begun = out->bytes;
    struct reply reply = {.out = out, .resp = session->resp};
    bool is_empty = walk->rows == 0;
    walk->is_counting = false;
    walk->is_new_row = true;
    if (!is_empty)
        overlay_iter_seek(walk->iter, walk->first);
    reply_array(&reply, (int64_t)walk->rows);
    session_reply_end(session, out, begun, still_open(session->partition->overlay, walk->observed));
    if (is_empty)
        end_streamed_reply(walk);
}

static void count_step(struct walk *walk)
{
    enum step step = count_rows(walk);
    if (step == STEP_FAILED)
        abort_unreadable(walk->session);
    else if (step == STEP_DONE)
        reply_count(walk);
    else if (step == STEP_ON)
        walk_wake(walk);
}

static void reply_step(struct walk *walk)
{
    struct session *session = walk->session;
    struct reply reply = {.out = stream_out(session->stream), .resp = session->resp};
    size_t begun = reply.out->bytes;
    if (stream_pending(session->stream) > STREAM_HIGH_WATER)
        return; /* on_drain wakes it */
    enum step step = reply_rows(walk, &reply);
    session->partition->stats->output_bytes += reply.out->bytes - begun;
    if (step == STEP_FAILED) {
        abort_unreadable(session);
        return;
    }
    if (step == STEP_DONE)
        out_move(reply.out, &walk->behind);
    stream_send(session->stream);
    if (step == STEP_DONE)
        end_streamed_reply(walk);
    else if (step == STEP_ON)
        walk_wake(walk);
}

static void post_ready(struct partition *partition)
{
    if (list_empty(&partition->walks.ready) || partition->walks.is_posted)
        return;
    partition->walks.is_posted = true;
    loop_post(partition->loop, &partition->walks.task);
}

void walk_wake(struct walk *walk)
{
    struct partition *partition = walk->session->partition;
    list_remove(&walk->ready);
    list_push(&partition->walks.ready, &walk->ready);
    post_ready(partition);
}

void walk_run(struct task *task)
{
    struct partition *partition = container_of(task, struct partition, walks.task);
    struct list *link;
    struct list stepping; /* each of these once: a walk that steps is ready again */
    list_init(&stepping);
    partition->walks.is_posted = false;
    for (int i = 0; i < WALKS_A_TURN && (link = list_pop(&partition->walks.ready)); i++)
        list_push(&stepping, link);
    while ((link = list_pop(&stepping))) {
        struct walk *walk = container_of(link, struct walk, ready);
        if (walk->is_counting)
            count_step(walk);
        else
            reply_step(walk);
    }
    post_ready(partition);
}
