/*
 * wal_mem.h - functions of the log in memory that a real one does not have: a crash and failures on purpose.
 *
 *   01 02 03 │ 04 05 06 │ (07)        a crash keeps 01 to 03, a random number of 04 to 06, and at random 07
 *    durable   unsynced   failed
 *
 * Each batch is a segment of its own. Contents belong to the path and outlive wal_close, as files do. Not thread-safe. All
 * random choices depend on the seed, so a run can be repeated.
 */
#pragma once

#include "backend/wal/wal.h"

/* With this limit a log of 20 batches is long. */
enum { WAL_MEM_LIMIT = 64 << 20 };

/* Forgets the contents of all paths; every log must be closed. */
void wal_mem_reset(void);
/* Restarts the random numbers with this seed. */
void wal_mem_seed(uint64_t seed);

/* Simulates the death of the process: a random number of the newest unsynced batches is lost. The path can be opened
 * again at once. The old log refuses batches, and must be closed. */
void wal_mem_crash(struct wal *wal);

/* The n-th wal_append or wal_sync from now (1 = the next) fails with ERR_DISK_FULL or ERR_STORE, and so do all later
 * ones until wal_rotate. A batch that failed with ERR_STORE may have reached the disk (its fsync failed): at random it
 * is there after a crash, unless wal_rotate was called before. 0 cancels the failure. */
void wal_mem_fail_next(struct wal *wal, uint64_t n, int kind);
/* The next `times` calls of wal_rotate after a failure fail with the same error. */
void wal_mem_fail_rotate(struct wal *wal, uint64_t times);
/* The disk of the path, if there is one, has room for so many bytes of batches from now on; UINT64_MAX, at first: for any number. The
 * spare segment has some of its own. */
void wal_mem_set_room(const char *path, uint64_t bytes);
/* Hears each batch that is written; NULL, at first: nothing does. */
extern void (*wal_mem_hear)(const char *path, uint64_t index, struct bytes batch);
/* Number of calls of wal_append and wal_sync since wal_open. */
uint64_t wal_mem_writes(const struct wal *wal);
