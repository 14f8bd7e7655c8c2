#include "proxy/core/transaction_queue.h"

#include "shared/block.h"
#include "shared/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERROR_TEXT_MAX = 512 };

static const struct resp_limits no_limits = {
    .bulk_bytes_max = UINT32_MAX, .args_max = INT32_MAX, .inline_bytes_max = UINT32_MAX};

void client_transaction_init(struct client_transaction *transaction)
{
    *transaction = (struct client_transaction){0};
    out_init(&transaction->queue);
}

void client_transaction_clear(struct client_transaction *transaction)
{
    out_clear(&transaction->queue);
    free(transaction->slots);
    transaction->slots = NULL;
    transaction->slot_count = transaction->slot_cap = 0;
    transaction->count = 0;
    transaction->is_open = transaction->is_aborted = transaction->has_select = false;
    transaction->has_script = transaction->has_unnamed = transaction->has_written = false;
    transaction->has_all_keys = false;
    transaction->needs_shard = transaction->needs_proxy = false;
    transaction->steps = (struct transaction_steps){0};
}

void transaction_run_free(struct client_transaction *transaction)
{
    struct transaction_run *run = transaction->run;
    if (!run)
        return;
    if (run->turn)
        *run->turn = NULL;
    resp_scan_fini(&run->scan);
    block_unref(run->replies);
    out_clear(&run->pushes);
    free(run->failure);
    free(run);
    transaction->run = NULL;
}

void client_transaction_fini(struct client_transaction *transaction)
{
    CHECK(!transaction->dedicated);
    client_transaction_clear(transaction);
    transaction_run_free(transaction);
    free(transaction->dedicated_lost);
    transaction->dedicated_lost = NULL;
}

void client_transaction_forget_watches(struct client_transaction *transaction)
{
    transaction->dedicated = NULL;
    transaction->watches_across = transaction->moves_watch = false;
    transaction->watches = 0;
}

static void lose_dedicated(struct client_transaction *transaction, const char *error)
{
    free(transaction->dedicated_lost);
    transaction->dedicated_lost = strdup(error);
    CHECK(transaction->dedicated_lost);
    transaction->dedicated = NULL;
}

void client_transaction_lost(struct client_transaction *transaction, const char *shard,
                             const char *address, const char *reason)
{
    char text[ERROR_TEXT_MAX];
    (void)snprintf(text, sizeof(text),
                   "TRYAGAIN shard '%s' (%s): connection lost while it watched keys: %s", shard,
                   address, reason);
    lose_dedicated(transaction, text);
}

void client_transaction_unwatched(struct client_transaction *transaction)
{
    lose_dedicated(transaction, "");
}

size_t client_transaction_bytes(const struct client_transaction *transaction)
{
    const struct transaction_run *run = transaction->run;
    return transaction->queue.bytes + transaction->slot_cap * sizeof(*transaction->slots) +
           (run ? sizeof(*run) + run->len + run->rest.len : 0);
}

void transaction_queue_each(const struct client_transaction *transaction,
                            transaction_queue_fn *each, void *owner)
{
    size_t len = transaction->queue.bytes;
    char *text = malloc(len + 1);
    CHECK(text);
    out_copy(&transaction->queue, text);
    struct resp_scan scan;
    struct bytes *argv = NULL;
    resp_scan_init(&scan);
    bool wants_more = true;
    for (size_t at = 0; at < len && wants_more; at += scan.size) {
        CHECK(resp_scan(&scan, &no_limits, text + at, len - at) == RESP_FRAME);
        struct bytes *more = realloc(argv, scan.argc * sizeof *argv);
        CHECK(more);
        argv = more;
        for (uint32_t i = 0; i < scan.argc; i++)
            argv[i] = (struct bytes){text + at + scan.args[i].at, scan.args[i].len};
        wants_more = each(owner, command_find_argv(argv, scan.argc), argv, scan.argc);
    }
    free(argv);
    resp_scan_fini(&scan);
    free(text);
}
