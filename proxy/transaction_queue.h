/*
 * transaction_queue.h - what a client has said between MULTI and EXEC: its transaction's state and queued commands.
 */
#pragma once

#include "shared/command.h"
#include "shared/out.h"
#include "shared/resp.h"

#include <stdbool.h>
#include <stdint.h>

struct upstream;

/* The proxy's own commands of an EXEC, while they run. */
struct own_run {
    struct resp_scan scan;
    bool is_stepping; /* transaction_go_on() is running: it does not recurse */
    bool is_silent;   /* CLIENT REPLY OFF or SKIP */
    size_t at;        /* the next frame */
    size_t len;
    char frames[];
};

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
/* EXEC has run the proxy's own commands, or never did. */
void transaction_run_free(struct client_transaction *transaction);
/* A command was refused between MULTI and EXEC. */
static inline void client_transaction_abort(struct client_transaction *transaction)
{
    transaction->is_aborted |= transaction->is_open;
}
/* The connection that watches keys at the shard is gone: EXEC will fail with an error that names it. */
void client_transaction_lost(struct client_transaction *transaction, const char *shard,
                             const char *address, const char *reason);
/* Bytes of the queue. */
size_t client_transaction_bytes(const struct client_transaction *transaction);

/* False: it has seen enough. */
typedef bool transaction_queue_fn(void *owner, const struct command *command,
                                  const struct bytes *argv, uint32_t argc);
void transaction_queue_each(const struct client_transaction *transaction,
                            transaction_queue_fn *each, void *owner);
