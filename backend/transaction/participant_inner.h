/*
 * participant_inner.h - what the files of the participant share (participant.h).
 *
 *   participant.c ────────► states, PREPARE, APPLY, RELEASE, questions to the coordinator, figures
 *   participant_lock.c ───► checks the items of LOCK and takes their locks
 *   participant_rows.c ───► reads the rows that LOCK asks for
 *   participant_portions.c ► payloads of PREPARE that come in portions, and replies to LOCK that leave in portions
 *   participant_prepare.c ► locks the keys of PREPARE in slices, and writes its record
 *   participant_changes.c ► reports a prepared transaction's changes
 *   participant_apply.c ──► applies effects and releases locks, in slices
 *   participant_slice.c ──► how long a slice may be, and the next one
 *   participant_force.c ──► an operator ends a transaction in doubt
 *   participant_figures.c ► what operators see, and what a backup waits for
 *   participant_watch.c ──► keys that sessions of other partitions watch here
 */
#pragma once

#include "backend/context/change.h"
#include "backend/context/tally.h"
#include "backend/format/change_list.h"
#include "backend/format/effects.h"
#include "backend/format/transaction_record.h"
#include "backend/keyspace/borrow.h"
#include "backend/keyspace/lock.h"
#include "backend/peer/link.h"
#include "backend/peer/message.h"
#include "backend/session/ticket_wait.h"
#include "backend/storage/retry.h"
#include "backend/transaction/participant.h"
#include "backend/transaction/portion.h"
#include "shared/out.h"
#include "shared/state.h"

struct forced_set;
struct table;

enum {
    ROW_TRIES_MAX = 16,   /* then reads block on the disk */
    SLICE_RETRY_MS = 100, /* after a slice that could not be done */
};

/* States of a transaction; it is freed when it has ended.
 *
 *   LOCKING   ─► LOCKED
 *   LOCKED    ─► LOCKING, CHECKING
 *   CHECKING  ─► PREPARING
 *   PREPARING ─► PREPARED
 *   PREPARED  ─► APPLYING
 *
 * One of which a part was applied before a start is APPLYING at once.
 */
enum part_state {
    PART_LOCKING, /* LOCK is being executed */
    PART_LOCKED,
    PART_CHECKING,  /* PREPARE is here: has the transaction locked all keys that it changes? */
    PART_PREPARING, /* the record is in a batch that is not durable yet */
    PART_PREPARED,
    PART_APPLYING, /* effects are applied, or in a batch that is not durable yet */
    PART_STATES
};

extern const struct state_row part_states[PART_STATES];

/* How far the keys of PREPARE are locked. */
struct prepare_progress {
    struct effects_reader effects; /* whose keys are not locked yet */
    struct change_list changes;    /* likewise; a key may be touched without a row that changes */
    bool were_locked;              /* the transaction had locked all keys before */
};

/* How far a transaction is applied. */
struct apply_progress {
    bool is_begun;
    bool is_applied;               /* all effects and reports; its locks are being released */
    struct effects_reader effects; /* that are left */
    struct change_list changes;    /* that must still be reported */
    uint32_t reported;             /* bytes of part->changes that were reported before a start */
    struct bytes space; /* in which keys are changed; data NULL: the namespace has no limit */
    int64_t keys;       /* that the namespace has more than before */
    uint64_t ticket;    /* of the last effects */
};

/* Work that is done in slices. */
struct part_progress {
    struct prepare_progress prepare;
    struct apply_progress apply;
    struct timer *next_slice; /* NULL: none was needed */
};

/* A transaction at this partition. */
struct part {
    struct lock_owner owner;
    struct tally tally; /* of its locks, a request, rows to send and what is prepared */
    struct participant *participant;
    struct transaction_id id;
    enum part_state state;
    struct peer_incoming *incoming; /* of the coordinator; NULL: it has ended */
    struct peer_call call;          /* the request that is being executed */
    bool has_call;
    struct bytes request; /* of LOCK; heap */
    uint64_t room;        /* bytes of rows that may be sent in reply */
    bool is_too_long;     /* a row has more */
    struct retry rows;
    uint32_t tries;
    struct out reply;
    struct portions to_send; /* the reply to LOCK */
    struct portions arrived; /* the payload of PREPARE, or its record */
    struct ticket_wait ticket;
    struct bytes effects; /* prepared; in `arrived` */
    struct bytes changes; /* change_list.h; reported when the effects are applied; in `arrived` */
    struct part_progress progress;
    struct peer_request question;
    uint8_t asked;     /* enum peer_kind of the question: OUTCOME, OPEN or WOUND; 0: none */
    bool is_wounded;   /* WOUND must be sent to the coordinator, or has no answer yet */
    uint64_t heard_ms; /* monotonic: last request of the coordinator */
};

/* The watched keys of a session at another partition. */
struct remote_watcher {
    struct list link;
    struct peer_incoming *incoming;
    uint64_t name; /* chosen by the other partition */
    struct watcher watcher;
    struct table *keys; /* by metadata row */
};

struct participant {
    struct partition *partition;
    struct table *parts; /* by id */
    struct table *left; /* shard → size_t: bytes of its transactions whose connection has ended */
    struct list watchers; /* struct remote_watcher */
    struct forced_set *forced;
};

/* An item of a LOCK request. */
struct lock_item {
    enum need_kind kind;
    enum lock_mode mode;
    enum cf cf;
    uint8_t db;
    struct bytes namespace_name;
    struct bytes row_key;
    struct bytes row;
};

/* Is the item a question about all keys of a database? */
static inline bool lock_item_is_question(const struct lock_item *item)
{
    return need_is_question(item->kind);
}

/* Reads an item; check reader->is_good. */
struct lock_item lock_item_next(struct message_reader *reader);
/* Checks the items of the request and takes their locks. */
struct refusal part_lock_items(struct part *part);
/* Reads the rows that LOCK asks for. When one is uncached, all are read again as soon as it is in memory. */
void part_read_rows(struct part *part);
/* Answers LOCK with part->reply, or its first portion. */
void part_send_reply(struct part *part);
/* Answers LOCK_REST with the next portion. False: nothing is left of the reply. */
bool part_send_rest(struct part *part, struct peer_incoming *incoming, uint64_t request);
/* Frees what is left of the reply to LOCK. */
void part_drop_reply(struct part *part);
/* Adds a portion of PREPARE. Refused: it does not follow those before, or they need too much memory. */
struct refusal part_add_portion(struct part *part, struct message_reader *reader);
/* Does the transaction need more memory than command-memory, or does its shard hold more than all calls of a process may? What it has
 * prepared and left behind counts too: a shard that is killed again and again would leave ever more. */
struct refusal part_refuse_memory(const struct part *part);
/* Bytes of the shard's transactions whose connection has ended. Shards beyond SHARD_COUNT_MAX share one number. */
size_t *participant_left(struct participant *participant, const char *shard);
/* All of PREPARE has arrived: begins to lock the keys that it changes. May free the transaction, because it is refused. */
void part_prepare(struct part *part);
/* CHECKING: the next slice. May free the transaction. */
void part_prepare_some(struct part *part);
/* A prepared transaction was read from the store: locks its keys at once. False: the record is not valid. */
bool part_lock_again(struct part *part);
/* Within a call, when all effects are applied: reports the next change that came with them. `by`: the connection here of the client that has
 * made it; NULL: it has none. False: all are reported. */
bool part_report_change(struct change_list *list, struct call *call, struct session *by);
/* Before the effects are applied: reports flushes among them to watchers, blocked clients and tracking clients. */
void part_report_flushes(const struct part *part, struct call *call);
void part_set_state(struct part *part, enum part_state state);
/* Writes the record of a transaction of which a part is applied, and perhaps reported. */
void part_put_applying(struct part *part);
void part_delete_record(const struct part *part, enum transaction_record record);
/* Begins to apply the effects. May free the transaction, because all is done. False: they cannot be applied now. */
bool part_apply(struct part *part);
/* APPLYING: the next slice. May free the transaction. */
void part_apply_some(struct part *part);
/* A prepared transaction was read from the store: goes on if some of its effects were applied. False: the store cannot be read. */
bool part_apply_again(struct part *part);
/* Aborts a transaction that is not applied yet. */
void part_abort(struct part *part);
/* What a slice may still do. */
struct part_slice {
    uint32_t left; /* effects, reports or locks */
    size_t bytes;
    uint64_t end_us; /* monotonic */
};

struct part_slice part_slice_begin(const struct part *part);
/* False: the slice ends. What has begun may take more bytes than are left. */
bool part_slice_goes_on(const struct part_slice *slice);
void part_slice_spend(struct part_slice *slice, size_t bytes);
/* Does the next slice in the next turn, or later. */
void part_go_on_later(struct part *part, uint64_t after_ms);
/* Answers the open request, if there is one. */
void part_reply(struct part *part, struct bytes payload);
/* Releases the locks and frees the transaction. An open request is refused with the reason; NO_REFUSAL: none is open. */
void part_end(struct part *part, struct refusal reason);

/* NULL: the other partition has no watcher with this name. */
struct remote_watcher *participant_find_watcher(const struct participant *participant,
                                                const struct peer_incoming *incoming,
                                                uint64_t name);
/* As participant_find_watcher; the watcher is added if there is none. */
struct remote_watcher *participant_watcher(struct participant *participant,
                                           struct peer_incoming *incoming, uint64_t name);
void participant_free_watcher(struct participant *participant, struct remote_watcher *remote);
/* Frees the watchers of this connection. */
void participant_drop_watchers(struct participant *participant,
                               const struct peer_incoming *incoming);
/* Watches a key; nothing happens if the watcher has it. */
void participant_watch(struct participant *participant, struct remote_watcher *remote,
                       struct bytes row_key);
bool remote_watcher_has(const struct remote_watcher *remote, struct bytes row_key);
/* Has a key of the watcher changed since it is watched? An unknown watcher has lost its watches with a connection. */
bool remote_watcher_is_dirty(struct partition *partition, const struct remote_watcher *remote);

/* A copy on the heap; the caller frees it with free(). */
struct bytes bytes_heap_copy(struct bytes bytes);
