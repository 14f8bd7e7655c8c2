/*
 * space_bytes.h - estimates how many bytes the keys of some slots or databases take.
 *
 * RocksDB estimates the bytes in files from the files' indexes: compressed, and including deleted rows until compaction drops them.
 * Rows of databases that are in no file yet are counted as they are written (write_history.h). Bytes in blob files, and those of
 * slots in memory, cannot be attributed to ranges of rows: each key counts with the mean. An estimate takes some microseconds
 * for each database.
 */
#pragma once

#include "backend/context/partition.h"

struct space;

/* Of slots first .. last; of at most 256 databases. */
uint64_t slot_bytes_estimate(const struct partition *partition, uint16_t first, uint16_t last);
/* Of these storage namespaces, at most 256; NULL entries are skipped. */
uint64_t space_bytes_estimate(const struct partition *partition, struct space *const *spaces,
                              size_t count);
/* Once a second, before these: reads how much memory the rows take that are in no file. */
void space_bytes_tick(struct partition *partition);
/* Of the whole partition: data files and memory, without the WAL. */
uint64_t partition_bytes(const struct partition *partition);
