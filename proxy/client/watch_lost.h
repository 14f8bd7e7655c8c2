/*
 * watch_lost.h - a client's connection to the shard that watches its keys is lost.
 *
 *   when it is lost                     later
 *   no WATCH has been answered yet      each WATCH replies the error itself; the client watches nothing
 *   WATCH has replied OK                EXEC replies an error that names the shard; or the next WATCH does, and then EXEC
 *                                       replies null, as if a watched key had changed
 *   the shard stops in an orderly way   EXEC replies null
 */
#pragma once

struct client;
struct upstream;

/* To be called before the requests of the connection have got their error replies; `reason` is part of EXEC's error. */
void watch_connection_lost(struct client *client, const struct upstream *dedicated,
                           const char *reason);
