/*
 * pause.h - CLIENT PAUSE, and resuming the sessions that it or a full batch has stopped.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct partition;

/* Begins a CLIENT PAUSE, or ends it (until_ms 0). until_ms: wall clock. */
void partition_pause(struct partition *partition, uint64_t until_ms, bool writes_only);
/* Resumes throttled sessions: a pause, a backup's hold or a full batch has ended. */
void partition_resume(struct partition *partition);
