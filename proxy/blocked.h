/*
 * blocked.h - commands that wait at a backend (BLPOP and its kind, XREAD BLOCK, WAIT).
 *
 * Each travels on a leased connection of its own, so that nobody's requests queue up behind it:
 *
 *   client ──BLPOP──► lease ──► shard                     the client is held, its later requests wait unread
 *      ├── leaves ──► the lease is closed: the backend forgets the wait
 *      └── CLIENT UNBLOCK, its keys' shard changes, the proxy stops
 *                └──► shared connection of the shard: CLIENT UNBLOCK id-of-the-lease ERROR|TIMEOUT
 *
 * The reply comes over the lease in every case, so that an element which a backend has taken out of a list
 * reaches its client. UNBLOCK is said again at every tick until it comes, because it may overtake the command;
 * the lease is closed then, so that a late one does not end the wait of the next client.
 */
#pragma once

#include "proxy/client.h"
#include "proxy/route.h"

/* Sends it; the client is held until blocked_answered(). False: it must wait, nothing was done. */
bool blocked_send(struct client *client, const struct frame *frame, const struct command *command,
                  const struct route *route);
/* Has the client's command been sent to every shard that it waits at? Until a new connection is open it has not: then
 * the client counts as blocked neither in INFO nor in CLIENT LIST. */
bool blocked_is_waiting(const struct client *client);
/* The lease is open, and what waited for that has been sent. */
void blocked_sent(struct upstream *lease);
/* The client's command was answered. */
void blocked_answered(struct client *client);
/* The client has left: its leases are closed. */
void blocked_leave(struct client *client);
/* Ends the client's wait; the reply comes later. False: it does not wait. */
bool blocked_unblock(struct client *client, bool with_error);
/* Tells the backend (again) that the lease is to be unblocked: the word may have come before the command. */
void blocked_press(struct upstream *lease);
/* After a new map: those whose keys are elsewhere now are unblocked with an error. */
void blocked_reloaded(struct proxy_worker *worker);
