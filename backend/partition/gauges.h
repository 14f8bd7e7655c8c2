/*
 * gauges.h - metrics of a partition that are computed when needed.
 */
#pragma once

struct partition;

/* On the partition's thread, once a second: sets all gauges. */
void gauges_set(struct partition *partition);
/* On the partition's thread, at the end of a turn: its duration, and the time for which the batch was full. */
void gauges_turn_end(struct partition *partition);
