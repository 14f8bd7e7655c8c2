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
 * every shard, makes a script unknown everywhere. While the shards are asked the client is held (HOLD_SCRIPT), and its
 * frame is taken again afterwards: order, MULTI, WATCH and tracking are as always.
 *
 * What a shard was seen to know is noted for a second, so that a script which runs often is asked for once a second.
 * Within that time EVALSHA may be answered NOSCRIPT at one shard although another has just been given the script again:
 * when SCRIPT FLUSH went through another proxy, or the shard forgot scripts for want of memory.
 */
#pragma once

#include "proxy/client.h"
#include "proxy/route.h"

/* A command with CMD_SCRIPT_CACHE is about to go where `route` says. False: the client is held, because the shards are
 * asked for the script first; its frame is to be taken again. */
bool scripts_ready(struct client *client, const struct frame *frame, const struct command *command,
                   const struct route *route);
/* The client leaves. */
void scripts_leave(struct client *client);
