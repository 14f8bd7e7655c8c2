/*
 * forced.h - prepared transactions that an operator has ended here, because their deciding shard is lost.
 *
 *   in doubt ── SCREE TRANSACTIONS COMMIT | ABORT ─► applied or rolled back, and a record says which
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
/* Forgets what is in memory: the records are read again. */
void forced_clear(struct forced_set *set);
/* Reads a record. False: it is not valid. */
bool forced_load(struct forced_set *set, const struct transaction_id *id, struct bytes value);
/* Writes a record; in the batch that ends the transaction. */
void forced_add(struct forced_set *set, const struct transaction_id *id, bool is_commit);
/* The deciding shard says that it has committed or aborted the transaction; it need not be a forced one. */
void forced_decided(struct forced_set *set, const struct transaction_id *id, bool is_commit);
/* Deletes the record. False: there is none. */
bool forced_forget(struct forced_set *set, struct bytes id);
/* Asks deciding shards; to be called several times a second. */
void forced_tick(struct forced_set *set);
uint32_t forced_count(const struct forced_set *set);
/* As participant_list. */
void forced_list(const struct forced_set *set, void (*on_line)(void *owner, const char *line),
                 void *owner);
