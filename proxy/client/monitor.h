/*
 * monitor.h - MONITOR: sends every command of this proxy's clients, as a line, to MONITOR clients.
 *
 *   worker 0: command ran ─► line ─► lines of this turn ──at its end, loop_post──► worker 1: its monitors
 *                                                      └────────────────────────► worker 0: its monitors
 *
 * A MONITOR client in a namespace sees the commands of that namespace; a client in none sees all commands. The commands
 * of a transaction are shown when EXEC runs them. The shards show commands inside scripts, in frames before the script's
 * reply (backend/session/monitor.h); shards without the cluster secret do not. A MONITOR client that does not read is
 * closed at client-output-limit. When a worker's mailbox exceeds that size, all MONITOR clients of the worker are closed.
 * While there is no MONITOR client, nothing is formatted.
 */
#pragma once

#include "proxy/core/client.h"

#include <stdatomic.h>

struct proxy;

static inline bool client_monitors(const struct client *client)
{
    return !list_empty(&client->links.monitor);
}

/* True when the proxy has a MONITOR client. */
bool monitor_is_on(const struct proxy *proxy);
/* MONITOR clients may not run keyspace commands. True: the command was refused. */
bool monitor_refuses(struct client *client, const struct command *command);

typedef bool dispatch_fn(struct client *client, const struct frame *frame);
/* Runs the frame by `dispatch`, and shows MONITOR clients what was run. */
bool monitor_dispatch(struct client *client, const struct frame *frame, dispatch_fn *dispatch);
/* A shard has run a command of the client's script: shows the line, which is a whole frame. */
void monitor_show_script(struct client *client, struct bytes line);
/* To be called when the client has left or sent RESET: it is no MONITOR client any more. */
void monitor_leave(struct client *client);
/* At the end of a turn: sends the turn's lines. */
void monitor_flush(struct proxy_worker *worker);
/* To be called when the worker is freed, and has no MONITOR clients. */
void monitor_stop(struct proxy_worker *worker);
