/*
 * hybrid_clock.h - the time of each batch and of each frame between backends: the time of day, unless that would put an effect before
 * its cause.
 *
 *   shard a   ──batch 100──announced──┐ frame: 100                       a batch:  max(wall clock, last + 1, heard + 1)
 *                                     ▼                                  a frame:  max(newest announced batch, heard)
 *   shard b   ──wall clock: 93 ───────heard 100 ──batch 101──►
 *
 * So all batches of all shards up to any time T are whole: of a transaction over shards, PREPARE is sent, heard and then followed by
 * the decision, and this by APPLY; the same for STAGED, RELEASED and OWNED of a slot. If a later one is up to T, so are all before it.
 * A reader of the logs completes what is prepared and decided, and drops what is prepared only.
 *
 * The wall clock is that of the process, which follows the clocks of all shards (cluster_clock.h): so the times of shards are near each
 * other, and near the time of day. After a shard with a clock in the future they stay ahead until the clocks come after. That is
 * harmless, because nothing expires by this time. Only a damaged or forged frame has a time more than HYBRID_AHEAD_US ahead: to hear
 * it would use up the times that are left, at all shards and for ever. So its connection is closed.
 *
 * Batches are closed one after the other, and a batch is announced before the next one is closed. A shard begins with the time of
 * the last batch in its log. What it had only heard is lost with the process, and had no consequences.
 * Times are µs since 1970. The struct belongs to a partition's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* No clock of a shard shows a later time: a frame with one is not valid. It is about the year 150000. */
#define HYBRID_MAX ((uint64_t)1 << 62)
/* No time of another shard is so far after the wall clock. It is about 100 years, so that a machine that starts in 1970 hears others. */
#define HYBRID_AHEAD_US ((uint64_t)100 * 366 * 24 * 3600 * 1000000)

/* The version of a collection is a time in µs << VERSION_SHIFT. */
enum { VERSION_SHIFT = 11 };

struct hybrid_clock {
    uint64_t last;      /* of the newest closed batch */
    uint64_t announced; /* of the newest batch whose writes others may see */
    uint64_t heard;     /* newest one in a frame of another shard */
};

/* The log's last batch has this time. */
void hybrid_clock_begin(struct hybrid_clock *clock, uint64_t time);
/* Closes a batch: its time, at most HYBRID_MAX. */
uint64_t hybrid_clock_close(struct hybrid_clock *clock, uint64_t wall_us);
/* A time that no batch has which is closed from now on; the last closed one has it, or an earlier one. */
uint64_t hybrid_clock_pass(struct hybrid_clock *clock, uint64_t wall_us);
/* The batch that was closed last is announced. */
void hybrid_clock_announce(struct hybrid_clock *clock);
/* A frame with this time was received. False: the time is too far ahead of the wall clock, and the frame must not be used. */
bool hybrid_clock_hear(struct hybrid_clock *clock, uint64_t time, uint64_t wall_us);
/* The time for a frame. */
uint64_t hybrid_clock_now(const struct hybrid_clock *clock);
