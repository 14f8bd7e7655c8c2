/*
 * transaction_queue.h - the commands between MULTI and EXEC: copied, bounded, in order.
 */
#pragma once

#include "shared/bytes.h"

struct command;

/* A queued command; the bytes of its arguments follow argv in the same allocation. */
struct queued {
    struct queued *next;
    const struct command *command;
    uint32_t argc;
    struct bytes argv[];
};

struct transaction {
    bool is_open;    /* MULTI was given */
    bool is_aborted; /* a command was refused: EXEC discards */
    /* all queued commands can be rolled back: they use keys, publish, run scripts, or only reply */
    bool is_plain;
    /* a command is queued that concerns the keys of all shards (command_uses_all_keys) */
    bool has_all_keys;
    uint32_t flags; /* enum command_flags of all queued commands */
    uint32_t count;
    size_t bytes; /* of all allocations */
    struct queued *first;
    struct queued **end;
};

void transaction_init(struct transaction *transaction);
void transaction_begin(struct transaction *transaction);
/* Bytes that the command takes in the queue. */
size_t transaction_cost(const struct bytes *argv, uint32_t argc);
/* Appends a copy of the command to the queue. */
void transaction_queue(struct transaction *transaction, const struct command *command,
                       const struct bytes *argv, uint32_t argc);
/* Empties the queue and closes the transaction. */
void transaction_end(struct transaction *transaction);
