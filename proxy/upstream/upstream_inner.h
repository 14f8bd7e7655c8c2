/*
 * upstream_inner.h - what the files of an upstream share; nobody else includes it.
 *
 *   upstream.c         the connection's life: opened, lost, closed, deadlines
 *   upstream_queue.c   what was sent and not answered yet, and reads that may be sent a second time
 *   upstream_send.c    frames on their way out: which session of the backend they belong to, dedicated connections
 *   upstream_reply.c   frames that come: whose they are
 *   upstream_waits.c   commands that wait, and what comes for them
 *
 *   upstream->queue.first ─► part ─► part ─► part ◄─ upstream->queue.last      replies come in this order
 *                               ▲ undecided: the first that has not timed out
 */
#pragma once

#include "proxy/upstream/upstream.h"
#include "proxy/worker.h"
#include "shared/check.h"

#include <stdlib.h>

static inline const struct proxy_config *upstream_config(const struct upstream *upstream)
{
    return &upstream->worker->snapshot->config;
}

/* What its user does; never NULL. */
static inline const struct upstream_events *events_of(const struct upstream *upstream)
{
    static const struct upstream_events none;
    return upstream->use.events ? upstream->use.events : &none;
}

/* Frees the text of an error and forgets it. */
static inline void upstream_forget(char **text)
{
    free(*text);
    *text = NULL;
}

/* ---- life: upstream.c ------------------------------------------------------------------------- */

/* From IDLE or DOWN; what is sent from now on leaves when the connection is open and greeted. */
void upstream_open(struct upstream *upstream, enum upstream_state state);
/* The connection is accepted by the backend, or has failed: the next one in node->waiting_to_open may be opened. */
void upstream_opened(struct upstream *upstream);
/* Connected, and the greeting was answered: what waited may leave. */
void upstream_up(struct upstream *upstream);
/* The connection is gone, or could not be made. */
void upstream_lost(struct upstream *upstream, const char *reason);
/* A draining one whose last request was answered is closed. */
void upstream_close_if_drained(struct upstream *upstream);
/* Clients that wait for room may go on. */
void upstream_wake_clients(struct upstream *upstream);
/* It no longer counts under dedicated-limit. */
void upstream_end_dedicated(struct upstream *upstream);

/* ---- the queue: upstream_queue.c -------------------------------------------------------------- */

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

/* A command of the proxy's own on this connection, of a part kind that says what its reply means. */
void upstream_push_own(struct upstream *upstream, enum part_kind kind);
/* Answers a part with an error that names the shard. */
void upstream_fail(struct upstream *upstream, struct part *part, const char *what,
                   const char *reason);
/* Fails all parts of a list that has left the queue. */
void upstream_fail_all(struct upstream *upstream, struct part *part, const char *what,
                       const char *reason);
/* Where the next frames go; NULL: no longer known. */
void upstream_set_keyspace(struct upstream *upstream, struct keyspace *keyspace);

/* The backend may have closed a connection that was silent: reads from here on are kept until it speaks. */
void upstream_become_unproven(struct upstream *upstream);
/* It spoke, or is gone. */
void upstream_drop_resend(struct upstream *upstream);
/* Keeps a read for a second try. */
void upstream_keep(struct upstream *upstream, struct part *part, struct keyspace *keyspace,
                   const struct frame *frame);
/* Takes what is to be sent again out of the queue, and leaves only its frames in upstream->resend.frames. The others
 * stay in the queue. */
void upstream_collect_resend(struct upstream *upstream, struct part **first);

/* ---- frames: upstream_send.c, upstream_reply.c ------------------------------------------------ */

/* Writes a command of C strings. */
void upstream_write_words(struct out *out, const char *const *words, int count);
/* It is full: the client waits for room. */
void upstream_hold_client(struct upstream *upstream, struct client *client);
/* Appends SCREE SLOTS: the shard's slots in the map in force. */
void upstream_tell_slots(struct upstream *upstream, struct out *out);
/* For one that is UP: does so when the map has changed since it was done last. */
void upstream_tell_new_slots(struct upstream *upstream);
/* Sends a command of one word whose reply is of this kind. */
void upstream_send_own(struct upstream *upstream, enum part_kind kind, const char *word);
/* Bytes came (stream_events.on_data). */
size_t upstream_read(void *owner, struct block *block, const char *data, size_t len, size_t *need);

/* ---- commands that wait: upstream_waits.c ----------------------------------------------------- */

/* No wait may be left. NULL is allowed. */
void wait_table_free(struct wait_table *waits);
/* Has it waits that were not answered? NULL is allowed. */
bool wait_table_is_used(const struct wait_table *waits);
/* The connection is up: what was kept is sent. */
void wait_table_up(struct upstream *upstream);
/* It is lost: all waits fail. */
void wait_table_lost(struct upstream *upstream, const char *what, const char *reason);
/* A push frame came. False: it is none of ours. */
bool wait_table_answer(struct upstream *upstream, struct block *block, const char *data,
                       size_t len);
/* The frame that begins with these bytes is too long and will be dropped: its wait fails with this error frame. */
void wait_table_drop(struct upstream *upstream, const char *data, size_t len, const char *error);
/* True: waits were sent since the last call, and nothing proves yet that the shard reads them. */
bool wait_table_wants_probe(struct wait_table *waits);
