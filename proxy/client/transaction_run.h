/*
 * transaction_run.h - EXEC of a transaction with commands that the proxy answers itself (CONFIG, CLIENT, SLOWLOG …), or that
 * are steps: they concern all shards (SWAPDB, SCRIPT LOAD …), or subscribe.
 *
 *   queued                       SET k v    CLIENT ID    GET k          SCRIPT LOAD    INCR n
 *   to a shard        MULTI      SET k v                 GET k                         INCR n    EXEC
 *   to all shards                                                       SCRIPT LOAD
 *   to the client        *5      +OK        :7           $1 v           $40            :1
 *
 * The commands of a shard are one part, and run as one transaction. The proxy writes the array: elements of the shard's
 * reply, and the replies of the other commands, which run one after the other in the order in which they were queued; steps
 * after the part. If the shard runs nothing of the part (an error, or a watched key has changed), nothing else runs, and
 * its reply is EXEC's.
 *
 * Some commands must run after a step: all after SUBSCRIBE, but only scripts and functions after SCRIPT LOAD or FUNCTION DELETE. If
 * the transaction begins with these, its steps before the part run first, and if the shard then runs nothing, that error
 * is the reply of the part's commands and of all that follow. Otherwise such a command would be part of another transaction than the commands
 * before the step; it is refused when it is queued (transaction.c). So is every command for keys together with a step that changes data: SWAPDB, and
 * FLUSHALL unless cross-slot = any.
 */
#pragma once

#include "proxy/core/transaction_queue.h"

struct client;
struct command;
struct request;

/* True when the proxy runs the command itself at EXEC. */
bool transaction_is_own(const struct command *command);
/* Is the command a step, which runs alone at EXEC, after or between parts? Steps are commands that subscribe and, if there are several
 * shards, those that concern all of them. With cross-slot = any, DBSIZE, KEYS and others that concern the keys of all shards are no
 * steps, because one shard runs them for all. */
bool transaction_is_step(const struct client *client, const struct command *command);
/* Is it a step that changes data at all shards (SWAPDB, FLUSHALL)? A transaction with such a step may have no commands for keys, because
 * the step runs shard by shard and would not be at one moment with them. */
bool transaction_changes_all(const struct command *step);
/* The order of steps of which the last one is `step`. */
enum step_order transaction_order_with(enum step_order order, const struct command *step);
/* Must this command of a shard run after steps that are queued before it? */
bool transaction_must_follow(enum step_order order, const struct command *command);
/* Moves the client's queue to a new run, and closes the transaction. */
void transaction_run_begin(struct client *client, const struct transaction_target *target);
/* Sends the first part, whose reply decides whether anything runs. `request` is that of EXEC. */
void transaction_run_first_part(struct client *client, struct request *request,
                                struct upstream *upstream);
/* For a transaction that does not begin with such a part: replies the header of the array. */
void transaction_run_header(struct client *client, const struct command *exec);
/* Runs the next commands until one has to wait. False: commands are left. */
bool transaction_go_on(struct client *client);
