/*
 * coordinator_inner.h - what the files of the coordinator share (coordinator.h).
 *
 *   coordinator.c ──────────► states, locks of the transaction, time, crashes, figures
 *   coordinator_fetch.c ────► LOCK: what an attempt needs is asked of its owners, and what they send is kept
 *   coordinator_prepare.c ──► PREPARE: effects and changes are sent to their shard, in portions
 *   coordinator_collect.c ──► effects and changes of the last attempt, by shard
 *   coordinator_aside.c ────► scripts that wait in the middle of their code
 *   coordinator_grants.c ───► which transactions may borrow many bytes at a time
 *   coordinator_replies.c ──► what other shards answer
 *   coordinator_questions.c ► what they ask
 *   coordinator_decided.c ──► from the decision to its end
 *   coordinator_late.c ─────► the error after transaction-timeout
 *   coordinator_figures.c ──► what operators see, and what a backup waits for
 *   watch_elsewhere.c ──────► WATCH of keys of other shards
 *   script_writes.c ────────► which scripts write the keys that they declare
 */
#pragma once

#include "backend/context/backend_metrics.h"
#include "backend/format/transaction_record.h"
#include "backend/keyspace/borrow.h"
#include "backend/keyspace/lock.h"
#include "backend/peer/link.h"
#include "backend/peer/message.h"
#include "backend/session/push_message.h"
#include "backend/session/ticket_wait.h"
#include "backend/transaction/coordinator.h"
#include "backend/transaction/portion.h"
#include "shared/fair_queue.h"
#include "shared/out.h"
#include "shared/state.h"

struct attempt_aside;
struct effects;

enum { COORDINATED_ERROR_MAX = 512, SCRIPT_WRITES_BITS = 1 << 15 };

/* States of a transaction; it is freed when it has ended.
 *
 *   COLLECTING ─► COLLECTING, PREPARING, FAILED, HELD, QUEUED
 *   PREPARING  ─► RELEASING, COLLECTING, FAILED
 *   RELEASING  ─► PREPARED, COLLECTING, FAILED
 *   PREPARED   ─► DECIDING, FAILED
 *   DECIDING   ─► DECIDED, UNCERTAIN
 *   UNCERTAIN  ─► DECIDED
 *   HELD       ─► COLLECTING, FAILED
 *   QUEUED     ─► COLLECTING, FAILED
 */
enum coordinated_state {
    COORDINATED_COLLECTING, /* attempts run, keys are locked and fetched */
    COORDINATED_PREPARING,
    COORDINATED_RELEASING, /* shards without effects confirm that they had the locks */
    COORDINATED_PREPARED,  /* by all participants; the request runs again to decide */
    COORDINATED_FAILED,    /* the request runs again to reply the error */
    COORDINATED_DECIDING,  /* the decision is in a batch that is not durable yet */
    COORDINATED_DECIDED,   /* participants apply */
    COORDINATED_UNCERTAIN, /* the batch with the decision has failed */
    COORDINATED_HELD,      /* without locks, until a backup goes on: then it begins again */
    COORDINATED_QUEUED,    /* without locks, until it may borrow much: then it begins again */
    COORDINATED_STATES
};

extern const struct state_row coordinated_states[COORDINATED_STATES];

struct coordinated {
    struct list link;
    struct coordinator *coordinator;
    struct session *session; /* NULL: it has closed, or the reply was given */
    struct transaction_id id;
    enum coordinated_state state;
    struct lock_owner owner; /* of locks on own keys */
    struct borrow *borrow;
    struct list participants;
    struct fair_group *grant; /* the namespace for which its grant counts; NULL: it has no grant */
    struct list turn;         /* among those of its namespace that wait for a grant */
    uint32_t outstanding;     /* requests */
    uint8_t moved;    /* how often a slot, or the locks, were not at the shard that was asked */
    uint8_t db;       /* the session's, before the first attempt */
    bool is_deferred; /* without locks, until the next tick: then it begins again */
    bool is_counted;  /* in the statistics; it may still begin again */
    struct {
        uint64_t started_ms; /* monotonic */
        uint64_t waits_ms;   /* when it last halted; 0: it has not */
        uint64_t started_us; /* for the slow log */
    } time;
    struct attempt_aside *aside; /* it waits where it is (attempt.h); NULL: it does not */
    uint32_t shards;             /* that take part; 0: it still collects */
    struct effects *own;         /* effects on this partition; NULL: not collected */
    struct out reply;            /* of the command */
    uint64_t observed;           /* ticket that must be durable before the reply leaves */
    struct push_messages messages;
    struct ticket_wait ticket;
    struct timer *next_turn;           /* of lock_ahead; NULL: none was needed */
    char error[COORDINATED_ERROR_MAX]; /* of FAILED */
};

/* Another shard in a transaction. */
struct participation {
    struct list link;
    struct coordinated *transaction;
    char shard[SHARD_NAME_MAX + 1];
    struct peer_request request;
    uint8_t sent;   /* enum peer_kind of the outstanding request; 0: none */
    bool is_locked; /* it has received LOCK, and neither RELEASE nor APPLY */
    bool is_applied;
    struct need *needs;      /* that are not met, in the order in which they are asked for */
    struct need **needs_end; /* while there are any */
    uint32_t asked;          /* the first of them are in the outstanding LOCK */
    struct portions arrived; /* of the reply to LOCK */
    struct portions to_send; /* the payload of PREPARE */
    struct effects *effects; /* NULL: nothing changes there; without rows: keys are touched */
    struct out changes; /* change_list.h: for the shard's watchers, trackers and blocked clients */
};

struct coordinator {
    struct partition *partition;
    struct list all;
    struct fair_queue grants; /* coordinator_grants.c */
    uint64_t last_number;
    /* bits of scripts that write keys that they declare, by hash (script_writes.c) */
    uint64_t script_writes[SCRIPT_WRITES_BITS / 64];
    uint32_t script_writes_count;
    struct script_keys *script_keys;
};

static inline struct coordinated *coordinated_at(struct list *link)
{
    return container_of(link, struct coordinated, link);
}

static inline struct participation *participation_at(struct list *link)
{
    return container_of(link, struct participation, link);
}

/* A script that waits begins again, if it runs again at all. */
void coordinated_drop_aside(struct coordinated *transaction);
/* Has the transaction got nothing for transaction-timeout? */
bool coordinated_is_late(const struct coordinated *transaction);
/* Has it waited for half of transaction-timeout, and lacks keys that were only guessed? The other half must be enough without them. */
bool coordinated_guesses_are_late(const struct coordinated *transaction);
struct coordinated *coordinated_new(struct coordinator *coordinator);
/* Sets the state, which must be one that may follow. */
void coordinated_set_state(struct coordinated *transaction, enum coordinated_state state);
/* Releases its locks. */
void coordinated_free(struct coordinated *transaction);
/* NULL: the coordinator has no such transaction. */
struct coordinated *coordinator_find(const struct coordinator *coordinator,
                                     const struct transaction_id *id);
/* What the transaction holds here; NULL: it is decided, and holds nothing that counts. */
struct tally *coordinated_tally(const struct coordinated *transaction);
/* Has the transaction more than command-memory here, or at the shard that has refused its LOCK? Then it has failed. */
void coordinated_fail_memory(struct coordinated *transaction);
void coordinated_count(const struct coordinated *transaction, enum metric metric);
/* Counts a committed transaction by the number of other shards that it has changed, which are its participants. */
void coordinated_count_committed(const struct coordinated *transaction);
/* Nothing is decided: the transaction begins again at the next tick. False: it has taken too long. */
bool coordinated_begin_later(struct coordinated *transaction);
/* An older transaction needs one of the locks: the command runs again, unless everything is decided. */
void coordinated_begin_again(struct coordinated *transaction);
/* The shard restarts: the transaction begins again at the next tick. False: the shard is away for too long. */
bool coordinated_await_shard(struct coordinated *transaction, const char *shard, bool is_stopping);
/* A shard has answered PREPARE or RELEASE. */
void coordinated_on_prepared(struct coordinated *transaction);
/* Sends APPLY to the shards that have not applied the effects; deletes the decision when there are none. */
void coordinated_apply_all(struct coordinated *transaction);
/* ticket_wait.on_end of the batch with the decision */
void coordinated_on_durable(struct ticket_wait *wait, int err);
/* The store was recovered: is the decision there? */
void coordinated_look_up(struct coordinated *transaction);
void participation_free(struct participation *part);
/* Sends RELEASE: the shard releases all locks of the transaction, and aborts it if it is prepared. */
void participation_release(struct participation *part);
/* on_reply of the requests of a transaction */
void participation_on_reply(struct peer_request *request, enum peer_result result,
                            struct bytes payload);
/* The part of this shard in the transaction; it is added if there is none. */
struct participation *participation_of(struct coordinated *transaction, const char *shard);
/* Sends the bytes of `out`, which is cleared. False: the shard cannot be reached. */
bool participation_send(struct participation *part, enum peer_kind kind, struct out *out);
/* Frees the portions of a reply to LOCK that have arrived. */
void participation_drop_arrived(struct participation *part);
/* Handles an answer to LOCK or LOCK_REST: collects its portions, and takes over locks and rows when all have arrived. */
void participation_locked(struct participation *part, struct bytes payload);
/* Can the shard take the changes of its keys in one transaction? If not, the transaction has failed. */
bool participation_may_prepare(struct participation *part);
/* Sends PREPARE, or its first portion. False: the shard cannot be reached. */
bool participation_prepare(struct participation *part);
/* Has the shard, whose answer has just come, received all portions of PREPARE? */
bool participation_has_all(const struct participation *part);
/* Sends the next portion. False: the shard cannot be reached. */
bool participation_prepare_next(struct participation *part);

/* Records that the command's script, or the scripts of its queue, write keys that they declare (coordinator_script_writes). */
void coordinator_remember_scripts(const struct call *call);
/* The shard that has the slot; empty: none is known, so it cannot be reached. */
const char *coordinated_shard_of(const struct partition *partition, uint16_t slot);
/* Appends the transaction's id to a request. */
void coordinated_put_id(struct out *out, const struct transaction_id *id);
/* Resumes the session when everything that the attempt needed is here. */
void coordinated_check_fetched(struct coordinated *transaction);
/* Releases all locks and forgets what was fetched. */
void coordinated_forget_attempts(struct coordinated *transaction);
/* May the transaction go on with the bytes that it has borrowed so far? False: it waits for a grant without locks and rows, and then
 * begins again (coordinator_grants.c). */
bool coordinated_may_borrow(struct coordinated *transaction);
/* To be called when the transaction borrows nothing any more: gives its grant, if it has one, to transactions that wait. */
void coordinated_end_grant(struct coordinated *transaction);
/* Runs the session's request again. */
void coordinated_resume(struct coordinated *transaction);
/* Fails the transaction, which has changed nothing: releases all locks, and the request will reply the error. The reason is one of
 * transaction_failures (backend_metrics.h). */
void coordinated_fail(struct coordinated *transaction, enum metric reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The transaction has waited too long for its keys. The error names those of one shard. */
void coordinated_fail_late(struct coordinated *transaction);
/* Fails the transaction because a request could not be sent to the shard, or waits for the shard. */
void coordinated_cannot_send(struct coordinated *transaction, const char *shard);
