/*
 * changes_options.h - options of SCREE CHANGES READ, which a proxy and a partition read alike.
 *
 *   [COUNT n] [BYTES n] [BLOCK ms] [SLOTS ranges] [DB n|*] [MATCH glob] [LOST error|copy]      a proxy also sends [PAST µs]
 */
#pragma once

#include "shared/bytes.h"
#include "shared/slot.h"

#include <stdbool.h>
#include <stdint.h>

struct changes_options {
    uint32_t count;
    size_t bytes;
    uint64_t block_ms;      /* at a proxy */
    bool copies_lost;       /* at a proxy: after a loss of changes, all keys are listed again */
    struct bytes slots;     /* ranges (slot_ranges.h); empty: all */
    bool is_in[SLOT_COUNT]; /* set only if `slots` is not empty */
    int database;           /* negative: all */
    struct bytes pattern;   /* empty: all */
    bool has_past;    /* at a partition: the page ends where slots come from other shards … */
    uint64_t past_us; /* … unless all other logs were read up to this time (hybrid_clock.h) */
};

/* Reads argv[0..argc). NULL, or an error text. The texts are borrowed. */
const char *changes_options_read(const struct bytes *argv, uint32_t argc,
                                 struct changes_options *options);
/* Reads the time of TOKEN AT, in ms since 1970. NULL, or an error text. */
const char *changes_time_read(struct bytes text, uint64_t *time_us);
