/*
 * transaction_send.h - sends the commands of a transaction to a shard: MULTI frame frame … EXEC in one run.
 */
#pragma once

#include "proxy/core/transaction_queue.h"

struct client;
struct part;

/* The frames between MULTI and EXEC. */
struct transaction_frames {
    struct out out; /* transaction_send() takes them */
    uint32_t count;
    bool has_select; /* a SELECT is among them, the last one of `db` */
    uint8_t db;
};

/* The connection for EXEC. NULL: the client is held. */
struct upstream *transaction_upstream(struct client *client, const struct command *command,
                                      const struct transaction_target *target);
/* Sends MULTI, the frames and EXEC at once. `part` is of the request whose reply is that of EXEC. */
void transaction_send(struct client *client, struct upstream *upstream, struct part *part,
                      const struct transaction_target *target, struct transaction_frames *frames);
/* The database in which the session is after this command. False: the command leaves it where it is. */
bool transaction_selects(const struct command *command, const struct bytes *argv, uint32_t argc,
                         uint8_t *db);
