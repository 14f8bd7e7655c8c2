/*
 * silence.h - for how long nothing has come from a peer while this thread listened.
 *
 *   heard ── tick ── tick ── tick ════ a command runs for 7 s ════ tick: bytes of these 7 s may lie in the socket
 *
 * The timer of a tick fires before sockets are read. So time in which the thread did not listen is not silence.
 */
#pragma once

#include <stdint.h>

enum { SILENCE_PAUSE_MS = 200 }; /* more than a tick of 100 ms */

struct silence {
    uint64_t heard_ms;  /* monotonic: the last byte from the peer */
    uint64_t ticked_ms; /* monotonic */
    uint64_t deaf_ms;   /* since heard_ms, the time in which the thread did not listen */
};

static inline void silence_end(struct silence *silence, uint64_t now_ms)
{
    *silence = (struct silence){.heard_ms = now_ms, .ticked_ms = now_ms};
}

/* How long the silence is, of which `limit_ms` is too long. To be called with each tick. */
static inline uint64_t silence_ms(struct silence *silence, uint64_t now_ms, uint64_t limit_ms)
{
    uint64_t pause_ms = now_ms - silence->ticked_ms;
    if (pause_ms > limit_ms / 2 + SILENCE_PAUSE_MS)
        silence->deaf_ms += pause_ms;
    silence->ticked_ms = now_ms;
    return now_ms - silence->heard_ms - silence->deaf_ms;
}
