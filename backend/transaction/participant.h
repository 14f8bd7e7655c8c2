/*
 * participant.h - this partition's part in transactions whose coordinator is another shard (coordinator.h).
 *
 *   LOCK ────► LOCKING ── all granted, rows read ─► LOCKED ──PREPARE──► PREPARED ──APPLY──► effects in the batch
 *                 ▲                                   │ │                  │
 *                 └──────────── LOCK ─────────────────┘ └─RELEASE, closed  └─RELEASE: aborted
 *
 * (1) Rows are sent, PREPARE and APPLY are answered, when everything that they show or change is durable, and synced. APPLY
 *     does not make the batch be written sooner: its effects are secured by the record of PREPARE (coordinator.h), so others may
 *     use them at once. Only its answer, after which the coordinator deletes the decision, must wait.
 * (2) Until it is prepared, a transaction ends with its coordinator's connection, or when the coordinator, asked after two
 *     seconds without news, has ended it: its RELEASE may have been refused by a limit. RELEASE replies whether the
 *     transaction had its locks.
 * (3) A prepared transaction survives a crash (transaction_record.h). Without news from its coordinator for two
 *     seconds, the coordinator is asked for the outcome; if it does not answer, the transaction is in doubt, and
 *     commands on its keys are refused at once.
 * (4) Keys that a session of another partition watches are watched here until UNWATCH, or the end of the connection; after
 *     that EXEC finds them changed.
 * (5) The record of PREPARE has the changes with the effects, and they are reported when the effects are applied, also after a
 *     crash or a failed batch (participant_changes.c).
 * (6) APPLY for an unknown transaction was applied before, and succeeds.
 * (7) The keys of PREPARE are locked (participant_prepare.c), effects are applied and locks are released (participant_apply.c) in slices.
 *     All keys are locked until the last effect is applied.
 */
#pragma once

#include "backend/format/transaction_record.h"
#include "backend/peer/incoming.h"

enum { APPLY_EFFECTS = 4096 }; /* default of transaction_steps.apply_effects */

/* Bits of LOCK. */
enum lock_flag {
    LOCK_HAS_LOCKS = 1, /* the transaction was here before, and must be so still */
    LOCK_IS_LAST = 2,   /* its coordinator takes no more (partition_takes_no_more) */
};

struct partition;
struct participant; /* all of a partition */

struct participant *participant_new(struct partition *partition);
/* NULL is allowed. */
void participant_free(struct participant *participant);
/* Forgets all transactions and their locks: another copy of the shard leads, and has what is prepared. The connections of their
 * coordinators have ended, so no message leaves. */
void participant_drop(struct participant *participant);
/* Reads prepared transactions from the store and locks their keys; also after a failed batch. False: they cannot be
 * read. */
bool participant_load(struct participant *participant);
void participant_closed(struct participant *participant, struct peer_incoming *incoming);
/* To be called several times a second. */
void participant_tick(struct participant *participant);
/* Has every transaction here ended? If not, writes the reason, and what to do. No transaction that is still to come can
 * be prepared if, before this call, the coordinators of all shards were quiet (coordinator_is_quiet). */
bool participant_is_quiet(const struct participant *participant, char *why, size_t size);

/* Is a transaction applied in part only? */
bool participant_is_applying(const struct participant *participant);

struct participant_figures {
    uint32_t count;    /* transactions of other shards that hold or request locks here */
    uint32_t prepared; /* of them: they have changes here that wait for the decision */
    uint32_t in_doubt; /* of them: prepared, and the coordinator does not answer */
    uint32_t forced;   /* have ended, by an operator (forced.h) */
};

struct participant_figures participant_figures(const struct participant *participant);
/* An operator ends the prepared transactions with this id, whose deciding shard is lost. False: there is none; or it cannot be ended, and *why
 * is the reason. */
bool participant_force(struct participant *participant, struct bytes id, bool is_commit,
                       const char **why);
/* Deletes the record of a transaction that an operator has ended (forced.h). False: there is none with this id. */
bool participant_forget(struct participant *participant, struct bytes id);
/* One line for each transaction, for SCREE TRANSACTIONS: calls on_line. */
void participant_list(const struct participant *participant,
                      void (*on_line)(void *owner, const char *line), void *owner);
