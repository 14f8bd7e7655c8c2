/*
 * moment_slots.h - which shard has each slot at a moment, by the records of all shards.
 *
 *   a: OWNED                                            a has it
 *   a: RELEASED by move 7   b: STAGED by move 7         b has it: its start completes the move, as after a crash
 *                           c: STAGED by move 6         … and ends this one, which was given up
 */
#pragma once

#include "shared/slot.h"

#include <stdbool.h>
#include <stddef.h>

struct moment_slots;
struct slot_record;
struct storage;

struct moment_slots *moment_slots_new(void);
void moment_slots_free(struct moment_slots *slots); /* NULL is allowed */
/* What a shard's record says of a slot. */
void moment_slots_note(struct moment_slots *slots, size_t shard, unsigned slot,
                       const struct slot_record *record);
/* All records of a shard's store; one store at a time may be open. False: they cannot be read; the reason is in error[size]. */
bool moment_slots_add(struct moment_slots *slots, size_t shard, struct storage *storage,
                      char *error, size_t size);
/* The shard that had the slot, after the check; -1: no store has records of slots. */
int moment_slots_owner(const struct moment_slots *slots, unsigned slot);
/* Has each slot one shard? False: the reason is in error[size]. */
bool moment_slots_check(const struct moment_slots *slots, char *error, size_t size);
