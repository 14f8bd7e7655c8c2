/*
 * own_stats.h - rows of INFO about the commands that the proxy has answered itself (own_calls.h), as a shard prints them.
 */
#pragma once

#include "proxy/core/own_calls.h"
#include "shared/bytes.h"
#include "shared/out.h"

/* Writes a row of Commandstats to `calls_out` and one of Latencystats to `times_out` for each command, and returns the number of
 * calls. `percents`: the value of a row of a shard, "p50=1.003,p99=…", of which the percentages are taken. */
uint64_t own_stats_print(struct own_calls *calls, struct bytes percents, struct out *calls_out,
                         struct out *times_out);
