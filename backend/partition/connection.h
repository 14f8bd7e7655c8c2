/*
 * connection.h - a client's connection: opened, its requests read and run, closed.
 *
 *   stream ─► on_data ─► resp_scan ─► dispatch ─► session_reply_end
 *                │
 *                └─ nothing is read while the batch that collects is full, the client does not read its replies, or
 *                   a request waits (CLIENT PAUSE, a row on the disk, a key)
 */
#pragma once

#include "backend/partition/session.h"

/* Takes an accepted stream. */
struct session *connection_new(struct partition *partition, struct stream *stream, uint64_t id);
/* RESET and a new session: everything a client can change is as at the beginning. */
void connection_reset(struct session *session);
/* session_release; closes the connection when it was only waiting for that. */
void connection_release(struct session *session, unsigned parity, int err);
