/*
 * blocking.h - commands that wait for a key: BLPOP and its sisters, XREAD BLOCK.
 *
 *   handler ─ nothing there ─► blocking_wait ──► the client waits, its later requests stay unread
 *      ▲                                              │
 *      └── runs again, oldest waiter first ◄── a key it waits for has become ready
 *                                                     │
 *           a null array, or an error ◄── its time is up | CLIENT UNBLOCK
 *
 * A waiting command holds no state but its arguments: it is run anew from the beginning. Waiters are served when
 * the top-level command that changed the key (a whole EXEC or script) has ended, before the next request runs.
 * A key is ready for a waiter when it holds the type of the waiter's command; XREADGROUP also hears of its end.
 *
 * A waiter is a session, or one of the waits that a proxy's connection carries (waits.h).
 *
 * When it runs again call->ready_key says for which key: in Redis a waiter of several keys takes from that
 * one, not from the first of its arguments. It always runs with a key of the right type there.
 */
#pragma once

#include "backend/format/encoding.h"

struct blocking_set; /* all of a partition */
struct call;
struct partition;
struct session;
struct space;
struct waiter;

/* ---- for handlers ---- */

/* Makes the client wait for a change of one of the keys. False when it may not: inside EXEC or a script; the
 * handler then replies what it does when it found nothing. After true it replies nothing. `timeout_ms` counts
 * from the command's first run, 0 = for ever. All is copied. Too many bytes (client-state-limit) are an error
 * and count as true. When its time is up the client gets a null array
 * (that is what Redis replies to each of these commands) and the command does not run again. */
bool blocking_wait(struct call *call, const struct bytes *keys, uint32_t count,
                   uint64_t timeout_ms);
/* The same, and the command runs again with these arguments in place of its own (XREAD's $ as an id). */
bool blocking_wait_as(struct call *call, const struct bytes *keys, uint32_t count,
                      uint64_t timeout_ms, const struct bytes *argv, uint32_t argc);
/* Reads a timeout in seconds ("0", "1.5"), as BLPOP's last argument; replies Redis' errors. */
bool blocking_timeout(struct call *call, uint32_t index, uint64_t *timeout_ms);

/* ---- for keyspace.c: a key changed. Cheap when nobody waits. ---- */

void blocking_key_written(struct blocking_set *set, const struct space *space, struct bytes key,
                          enum type type);
/* Does somebody wait for it? */
bool blocking_concerns(struct blocking_set *set, const struct space *space, struct bytes key);
void blocking_key_deleted(struct blocking_set *set, const struct space *space, struct bytes key);
/* Every key of the storage namespace was deleted. */
void blocking_space_flushed(struct blocking_set *set, const struct space *space);
/* Databases are other storage namespaces than before, or the store holds other rows: every key is looked at. */
void blocking_check_all(struct blocking_set *set);

/* ---- for the partition and its sessions ---- */

struct blocking_set *blocking_new(struct partition *partition);
/* Nobody waits any more. */
void blocking_free(struct blocking_set *set);
/* Serves who waits for keys that are ready; between two top-level commands. */
void blocking_serve(struct blocking_set *set);
/* Serves, as blocking_serve(), also those that were passed over because their proxy's connection owed too much. */
void blocking_resume(struct blocking_set *set);
/* The session does not wait any more and gets no reply. */
void blocking_cancel(struct waiter *waiter);
/* CLIENT UNBLOCK: the reply is a null array, or the error. */
void blocking_unblock(struct waiter *waiter, bool with_error);
/* The same when the command that runs has ended. */
void blocking_unblock_later(struct waiter *waiter, bool with_error);
uint32_t blocking_clients(const struct blocking_set *set);
/* Waiters with a timeout. */
uint32_t blocking_timeouts(const struct blocking_set *set);
