/*
 * upstream_inner.h - shared by the files of an upstream; no other file includes it.
 *
 *   upstream.c         the connection's life: opened, lost, closed, deadlines
 *   upstream_hold.c    requests that wait for a shard to come back; shards that stop, silent ones, other leaders
 *   upstream_queue.c   parts in flight, and reads that may be sent a second time
 *   upstream_send.c    output: keyspace of the session, queue-limit, dedicated connections
 *   upstream_reply.c   input: which part a reply answers
 *   upstream_room.c    clients that wait for room in the output
 *   upstream_left.c    requests whose clients have left, at a shard that is slow
 *   upstream_waits.c   blocking commands and their replies
 *   copy_reads.c       reads at copies that follow; lies above the others, which call it by upstream_events
 *
 *   upstream->queue.first ─► part ─► part ─► part ◄─ upstream->queue.last      replies come in this order
 *                               ▲ undecided: the first part that has not timed out
 */
#pragma once

#include "proxy/core/node.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/upstream.h"
#include "shared/check.h"

#include <stdlib.h>

static inline const struct proxy_config *upstream_config(const struct upstream *upstream)
{
    return &upstream->worker->snapshot->config;
}

/* The events of the connection's user; never NULL. */
static inline const struct upstream_events *events_of(const struct upstream *upstream)
{
    static const struct upstream_events none;
    return upstream->use.events ? upstream->use.events : &none;
}

/* Frees an error text and sets it to NULL. */
static inline void upstream_forget(char **text)
{
    free(*text);
    *text = NULL;
}

/* ---- life: upstream.c ------------------------------------------------------------------------- */

/* Leaves IDLE or DOWN; requests sent from now on are written when the connection is open and greeted. */
void upstream_open(struct upstream *upstream, enum upstream_state state);
/* The backend has accepted the connection, or it has failed: opens the next one in node->waiting_to_open. */
void upstream_opened(struct upstream *upstream);
/* The greeting was answered: requests sent before are written. */
void upstream_up(struct upstream *upstream);
/* The connection is lost, or could not be opened. */
void upstream_lost(struct upstream *upstream, const char *reason);
/* Closes a draining upstream whose queue is empty. */
void upstream_close_if_drained(struct upstream *upstream);
/* Closes the stream and clears its state; returns the parts that were in flight. */
struct part *upstream_cut(struct upstream *upstream);
/* Notes a failure, and when the next attempt to connect begins: HOLDING or DOWN. */
void upstream_down(struct upstream *upstream, const char *reason);
/* New requests use another connection; this one is closed when its queue is empty. */
void upstream_replace(struct upstream *upstream);
/* Resumes all clients that wait for room. */
void upstream_wake_clients(struct upstream *upstream);
/* The upstream no longer counts under dedicated-limit or across-limit. */
void upstream_end_dedicated(struct upstream *upstream);

/* ---- waiting for a shard: upstream_hold.c ----------------------------------------------------- */

/* May requests wait for the shard? The first call of an outage begins the time of `hold`. */
bool upstream_may_hold(const struct upstream *upstream);
/* Ends the time of `hold` until the shard is reachable again: it accepts connections but cannot be used, so no request waits for it. */
static inline void node_hold_no_more(struct node *node)
{
    node->outage.hold_until_ms = 1;
}
/* The shard's copy does not lead: requests wait for the time that copies need to agree on a leader, or `hold` if that is longer. */
void upstream_hold_for_leader(const struct upstream *upstream);
/* To be called when the connection could not be opened: keeps its queue for the next attempt. False: the requests must fail. */
bool upstream_hold_unsent(struct upstream *upstream, const char *reason);
/* To be called when the connection is up, so its requests are sent, or when they fail. */
void upstream_hold_end(struct upstream *upstream, bool is_sent);
/* To be called when the shard is reachable again: ends the backoff of other connections to it. */
void upstream_hold_over(struct upstream *upstream);
/* Handles HOLDING. */
void upstream_hold_tick(struct upstream *upstream, uint64_t now_ms);
/* Has anything come from the shard since the connection's oldest request was sent? ask_busy() sends PINGs. */
bool upstream_is_heard(const struct upstream *upstream);
/* A request got no reply within `timeout_ms`, and nothing else has come over the connection: all requests in flight at the
 * shard fail, in every worker that has received nothing from it since. */
void upstream_silent(struct upstream *upstream, uint64_t timeout_ms);
/* To be called after STOPPING_FRAME: the shard answers the requests that it has received; new ones wait until it is back. */
void upstream_hold_stopping(struct upstream *upstream);

/* The shard's connection for what must not wait behind requests. It may not be open yet. */
struct upstream *upstream_control(struct upstream *upstream);

/* ---- clients that have left: upstream_left.c --------------------------------------------------- */

/* Sends the shard the numbers of the requests in flight whose clients have left or closed their connections (SCREE GONE), so that it ends
 * the slow command that it runs if it is one of these. To be called now and then while a reply is late. */
void upstream_end_left(struct upstream *upstream);

/* ---- the queue: upstream_queue.c -------------------------------------------------------------- */

/* The lowest rate, in bytes per millisecond, at which a shard that works receives and stores requests. When much is on its way, requests get more time for
 * their reply by this rate. */
enum { WAY_BYTES_PER_MS = 10 * 1024, HEAVY_BYTES = 1 << 20 };

/* How long a shard that works may take to receive and store so many bytes. */
static inline uint32_t upstream_way_ms(size_t bytes)
{
    return bytes < HEAVY_BYTES ? 0 : (uint32_t)(bytes / WAY_BYTES_PER_MS);
}

static inline void upstream_push(struct upstream *upstream, struct part *part)
{
    part->next = NULL;
    part->upstream = upstream;
    part->sent_ms = worker_now_ms(upstream->worker);
    if (upstream->queue.last)
        upstream->queue.last->next = part;
    else
        upstream->queue.first = part;
    upstream->queue.last = part;
    if (!upstream->queue.undecided)
        upstream->queue.undecided = part;
    upstream->queue.in_flight++;
    part->request->linked++;
}

static inline void upstream_pop(struct upstream *upstream, struct part *part)
{
    CHECK(upstream->queue.first == part);
    upstream->queue.first = part->next;
    if (!part->next)
        upstream->queue.last = NULL;
    if (upstream->queue.undecided == part)
        upstream->queue.undecided = part->next;
    upstream->queue.in_flight--;
}

/* Adds a part for a command of the proxy itself; the kind says what its reply means. */
void upstream_push_own(struct upstream *upstream, enum part_kind kind);
/* The request was not sent. */
#define NOT_REACHABLE "not reachable: "
/* It may have been executed. */
#define LOST_IN_FLIGHT "connection lost before the reply: "

/* Answers a part with an error that names the shard. */
void upstream_fail(struct upstream *upstream, struct part *part, const char *what,
                   const char *reason);
/* Fails all parts of a list that has left the queue. */
void upstream_fail_all(struct upstream *upstream, struct part *part, const char *what,
                       const char *reason);
/* Notes in which keyspace the backend's session is; NULL: not known. */
void upstream_set_keyspace(struct upstream *upstream, struct keyspace *keyspace);

/* The connection was idle, so the backend may have closed it: copies requests that only read, until bytes are received. */
void upstream_become_unproven(struct upstream *upstream);
/* Bytes were received, or the connection is lost: drops the copies. */
void upstream_drop_resend(struct upstream *upstream);
/* Copies a request that only reads, so that it can be sent again. */
void upstream_keep(struct upstream *upstream, struct part *part, struct keyspace *keyspace,
                   const struct frame *frame);
/* Removes the parts that are sent again from the queue, and leaves only their frames in upstream->resend.frames. The
 * other parts stay in the queue. */
void upstream_collect_resend(struct upstream *upstream, struct part **first);

/* ---- frames: upstream_send.c, upstream_reply.c ------------------------------------------------ */

/* Writes a command made of C strings. */
void upstream_write_words(struct out *out, const char *const *words, int count);
void upstream_room_fini(struct upstream *upstream);
/* Holds the client until there is room (HOLD_UPSTREAM). */
void upstream_hold_client(struct upstream *upstream, struct client *client);
/* Appends SCREE SLOTS with the slots that the shard has in the map in force. */
void upstream_tell_slots(struct upstream *upstream, struct out *out);
/* If the map has changed, or requests have bounced, sends SCREE SLOTS on a connection that is UP. */
void upstream_tell_new_slots(struct upstream *upstream);
/* Writes a request's frame as the part, with the header of upstream_write_header. */
void upstream_write_frame(const struct upstream *upstream, const struct part *part, struct out *out,
                          const struct frame *frame);
/* A request has bounced on the connection, and those in flight behind it may: SCREE SLOTS and BOUNCES SEEN must precede the next one
 * (backend/dispatch/bounce.h). */
void upstream_note_bounce(struct upstream *upstream);
/* Sends a command of one word whose part is of this kind. */
void upstream_send_own(struct upstream *upstream, enum part_kind kind, const char *word);
/* stream_events.on_data */
size_t upstream_read(void *owner, struct block *block, const char *data, size_t len, size_t *need);

/* ---- commands that wait: upstream_waits.c ----------------------------------------------------- */

/* Frees the table, which must be empty. NULL is allowed. */
void wait_table_free(struct wait_table *waits);
/* True when commands wait. NULL is allowed. */
bool wait_table_is_used(const struct wait_table *waits);
/* False: more than queue-limit bytes are kept until the connection is up. */
bool wait_table_has_room(const struct upstream *upstream);
/* The connection is up: sends the commands that were kept. */
void wait_table_up(struct upstream *upstream);
/* The connection is lost: all waits fail. */
void wait_table_lost(struct upstream *upstream, const char *what, const char *reason);
/* Handles a push frame. False: it answers no wait. */
bool wait_table_answer(struct upstream *upstream, struct block *block, const char *data,
                       size_t len);
/* The frame that begins with these bytes is too long and will be discarded: its wait fails with `error`. */
void wait_table_drop(struct upstream *upstream, const char *data, size_t len, const char *error);
/* True when waits were sent since the last call: a PING must follow, to detect a shard that hangs. */
bool wait_table_wants_probe(struct wait_table *waits);
