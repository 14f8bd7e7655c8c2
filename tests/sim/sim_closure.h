/*
 * sim_closure.h - are the batches of all shards up to any time a state that the cluster could have crashed in (hybrid_clock.h)?
 *
 *   wal_mem writes a batch ─► what it says of transactions and slots, with its time; a batch that is written again takes the place
 *   at the end             ─► PREPARED < DECIDED < applied < DECIDED deleted, of each transaction and each shard; at any time each
 *                             slot that was owned once has one owner, or one shard to which it was released
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stddef.h>

/* A new world. */
void sim_closure_begin(void);
/* Called by the log in memory. */
void sim_closure_hear(const char *path, uint64_t index, struct bytes batch);
/* False: what is wrong is in why[size]. */
bool sim_closure_check(char *why, size_t size);
/* Number of transactions that were looked at. */
unsigned sim_closure_transactions(void);
