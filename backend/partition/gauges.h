/*
 * gauges.h - metrics of a partition that are computed when needed.
 */
#pragma once

struct partition;

/* Sets all gauges; called on the partition's thread once a second. */
void gauges_set(struct partition *partition);
/* Called at the end of a turn: adds its duration, and the time for which the open batch was full. */
void gauges_turn_end(struct partition *partition);
