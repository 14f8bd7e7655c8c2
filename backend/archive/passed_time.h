/*
 * passed_time.h - up to which time the log of a partition is complete: no batch that is closed from now on has a time up to this one.
 * For those who compare the logs of several shards: archives, and readers of changes.
 */
#pragma once

#include <stdint.h>

struct partition;

struct passed_time {
    uint64_t us;    /* 0: not known: another copy of the shard may lead */
    uint64_t index; /* batches with times up to this one have indexes up to this one */
    /* None of these batches has a later time; 0: not known, because an older program wrote the newest. */
    uint64_t newest_us;
};

struct passed_time passed_time_now(struct partition *partition);
