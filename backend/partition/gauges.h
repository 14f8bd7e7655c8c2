/*
 * gauges.h - figures of a partition that are read when they are needed, not counted as they change.
 */
#pragma once

struct partition;

/* On the partition's thread, once a second: all gauges. */
void gauges_set(struct partition *partition);
/* On the partition's thread, once a turn: how long it took, and for how long the batch was full. */
void gauges_turn_end(struct partition *partition);
