/*
 * monitor.h - MONITOR: every command of this proxy's clients as a line to those who asked for it.
 *
 *   worker 0: command ran ─► line ─► lines of this turn ──at its end, loop_post──► worker 1: its monitors
 *                                                      └────────────────────────► worker 0: its monitors
 *
 * Who monitors from inside a namespace sees the commands of that namespace; from outside, all. The commands of a
 * transaction are shown when it is executed; what scripts call is known to the shards only. A monitor that does
 * not read is cut at client-output-limit, and so are all of a worker whose mailbox holds as much. Nothing is
 * formatted while nobody monitors.
 */
#pragma once

#include "proxy/client.h"

#include <stdatomic.h>

struct proxy;

static inline bool monitor_is(const struct client *client)
{
    return !list_empty(&client->links.monitor);
}

/* Does anybody monitor? */
bool monitor_is_on(const struct proxy *proxy);
/* A monitor may not touch keys: true when the command was refused. */
bool monitor_refuses(struct client *client, const struct command *command);

typedef bool dispatch_fn(struct client *client, const struct frame *frame);
/* Runs the frame by `dispatch`, and shows MONITOR clients what was run. */
bool monitor_dispatch(struct client *client, const struct frame *frame, dispatch_fn *dispatch);
/* RESET, or it has left. */
void monitor_leave(struct client *client);
/* The turn ends: the lines leave. */
void monitor_flush(struct proxy_worker *worker);
/* The worker is freed. */
void monitor_stop(struct proxy_worker *worker);
