/*
 * move_source.h - gives slots away: copies their rows to another shard while commands go on, and hands them over.
 *
 *   STARTING ─► BEGINNING ─► COPYING ─► FOLLOWING ─► FREEZING ─► DRAINING ─► ENDING ─► RELEASING ─► ACTIVATING ─► PURGING ─► FINISHING
 *   record       MOVE_BEGIN   rows       effects of   writes      the last    MOVE_END  record        MOVE_ACTIVATE  rows are   record
 *   EXPORTING                            batches      wait        effects               RELEASED      until DONE     deleted    without id
 *      └──────── before RELEASING: ABORTING: MOVE_ABORT until DONE ─► record OWNED as before ◄── a restart, a failed batch
 *
 *   STARTING   ─► BEGINNING, ABORTING, DONE
 *   BEGINNING  ─► COPYING, ABORTING, DONE
 *   COPYING    ─► FOLLOWING, ABORTING, DONE
 *   FOLLOWING  ─► FREEZING, ABORTING, DONE
 *   FREEZING   ─► DRAINING, FOLLOWING, ABORTING, DONE
 *   DRAINING   ─► ENDING, FOLLOWING, ABORTING, DONE
 *   ENDING     ─► RELEASING, FOLLOWING, ABORTING, DONE
 *   RELEASING  ─► ACTIVATING, DONE
 *   ACTIVATING ─► PURGING, DONE
 *   PURGING    ─► FINISHING, DONE
 *   FINISHING  ─► DONE
 *   ABORTING   ─► RESTORING, DONE
 *   RESTORING  ─► DONE
 *
 * (1) Copying needs no snapshot: the effects of all batches since its begin follow the rows, in the order of the WAL
 *     (slot_rows.h). A cursor keeps them from being trimmed. FOLLOWING ends when the target has everything, or, while clients
 *     write without a pause, all but the writes of one round trip. Clients may write more to the slots than the target gets:
 *     when FOLLOWING takes longer than COPYING did, writes to the slots wait for freeze_ms again and again, and go on for
 *     less and less time between, until the target is near (move_brake).
 * (2) From FREEZING to RELEASING, writes to the slots wait and reads are served (slot_gate.h). If that takes longer than
 *     freeze_ms, writes go on, and the move freezes again later, for twice that time: so a slow disk cannot stop it for
 *     ever. Slots are not frozen while the target is not connected, or a transaction on their keys is in doubt: the end of
 *     that cannot be awaited with writes that wait.
 * (3) FREEZING waits until no transaction over shards holds or requests a lock of a key of the slots. It must not wait for
 *     transactions that wait for locks: these may wait for others that wait for this slot, or for a slot that is frozen at
 *     another shard and is not released before a transaction of this shard ends. So all that are not prepared are wounded
 *     (lock.h) when the freeze begins. They release their locks everywhere and begin again, and what meets a frozen slot gets
 *     no lock of it: a command waits (slot_gate.h), LOCK is refused (participant.h). A coordinator ignores the wound once it
 *     has all locks and prepares. So FREEZING waits only for transactions that wait for messages and disks, and for nothing
 *     else; no cycle is possible, and no chain.
 * (4) The slots belong to this partition until RELEASED is durable, and to the target afterwards: there is no way back.
 * (5) ACTIVATE is sent until the target has replied, also after restarts: the record keeps the id of the move until the
 *     target owns the slots and all rows are deleted here.
 */
#pragma once

#include "backend/format/slot_record.h"
#include "backend/peer/link.h"
#include "backend/session/ticket_wait.h"
#include "backend/slots/move_message.h"
#include "shared/state.h"

struct effects;
struct partition;
struct slot_purge;
struct slot_rows;
struct table;
struct wal_cursor;

enum { MOVE_REASON_MAX = 256, MOVE_LIBRARIES_MAX = PEER_RUN_ID_MAX + 32 };

enum source_state {
    SOURCE_STARTING,
    SOURCE_BEGINNING,
    SOURCE_COPYING,
    SOURCE_FOLLOWING,
    SOURCE_FREEZING,
    SOURCE_DRAINING,
    SOURCE_ENDING,
    SOURCE_RELEASING,
    SOURCE_ACTIVATING,
    SOURCE_PURGING,
    SOURCE_FINISHING,
    SOURCE_ABORTING,
    SOURCE_RESTORING, /* the record OWNED is not durable yet */
    SOURCE_DONE,      /* to be freed */
    SOURCE_STATES
};

extern const struct state_row move_source_states[SOURCE_STATES];

/* What the moves of a partition have in common; slot_moves.c has it. */
struct move_host {
    struct partition *partition;
    int64_t allowance;       /* bytes that may be copied now; negative: too many were */
    int64_t purge_allowance; /* likewise, of rows that may be deleted */
    bool is_paused;
    struct table *libraries; /* shard ─► heap text: which libraries its process has been sent */
    /* Slots were frozen or thawed, or their records have changed. */
    void (*changed)(struct move_host *host);
    /* The slot has a metadata row that cannot be decoded, so it cannot move. */
    void (*damaged)(struct move_host *host, uint16_t slot);
    /* After `changed`: the slots belong to another shard now. */
    void (*released)(struct move_host *host, const struct move_slots *slots);
};

/* What is being copied. NULL: not yet, or no longer. */
struct move_copy {
    struct slot_rows *rows;
    struct wal_cursor *cursor; /* of the batches since the begin */
    uint64_t read;             /* index of the last batch that it has read */
    /* being filled, or being sent: it has at least a row, however long that is */
    struct effects *page;
    bool is_closed;     /* the page is being sent, part by part */
    size_t sent;        /* bytes of the page that the target has */
    size_t part;        /* bytes of the page in the outstanding MOVE_ROWS */
    uint64_t number;    /* of the last MOVE_ROWS */
    uint32_t rounds;    /* pages in a row that had all that was logged */
    uint64_t opened_ms; /* monotonic: when copying began */
    uint64_t late_ms;   /* monotonic: when following has taken as long as copying */
};

/* Slows down clients that write more to the slots than the target gets. */
struct move_brake {
    bool is_on;        /* writes to the slots wait */
    uint64_t until_ms; /* monotonic: for how long it stays on, or off */
    uint64_t on_ms;    /* for how long it is on each time */
    uint64_t off_ms;   /* and off, the next time */
};

struct move_figures {
    uint64_t keys;     /* when the copy began */
    uint64_t bytes;    /* copied */
    uint64_t begun_ms; /* monotonic */
    uint64_t moved_ms; /* monotonic; of the last progress */
};

struct move_source {
    struct list link;
    struct move_host *host;
    struct move_slots slots;
    struct slot_record before; /* of the slots; of a move found after a restart: its own record */
    uint64_t wish;             /* epoch of the map */
    char target[SHARD_NAME_MAX + 1];
    enum source_state state;
    struct move_copy copy;
    struct move_brake brake;
    struct slot_purge *purge;
    struct peer_request request;
    enum peer_kind kind;                /* of the outstanding request; 0: none */
    char libraries[MOVE_LIBRARIES_MAX]; /* those that MOVE_BEGIN has sent, for host->libraries */
    struct ticket_wait ticket;
    bool is_changing;   /* a record is not durable yet */
    bool is_stale;      /* frozen too late: the reply to the outstanding MOVE_END does not count */
    uint64_t frozen_ms; /* monotonic: since when the slots are frozen */
    uint64_t freeze_ms; /* how long they may be */
    uint64_t retry_ms;  /* monotonic: when to try again */
    struct move_figures figures;
    char reason[MOVE_REASON_MAX]; /* why it does not go on; empty: it does */
};

/* Begins to move slots, whose records are equal, to another shard. NULL: records cannot be written now. */
struct move_source *move_source_new(struct move_host *host, uint16_t first, uint16_t last,
                                    const char *target, uint64_t wish);
/* Goes on with a move that a restart or a failed batch has interrupted. `record`: of its slots, EXPORTING or RELEASED. */
struct move_source *move_source_found(struct move_host *host, uint16_t first, uint16_t last,
                                      const struct slot_record *record);
/* The record's change must not be under way. */
void move_source_free(struct move_source *move);
/* Does what can be done now; to be called often. */
void move_source_step(struct move_source *move);
/* Can everything still be undone, because the slots are not being released? */
bool move_source_may_abort(const struct move_source *move);
/* Gives the move up, unless the slots are being released already. */
void move_source_abort(struct move_source *move, const char *reason);
/* The state that this move was in is no longer that of the store: it ends, without changing anything. */
void move_source_drop(struct move_source *move);
/* Do writes to the slots wait? */
bool move_source_holds_writes(const struct move_source *move);
/* Bytes that wait to be sent. */
uint64_t move_source_tail(const struct move_source *move);
