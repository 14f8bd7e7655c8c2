/*
 * transaction_queue.h - state of a client's transaction, and its queued commands.
 */
#pragma once

#include "shared/command/command.h"
#include "shared/out.h"
#include "shared/resp.h"

#include <stdbool.h>
#include <stdint.h>

struct block;
struct client;
struct upstream;

/* Which of the commands that are queued after a step must run after it. Each value includes those before it. */
enum step_order {
    STEP_BEFORE_NONE,    /* BGSAVE, CONFIG REWRITE */
    STEP_BEFORE_SCRIPTS, /* SCRIPT LOAD, FUNCTION DELETE: those that use scripts or functions */
    STEP_BEFORE_ALL,     /* SWAPDB, SUBSCRIBE */
};

/* Where a transaction runs. */
struct transaction_target {
    uint32_t shard;
    bool is_across;      /* it may use keys of other shards: EXEC is sent with SCREE ACROSS */
    bool is_over_shards; /* it does */
    bool has_script;
};

/* An EXEC whose commands the proxy runs one by one (transaction_run.h). */
struct transaction_run {
    struct transaction_target target;
    struct resp_scan scan;
    bool is_stepping;      /* transaction_go_on() is running: it does not recurse */
    struct client **turn;  /* names the client to the next portion; NULL: none is awaited */
    bool is_silent;        /* CLIENT REPLY OFF or SKIP */
    bool has_shard;        /* some of the commands are the shard's */
    uint32_t count;        /* commands */
    uint32_t part_count;   /* commands of the last part that was sent to the shard */
    size_t sent;           /* offset up to which the shard's commands were sent */
    struct block *replies; /* holds `rest`; NULL: there is none */
    struct bytes rest;     /* elements of the shard's reply that are still to be passed on */
    struct out pushes;     /* messages that arrived since EXEC, sent after its reply */
    char *failure;         /* error reply of a part: no further command runs; heap; NULL: none */
    size_t at;             /* offset of the next frame */
    size_t len;
    char frames[];
};

/* The steps that are queued (transaction_run.h). */
struct transaction_steps {
    bool are_queued;  /* there are some */
    bool changes_all; /* one of them changes data: no other command of a shard may be queued */
    bool run_first; /* a command of a shard must run after one that is queued before all of these */
    enum step_order order_before; /* of those before the first command of a shard, without WATCH */
    enum step_order order;        /* of the others */
};

struct client_transaction {
    bool is_open;     /* MULTI was accepted */
    bool is_aborted;  /* a command was refused: EXEC discards the queue */
    bool has_select;  /* a SELECT is queued: after EXEC the session is in `db` */
    bool has_script;  /* a command that runs a script is queued */
    bool needs_shard; /* a command is queued that only a shard can answer */
    bool needs_proxy; /* a command is queued that only the proxy can answer */
    struct transaction_steps steps;
    bool has_unnamed;    /* a command is queued that may use keys which only the shard finds */
    bool has_all_keys;   /* a command is queued that concerns the keys of all shards */
    bool has_written;    /* a command is queued that writes `written` */
    bool watches_across; /* `dedicated` watches keys of other shards too */
    /* the only WATCH has bounced, and gets another dedicated connection (bounced.h) */
    bool moves_watch;
    uint8_t db;
    uint32_t count;   /* commands queued */
    struct out queue; /* frames of the queued commands */
    uint16_t *slots;  /* slots of the queued keys, equal neighbours only once; heap */
    uint32_t slot_count;
    uint32_t slot_cap;
    uint16_t written;           /* slot of the first key that a queued command writes */
    struct upstream *dedicated; /* the connection that watches keys; NULL: none */
    uint32_t watches;           /* WATCH commands that were sent on it */
    /* the error of EXEC after the connection that watches keys was lost; empty: EXEC replies null; heap; NULL: it was not
     * lost */
    char *dedicated_lost;
    struct transaction_run *run; /* NULL: no EXEC with commands of the proxy is running */
};

void client_transaction_init(struct client_transaction *transaction);
void client_transaction_fini(struct client_transaction *transaction);
/* Empties the queue and closes the transaction. The dedicated connection stays. */
void client_transaction_clear(struct client_transaction *transaction);
/* Ends `run`, if there is one. */
void transaction_run_free(struct client_transaction *transaction);
/* A command was refused: if a transaction is open, EXEC will discard it. */
static inline void client_transaction_abort(struct client_transaction *transaction)
{
    transaction->is_aborted |= transaction->is_open;
}
/* The client watches no keys any more; the caller releases the connection that did. */
void client_transaction_forget_watches(struct client_transaction *transaction);
/* The connection that watches keys at the shard was lost: EXEC will fail with an error that names the shard. */
void client_transaction_lost(struct client_transaction *transaction, const char *shard,
                             const char *address, const char *reason);
/* To be called when the shard that watches the keys stops: EXEC will reply null, as if a watched key had changed, so the client
 * tries again. */
void client_transaction_unwatched(struct client_transaction *transaction);
/* Has the client sent MULTI or WATCH, and no EXEC or the like yet? */
static inline bool client_transaction_is_begun(const struct client_transaction *transaction)
{
    return transaction->is_open || transaction->dedicated;
}
/* Memory of the queue, in bytes. */
size_t client_transaction_bytes(const struct client_transaction *transaction);

/* False: stop. */
typedef bool transaction_queue_fn(void *owner, const struct command *command,
                                  const struct bytes *argv, uint32_t argc);
void transaction_queue_each(const struct client_transaction *transaction,
                            transaction_queue_fn *each, void *owner);
