/*
 * own_records.h - the newest records that this leader has appended, in memory: they leave for the other copies while this disk writes them.
 *
 *   home's batch ─► own record ─┬─► log: write, sync (replica_log.h)
 *                               └─► ring ─► senders (replica_send.h)        one copy of the bytes, with the number of its users
 *
 *   index    1 … 40 │ 41 … 57        at most 16 MiB; the oldest make room, and are read from the log's files
 *                   └─ ring
 *
 * A record is made on any thread, and then belongs to the replica's thread.
 */
#pragma once

#include "shared/bytes.h"

enum {
    OWN_RECORDS_MAX = 1024, /* a power of two */
    OWN_RECORDS_BYTES = 16 << 20,
};

struct own_record {
    unsigned uses;
    struct bytes bytes; /* behind the struct */
};

/* Copies the bytes; used once. */
struct own_record *own_record_new(struct bytes bytes);
struct own_record *own_record_use(struct own_record *record);
/* Frees it with its last use. NULL is allowed. */
void own_record_end(struct own_record *record);

/* Zeros: empty. */
struct own_records {
    uint64_t first; /* index of the oldest */
    unsigned count;
    size_t bytes;
    struct own_record *ring[OWN_RECORDS_MAX]; /* the record `index` at index % OWN_RECORDS_MAX */
};

/* Adds the record `index`; all are dropped first, unless it follows the newest one. Uses the record. */
void own_records_add(struct own_records *records, uint64_t index, struct own_record *record);
/* NULL: it is not there. Borrowed until the next change. */
struct own_record *own_records_at(const struct own_records *records, uint64_t index);
/* Records up to `synced` are on this disk: the newest one goes too, if it alone exceeds the limit. */
void own_records_synced(struct own_records *records, uint64_t synced);
void own_records_drop(struct own_records *records);
