/*
 * local.c - the table of handlers, and what several of them use.
 */
#include "proxy/local/local.h"

#include "proxy/core/worker.h"

local_fn *const local_handlers[COMMAND_COUNT] = {
#define COMMAND(id, ...)
#define COMMAND_LOCAL(id, ...) [COMMAND_##id] = local_##id,
#define COMMAND_PROXY(id, ...) [COMMAND_##id] = local_##id,
#define COMMAND_PLANNED(id, ...)
#include "shared/command/commands.def"
#undef COMMAND
#undef COMMAND_LOCAL
#undef COMMAND_PROXY
#undef COMMAND_PLANNED
    [COMMAND_scan] = local_scan,         [COMMAND_dbsize] = local_dbsize,
    [COMMAND_flushall] = local_flushall, [COMMAND_flushdb] = local_flushdb,
    [COMMAND_keys] = local_keys,         [COMMAND_randomkey] = local_randomkey,
};

bool local_has_backends(const struct client *client)
{
    return *client->worker->snapshot->config.upstream_secret;
}

/* gather_visit_fn: does nothing; when it runs, the worker has handled all tasks that were posted before. */
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
