/*
 * count_rows.h - the key counters on disk: exact after every batch, at the cost of one row per batch.
 *
 *   batch 1     journal row 1     serial 1     shop: slot 7 has 1 key, slot 9000 has 4
 *   batch 2     journal row 2     serial 2     shop: slot 7 has 2 keys
 *   …
 *   batch 257   journal row 1     serial 257   …    in the same batch: counter row (shop, slots 0 … 1023) and
 *                                                   (shop, 8192 … 9215), because journal row 1 is overwritten
 *
 * A journal row contains the counters that its batch changed, as absolute numbers. Before it is overwritten, the
 * counter rows of its slots are written, unless they were written since. So recovery reads all counter rows, then the
 * journal rows by serial; the last value of a slot is the valid one.
 */
#pragma once

#include "backend/format/encoding.h"
#include "backend/storage/overlay.h"

/* Receives one stored counter; a later value for the same slot replaces it. `serial`: of the journal row; 0: a counter
 * row. */
typedef bool stored_count_fn(void *owner, struct bytes space, const struct slot_count *count,
                             uint64_t serial);

/* Passes all stored counters to `tell`: counter rows, then journal rows by serial. *serial becomes the newest serial.
 * False: a row is damaged, the store failed, or `tell` returned false. */
bool count_rows_read(struct overlay *overlay, stored_count_fn *tell, void *owner, uint64_t *serial);
