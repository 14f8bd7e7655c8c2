/*
 * move_source_inner.h - what the files of a move at its source share (move_source.h).
 *
 *   move_source.c ──► states, records, requests and their replies
 *   move_copy.c ────► rows and effects of batches, page by page
 *   move_freeze.c ──► writes that wait: the brake, and the hand-over
 */
#pragma once

#include "backend/slots/move_source.h"

struct out;

/* ---- move_source.c ---- */

uint64_t move_now_ms(const struct move_source *move);
/* NULL: there is no link to the target. */
struct peer_link *move_target_link(const struct move_source *move);
void move_set_state(struct move_source *move, enum source_state state);
/* Records why the move cannot go on now, and that it is tried again after RETRY_MS, because the reason may end by itself. */
void move_wait_because(struct move_source *move, struct bytes reason);
/* Sends a request with the payload in `out`, which is cleared. False: not now. */
bool move_send(struct move_source *move, enum peer_kind kind, struct out *out);

/* ---- move_copy.c ---- */

/* The target has begun: reads rows and batches from now on. */
void move_copy_begin(struct move_source *move);
/* Ends reading rows and batches. */
void move_copy_end(struct move_source *move);
/* Sends the next rows, if they are read and may be sent. */
void move_copy_rows(struct move_source *move);
/* Sends effects until none are left. True: all that was logged so far is at the target. */
bool move_copy_follow(struct move_source *move);
/* The target has the part that was sent last. */
void move_copy_was_received(struct move_source *move);

/* ---- move_freeze.c ---- */

/* Has following taken longer than copying? */
bool move_is_late(const struct move_source *move);
/* While the target does not catch up with the writes to the slots, holds writes and lets them go on in turns (struct move_brake). */
void move_brake_step(struct move_source *move);
/* Why the slots cannot be handed over, however long they are frozen; empty: they can. */
struct bytes move_why_not_frozen(const struct move_source *move);
/* Freezes the slots, or waits with the reason of move_why_not_frozen. */
void move_freeze(struct move_source *move);
bool move_is_frozen_too_long(const struct move_source *move);
/* Waits until transactions on keys of the slots have ended, then until the open batch is in the log. */
void move_await_quiet(struct move_source *move);
/* ticket_wait.on_end: all writes from before the freeze are durable. */
void move_on_frozen(struct ticket_wait *wait, int err);
/* Writes go on; the slots are frozen again later. */
void move_thaw(struct move_source *move, struct bytes reason);
/* The slots could not be handed over in the time of a freeze: thaws them, and allows the next freeze more time. */
void move_thaw_late(struct move_source *move);
/* Counts how long the slots were frozen, and returns the milliseconds. */
uint64_t move_freeze_ended(const struct move_source *move);
