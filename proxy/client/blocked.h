/*
 * blocked.h - commands that wait at a backend (BLPOP and its kind, XREAD BLOCK, WAIT).
 *
 *   client ──BLPOP──► waits of the shard ──► shard        the client is held, its later requests wait unread
 *      ├── leaves ──► the shard cancels the wait
 *      └── CLIENT UNBLOCK, its keys' shard changes, the proxy stops ──► the shard ends the wait
 *
 * Commands with keys on several shards (BLPOP a b, BLMOVE a b, XREAD BLOCK) are in blocked_parts.c.
 *
 * All clients of a worker share one connection to each shard (upstream/upstream_waits.c). The reply comes from the
 * shard in every case, so that an element which it has taken out of a list reaches its client.
 *
 * Backends without the cluster secret do not have the commands for that. There each waiting client has a
 * dedicated connection, which is closed when the client leaves. To end such a wait, CLIENT UNBLOCK with the id of the
 * dedicated connection goes over a shared connection. It is repeated at every tick until the reply arrives, because it
 * may overtake the command. The dedicated connection is closed then: a late CLIENT UNBLOCK must not end the wait of the
 * connection's next client.
 */
#pragma once

#include "proxy/core/client.h"
#include "proxy/core/route.h"

/* Sends the command; the client is held until blocked_answered(). False: the client is held and nothing was sent. */
bool blocked_send(struct client *client, const struct frame *frame, const struct command *command,
                  const struct route *route);
/* Runs a command whose keys are on several shards, worker->scratch.keys; worker->scratch.argv has its arguments. False:
 * the client is held and nothing was sent. */
bool blocked_send_parts(struct client *client, const struct command *command, uint32_t argc);
/* Runs a command whose keys are on several shards, with cross-slot = any; arguments as for blocked_send_parts(). */
bool blocked_send_across(struct client *client, const struct command *command, uint32_t argc,
                         const struct route *route);
/* One shard has answered; the waits of the command at other shards end, unless it is a command for all shards (WAIT). */
void blocked_part_answered(struct client *client, struct request *request);
/* True when the command waits at every shard that it was sent to. Only then INFO and CLIENT LIST count the client as
 * blocked. */
bool blocked_is_waiting(const struct client *client);
/* One more shard has confirmed that the client's command waits there. */
void blocked_begun(struct client *client);
/* To be called when a shard that stops has given the client's command back: it no longer waits there. */
void blocked_given_back(struct client *client);
/* To be called when the client's command was answered: resumes the client. */
void blocked_answered(struct client *client);
/* The client has left: its wait is cancelled. */
void blocked_leave(struct client *client);
/* Ends the client's wait; the reply comes later. False: it has no command that waits. */
bool blocked_unblock(struct client *client, bool with_error);
/* After a new map: clients whose keys have another shard now are unblocked with an error. */
void blocked_reloaded(struct proxy_worker *worker);

/* The client's command has bounced, and its keys are on several shards now: runs the frame as a new request in its place. */
void blocked_begin_again(struct client *client, const struct frame *frame);

/* ---- for blocked_parts.c ---- */

/* Begins the search in the keys for client->blocked.request. `patience_ms`: how long it may wait, or WAIT_FOREVER. */
void blocked_begin_search(struct client *client, uint64_t patience_ms);
/* Begins a search in which one shard tries the whole command, first over `upstream`; waits for what is in
 * client->blocked.request. `slot`: of a key of that shard. */
void blocked_begin_across(struct client *client, struct upstream *upstream, uint16_t slot,
                          uint64_t patience_ms);
/* True when a shard waits for a key that the map now assigns to another shard. */
bool blocked_search_is_misplaced(const struct client *client);
/* The client has left: forgets what was prepared for the search of its request. */
void blocked_forget_search(struct request *request);
/* All shards have answered: until the next round the client's command waits at no shard. */
void blocked_round_over(struct client *client);
