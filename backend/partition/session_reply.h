/*
 * session_reply.h - replies and messages of a session leave in order, and not before what they saw is durable.
 *
 *   reply ─┬─ observed nothing uncommitted ──► stream_out
 *          └─ else: held[ticket's parity] ──on_commit──► session_release ──► stream_out
 *
 * Replies leave in the order of the requests, so a reply behind a held one is held too. Two tickets can be
 * open, the batch in flight and the one that collects, and the replies of the first are all older than those
 * of the second. When a batch fails, every reply held becomes one error. Messages (session_push) stand between
 * the replies; those that are held with a batch that fails are dropped.
 */
#pragma once

#include "backend/partition/session.h"

/* Does a reply or message wait for a ticket of this parity? */
static inline bool session_holds(const struct session *session, unsigned parity)
{
    return !list_empty(&session->replies.waiting[parity]);
}

/* A reply begins: where to write it. `is_write`: the command will probably have effects. */
struct out *session_reply_begin(struct session *session, bool is_write);
/* It is complete. `begun` is out->bytes as it was then (nothing was written: no reply), `observed` the newest
 * ticket it observed, 0 = none. `out` may be another one than session_reply_begin gave, when it has the reply alone. */
void session_reply_end(struct session *session, struct out *out, size_t begun, uint64_t observed);
/* In place of session_reply_end: the reply comes when the command has run again. */
void session_reply_later(struct session *session);
/* Answers with an error; takes no more requests. */
void session_refuse(struct session *session, const char *error);
/* The ticket of this parity is durable (OK): its replies leave. Otherwise every held reply becomes `err`. */
void session_release(struct session *session, unsigned parity, int err);
/* A message (push_message.h): whole frames that leave when the ticket is durable (0: at once), behind everything owed,
 * and are dropped when its batch fails. */
void session_push(struct session *session, struct block *frames, uint64_t ticket);
/* Bytes of replies not sent yet, held ones included. */
size_t session_owed_bytes(const struct session *session);
/* client-output-limit: a session that runs a command and owes more is aborted when it has ended. */
void session_check_owed(struct session *session);
/* The same at the end of the turn, for a caller that may iterate over sessions or waiters now. */
void session_check_later(struct session *session);
