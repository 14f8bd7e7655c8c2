/*
 * move_rate.h - how many bytes [backend] migration-rate allows as time passes, for slots and strays that move.
 */
#pragma once

#include <stdint.h>

/* A longer time counts as this one, so that little is copied at once after a pause. */
enum { MOVE_RATE_MS_MAX = 250 };

/* The bytes that `rate` bytes a second allow from *filled_ms to now_ms (monotonic). A time that is too short for one byte gives none,
 * and counts with the next call; otherwise *filled_ms becomes now_ms. */
static inline int64_t move_rate_bytes(int64_t rate, uint64_t now_ms, uint64_t *filled_ms)
{
    uint64_t passed_ms = now_ms - *filled_ms;
    if (passed_ms < 1000 && rate * (int64_t)passed_ms < 1000)
        return 0;
    *filled_ms = now_ms;
    int64_t bytes =
        rate * (int64_t)(passed_ms < MOVE_RATE_MS_MAX ? passed_ms : MOVE_RATE_MS_MAX) / 1000;
    return bytes ? bytes : 1;
}
