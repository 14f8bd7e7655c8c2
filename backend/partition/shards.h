/*
 * shards.h - makes and frees what connects a partition with the other shards: links, slots' owners, locks and
 * transactions.
 */
#pragma once

#include <stdbool.h>

struct partition;

/* Makes all parts, and reads the records of slots; and transactions that were open at the last stop, unless the store is one of several
 * copies (shards_reload). False: they cannot be read. */
bool shards_new(struct partition *partition);
/* The partition begins to lead: clients wait for what the next ticks bring. */
void shards_tick_soon(struct partition *partition);
/* Frees all but the links. Parts that were not made are skipped. */
void shards_free(struct partition *partition);
/* Forgets the transactions that shards_new has read, and their locks: the partition is a copy that does not lead yet. */
void shards_forget(struct partition *partition);
/* The partition leads no more: closes the connections to other shards, and forgets all that it did for them and asked of them. No message
 * leaves, since another copy may know better by now: what the partition has not decided, or has given up, may be decided there. */
void shards_drop(struct partition *partition);
/* After shards_drop, when what waited for the lost batches has ended: makes the parts that were dropped anew, as at a start. */
void shards_renew(struct partition *partition);
/* Reads the records of slots again: those of a copy that follows. False: they cannot be read. */
bool shards_reload_slots(struct partition *partition);
/* Reads records and transactions again, after a failed batch, or when the partition begins to lead. False: they cannot be read. */
bool shards_reload(struct partition *partition);
