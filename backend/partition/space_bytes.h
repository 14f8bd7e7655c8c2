/*
 * space_bytes.h - how many bytes the keys of some slots or databases take, approximately.
 *
 * RocksDB estimates the bytes in files from the files' indexes: compressed, and with rows that were deleted until compaction drops
 * them. What is in memory, and values in blob files, are divided by the number of keys. An estimate takes some microseconds for
 * each database.
 */
#pragma once

#include "backend/context/partition.h"

struct space;

/* Of slots first .. last; of at most 256 databases. */
uint64_t slot_bytes_estimate(const struct partition *partition, uint16_t first, uint16_t last);
/* Of these storage namespaces, at most 256; NULL entries are skipped. */
uint64_t space_bytes_estimate(const struct partition *partition, struct space *const *spaces,
                              size_t count);
/* Of the whole partition: data files and memory, without the WAL. */
uint64_t partition_bytes(const struct partition *partition);
