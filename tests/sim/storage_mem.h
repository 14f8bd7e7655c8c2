/*
 * storage_mem.h - crash and failures of a storage whose WAL and store are in memory: wal_mem.h and store_mem.h together.
 */
#pragma once

#include "backend/storage/storage.h"
#include "tests/sim/store_mem.h"
#include "tests/sim/wal_mem.h"

/* Forgets the contents of all paths; every storage must be closed. */
void storage_mem_reset(void);
void storage_mem_seed(uint64_t seed);
/* Simulates the death of the process: wal_mem_crash, store_mem_crash. */
void storage_mem_crash(struct storage *storage);
/* wal_mem_fail_next */
void storage_mem_fail_next(struct storage *storage, uint64_t n, int kind);
/* The next `times` calls of storage_recover after a failure fail with the same error. */
void storage_mem_fail_recover(struct storage *storage, uint64_t times);
