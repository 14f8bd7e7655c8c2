/*
 * blocked.h - commands that wait at a backend (BLPOP and its kind, XREAD BLOCK, WAIT).
 *
 *   client ──BLPOP──► waits of the shard ──► shard        the client is held, its later requests wait unread
 *      ├── leaves ──► the shard cancels the wait
 *      └── CLIENT UNBLOCK, its keys' shard changes, the proxy stops ──► the shard ends the wait
 *
 * All clients of a worker share one connection to each shard (upstream/upstream_waits.c). The reply comes from the
 * shard in every case, so that an element which it has taken out of a list reaches its client.
 *
 * Backends without the cluster secret do not have the commands for that. There each waiting client dedicated
 * connections a connection, which is closed when it leaves. CLIENT UNBLOCK id-of-the-dedicated connection goes over a
 * shared connection, again at every tick until the reply comes, because it may overtake the command; the dedicated
 * connection is closed then, so that a late one does not end the wait of the next client.
 */
#pragma once

#include "proxy/client.h"
#include "proxy/route.h"

/* Sends it; the client is held until blocked_answered(). False: it must wait, nothing was done. */
bool blocked_send(struct client *client, const struct frame *frame, const struct command *command,
                  const struct route *route);
/* Does the client's command wait at every shard that it was sent to? Until then the client counts as blocked neither in
 * INFO nor in CLIENT LIST. */
bool blocked_is_waiting(const struct client *client);
/* One more shard has said that the client's command waits there. */
void blocked_begun(struct client *client);
/* The client's command was answered. */
void blocked_answered(struct client *client);
/* The client has left: its wait is cancelled. */
void blocked_leave(struct client *client);
/* Ends the client's wait; the reply comes later. False: it does not wait. */
bool blocked_unblock(struct client *client, bool with_error);
/* After a new map: those whose keys are elsewhere now are unblocked with an error. */
void blocked_reloaded(struct proxy_worker *worker);
