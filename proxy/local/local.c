/*
 * local.c - which function answers which command in the proxy, and what some of them share.
 */
#include "proxy/local/local.h"

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

/* A worker's turn has come: it has taken what was posted to it before. */
static void pass_by(struct proxy_worker *worker, const void *data, struct out *out)
{
    (void)worker;
    (void)data;
    (void)out;
}

void local_when_published(struct request *request, request_done_fn *done)
{
    request_gather(request, pass_by, NULL, 0, done);
}
