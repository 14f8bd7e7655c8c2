/*
 * slot_history.h - keeps the row that says from which shards slots have come to a partition, and until when those had them (slot_record.h).
 *
 *   slot_table_change ─► slot_history_begin ─► slot_history_note, for each slot that comes ─► slot_history_put, in the open batch
 *
 * What is noted in memory counts at once. If the batch fails, the row is read anew with the records of slots.
 */
#pragma once

#include "backend/format/slot_record.h"

struct partition;

struct slot_history {
    struct slot_origins origins;
    bool is_new;         /* no slot has ever come, so nothing is missing */
    uint64_t source_log; /* slot_table_come_from */
};

/* Reads from the store from which shards slots have come. False: the row cannot be read. */
bool slot_history_load(struct slot_history *history, struct partition *partition, bool has_records);
/* Does it tell of all changes of owners, while the sum of the slots that are owned is this one? */
bool slot_history_holds(const struct slot_history *history, const struct partition *partition,
                        uint64_t owned);
/* Owners are about to change. If the history does not hold, it begins now. */
void slot_history_begin(struct slot_history *history, struct partition *partition, uint64_t owned);
/* A slot that this partition did not own gets a record by which it does. */
void slot_history_note(struct slot_history *history, struct partition *partition,
                       const struct slot_record *before, const struct slot_record *after);
/* Writes the row, with the sum after the change. */
void slot_history_put(struct slot_history *history, struct partition *partition, uint64_t owned);
