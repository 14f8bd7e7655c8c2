/*
 * stray_scan.h - finds strays: the keys in slots of which the content is the remains of another owner, slot by slot.
 */
#pragma once

#include "backend/keyspace/range_rows.h"

#include <stdint.h>

struct partition;
struct space;

struct stray_scan {
    struct partition *partition;
    unsigned slot;
    size_t cursor;          /* of space_next */
    struct space *space;    /* of the last row */
    struct range_rows keys; /* metadata rows of the slot in the namespace */
};

/* Is this slot's content here the remains of another owner, and of no move? */
bool stray_is_slot(const struct partition *partition, uint16_t slot);

/* `on_rows` is called when rows have been read. */
void stray_scan_init(struct stray_scan *scan, struct partition *partition,
                     void (*on_rows)(void *owner), void *owner);
/* As range_rows_fini. */
void stray_scan_fini(struct stray_scan *scan);
/* Begins again with the first slot. */
void stray_scan_rewind(struct stray_scan *scan);
/* The metadata row of the next stray, as range_rows_next; END: there is none. */
enum rows_step stray_scan_next(struct stray_scan *scan, struct bytes *key, struct bytes *value);
