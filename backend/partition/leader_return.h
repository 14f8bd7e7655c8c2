/*
 * leader_return.h - the first address of the map leads when it can, so that the order of the addresses says which process leads how many
 * shards.
 *
 *   another copy leads ── the first one votes, is connected, has nearly all, has room, declines nothing ── for `leader-return` ─► hand_over_begin
 *
 *   the map does not name the leader ── a copy of the map can lead ─► hand_over_begin    again after 30 s, if it fails: clients wait while it is tried
 *
 * After each return the next one takes twice as long, up to an hour, so that a copy that comes and goes does not move the lead all the time.
 * A copy that has given its lead up because of its disk, because it stood still, or because an operator asked, declines for an hour
 * (replica_decline); a restart forgets that.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct partition;
struct replica_figure;
struct replica_figures;

/* What a leader remembers; all 0 at first. Times are monotonic. */
struct leader_return {
    uint64_t next_ms;     /* when the copies are looked at again */
    uint64_t close_ms;    /* the first copy has been fit to lead since then; 0: it is not */
    uint64_t returned_ms; /* the last return; 0: none */
    uint64_t leave_ms;    /* a leader that the map has dropped does not try again before */
    unsigned times;       /* returns that make the next one wait longer */
};

/* To be called again and again: is the lead to be given to the first copy now? `wait_ms`: leader-return. */
bool leader_return_is_due(struct leader_return *state, bool is_fit, uint64_t now_ms,
                          uint64_t wait_ms);
/* It was given. */
void leader_return_note(struct leader_return *state, uint64_t now_ms);

/* Does the map not name this leader any more? A map older than the one that the members follow says nothing about it. */
bool leader_return_is_dropped(const struct replica_figures *figures);
/* The copy of the map to which a leader that the map has dropped gives the lead: the one with most room that can lead, of equal ones one that
 * does not decline, of these the first one. NULL: none can lead. */
const struct replica_figure *leader_return_successor(const struct replica_figures *figures);

/* Several times a second. */
void leader_return_tick(struct partition *partition, struct leader_return *state);
