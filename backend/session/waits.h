/*
 * waits.h - SCREE WAIT and SCREE UNBLOCK: blocking commands of many clients of a proxy over one connection.
 *
 * Each wait has a number that the proxy chose. The command after it runs as if the client had a connection of its own,
 * in the client's namespace, database and protocol, and its reply comes in a frame with that number, in any order:
 *
 *   proxy                                                        backend
 *   SCREE WAIT 7 3 shop 0 tag BLPOP k 0  ──────────────────►  runs ─┬─ it waits (blocking.h)
 *        ◄────────────────────────────────────────  >1 :7 ──────────┤
 *        ◄────────────────────────────────────────  >2 :7 reply ────┴─ it was answered at once
 *
 *                     another client: RPUSH k x ──────────►  runs again
 *        ◄────────────────────────────────────────  >2 :7 reply
 *
 *   SCREE UNBLOCK 7 TIMEOUT|ERROR|GONE  ───────────────────►  >2 :7 null|error|(no frame)
 *
 * (1) Every wait gets exactly one frame with a reply, or none after GONE. After that the number may be used again.
 * (2) UNBLOCK for a wait that was answered has no effect: the reply has been sent. So a client gets either its element or
 *     the null, and no element is removed for a client that gets null.
 * (3) Only the backend handles timeouts (blocking.h).
 * (4) When a batch fails, each reply held for it becomes a frame with its number and the error (session_release).
 * (5) While more than STREAM_HIGH_WATER bytes are unsent, the waits of the connection are not served: the elements stay in
 *     their lists until the proxy has read its replies (blocking_resume).
 * (6) When the connection ends, all its waits are cancelled.
 */
#pragma once

#include "shared/bytes.h"

enum { WAIT_ARGS = 7 }; /* SCREE WAIT NUMBER PROTOCOL NAMESPACE DB RULE, before the command */

struct out;
struct session;
struct waiter;
struct waits; /* The waits of a session; a NULL pointer: there was no wait so far. */
struct wait_origin;

/* ---- for dispatch.c ---- */

/* Moves the session to the namespace, database and protocol of the command after the first WAIT_ARGS arguments, until
 * waits_leave(). False: the arguments are not valid, or the command cannot block. */
bool waits_enter(struct session *session, const struct bytes *argv, uint32_t argc);
/* As waits_enter(), for a waiter whose command runs again or ends. */
void waits_enter_again(struct session *session, uint64_t id, struct wait_origin *origin);
void waits_leave(struct session *session);
/* Number of the wait whose command runs; 0: none. */
uint64_t waits_current(const struct session *session);
/* Writes the head of the frame for the current wait's reply; does nothing without a current wait. */
void waits_write_head(const struct session *session, struct out *out);
/* The command of the current wait waits: sends its first frame, unless that frame has been sent. */
void waits_announce(struct session *session);

/* ---- for blocking.c ---- */

/* Adds a waiter to the current wait. Returns its client's namespace, database and protocol, with a reference. */
struct wait_origin *waits_add(struct session *session, struct waiter *waiter, size_t bytes);
void waits_remove(struct session *session, uint64_t id, struct wait_origin *origin, size_t bytes);
/* The waiter with this number; NULL: there is none. */
struct waiter *waits_find(const struct session *session, uint64_t id);

/* ---- for session.c ---- */

/* Calls cancel() for each waiter, which must remove it (blocking_cancel). */
void waits_cancel(struct session *session, void (*cancel)(struct waiter *waiter));
/* Frees an empty set of waits. */
void waits_free(struct session *session);
/* Records that a reply was held for the ticket of this parity, and to which wait it belongs: the current one, or none (0). */
void waits_hold(struct session *session, unsigned parity);
/* After a failed batch: writes the head of the frame for the i-th reply that was held for its ticket. */
void waits_write_held_head(const struct session *session, unsigned parity, uint32_t i,
                           struct out *out);
/* Drops the records of replies held for this parity. */
void waits_release(struct session *session, unsigned parity);
uint32_t waits_count(const struct session *session);
/* Memory of all waits. */
size_t waits_bytes(const struct session *session);
