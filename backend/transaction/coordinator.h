/*
 * coordinator.h - commands, scripts and transactions whose keys lie on several shards: this partition runs them.
 *
 *   SCREE ACROSS command ─► the keys that it names are needed (lock_ahead.h)
 *        ┌────── needs ◄──────────┘ ▲
 *        ▼                          └─ rolled back (borrow.h) ◄─ it opens a key that it did not name
 *   LOCK to the owners: keys are locked, rows fetched ─► it runs ┘
 *
 *   nothing is needed ─► effects, changes and the reply are collected, and everything is rolled back
 *        │
 *        ▼
 *   PREPARE to each shard with changes ─► all durable ─► RELEASE to each shard without ─► all had the locks
 *                                                                                             │
 *        own effects and the decision in one batch ◄──────────────────────────────────────────┘
 *        │ durable: committed, the reply leaves
 *        ▼
 *   APPLY to each shard with effects ─► all applied ─► the decision is deleted
 *
 * A client waits for two round trips between shards, LOCK and PREPARE, and for two syncs, however many shards there are:
 *   - Each shard syncs its effects before it answers PREPARE. Once the decision is made they must survive every crash, and no
 *     other shard has them.
 *   - This shard syncs the decision before the reply leaves and the first APPLY is sent. Until then a crash aborts the
 *     transaction, so no client may have seen it.
 * Applying needs no sync of its own: the shard has the effects in its log and the decision is durable, so after a crash they are
 * applied again. Nor does deleting the decision, which would be found and deleted again. Both are secured effects (overlay.h):
 * readers do not wait for them, and they are written with the next batch, at most a tick later.
 *
 * A change goes to its shard with its effects, in PREPARE, and without any if a key is only touched (LTRIM of nothing): so the shard
 * reports it to its clients when it applies the effects (participant_changes.c).
 *
 * Without effects on other shards there is no decision: the own effects, if any, are in the batch as those of any command.
 *
 * The commands run here only, one after another, on rows of all shards, so their results are those of one Redis. The
 * other shards (participant.h) lock keys, send rows and apply effects.
 *
 * (1) Strict two-phase locking: own keys and borrowed keys are locked from their first use. The first locks are released
 *     when every changed key is prepared, so that it can be neither read nor written until the decision. At that moment
 *     the transaction has all locks: a shard that has lost them by a restart or with its connection refuses RELEASE. So
 *     transactions are serializable, and strictly.
 * (2) A transaction is aborted if this partition has no decision for it. While a decision is not durable the outcome is open.
 * (3) A transaction that is wounded (lock.h) releases everything and begins again with its age, so it ends at last.
 * (4) When the locks are not granted within transaction-timeout, or a shard cannot be reached, nothing is done, and the
 *     client gets TRYAGAIN with the reason. Until then a transaction that is not decided begins again at the next tick when a
 *     shard restarts, has lost its locks, or does not own a slot any more. So EXEC keeps its queue and its watches until then.
 *     A script that waits for its keys one after the other has so much time for each.
 * (5) After a failed batch the decision may or may not be in the log. The outcome stays open until the store is
 *     recovered and the decision was looked up. Transactions that are not decided fail: what they read may be rolled back.
 * (6) A transaction that borrows many bytes needs a grant (coordinator_grants.c).
 * (7) While a backup quiesces transactions (backup.h), none sends its first LOCK: it is held, without locks, and begins
 *     again afterwards, with a new time limit. One that has sent LOCK runs to its end, unless it is wounded.
 */
#pragma once

#include "backend/context/call.h"
#include "backend/peer/incoming.h"

struct attempt_aside;
struct coordinator; /* all of a partition */
struct coordinated; /* a transaction */

struct coordinator *coordinator_new(struct partition *partition);
/* NULL is allowed. */
void coordinator_free(struct coordinator *coordinator);
/* Forgets all transactions, without a message: another copy of the shard leads, and has the decisions. Numbers are not used again. */
void coordinator_drop(struct coordinator *coordinator);
/* Reads decisions from the store; APPLY is then sent to their participants. False: they cannot be read. */
bool coordinator_load(struct coordinator *coordinator);
/* After a failed batch: ends the transactions that are not decided, and reads decisions whose deletion was rolled back.
 * False: they cannot be read. */
bool coordinator_reload(struct coordinator *coordinator);
/* To be called several times a second. */
void coordinator_tick(struct coordinator *coordinator);

/* ---- for suspend.c and dispatch.c ---- */

/* The keys that the call may borrow; NULL: the command may not reach other shards. */
struct borrow *coordinator_borrow(struct call *call);
/* May the session's transaction be abandoned, so that its request begins again elsewhere? *since_ms: when it began. */
bool coordinator_may_leave(const struct session *session, uint64_t *since_ms);
/* Does the session's script or EXEC wait where it is? */
bool coordinator_has_halted(const struct session *session);
/* The attempt of the transaction's script or EXEC that waits where it is, if it can go on, else NULL: it begins again. The caller owns it. */
struct attempt_aside *coordinator_take_aside(struct call *call);
/* The script or EXEC waits where it is. Takes ownership. */
void coordinator_set_aside(struct call *call, struct attempt_aside *aside);
/* Releases all locks of the call's transaction, which goes on with its attempt without them. */
void coordinator_forget_locks(struct call *call);
/* Has lock_ahead locked all keys that the command of the session's transaction names? */
bool coordinator_has_attempted(const struct session *session);
/* Has this script, by the arguments of EVAL, EVALSHA or FCALL, written keys of other shards that it declares? Scripts with
 * equal hashes, which are rare, are taken for one. */
bool coordinator_script_writes(const struct partition *partition, const struct command *command,
                               const struct bytes *argv);
/* The attempt was rolled back because it needed keys of other shards: they are locked and fetched. */
void coordinator_fetch(struct call *call);
/* An attempt that needed nothing more is complete and has not been rolled back: collects its effects, and its messages after the first
 * `messages`. */
void coordinator_collect(struct call *call, uint32_t messages);
/* After coordinator_collect and the rollback. True: the command is done, its own effects are in the batch; false: the
 * session waits for other shards, and the reply was kept. */
bool coordinator_commit(struct call *call);
/* Has coordinator_commit been called for the session's transaction before? Then the statistics have its commands. */
bool coordinator_is_counted(const struct session *session);
/* True: the transaction of this request is over, and the call has its reply and its effects. */
bool coordinator_finish(struct call *call);
/* True: coordinator_finish will end the session's transaction. */
bool coordinator_is_ending(const struct session *session);
/* The session closes, or its request was refused: aborts its transaction, unless it is decided. */
void coordinator_abandon(struct session *session);

/* WATCH of a key of another shard: it is watched there. False: the command must wait. */
bool coordinator_watch(struct call *call, struct bytes key);
/* For EXEC: asks the owners of watched keys whether one has changed. True: that is known, or need not be asked. */
bool coordinator_ask_watches(struct call *call);
/* For EXEC: has a watched key of another shard changed? Not known yet if call_retries. */
bool coordinator_watch_dirty(struct call *call);
/* Removes all watches of the session, on all shards. */
void session_unwatch(struct session *session);
/* The session is freed: no message will be sent to it. NULL is allowed. */
void coordinator_forget(struct coordinator *coordinator, const struct session *session);

/* ---- for a backup ---- */

/* Has every transaction ended that was not held (7)? If not, writes the reason, and what to do. */
bool coordinator_is_quiet(const struct coordinator *coordinator, char *why, size_t size);
/* partition->pause.is_quiescing has become false: held transactions begin again. */
void coordinator_go_on(struct coordinator *coordinator);

/* ---- figures ---- */

struct coordinator_figures {
    uint32_t count;     /* transactions that are not complete */
    uint32_t decided;   /* of them: committed, but not applied by all shards */
    uint32_t uncertain; /* of them: the batch with the decision has failed */
};

struct coordinator_figures coordinator_figures(const struct coordinator *coordinator);
/* As participant_list. */
void coordinator_list(const struct coordinator *coordinator,
                      void (*on_line)(void *owner, const char *line), void *owner);
