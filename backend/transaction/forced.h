/*
 * forced.h - prepared transactions that an operator has ended at this shard, because the shard that decides about them is lost.
 *
 *   in doubt ── SCREE TRANSACTIONS COMMIT | ABORT ─► applied or rolled back, and recorded
 *                                                                   │
 *   the deciding shard is there again: it is asked, or sends APPLY ─┴─ agrees: the record is deleted
 *                                                                    └─ differs: logged, listed until FORGET
 *
 * The record is written in the batch that ends the transaction.
 */
#pragma once

#include "backend/format/transaction_record.h"

struct partition;
struct forced_set; /* all of a partition */

struct forced_set *forced_set_new(struct partition *partition);
/* NULL is allowed. */
void forced_set_free(struct forced_set *set);
/* Empties the set in memory. To be called before the records are read again (forced_load). */
void forced_clear(struct forced_set *set);
/* Reads a record. False: it is not valid. */
bool forced_load(struct forced_set *set, const struct transaction_id *id, struct bytes value);
/* Adds and writes a record. To be called in the batch that ends the transaction. */
void forced_add(struct forced_set *set, const struct transaction_id *id, bool is_commit);
/* To be called when the deciding shard has reported its decision about a transaction, which need not be a forced one: deletes
 * the record if both agree, else marks it. */
void forced_decided(struct forced_set *set, const struct transaction_id *id, bool is_commit);
/* Deletes the record. False: there is none. */
bool forced_forget(struct forced_set *set, struct bytes id);
/* Asks deciding shards; to be called several times a second. */
void forced_tick(struct forced_set *set);
uint32_t forced_count(const struct forced_set *set);
/* Calls on_line for each record, as participant_list does for transactions. */
void forced_list(const struct forced_set *set, void (*on_line)(void *owner, const char *line),
                 void *owner);
