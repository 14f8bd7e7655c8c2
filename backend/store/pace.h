/*
 * pace.h - limits the rate of the process' compactions.
 *
 *   compactions ── pace_pass(64 KB of rows) ──► debt ── decreases at the rate; compactions in debt sleep shortly
 *                                                        ▲
 *   partitions ── pace_report(latency) ──► pace_adjust ────┘  five times a second:
 *        slow       more than 1 % of the commits and disk reads took longer than the target, and compactions ran:
 *                   halves the rate, or the rate at which they ran, down to a floor
 *        quick      at most 1 % took longer than half of that: increases the rate by a step, and ends the limit when it
 *                   reaches the rate that compactions had before
 *   partitions ── pace_behind ──► no limit for some time: otherwise writes would have to wait for compaction
 *
 * A fixed rate may be set besides; the lower one applies. Bytes are those of the rows that compactions read: uncompressed,
 * only the newest row of each key, without deletions. Any thread; times are monotonic.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    PACE_SHARE = 64 << 10,    /* bytes that compactions report at a time */
    PACE_RATE_MIN = 1 << 20,  /* lowest fixed rate */
    PACE_FLOOR = 4 << 20,     /* lowest rate because of latency */
    PACE_PERIOD_US = 200000,  /* period over which latency is evaluated */
    PACE_BEHIND_US = 3000000, /* how long pace_behind applies */
};

struct pace;

/* Disk latencies of a partition's commits and reads; used on its thread only. */
struct pace_latency {
    uint32_t count;
    uint32_t long_ones;      /* longer than the target */
    uint32_t half_long_ones; /* longer than half the target */
};

static inline void pace_note(struct pace_latency *latency, uint64_t target_us, uint64_t usec)
{
    latency->count++;
    latency->long_ones += usec > target_us;
    latency->half_long_ones += usec > target_us / 2;
}

struct pace_figures {
    uint64_t bytes_per_s; /* 0: no limit */
    uint64_t bytes;       /* read by compactions since the start */
    uint64_t waited_us;   /* time that compactions slept since the start, summed over threads */
};

struct pace *pace_new(void);
void pace_free(struct pace *pace);
/* Sets the fixed rate, 0: none; and the target of latency, 0: none. */
void pace_limit(struct pace *pace, uint64_t bytes_per_s, uint64_t target_us);

/* Adds the latencies and resets them. */
void pace_report(struct pace *pace, struct pace_latency *latency);
/* Ends the limit for a while, because a store's compactions are so far behind that writes may have to wait soon. */
void pace_behind(struct pace *pace, uint64_t now_us);
/* Adjusts the rate at the end of a period. To be called some times a second. */
void pace_adjust(struct pace *pace, uint64_t now_us);
/* Is a rate or a target set? */
bool pace_is_limited(struct pace *pace);
struct pace_figures pace_figures(const struct pace *pace);

/* How long a compaction must wait before it reads this many further bytes, in µs. */
uint64_t pace_spend(struct pace *pace, uint64_t bytes, uint64_t now_us);
/* The remaining time to wait. */
uint64_t pace_owed(struct pace *pace, uint64_t now_us);
/* Calls pace_spend, then sleeps for that time in steps of 10 ms while `may_wait` returns true. On a compaction's thread. */
void pace_pass(struct pace *pace, uint64_t bytes, bool (*may_wait)(void *owner), void *owner);
