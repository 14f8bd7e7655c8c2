/*
 * local.h - commands that the proxy answers itself: one handler per COMMAND_LOCAL and COMMAND_PROXY row.
 *
 *   local_ping(client, request, reply)      writes the reply, at once
 *   local_info(client, request, reply)      request_fan_out(…, info_done): info_done writes it later
 *
 * Arity and authentication have been checked. Arguments: request_argv(request). A handler that changes the client's
 * keyspace calls client_move(). Handlers need not care about order: a reply that is written while earlier requests still
 * wait is kept.
 *
 * SCAN, and the commands with TRAIT_WHOLE, are COMMAND rows of the backend that need the proxy too: their handlers are declared by
 * hand.
 */
#pragma once

#include "proxy/client.h"
#include "proxy/request.h"

typedef void local_fn(struct client *client, struct request *request, struct reply *reply);

#define COMMAND(id, ...)
#define COMMAND_LOCAL(id, ...) local_fn local_##id;
#define COMMAND_PROXY(id, ...) local_fn local_##id;
#define COMMAND_PLANNED(id, ...)
#include "shared/commands.def"
#undef COMMAND
#undef COMMAND_LOCAL
#undef COMMAND_PROXY
#undef COMMAND_PLANNED

local_fn local_scan;
local_fn local_dbsize, local_flushall, local_flushdb, local_keys,
    local_randomkey; /* local_whole.c */

/* Are the shards backends, which know the internal commands (SCREE UNTIL, SCREE OWNED), and no plain Redis servers? local.c */
bool local_has_backends(const struct client *client);
/* By command id; NULL: the proxy does not answer it. local.c */
extern local_fn *const local_handlers[COMMAND_COUNT];

/* A connection was accepted: puts the session in a keyspace (client_session_move) and sets is_authenticated.
 * `name` is the namespace its listener is bound to, empty: none. local_auth.c */
void local_welcome(struct client *client, struct bytes name);
/* protected-mode: true when clients need no login and this one comes from another host. local_auth.c */
bool local_is_protected(const struct proxy_worker *worker, const struct stream *stream,
                        struct bytes name);
/* After a change of the configuration: a session whose namespace was removed loses its authentication. */
void local_reloaded(struct client *client);
/* Writes the client's line of CLIENT LIST, without the end of line. local_client.c */
void local_describe_client(const struct client *client, struct out *out);
/* The client's flags in CLIENT LIST. */
enum { LOCAL_FLAGS_MAX = 16 };
void local_client_flags(const struct client *client, char flags[LOCAL_FLAGS_MAX]);
/* After INFO "server" at all shards: is shard `index` the first one of its process? Also true when its reply has no
 * run_id. local_info.c */
bool local_is_new_process(const struct request *request, uint32_t index);
/* Calls `done` when all workers have the snapshot that was published before (CONFIG SET, ACL SETUSER). local.c */
void local_when_published(struct request *request, request_done_fn *done);
/* The last client of this worker has left the namespace; ephemeral namespaces drop their data some time later. */
void local_keyspace_left(struct proxy_worker *worker, struct keyspace *keyspace);
/* Once a second: keeps or drops ephemeral namespaces. */
void local_slow(struct proxy_worker *worker);
/* The worker stops: forgets which namespaces it would drop. */
void local_stop(struct proxy_worker *worker);
/* SCREE HOTKEYS: applies `hotkeys-sample`. local_hotkeys.c */
void local_hotkeys_configure(struct proxy_worker *worker);
void local_hotkeys_sample(struct client *client, const struct frame *frame);
/* Calls `each` for every name that the worker has listed, with its rate. */
typedef void hot_key_fn(void *owner, struct bytes name, double per_second);
void local_hotkeys_each(struct proxy_worker *worker, hot_key_fn *each, void *owner);
/* The parts of such a name; borrowed from it. */
struct hot_key {
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    uint8_t db;
};
struct hot_key local_hotkeys_parse(struct bytes name);
/* Starts or stops the admin port. Main thread. False: the reason is in error[size]. */
bool local_admin_start(struct proxy *proxy, char *error, size_t size);
/* The proxy is stopping: no shard is checked any longer. */
void local_admin_end_checks(struct proxy *proxy);
void local_admin_stop(struct proxy *proxy);
/* After proxy->snapshot was replaced. */
void local_admin_publish(struct proxy *proxy);
