/*
 * handlers.h - commands that the proxy answers itself: one handler per COMMAND_LOCAL and COMMAND_PROXY row.
 *
 *   local_ping(client, request, reply)      writes the reply, at once
 *   local_info(client, request, reply)      request_fan_out(…, info_done): info_done writes it later
 *
 * Arity and authentication have been checked. Arguments: request_argv(request). A handler that changes the client's
 * keyspace calls client_move(). Handlers need not care about order: a reply that is written while earlier requests still
 * wait is kept.
 *
 * SCAN, and the commands with TRAIT_WHOLE, are COMMAND rows of the backend that need the proxy too: their handlers are declared by
 * hand. The functions are in proxy/local/, which lies above dispatch.c, their caller; a row without its function does not link.
 */
#pragma once

#include "shared/command/command.h"

struct client;
struct reply;
struct request;

typedef void local_fn(struct client *client, struct request *request, struct reply *reply);

#define COMMAND(id, ...)
#define COMMAND_LOCAL(id, ...) local_fn local_##id;
#define COMMAND_PROXY(id, ...) local_fn local_##id;
#define COMMAND_PLANNED(id, ...)
#include "shared/command/commands.def"
#undef COMMAND
#undef COMMAND_LOCAL
#undef COMMAND_PROXY
#undef COMMAND_PLANNED

local_fn local_scan;
local_fn local_dbsize, local_flushall, local_flushdb, local_keys,
    local_randomkey; /* local_whole.c */

/* By command id; NULL: the proxy does not answer it. local.c */
extern local_fn *const local_handlers[COMMAND_COUNT];
