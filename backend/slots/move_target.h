/*
 * move_target.h - receives slots: writes their rows, and owns the slots when the source has released them.
 *
 *   OPENING ─► IMPORTING ─► STAGING ─► STAGED ─► ACTIVATING ─► OWNED
 *   record       rows are     rows and   MOVE_      record
 *   IMPORTING    written      STAGED     ACTIVATE   OWNED
 *      └───────── MOVE_ABORT (record IMPORTING), a restart while IMPORTING ─► WIPING ─► record RELEASED: the source owns them
 *
 *   OPENING    ─► IMPORTING, WIPING, DONE
 *   IMPORTING  ─► STAGING, WIPING, DONE
 *   STAGING    ─► STAGED, WIPING, DONE
 *   STAGED     ─► STAGING, ACTIVATING, WIPING, DONE
 *   ACTIVATING ─► DONE
 *   WIPING     ─► FINISHING, DONE
 *   FINISHING  ─► DONE
 *
 * (1) The rows are at their final place from the beginning. No command sees them until the slots are owned, because every
 *     command, KEYS, counters and expiry use served slots only (slot_gate.h).
 * (2) Rows are written without waiting for the log. MOVE_END makes them durable together with STAGED.
 * (3) After a restart or a failed batch some rows may be missing. IMPORTING: they are deleted, and the source begins again.
 *     STAGED: they were durable, but the source may have sent more since; so only ACTIVATE is accepted, which it sends only
 *     if nothing came after the last MOVE_END that was replied to.
 * (4) IMPORTING and STAGED wait for the source without limit: of STAGED slots it alone knows whether it has released them. When
 *     the target has received nothing for two seconds it asks (MOVE_ASK), because the source may have given the move up while the
 *     target was down, or MOVE_BEGIN came on an old connection after MOVE_ABORT on a new one. If the source is lost for good,
 *     SCREE OWNERS FORCE makes STAGED slots owned here.
 */
#pragma once

#include "backend/format/slot_record.h"
#include "backend/keyspace/apply_effects.h"
#include "backend/peer/incoming.h"
#include "backend/slots/move_message.h"
#include "backend/slots/move_source.h"

enum target_state {
    TARGET_OPENING,
    TARGET_IMPORTING,
    TARGET_STAGING,
    TARGET_STAGED,
    TARGET_ACTIVATING,
    TARGET_WIPING,
    TARGET_FINISHING, /* the record RELEASED is not durable yet */
    TARGET_DONE,      /* to be freed */
    TARGET_STATES
};

extern const struct state_row move_target_states[TARGET_STATES];

struct move_target {
    struct list link;
    struct move_host *host;
    struct move_slots slots;
    char source[SHARD_NAME_MAX + 1];
    uint64_t epoch; /* of the source's ownership */
    uint64_t wish;
    enum target_state state;
    /* given up, and the record may be STAGED: it must be IMPORTING before rows are deleted */
    bool must_unstage;
    bool is_whole;   /* all rows that were sent are here; false after a restart */
    uint64_t number; /* of the last MOVE_ROWS */
    struct ascending_rows rows;
    /* heap; parts of a MOVE_ROWS, or the whole while it waits for room in the open batch */
    struct bytes held;
    bool has_held;         /* `held` is whole */
    struct peer_call call; /* the request that is being executed */
    bool has_call;
    bool is_changing; /* a record is not durable yet */
    struct slot_purge *purge;
    struct peer_request ask; /* MOVE_ASK */
    bool is_asking;
    uint64_t ask_ms; /* monotonic: when to ask */
    struct move_figures figures;
};

/* Begins to receive the slots, and replies when the record is durable. NULL: refused; a reply was sent. */
struct move_target *move_target_begin(struct move_host *host, struct peer_incoming *incoming,
                                      uint64_t id, const struct move_begin *begin);
/* Goes on with a move that a restart or a failed batch has interrupted. `record`: of its slots, IMPORTING or STAGED. */
struct move_target *move_target_found(struct move_host *host, uint16_t first, uint16_t last,
                                      const struct slot_record *record);
/* The record's change must not be under way. */
void move_target_free(struct move_target *move);

/* Handle requests of the source, and reply at once or later. */
void move_target_rows(struct move_target *move, struct peer_incoming *incoming, uint64_t id,
                      const struct move_rows *rows);
void move_target_end(struct move_target *move, struct peer_incoming *incoming, uint64_t id,
                     const struct move_end *end);
void move_target_activate(struct move_target *move, struct peer_incoming *incoming, uint64_t id,
                          const struct move_activate *activate);
/* Gives the move up: rows are deleted in the background. A STAGED record is changed first, because after a restart it would
 * wait for the source for ever. */
void move_target_give_up(struct move_target *move);
/* Handles MOVE_ABORT: gives the move up, and replies when a restart would not bring it back. */
void move_target_abort(struct move_target *move, struct peer_incoming *incoming, uint64_t id);
/* Does what can be done now; to be called often. */
void move_target_step(struct move_target *move);
/* As move_source_drop. */
void move_target_drop(struct move_target *move);
/* Have all rows been received, so that the slots may be owned here soon? Commands wait for them. */
bool move_target_is_arriving(const struct move_target *move);
