/*
 * transaction_run.h - EXEC of a transaction with commands that the proxy answers itself (CONFIG, CLIENT, SLOWLOG …).
 *
 *   queued                       SET k v      CLIENT ID    GET k         INFO
 *   to the shard      MULTI      SET k v                   GET k                     EXEC
 *   its reply            *2      +OK                       $1 v
 *   to the client        *4      +OK          :7           $1 v          $… # Server
 *
 * The shard runs its commands first, as one transaction. Then the proxy writes the array: elements of the shard's reply and
 * the replies of its own commands, which it runs one after the other, in the order in which they were queued. If the
 * shard runs nothing (an error, or a watched key has changed), the proxy runs nothing either, and its reply is EXEC's.
 */
#pragma once

#include "shared/out.h"

#include <stdbool.h>

struct client;
struct command;
struct reply;
struct request;

/* True when the proxy runs the command itself at EXEC. */
bool transaction_is_own(const struct command *command);
/* Moves the client's queue to a new run, and closes the transaction. */
void transaction_run_begin(struct client *client);
/* Writes the frames of the commands that a shard must run; returns their number. The proxy runs the other commands. */
uint32_t transaction_run_shard_part(struct client *client, struct out *out);
/* For a transaction without commands for a shard: replies the header of the array. */
void transaction_run_own(struct client *client, const struct command *exec);
/* request_done_fn: the shard has replied to its commands. */
void transaction_run_answered(struct client *client, struct request *request, struct reply *reply);
/* Runs the next commands until one has to wait. False: commands are left. */
bool transaction_go_on(struct client *client);
