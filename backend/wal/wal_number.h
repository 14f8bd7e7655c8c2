/*
 * wal_number.h - an index beside the WAL, in a file of 16 bytes: u64 index, u64 its complement; little-endian.
 *
 *   filed       batches up to it are in the tables' files. Written without a sync: an older one only makes a start longer
 *   committed   in a copy of the WAL: batches up to it were committed when the copy was made
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WAL_FILED     "filed"
#define WAL_COMMITTED "committed"

/* The index; 0: there is no file, or it is torn. */
uint64_t wal_number_read(const char *dir, const char *name);
/* False: errno. The name is durable after a sync of the directory. */
bool wal_number_write(const char *dir, const char *name, uint64_t number, bool is_synced);
void wal_number_remove(const char *dir, const char *name);
