/*
 * replay.h - applies the committed batches of a WAL at the start, in order.
 *
 *   index            11   12   13   14   15
 *   commit index     11   11   12   12   12        12 is the highest: 11 and 12 are applied, 13 to 15 are not
 *
 * Each batch contains the commit index at the time it was made. With one copy of the data a batch commits itself; with
 * several copies, the last ones may not be committed yet, and may never be.
 */
#pragma once

#include "shared/bytes.h"

struct replay;

/* Applies a committed batch. False and a one-line reason: the replay ends. */
typedef bool replay_fn(void *owner, struct bytes batch, char *error, size_t size);

struct replay *replay_new(replay_fn *apply, void *owner);
void replay_free(struct replay *replay); /* NULL is allowed */
/* Batches up to this index are known to be committed, whatever the batches say. To be called before the first batch. */
void replay_commit(struct replay *replay, uint64_t index);
/* wal_fn whose owner is the replay: applies the batches that this batch commits, and keeps a copy of the batch until
 * it is committed itself. Write batches of RocksDB (format 1 of the WAL) are committed. */
bool replay_batch(void *owner, uint64_t index, struct bytes batch, char *error, size_t size);
/* The last batch that was applied; 0: none. */
uint64_t replay_committed(const struct replay *replay);
/* Number of batches after replay_committed(), which were not applied. */
uint64_t replay_uncommitted(const struct replay *replay);
