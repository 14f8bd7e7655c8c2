#include "backend/dispatch/handlers.h"

handler_fn *const handlers[COMMAND_COUNT] = {
#define COMMAND(id, ...)       [COMMAND_##id] = cmd_##id,
#define COMMAND_LOCAL(id, ...) [COMMAND_##id] = cmd_##id,
#define COMMAND_PROXY(id, ...)
#define COMMAND_PLANNED(id, ...)
#include "shared/command/commands.def"
#undef COMMAND
#undef COMMAND_LOCAL
#undef COMMAND_PROXY
#undef COMMAND_PLANNED
};
