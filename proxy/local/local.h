/*
 * local.h - what several handlers of local commands use. The handlers themselves: handlers.h.
 */
#pragma once

#include "proxy/core/client.h"
#include "proxy/core/handlers.h"
#include "proxy/core/request.h"

/* Are the shards backends, which have the internal commands (SCREE UNTIL, SCREE OWNED), and no plain Redis servers? local.c */
bool local_has_backends(const struct client *client);
/* After INFO "server" at all shards: is shard `index` the first one of its process? Also true when its reply has no
 * run_id. local_info.c */
bool local_is_new_process(const struct request *request, uint32_t index);
/* Opens invalidation connections to all shards for a client that redirects (tracking_needs_redirect), then calls `done`; if that is
 * impossible, an error is replied instead. local_tracking.c */
void local_redirect(struct client *client, struct request *request, struct reply *reply,
                    request_done_fn *done);
/* Calls `done` when all workers have the snapshot that was published before (CONFIG SET, ACL SETUSER,
 * SCREE RELOAD). local.c */
void local_when_published(struct request *request, request_done_fn *done);
