/*
 * scripts.h - EVALSHA at any shard runs a script that one of the shards has cached.
 *
 *   EVALSHA sha … key ─► has the key's shard the script? ─yes─► as any other command
 *                          │ no
 *                          ▼
 *                  SCRIPT EXISTS at all shards ─► SCREE SOURCE at one that has it ─► SCRIPT LOAD at the key's shard
 *
 * EVAL caches a script at the shard of its keys only. When EVALSHA needs it at another shard, the proxy copies it there, in
 * the client's namespace; so it does not matter which proxy the EVAL went through, and a SCRIPT FLUSH, which goes to
 * every shard, makes a script unknown everywhere. During the search the client is held (HOLD_SCRIPT), and its frame is
 * dispatched again afterwards: order, MULTI, WATCH and tracking need no special case.
 *
 * A worker notes for a second that a shard has a script, so a script that runs often is searched once a second. During
 * that second a note may be wrong: after a SCRIPT FLUSH through another proxy, or when the shard has evicted the script.
 * Then EVALSHA may once reply NOSCRIPT although another shard has the script. That reply clears the notes of the worker.
 */
#pragma once

#include "proxy/core/client.h"
#include "proxy/core/route.h"

/* Called before a command with CMD_SCRIPT_CACHE is sent along `route`. False: the shards are searched for the script
 * and the client is held; its frame is dispatched again afterwards. */
bool scripts_ready(struct client *client, const struct frame *frame, const struct command *command,
                   const struct route *route);
/* To be called when the client was closed: a search for its script no longer resumes it. */
void scripts_leave(struct client *client);
