/*
 * note.h - notes of a batch (effects.h): what a reader of the log needs beside the rows that a batch writes. They change nothing, and are
 * written only while something reads the log (overlay_set_notes).
 *
 *   about a key, with the key of its metadata row (CF_METADATA):
 *     u8 1                             new: the key was created or replaced in this batch; what it had before is void
 *     u8 2 │ u64 head │ u64 tail       list: where its elements began and ended before this batch
 *   about a transaction over shards, with its id (CF_SYSTEM, transaction_record.h):
 *     u8 3 │ u32 shards                the batch has the transaction's effects at this shard; it changes so many shards
 *
 * A list's rows say which indexes it has after a batch. Which elements were popped, and at which end others were pushed, follows from
 * head and tail before it. A key has at most one note of each kind in a batch; `new` holds over `list`.
 *
 * Integers are little-endian.
 */
#pragma once

#include "shared/bytes.h"

enum {
    NOTE_BYTES_MAX = 17,
};

enum note_kind {
    NOTE_NEW = 1,
    NOTE_LIST = 2,
    NOTE_TRANSACTION = 3,
};

struct note {
    enum note_kind kind;
    uint64_t head, tail; /* LIST: half-open */
    uint32_t shards;     /* TRANSACTION */
};

/* Encodes the value of a note; the result is in `to`. */
struct bytes note_write(const struct note *note, char to[NOTE_BYTES_MAX]);
/* False: the value is not a note that this program has. */
bool note_read(struct bytes value, struct note *note);
