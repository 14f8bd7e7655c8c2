#include "proxy/transaction_queue.h"

#include "proxy/transaction.h"
#include "shared/check.h"
#include "shared/resp.h"

#include <stdlib.h>

static const struct resp_limits no_limits = {
    .bulk_bytes_max = UINT32_MAX, .args_max = INT32_MAX, .inline_bytes_max = UINT32_MAX};

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
