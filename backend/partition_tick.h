/*
 * partition_tick.h - what a partition does by the clock, ten times a second: expiry, pace of compactions, idle clients,
 * ends of pauses, gauges.
 */
#pragma once

struct partition;

/* Makes and starts partition->thread.tick. */
void partition_tick_start(struct partition *partition);
