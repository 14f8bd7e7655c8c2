/*
 * session_reply.h - sends replies and messages of a session in order, and not before the effects they observed are durable.
 *
 *   reply ─┬─ observed nothing uncommitted ──► stream_out
 *          └─ else: held[ticket's parity] ──on_commit──► sessions_release ──► stream_out
 *
 * Replies are sent in the order of the requests, so a reply after a held one is held too. Two tickets can be pending: of
 * the batch in flight and of the open batch; replies of the first are all older than those of the second. When a batch
 * fails, every held reply becomes an error, and held messages (session_push) are dropped.
 */
#pragma once

#include "backend/session/session.h"

/* Is output held for a ticket of this parity? */
static inline bool session_holds(const struct session *session, unsigned parity)
{
    return !list_empty(&session->replies.waiting[parity]);
}

/* Begins a reply; returns the output to write it to. `is_write`: the command will probably have effects. */
struct out *session_reply_begin(struct session *session, bool is_write);
/* Queues a complete reply. `begun`: out->bytes at its beginning (unchanged: there is no reply). `observed`: the newest
 * ticket that the command observed; 0: none. `out` may differ from the result of session_reply_begin if it contains
 * only the reply. */
void session_reply_end(struct session *session, struct out *out, size_t begun, uint64_t observed);
/* Replaces session_reply_end when the command waits: the reply follows when the command has run again. */
void session_reply_later(struct session *session);
/* Replies an error and reads no more requests. */
void session_refuse(struct session *session, const char *error);
/* Ends the hold of all sessions for a ticket of this parity. err OK: the replies are sent; otherwise each becomes the error.
 * Connections that are closing and hold no other replies are closed. */
void sessions_release(struct partition *partition, unsigned parity, int err);
/* Each reply that is held becomes the error, while its batch goes on. Messages between replies are dropped with them; those of sessions without
 * replies stay. True: there were replies. */
bool sessions_fail_held(struct partition *partition, int err);
/* Queues a message: complete frames that are sent after all replies so far when the ticket is durable (0: at once),
 * and dropped when its batch fails. */
void session_push(struct session *session, struct block *frames, uint64_t ticket);
/* Bytes of unsent replies, with held ones. */
size_t session_owed_bytes(const struct session *session);
/* Checks client-output-limit: a session above the limit is aborted after its command. */
void session_check_owed(struct session *session);
/* Checks at the end of the turn, for callers that iterate over sessions or waiters. */
void session_check_later(struct session *session);
