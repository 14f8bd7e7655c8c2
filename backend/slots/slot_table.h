/*
 * slot_table.h - in which state a partition has each slot, in memory and durably (slot_record.h).
 *
 *   slot_table_change ──► rows of the pages, in the open batch ──durable──► the table ──► on_end(OK)
 *                                                              └─failed───► no change ──► on_end(the error)
 *
 * A change counts only when its rows are durable: until then slot_table_state and slot_table_get return the record of
 * before. So a slot is never served, and never refused, because of a record that a crash would undo. Several changes of
 * one slot may be under way; they take effect in order. The epoch of a slot never decreases.
 *
 * After a failed batch, and when the disk works again, the records are read anew, because the disk may have the failed
 * batch after all.
 */
#pragma once

#include "backend/format/slot_record.h"

struct partition;
struct slot_origins;
struct slot_table;

/* The rows of the change are durable and the table has it (OK), or it was dropped (an error code). */
typedef void slot_changed_fn(void *owner, int err);

struct slot_table *slot_table_new(struct partition *partition);
/* Drops changes that are under way without calling on_end. NULL is allowed. */
void slot_table_free(struct slot_table *table);
/* Reads all records. False: they cannot be read. */
bool slot_table_load(struct slot_table *table);

/* enum slot_state */
uint8_t slot_table_state(const struct slot_table *table, uint16_t slot);
const struct slot_record *slot_table_get(const struct slot_table *table, uint16_t slot);
/* Number of slots in the state. */
uint32_t slot_table_count(const struct slot_table *table, enum slot_state state);
/* Do the slot's commands run here? */
bool slot_table_owns(const struct slot_table *table, uint16_t slot);
/* Which slots are owned, and since which change of their owners, as numbers that add up over all shards. */
struct slot_sum {
    uint32_t count;   /* of slots; all shards together have SLOT_COUNT, unless one is on its way */
    uint64_t sum;     /* of a hash of each slot and its epoch */
    uint64_t changes; /* of records since the start: if it is equal, none has changed */
};
struct slot_sum slot_table_sum(const struct slot_table *table);

/* Gives slots first .. last the record. To be called between commands. False: nothing was changed, because writes fail
 * now, or the epoch is lower than that of one of these slots; on_end is not called. on_end may be NULL. */
bool slot_table_change(struct slot_table *table, uint16_t first, uint16_t last,
                       const struct slot_record *record, slot_changed_fn *on_end, void *owner);

/* The slots of the next change come from the log with this name; 0: not known. */
void slot_table_come_from(struct slot_table *table, uint64_t log_id);
/* From which shards slots have come (slot_record.h); NULL: it is not known since when. */
const struct slot_origins *slot_table_origins(const struct slot_table *table);
/* If it is not known, it is from now on. To be called between commands. */
void slot_table_keep_origins(struct slot_table *table);
