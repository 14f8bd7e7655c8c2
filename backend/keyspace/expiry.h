/*
 * expiry.h - deletes expired keys, and expired fields of hashes (field_expiry.h).
 *
 *   index of due keys ─ due_rows.h ─► ring: ▪▪▪▪▪▪▪▪▪▪ ─► the oldest: its metadata row is here ─► deleted
 *                                       │        ▲                    it is locked, or its slot is frozen
 *                                       └─ fetch ┘ by reader threads         └─► set aside, and tried again later
 *
 * Each due row is compared with the key's metadata row; if they differ, the index row is stale and is deleted. Metadata rows of the
 * keys in the ring are fetched ahead, so the steps go on as fast as reader threads bring them. A locked key delays no other key.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct call;
struct expiry;
struct partition;

enum expiry_result {
    EXPIRY_DONE,    /* nothing more can be deleted at present */
    EXPIRY_GOES_ON, /* more is due */
    EXPIRY_WAITS,   /* rows are being fetched: on_rows will be called */
};

struct expiry *expiry_new(struct partition *partition,
                          void (*on_rows)(struct partition *partition));
void expiry_free(struct expiry *expiry); /* NULL is allowed */
/* Reads the index from its beginning: slots or the store have changed. To be called before the store is recovered. */
void expiry_restart(struct expiry *expiry);
/* Deletes a bounded number of keys, or fields of one hash, in a call without a session; stops at `until_us` (clock_mono_us). */
enum expiry_result expiry_step(struct call *call, uint64_t until_us);

struct expiry_figures {
    uint64_t lag_ms; /* since when the oldest key that was not deleted yet is due; 0: none is */
    /* keys that are due and were not deleted yet; while there are many, counted every ten seconds (due_count.h) */
    uint64_t due;
};
struct expiry_figures expiry_figures(const struct expiry *expiry, uint64_t now_ms);
