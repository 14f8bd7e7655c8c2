/*
 * slot_purge.h - deletes all rows of slots that the partition does not serve, a few at a time.
 *
 * Each row is deleted by itself and not as part of a range: while a deleted range is in RocksDB's memtables, every iterator of
 * the column family needs the disk. Rows are deleted before their metadata row, so what a crash leaves is found again.
 * No command sees these rows, so no change is reported.
 */
#pragma once

#include "shared/bytes.h"

struct partition;
struct slot_purge;

enum slot_purge_step {
    SLOT_PURGE_GOES_ON, /* call again soon */
    SLOT_PURGE_DONE,    /* all rows are deleted, in the open batch or earlier */
    SLOT_PURGE_FAILED,  /* the store cannot be read or written now; nothing is lost: begin again */
};

struct slot_purge *slot_purge_new(struct partition *partition, uint16_t first, uint16_t last);
/* NULL is allowed. */
void slot_purge_free(struct slot_purge *purge);
/* Deletes up to `rows` rows, and subtracts their bytes from *allowance. If this is not positive, it does nothing. To be called
 * between commands. */
enum slot_purge_step slot_purge_step(struct slot_purge *purge, uint32_t rows, int64_t *allowance);
