/*
 * portion.h - payloads of transactions over shards that are longer than one request or reply should be.
 *
 *   PREPARE    coordinator ─ PREPARE_PART ─► participant ─ DONE ─► … ─ PREPARE: the last portion ─► it reads the whole
 *   LOCK       participant ─ DONE: first portion ─► coordinator ─ LOCK_REST ─► … ─ DONE: the last portion ─► it reads the whole
 *
 * Each portion is asked for, or answered, before the next one is sent. So the queue of a link holds one portion of each transaction,
 * whose commands and pings need not wait for a long payload, and no payload is longer than a frame (frame.h).
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    PORTION_BYTES = 1024 * 1024,
    /* A participant takes no more in one PREPARE. */
    PREPARED_BYTES_MAX = 1024 * 1024 * 1024,
};

struct partition;

/* In place of the length of a reply to LOCK: the rows are longer than the coordinator may borrow, and none is sent. */
#define TOO_LONG_TO_SEND UINT64_MAX

/* A payload in portions: `len` bytes, of which the first `at` have been sent, or have arrived. All zero: there is none. */
struct portions {
    char *bytes; /* heap */
    uint64_t len;
    uint64_t at;
};

static inline void portions_clear(struct portions *portions)
{
    free(portions->bytes);
    *portions = (struct portions){0};
}

/* The next portion to send: a part of peer-output-limit, so that it does not fill the connection. */
struct bytes portions_next(struct portions *portions, const struct partition *partition);

static inline bool portions_are_whole(const struct portions *portions)
{
    return portions->at == portions->len;
}
