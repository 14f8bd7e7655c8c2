/*
 * transaction.h - MULTI, EXEC, DISCARD, WATCH and UNWATCH.
 *
 *   MULTI ─► +OK       queued commands ─► +QUEUED, their frames are kept here       EXEC ─┐
 *   shared connection of the keys' shard:  MULTI frame frame … EXEC  in one run  ◄────────┘
 *   its replies:  +OK +QUEUED +QUEUED … swallowed, the last one is the client's
 *
 * Commands that the proxy answers itself (CONFIG, CLIENT, SLOWLOG …) run at EXEC, after those of the shard
 * (transaction_run.h).
 *
 * With cross-slot = any the keys may be on several shards: EXEC is sent as SCREE ACROSS EXEC, with the queue, to the
 * shard of the first written key, on a connection of its own (across.h).
 *
 * WATCH reserves a dedicated connection to the keys' shard. Until EXEC, DISCARD or UNWATCH all commands of the client for
 * that shard are sent on this connection. Keys of
 * other shards are watched by SCREE ACROSS WATCH on it. What a lost connection means for WATCH and EXEC: watch_lost.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct client;
struct command;
struct frame;
struct request;
struct upstream;

/* Runs MULTI, EXEC, DISCARD, UNWATCH or WATCH. False: nothing was done, because the client is held. */
bool transaction_command(struct client *client, const struct frame *frame,
                         const struct command *command);
/* Queues a command between MULTI and EXEC. False: nothing was done, because the client is held. */
bool transaction_queue_command(struct client *client, const struct frame *frame,
                               const struct command *command);
/* The reply of EXEC came (or an error in its place). */
void transaction_executed(struct client *client, struct request *request, const char *reply);
/* Makes the dedicated connection to another shard, for the client's only WATCH, which has bounced. */
struct upstream *transaction_watch_again(struct client *client, uint32_t shard);
/* Releases the dedicated connection and forgets the watched keys. */
void client_transaction_release(struct client *client);
