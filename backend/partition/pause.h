/*
 * pause.h - CLIENT PAUSE, and sessions that read on when what they waited for is over.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct partition;

/* CLIENT PAUSE and UNPAUSE (until_ms 0), by this turn's wall clock. */
void partition_pause(struct partition *partition, uint64_t until_ms, bool writes_only);
/* Throttled sessions read on: a pause, a hold or a full batch is over. */
void partition_resume(struct partition *partition);
