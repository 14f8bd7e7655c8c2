/*
 * local.c - which function answers which command in the proxy.
 */
#include "proxy/local.h"

local_fn *const local_handlers[COMMAND_COUNT] = {
#define COMMAND(id, ...)
#define COMMAND_LOCAL(id, ...) [COMMAND_##id] = local_##id,
#define COMMAND_PROXY(id, ...) [COMMAND_##id] = local_##id,
#define COMMAND_PLANNED(id, ...)
#include "shared/commands.def"
#undef COMMAND
#undef COMMAND_LOCAL
#undef COMMAND_PROXY
#undef COMMAND_PLANNED
    [COMMAND_scan] = local_scan,
    [COMMAND_randomkey] = local_randomkey,
};
