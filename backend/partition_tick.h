/*
 * partition_tick.h - periodic work of a partition, ten times a second: expiry, rate of compactions, idle clients, ends of
 * pauses, gauges.
 */
#pragma once

struct partition;

/* Makes and starts partition->thread.tick. */
void partition_tick_start(struct partition *partition);
