/*
 * slot_bytes.h - how many bytes the keys of some slots take.
 */
#pragma once

#include "backend/context/partition.h"

/* Approximate bytes of slots first .. last: those in files, which RocksDB estimates from the files' indexes, and of what is in
 * memory the part that their keys have in all keys. Takes some microseconds for each database with keys, of at most 256. */
uint64_t slot_bytes_estimate(const struct partition *partition, uint16_t first, uint16_t last);
