/*
 * key_receipt.h - what this shard has taken last from each other shard (KEYS_PUT, KEY_PART), so that it takes nothing twice.
 *
 *   page 7 ─► keys, and row 'k' of the sender: 7, results ─► durable ─► reply, which is lost
 *   page 7 again ────────────► is in the row: the same results, and no key is written. A client may have deleted it since.
 *   page 6 from an old connection ─► is older than the row: no key is written
 *
 * The row is written in the batch of the keys, so both are durable, or none. One row for each sender is enough: it sends a page when it
 * has used the results of the page before (stray_page.h).
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct partition;

enum key_receipt {
    RECEIPT_NEW,    /* a greater number than that of the row */
    RECEIPT_HAD,    /* the number of the row, or a smaller one */
    RECEIPT_FAILED, /* the store cannot be read */
};

/* Compares the number of a page with the row of its sender. The same number: *results are its results, on the heap; else its data
 * is NULL. What was read counts as observed. */
enum key_receipt key_receipt_find(struct partition *partition, const char *shard, uint64_t number,
                                  struct bytes *results);
/* Writes the row into the open batch. */
void key_receipt_keep(struct partition *partition, const char *shard, uint64_t number,
                      struct bytes results);
