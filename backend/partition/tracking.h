/*
 * tracking.h - CLIENT TRACKING: clients that keep copies of what they read are told when it changes.
 *
 *   read-only command ─► tracking_remember ─► keys: name ─► trackers ──┐ the key changed: told once, forgotten
 *   ON BCAST PREFIX p ──────────────────────► prefixes ─► trackers ────┼ told of every change, once a turn
 *                                                                      ▼
 *                     the client itself (RESP3), or its REDIRECT (a message of __redis__:invalidate in RESP2)
 *
 * What is told is a message (push_message.h): nobody hears of a change before it is durable. When a batch fails its
 * messages are dropped, so every tracking client is told to forget all it has. A command that fails may have
 * told of a change that was rolled back: that does no harm.
 *
 * Keys are those of the namespace, whatever the database, as in Redis. Each namespace may have
 * tracking-table-max-keys keys in its table; beyond that the oldest is forgotten, and told of.
 */
#pragma once

#include "backend/partition/tracker.h"

struct call;
struct command;
struct partition;
struct session;
struct space;
struct tracking; /* all of a partition */

struct tracking *tracking_new(void);
void tracking_free(struct tracking *tracking);
void tracker_init(struct tracker *tracker);
/* CLIENT TRACKING ON: takes is_bcast, is_optin, is_optout, is_noloop and the redirection from `options`; the
 * prefixes are added to those there are. */
void tracking_on(struct session *session, const struct tracker *options,
                 const struct bytes *prefixes, uint32_t count);
void tracking_off(struct session *session);
/* The session is about to be freed. */
void tracking_leave(struct session *session);

/* After every command: adds the keys that a tracking client has read to the changes (CHANGE_READ). */
void tracking_remember(struct call *call);
/* After every command that a script called: when it reads, the keys that the script has declared are remembered too,
 * because they decide what the client gets. */
void tracking_remember_script(struct call *script, const struct command *called);
/* CHANGE_READ: the call's client has a copy of the key from now on. */
void tracking_keep(struct call *call, struct bytes key);
/* A key changed; `by_client`: through the call's client, not by its time to live. Cheap when nobody tracks. */
void tracking_touch(struct call *call, const struct space *space, struct bytes key, bool by_client);
/* All keys of the call's namespace are gone. */
void tracking_flush(struct call *call);
/* A batch failed: whatever was told of it did not happen, and what was forgotten for it must be forgotten. */
void tracking_forget_all(struct partition *partition);
/* At the end of a turn: tells the BCAST clients. True when something was told. */
bool tracking_turn_end(struct partition *partition);

/* For INFO: how many clients track; keys, pairs of key and client, and prefixes of a namespace. */
uint32_t tracking_clients(const struct tracking *tracking);
void tracking_counts(struct tracking *tracking, struct bytes namespace_name, size_t counts[3]);
