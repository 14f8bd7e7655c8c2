/*
 * Requests whose clients have left. Many clients share a connection, so it stays open. A message on the control connection names the
 * requests that have no client any more, and the shard ends the command that it runs if it is one of them.
 *
 *   queue:   part  part  part  part          number of a part: replies that came over the connection, and those before its own
 *              5     6    7-9   10           (7-9: MULTI, a queued command, EXEC)
 *                    └ its client has left ─► control connection: SCREE GONE <CLIENT ID of this connection> 6 6 ALL
 *
 * The numbers make it certain which request is meant, however late the message comes. A request that is not slow yet, or has
 * not begun, is named again.
 */
#include "proxy/upstream/upstream_inner.h"

#include "proxy/core/client.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    LOOK_MAX = 1000, /* parts */
    SEND_MAX = 16,   /* messages at a time */
};

enum left { LEFT_NOT, LEFT_CLOSED, LEFT_GONE };

static enum left left_of(const struct part *part)
{
    /* An answered request (a timeout) is in no pipeline, and its client may be freed. */
    if (!part_is_request(part) || part->is_answered || part->request->is_internal)
        return LEFT_NOT;
    const struct client *client = part->request->client;
    if (!client || stream_is_broken(client->stream))
        return LEFT_GONE;
    return stream_has_hung_up(client->stream) ? LEFT_CLOSED : LEFT_NOT;
}

static void send_gone(const struct upstream *upstream, struct upstream *control, uint64_t first,
                      uint64_t last, enum left left)
{
    enum { NUMBER_TEXT_MAX = 24 };
    char session[NUMBER_TEXT_MAX];
    char from[NUMBER_TEXT_MAX];
    char to[NUMBER_TEXT_MAX];
    (void)snprintf(session, sizeof session, "%" PRIu64, upstream->session_id);
    (void)snprintf(from, sizeof from, "%" PRIu64, first);
    (void)snprintf(to, sizeof to, "%" PRIu64, last);
    upstream_write_words(control->out,
                         (const char *const[]){"SCREE", "GONE", session, from, to,
                                               left == LEFT_GONE ? "ALL" : "READS"},
                         6);
    upstream_push_own(control, PART_GONE);
    stream_send(control->stream);
}

void upstream_end_left(struct upstream *upstream)
{
    struct upstream *control;
    uint64_t number = upstream->queue.answered;
    int looked = 0;
    int sent = 0;
    if (!upstream->session_id || upstream->waits || upstream->lane == LANE_CONTROL ||
        upstream->node->is_removed)
        return;
    control = upstream_control(upstream);
    if (control->state != UPSTREAM_UP || control->queue.in_flight > SEND_MAX)
        return;
    for (struct part *part = upstream->queue.first; part && looked < LOOK_MAX && sent < SEND_MAX;
         part = part->next, looked++) {
        enum left left = left_of(part);
        uint64_t last = number + part->swallow;
        if (left != LEFT_NOT)
            send_gone(upstream, control, number, last, left);
        sent += left != LEFT_NOT;
        number = last + 1;
    }
}
