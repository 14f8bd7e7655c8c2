/*
 * scripts.h - EVALSHA at any shard runs a script that one of the shards has cached.
 *
 *   EVALSHA sha … key ─► does the key's shard know it? ──yes─► as any other command
 *                          │ no
 *                          ▼
 *                  SCRIPT EXISTS at all shards ─► SCREE SOURCE at one that knows it ─► SCRIPT LOAD at the key's shard
 *
 * EVAL caches a script at the shard of its keys only. When EVALSHA needs it at another shard, the proxy copies it there, in
 * the client's namespace; so it does not matter which proxy the EVAL went through, and a SCRIPT FLUSH, which goes to
 * every shard, makes a script unknown everywhere. During the search the client is held (HOLD_SCRIPT), and its frame is
 * dispatched again afterwards: order, MULTI, WATCH and tracking need no special case.
 *
 * That a shard has a script is remembered for a second, so a script that runs often is searched once a second. Within
 * that second EVALSHA may once answer NOSCRIPT at one shard although another shard has the script again: after a SCRIPT
 * FLUSH through another proxy, or when the shard evicted scripts. That reply clears the notes of the worker.
 */
#pragma once

#include "proxy/client.h"
#include "proxy/route.h"

/* Called before a command with CMD_SCRIPT_CACHE is sent along `route`. False: the shards are searched for the script
 * and the client is held; its frame is dispatched again afterwards. */
bool scripts_ready(struct client *client, const struct frame *frame, const struct command *command,
                   const struct route *route);
/* The client was closed. */
void scripts_leave(struct client *client);
