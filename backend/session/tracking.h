/*
 * tracking.h - CLIENT TRACKING: sends invalidations to clients that cache what they read.
 *
 *   read-only command ─► tracking_remember ─► keys: name ─► trackers ──┐ one invalidation at the next change of the key
 *   ON BCAST PREFIX p ──────────────────────► prefixes ─► trackers ────┼ an invalidation for every change, once a turn
 *                                                                      ▼
 *                     the client itself (RESP3), or its REDIRECT (a message of __redis__:invalidate in RESP2)
 *
 * Invalidations are push messages (push_message.h), so they are not sent before the change is durable. When a batch fails,
 * its messages are dropped; therefore every tracking client gets an invalidation of all keys. A command that fails may
 * cause an invalidation although its change was rolled back: that is harmless.
 *
 * A slot that moves to another shard takes its keys along: clients that have read one of them get its invalidation, and
 * track it at the new owner when they read it again.
 *
 * Keys are tracked by namespace and name, regardless of the database, as in Redis. Each namespace may have
 * tracking-table-max-keys keys in its table; beyond that the oldest key is removed and invalidated.
 */
#pragma once

#include "backend/session/tracker.h"

struct call;
struct change;
struct command;
struct partition;
struct session;
struct space;
struct tracking; /* all of a partition */

/* A changed key is looked up among the prefixes once for each length that they have. */
enum { PREFIX_LENGTHS_MAX = 256 };

struct tracking *tracking_new(void);
void tracking_free(struct tracking *tracking);
void tracker_init(struct tracker *tracker);
/* CLIENT TRACKING ON with is_bcast, is_optin, is_optout, is_noloop, the redirection and the name (copied) of `options`. Prefixes are added
 * to the client's present prefixes. */
void tracking_on(struct session *session, const struct tracker *options,
                 const struct bytes *prefixes, uint32_t count);
void tracking_off(struct session *session);
/* The session is about to be freed. */
void tracking_leave(struct session *session);

/* Called after every command of a tracking client: adds a CHANGE_READ for each key that it has read. */
void tracking_remember(struct call *call);
/* Called after every reading command of a script: also tracks the keys that the script declared, because they affect
 * its result. */
void tracking_remember_script(struct call *script, const struct command *called);
/* Handles CHANGE_READ: from now on the call's client has a copy of the key. Changes of a key of another shard are not known
 * here, so the client gets an invalidation of such a key after the reply. */
void tracking_keep(struct call *call, struct bytes key);
/* Sends or collects the invalidation of a changed key. `by`: the session of the client that has changed it; NULL: none. Cheap when no
 * client tracks. */
void tracking_touch(struct partition *partition, const struct change *change, struct session *by);
/* The name of the client's tracking at all shards, if its own changes must not be reported to it (NOLOOP); else empty. */
struct bytes tracking_name(const struct session *session);
/* The session that tracks by this name, which is not empty; NULL: there is none. */
struct session *tracking_find(const struct tracking *tracking, struct bytes name);
/* Invalidates all keys of the database's namespace, after a flush. */
void tracking_flush(struct call *call, const struct space *space);
/* Invalidates all keys for all clients, after a failed batch: its changes were undone and its invalidations dropped. */
void tracking_forget_all(struct partition *partition);
/* The partition has given these slots to another shard, where their keys may change: invalidates those of them that clients have
 * read, and all keys for BCAST clients. */
void tracking_forget_slots(struct partition *partition, uint16_t first, uint16_t last);
/* tracking-table-max-keys has changed: keys above it are removed and invalidated at the end of the turn. */
void tracking_limit(struct tracking *tracking);
/* Sends the invalidations of BCAST clients, and of keys above a new limit, at the end of a turn. True: some were sent. */
bool tracking_turn_end(struct partition *partition);

/* For INFO: number of tracking clients; numbers of keys, (key, client) pairs and prefixes of a namespace. */
uint32_t tracking_clients(const struct tracking *tracking);
void tracking_counts(struct tracking *tracking, struct bytes namespace_name, size_t counts[3]);
/* The lengths that the prefixes of a namespace have. */
const struct name_lengths *tracking_prefix_lengths(struct tracking *tracking,
                                                   struct bytes namespace_name);
