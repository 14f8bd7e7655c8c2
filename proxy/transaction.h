/*
 * transaction.h - MULTI, EXEC, DISCARD, WATCH and UNWATCH.
 *
 *   MULTI ─► +OK       queued commands ─► +QUEUED, their frames are kept here       EXEC ─┐
 *   shared connection of the keys' shard:  MULTI frame frame … EXEC  in one run  ◄────────┘
 *   its replies:  +OK +QUEUED +QUEUED … swallowed, the last one is the client's
 *
 * Commands that the proxy answers by itself (CONFIG, CLIENT, SLOWLOG …) are run here, one after the other, when EXEC
 * comes. A transaction contains either these or commands for a shard; those that both can answer (PING, TIME …) go with
 * either.
 *
 * WATCH dedicates a connection to the keys' shard. Until EXEC, DISCARD or UNWATCH everything the
 * client sends to that shard travels on it; losing it makes EXEC an error, never a silent success.
 */
#pragma once

#include "shared/out.h"

#include <stdbool.h>
#include <stdint.h>

struct client;
struct command;
struct frame;
struct request;
struct own_run;
struct upstream;

struct client_transaction {
    bool is_open;     /* MULTI was given */
    bool is_aborted;  /* a command was refused: EXEC discards */
    bool has_select;  /* a SELECT is queued: `db` holds after EXEC */
    bool has_script;  /* a command that runs a script is queued */
    bool needs_shard; /* a command is queued that only a shard can answer */
    bool needs_proxy; /* a command is queued that only the proxy can answer */
    uint8_t db;
    uint32_t count;   /* commands queued */
    struct out queue; /* their frames */
    uint16_t *slots;  /* of their keys, each slot once in a row; heap */
    uint32_t slot_count;
    uint32_t slot_cap;
    struct upstream *dedicated; /* the private connection that watches; NULL: none */
    char *dedicated_lost; /* the one that watched is gone: the error EXEC gives; heap, NULL: no */
    struct own_run *run;  /* EXEC runs the proxy's own commands; NULL: it does not */
};

void client_transaction_init(struct client_transaction *transaction);
void client_transaction_fini(struct client_transaction *transaction);
/* Forgets the queue; MULTI was not given. The dedicated connection stays. */
void client_transaction_clear(struct client_transaction *transaction);
/* Bytes of the queue. */
size_t client_transaction_bytes(const struct client_transaction *transaction);

/* MULTI, EXEC, DISCARD, UNWATCH or WATCH. False: it must wait, nothing was done. */
bool transaction_command(struct client *client, const struct frame *frame,
                         const struct command *command);
/* A command between MULTI and EXEC. False: the frame must wait, and nothing was done. */
bool transaction_queue_command(struct client *client, const struct frame *frame,
                               const struct command *command);
/* An error was replied between MULTI and EXEC. */
void transaction_refused(struct client *client);
/* Runs the next of the proxy's own commands of an EXEC, if it is their turn. False: some are left. */
bool transaction_go_on(struct client *client);
/* The reply of EXEC came (or an error in its place). */
void transaction_executed(struct client *client, struct request *request, const char *reply);
/* Gives the dedicated connection back, with what it watched forgotten; also that one was lost. */
void client_transaction_release(struct client *client);
/* The dedicated connection broke: from now on EXEC fails. */
void transaction_dedicated_lost(struct client *client, const char *reason);
