/*
 * hotkeys.h - the most frequent names: a count-min sketch, and a list of the names with the highest estimates.
 *
 *   name ─► hash ─► one counter in each of 4 rows, +1        estimate: the smallest of the four counters, never too low
 *                       │
 *                       └─ higher than the lowest estimate in the list? ─► replaces that name
 *
 *   |── window before ──|── this window ──┄┄|      both count, so a rate covers the last 10 to 20 seconds
 *
 * For one thread. The caller decides what a name is, and which requests it samples.
 */
#pragma once

#include "shared/bytes.h"

#include <stdint.h>

enum {
    HOTKEYS_ROWS = 4,
    HOTKEYS_WIDTH = 2048, /* counters in a row; a power of two */
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
    uint32_t counts[2][HOTKEYS_ROWS][HOTKEYS_WIDTH]; /* [0]: this window, [1]: the window before */
    uint32_t current;
    bool has_before;
    uint64_t began_ms; /* when this window began; monotonic */
    uint64_t least;    /* lowest estimate in the list */
    struct hot_name names[HOTKEYS_NAMES];
    uint32_t name_count;
};

struct hotkeys *hotkeys_new(uint64_t now_ms);
/* NULL is allowed. */
void hotkeys_free(struct hotkeys *hotkeys);
void hotkeys_reset(struct hotkeys *hotkeys, uint64_t now_ms);
void hotkeys_add(struct hotkeys *hotkeys, struct bytes name, uint64_t now_ms);
/* Ends windows whose time is over; to be called before reading. */
void hotkeys_close_windows(struct hotkeys *hotkeys, uint64_t now_ms);
/* How often the name occurred in the two windows. */
uint64_t hotkeys_estimate(const struct hotkeys *hotkeys, struct bytes name);
/* Count of the most frequent name, and of all names. */
struct hot_share {
    uint64_t hash; /* hash of the most frequent name; 0: there is none */
    uint64_t count;
    uint64_t total;
};
void hotkeys_share(const struct hotkeys *hotkeys, struct hot_share *share);
/* The time that the two windows cover. */
uint64_t hotkeys_covered_ms(const struct hotkeys *hotkeys, uint64_t now_ms);
