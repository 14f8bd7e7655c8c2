/*
 * slot_moves.h - the moves of a partition: which begin, which are under way, and their requests.
 *
 *   shard map: a wish ─► slots owned here that it gives to others ─► move_source.h ══ links ══► move_target.h at the other shard
 *
 * A shard map is a wish of an epoch. The owner of a slot carries it out if the epoch is higher than that by which it got the
 * slot, and no connected shard has a newer map or another one of the same epoch. So partitions with maps of different age
 * never pass a slot back and forth.
 *
 * At most migration-moves moves are under way at a time, each of up to MOVE_SLOTS_MAX neighbouring slots with few keys
 * together, so that slots are frozen for a short time. All copy migration-rate bytes a second together.
 */
#pragma once

#include "backend/peer/incoming.h"

struct partition;
struct slot_moves;

struct slot_moves *slot_moves_new(struct partition *partition);
/* NULL is allowed. */
void slot_moves_free(struct slot_moves *moves);
/* The records were read from the store: all moves in memory end, and go on as the records say. */
void slot_moves_load(struct slot_moves *moves);
/* Begins moves, and goes on with them; to be called several times a second. */
void slot_moves_tick(struct slot_moves *moves);

/* Do slots arrive here of which only some rows are stored? */
bool slot_moves_is_receiving(const struct slot_moves *moves);
/* The shard has a newer leader, which may have given up moves to this partition: asks it at the next tick. */
void slot_moves_ask(struct slot_moves *moves, const char *shard);

/* While paused, no move begins, and those that copy wait; also after a restart. To be called by a command, of which this is
 * an effect. */
void slot_moves_pause(struct slot_moves *moves, bool is_paused);
/* Pauses, and gives up all moves that have not released their slots. Returns their number. */
uint32_t slot_moves_cancel(struct slot_moves *moves);
/* Gives up slots of which some rows have come from a shard that is not connected now: for an operator who knows that it is
 * lost. */
void slot_moves_give_up_lost(struct slot_moves *moves);
/* Keeps slots from moving while a backup is made. NULL, or the reason of a refusal: they are moving, or the map of the backup
 * (shards.ini; empty: none) does not give the shard exactly the slots that this partition owns. A restore reads each key at
 * the shard of that map. */
const char *slot_moves_hold(struct slot_moves *moves, struct bytes map, struct bytes shard);
void slot_moves_go_on(struct slot_moves *moves);

/* A line for the partition, then one for each move, for SCREE MOVES: calls on_line. Returns the number of lines. */
uint32_t slot_moves_list(struct slot_moves *moves, void (*on_line)(void *owner, const char *line),
                         void *owner);
