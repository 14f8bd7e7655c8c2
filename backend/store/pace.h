/*
 * pace.h - how fast the process' compactions may go.
 *
 *   compactions ── pace_pass(64 KB of rows) ──► debt ── paid off at the rate; in debt they sleep, for moments
 *                                                        ▲
 *   partitions ── pace_report(latency) ──► pace_adjust ────┘  five times a second:
 *        slow       of a hundred commits or reads of the disk more than one took longer than the target, and compactions
 *                   ran: the rate is half of what it was, or of what they did, but not below a floor
 *        quick      at most one of a hundred took half of that: the rate grows by a step, and is given up when it is what
 *                   compactions did before they were held back
 *   partitions ── pace_behind ──► no limit for a while: where compaction comes late, writes have to wait
 *
 * Beside it a fixed rate may be set; the lower one counts. Bytes are those of rows as compactions meet them: not
 * compressed, only the newest of each key, without deletions. Any thread; times are monotonic.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    PACE_SHARE = 64 << 10,    /* compactions pass so many bytes at a time */
    PACE_RATE_MIN = 1 << 20,  /* a fixed rate counts as at least this */
    PACE_FLOOR = 4 << 20,     /* latency holds them back to no less */
    PACE_PERIOD_US = 200000,  /* latency is judged over so long */
    PACE_BEHIND_US = 3000000, /* pace_behind counts so long */
};

struct pace;

/* Of a partition, on its thread: what clients waited for the disk. */
struct pace_latency {
    uint32_t count;
    uint32_t long_ones;      /* took longer than the target, */
    uint32_t half_long_ones; /* than half of it */
};

static inline void pace_note(struct pace_latency *latency, uint64_t target_us, uint64_t usec)
{
    latency->count++;
    latency->long_ones += usec > target_us;
    latency->half_long_ones += usec > target_us / 2;
}

struct pace_figures {
    uint64_t bytes_per_s; /* 0: no limit now */
    uint64_t bytes;       /* that compactions passed, and */
    uint64_t waited_us;   /* how long they slept, since the start, all threads together */
};

struct pace *pace_new(void);
void pace_free(struct pace *pace);
/* The fixed rate, 0: none; the target of latency, 0: it does not count. */
void pace_limit(struct pace *pace, uint64_t bytes_per_s, uint64_t target_us);

/* Takes what was noted, which begins anew. */
void pace_report(struct pace *pace, struct pace_latency *latency);
/* A store's compactions are so late that its writes may have to wait soon. */
void pace_behind(struct pace *pace, uint64_t now_us);
/* Sets the rate, when it is time to. Call it some times a second. */
void pace_adjust(struct pace *pace, uint64_t now_us);
/* Has it a rate, in force or not? */
bool pace_is_limited(struct pace *pace);
struct pace_figures pace_figures(const struct pace *pace);

/* Before a compaction goes through so many bytes more: how long to wait, in µs. */
uint64_t pace_spend(struct pace *pace, uint64_t bytes, uint64_t now_us);
/* How long still. */
uint64_t pace_owed(struct pace *pace, uint64_t now_us);
/* Both, and sleeps, 10 ms at a time, as long as `may_wait` says so. On a compaction's thread. */
void pace_pass(struct pace *pace, uint64_t bytes, bool (*may_wait)(void *owner), void *owner);
