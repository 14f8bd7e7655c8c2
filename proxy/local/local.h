/*
 * local.h - commands that the proxy answers by itself: one function per COMMAND_LOCAL and COMMAND_PROXY row.
 *
 *   local_ping(client, request, reply)      writes the reply, at once
 *   local_info(client, request, reply)      request_fan_out(…, info_done): info_done writes it later
 *
 * The arity and authentication have been checked. Arguments: request_argv(request). The session is
 * client->session; commands that change where a client is call client_move(). A reply written while earlier
 * requests still wait is kept until its turn, so handlers need not care about order.
 *
 * A handler for a row that the backend alone has in the table (SCAN, RANDOMKEY: they need the proxy's help)
 * is named here by hand.
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
local_fn local_randomkey;

/* By id; NULL: none. local.c */
extern local_fn *const local_handlers[COMMAND_COUNT];

/* A connection was accepted: puts the session in a keyspace (client_session_move) and sets is_authenticated.
 * `name` is the namespace its listener is bound to, empty: none. local_auth.c */
void local_welcome(struct client *client, struct bytes name);
/* protected-mode: nobody would have to say who it is, and this one comes from elsewhere. local_auth.c */
bool local_is_protected(const struct proxy_worker *worker, const struct stream *stream,
                        struct bytes name);
/* The configuration changed: a session whose namespace is gone loses its authentication. */
void local_reloaded(struct client *client);
/* Writes what CLIENT LIST tells about it, without the end of line. local_client.c */
void local_describe_client(const struct client *client, struct out *out);
/* Its flags in CLIENT LIST. */
enum { LOCAL_FLAGS_MAX = 16 };
void local_client_flags(const struct client *client, char flags[LOCAL_FLAGS_MAX]);
/* After INFO with the section "server" at all shards: is shard `index` the first of its process? Also true if its reply
 * has no run_id. local_info.c */
bool local_is_new_process(const struct request *request, uint32_t index);
/* Calls `done` when all workers have what was published before (CONFIG SET, ACL SETUSER). local.c */
void local_when_published(struct request *request, request_done_fn *done);
/* The last client of this worker left a namespace (ephemeral ones drop their data some time after). */
void local_keyspace_left(struct proxy_worker *worker, struct keyspace *keyspace);
/* Once a second: ephemeral namespaces are kept alive or dropped. */
void local_slow(struct proxy_worker *worker);
/* The worker stops: forgets what it would drop. */
void local_stop(struct proxy_worker *worker);
/* SCREE HOTKEYS: a request in so many is looked at; `hotkeys-sample` may be another now. local_hotkeys.c */
void local_hotkeys_configure(struct proxy_worker *worker);
void local_hotkeys_sample(struct client *client, const struct frame *frame);
/* Every name the worker keeps, and how often it was asked for. */
typedef void hot_key_fn(void *owner, struct bytes name, double per_second);
void local_hotkeys_each(struct proxy_worker *worker, hot_key_fn *each, void *owner);
/* What such a name says; borrowed from it. */
struct hot_key {
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    uint8_t db;
};
struct hot_key local_hotkeys_parse(struct bytes name);
/* Starts and stops what the proxy as a whole offers beside clients: the admin port. Main thread. False: one
 * line in error[size]. */
bool local_admin_start(struct proxy *proxy, char *error, size_t size);
void local_admin_stop(struct proxy *proxy);
/* proxy->snapshot is another one: proxy_publish() says so. */
void local_admin_publish(struct proxy *proxy);
