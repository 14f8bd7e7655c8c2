/*
 * handlers.h - the backend's command handlers, one prototype per row of the table.
 *
 * A row without its function does not link, a function without its row does not compile.
 */
#pragma once

#include "backend/context/call.h"

typedef void handler_fn(struct call *call);

#define COMMAND(id, ...)       handler_fn cmd_##id;
#define COMMAND_LOCAL(id, ...) handler_fn cmd_##id;
#define COMMAND_PROXY(id, ...)
#define COMMAND_PLANNED(id, ...)
#include "shared/command/commands.def"
#undef COMMAND
#undef COMMAND_LOCAL
#undef COMMAND_PROXY
#undef COMMAND_PLANNED

/* By command id; NULL: the backend does not run it. */
extern handler_fn *const handlers[COMMAND_COUNT];
