/*
 * copy_age.h - a copy that hears nothing of its leader, or does not keep up with it, serves no reads after replica-reads-lag.
 *
 *   leader ── each message: "my data have all records up to 7" ──► copy: when its data have 7, they are as new as that message
 *
 * A leader that is cut off from most voters leads for less than an election-timeout more. So the data that a copy shows lack no write that
 * was acknowledged longer ago than replica-reads-lag, an election-timeout and the time that messages take.
 */
#pragma once

struct partition;

/* At the start, ten times a second, and when a read finds that it is over: sets fresh_until_us. */
void copy_age_tick(struct partition *partition);
