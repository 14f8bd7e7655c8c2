/*
 * hotkeys.h - which names come up most often: a count-min sketch, and the heaviest names.
 *
 *   name ─► hash ─► one counter in each of 4 rows, +1        estimate: the smallest of the four, never too low
 *                       │
 *                       └─ more than the least of the names kept? ─► it is kept instead
 *
 *   |── window before ──|── this window ──┄┄|      both count, so a rate covers the last 10 to 20 seconds
 *
 * Of one thread. Its caller decides what a name is, and which ones it shows (a sample).
 */
#pragma once

#include "shared/bytes.h"

#include <stdint.h>

enum {
    HOTKEYS_ROWS = 4,
    HOTKEYS_WIDTH = 2048, /* counters of a row; a power of two */
    HOTKEYS_NAMES = 128,
    HOTKEYS_NAME_MAX = 1024, /* bytes; a longer name is cut */
    HOTKEYS_WINDOW_MS = 10000,
};

struct hot_name {
    uint64_t hash;
    char *text; /* heap */
    uint32_t len;
};

struct hotkeys {
    uint32_t counts[2][HOTKEYS_ROWS][HOTKEYS_WIDTH]; /* [current], the window before */
    uint32_t current;
    bool has_before;
    uint64_t began_ms; /* of this window; monotonic */
    uint64_t least;    /* no name that is kept has a smaller estimate */
    struct hot_name names[HOTKEYS_NAMES];
    uint32_t name_count;
};

struct hotkeys *hotkeys_new(uint64_t now_ms);
/* NULL is allowed. */
void hotkeys_free(struct hotkeys *hotkeys);
void hotkeys_reset(struct hotkeys *hotkeys, uint64_t now_ms);
void hotkeys_add(struct hotkeys *hotkeys, struct bytes name, uint64_t now_ms);
/* Closes windows that are over; before looking. */
void hotkeys_close_windows(struct hotkeys *hotkeys, uint64_t now_ms);
/* How often the name came up in the time that counts. */
uint64_t hotkeys_estimate(const struct hotkeys *hotkeys, struct bytes name);
/* How often the name that came up most did, and all names together. */
struct hot_share {
    uint64_t hash; /* of the name; 0: there is none */
    uint64_t count;
    uint64_t total;
};
void hotkeys_share(const struct hotkeys *hotkeys, struct hot_share *share);
/* That time. */
uint64_t hotkeys_covered_ms(const struct hotkeys *hotkeys, uint64_t now_ms);
