/*
 * shards.h - makes and frees what connects a partition with the other shards: links, slots' owners, locks and
 * transactions.
 */
#pragma once

#include <stdbool.h>

struct partition;

/* Makes all parts, and reads the records of slots, and transactions that were open at the last stop. False: they cannot
 * be read. */
bool shards_new(struct partition *partition);
/* Frees all but the links. Parts that were not made are skipped. */
void shards_free(struct partition *partition);
/* Forgets the transactions that shards_new has read, and their locks: the partition is a copy that does not lead yet. */
void shards_forget(struct partition *partition);
/* Reads the records of slots again: those of a copy that follows. False: they cannot be read. */
bool shards_reload_slots(struct partition *partition);
/* Reads records and transactions again, after a failed batch, or when the partition begins to lead. False: they cannot be read. */
bool shards_reload(struct partition *partition);
