/*
 * option_version.h - versions of stored options, which order the changes of all proxies: u54 microseconds since 1970 | u10 random.
 *
 * Two changes at the same time have different versions. A change that follows another one has a higher version, whatever
 * the clocks, because its proxy has read the highest version of all shards before.
 */
#pragma once

#include <stdint.h>

/* A version higher than `version`; now_us: wall clock. */
uint64_t option_version_after(uint64_t version, uint64_t now_us);
