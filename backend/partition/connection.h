/*
 * connection.h - the life of a client's connection: opens it, reads and runs its requests, closes it.
 *
 *   stream ─► on_data ─► resp_scan ─► dispatch ─► session_reply_end
 *                │
 *                └─ reading stops while the open batch is full, the client does not read its replies, or a request
 *                   waits (CLIENT PAUSE, an uncached row, a key)
 */
#pragma once

#include "backend/session/session.h"

/* Makes the session of an accepted stream. */
struct session *connection_new(struct partition *partition, struct stream *stream, uint64_t id);
/* For RESET and new sessions: sets all state that a client can change to its initial value. */
void connection_reset(struct session *session);
