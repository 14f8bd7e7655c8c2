/*
 * map_tool.h - scree-proxy's tools for shard maps: they ask the shards, print, and end.
 *
 *   --map-status            the lines of SCREE MAP STATUS, without a proxy
 *   --plan NEW.ini          what a reload of this map would move
 *   --rebalance [MEASURE]   a map that gives all shards about the same share
 *   --check                 (after the check itself) what a reload of the configured map would move
 */
#pragma once

#include "config/program.h"
#include "config/reload.h"

enum map_tool_argument {
    MAP_TOOL_STATUS,
    MAP_TOOL_PLAN,
    MAP_TOOL_REBALANCE,
    MAP_TOOL_SHARDS,
    MAP_TOOL_JSON,
    MAP_TOOL_COUNT
};
/* For struct program: their names and help. */
extern const struct program_tool map_tool_arguments[MAP_TOOL_COUNT];

/* Codes with which the process ends. */
enum map_tool_exit {
    MAP_TOOL_GOOD = 0,
    MAP_TOOL_FAILED = 1, /* a map is refused */
    MAP_TOOL_USAGE = 2,
    MAP_TOOL_SILENT = 3,    /* some shards have not replied: figures are incomplete */
    MAP_TOOL_UNSETTLED = 4, /* map-status: the shards still have slots to move */
};

/* Runs the tool that was given. False: none was. */
bool map_tool_run(struct proxy_snapshot *snapshot, const char *const given[MAP_TOOL_COUNT],
                  int *exit_code);
/* Prints what a reload of the snapshot's map would move, if a shard answers. */
void map_tool_check(struct proxy_snapshot *snapshot);
