/*
 * blocking.h - commands that wait for a key: BLPOP and similar ones, XREAD BLOCK; or for copies: WAIT, WAITAOF.
 *
 *   handler ─ key is empty ─► blocking_wait ──► the client waits, its later requests stay unread
 *      ▲                                              │
 *      └── runs again, oldest waiter first ◄── one of its keys has become ready
 *                                                     │
 *           a null array, or an error ◄── timeout | CLIENT UNBLOCK
 *
 * A waiting command keeps only its arguments, and runs again from the beginning. Waiters are served when the
 * top-level command that changed the key (a whole EXEC or script) has ended, before the next request runs. A key is ready
 * for a waiter when it has the type of the waiter's command; for XREADGROUP also when it was deleted.
 *
 * A waiter is a session, or one of the waits that a proxy's connection carries (waits.h).
 *
 * A waiter for copies does not run again: it gets their number, when enough of them have its record or its time is over.
 *
 * When the command runs again, call->ready_key is the key that became ready: as in Redis, a waiter of several keys is
 * served from that key, not from the first of its arguments. The key always has the right type then.
 */
#pragma once

#include "backend/format/encoding.h"

struct blocking_set; /* all of a partition */
struct call;
struct command;
struct partition;
struct reply;
struct session;
struct space;
struct waiter;

/* ---- for handlers ---- */

/* Makes the client wait for a change of one of the keys. False: the command may not wait, because it is inside EXEC, a
 * script or SCREE TRY; the handler then replies as if nothing was found. After true the handler replies nothing.
 * `timeout_ms` counts from the command's first run, 0 = no timeout. Arguments are copied. If they exceed
 * client-state-limit, an error is replied and the result is true. At the timeout the client gets a null array (as Redis
 * replies to each of these commands), and the command does not run again. */
bool blocking_wait(struct call *call, const struct bytes *keys, uint32_t count,
                   uint64_t timeout_ms);
/* As blocking_wait, but the command runs again with these arguments in place of its own (XREAD's $ as an id). */
bool blocking_wait_as(struct call *call, const struct bytes *keys, uint32_t count,
                      uint64_t timeout_ms, const struct bytes *argv, uint32_t argc);
/* To be called after one of these has returned true: the command also runs again after this time, once for each of its keys, unless
 * it has run again earlier (XREADGROUP CLAIM). */
void blocking_wake_after(struct call *call, uint64_t wake_ms);
/* As blocking_wait, but a key is ready when it has the type of the commands of `group` (SCREE AWAIT). */
bool blocking_await(struct call *call, enum command_group group, const struct bytes *keys,
                    uint32_t count, uint64_t timeout_ms);
/* Makes the client wait until so many copies have the record of this index. As blocking_wait, but nothing runs again: see blocking_count. */
bool blocking_wait_copies(struct call *call, uint64_t index, int64_t copies, uint64_t timeout_ms);
/* The reply of WAIT and WAITAOF, when so many copies have the record. */
void blocking_reply_copies(struct reply *reply, const struct command *command, unsigned copies);
/* Parses a timeout in seconds ("0", "1.5"), e.g. BLPOP's last argument; replies Redis' errors. */
bool blocking_timeout(struct call *call, uint32_t index, uint64_t *timeout_ms);

/* ---- for the partition and its sessions ---- */

/* After SWAPDB or a recovery: all keys that clients wait for may be ready. */
void blocking_check_all(struct blocking_set *set);
struct blocking_set *blocking_new(struct partition *partition);
/* Frees the set. No client may be waiting. */
void blocking_free(struct blocking_set *set);
/* Serves the waiters of ready keys; called between two top-level commands. */
void blocking_serve(struct blocking_set *set);
/* As blocking_serve, and also serves waiters that were skipped because their proxy's connection had too many unread
 * replies. */
void blocking_resume(struct blocking_set *set);
/* Copies have acknowledged more: ends the waits for which that is enough. */
void blocking_count(struct blocking_set *set);
/* The partition does not have all slots any more: the commands that wait for keys of other shards run again, and so bounce or
 * are refused. To be called between two top-level commands. */
void blocking_end_foreign(struct blocking_set *set);
/* Ends the wait without a reply. */
void blocking_cancel(struct waiter *waiter);
/* Gives the waiting command back to the proxy, unexecuted, because the partition stops (shared/stopping.h). */
void blocking_give_back(struct waiter *waiter);
/* CLIENT UNBLOCK: ends the wait with a null array or the error. */
void blocking_unblock(struct waiter *waiter, bool with_error);
/* Ends the wait with an error reply, a text without its '-'. */
void blocking_refuse(struct waiter *waiter, const char *error);
/* As blocking_unblock, but after the running command has ended. */
void blocking_unblock_later(struct waiter *waiter, bool with_error);
uint32_t blocking_clients(const struct blocking_set *set);
/* Number of waiters with a timeout, or with a time at which they run again. */
uint32_t blocking_timeouts(const struct blocking_set *set);
/* Number of keys that clients wait for; *on_nokey: of those whose deletion ends a wait. */
uint32_t blocking_keys(const struct blocking_set *set, uint32_t *on_nokey);
