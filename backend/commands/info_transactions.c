/*
 * info_transactions.c - INFO transactions: commands and transactions over several shards, as this partition sees them.
 */
#include "backend/commands/info.h"
#include "backend/context/backend_metrics.h"
#include "backend/context/partition.h"
#include "backend/context/stats.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/lock.h"
#include "backend/keyspace/space.h"
#include "backend/session/session.h"
#include "backend/transaction/coordinator.h"
#include "backend/transaction/participant.h"

#include <inttypes.h>

/* What is there now. */
static void print_open(const struct partition_shards *shards, struct out *out)
{
    struct coordinator_figures own = coordinator_figures(shards->coordinator);
    struct participant_figures others = participant_figures(shards->participant);
    out_printf(out,
               "transactions_open:%u\r\ntransactions_decided:%u\r\ntransactions_joined:%u\r\n"
               "transactions_in_doubt:%u\r\nlocked_keys:%u\r\n",
               own.count - own.decided, own.decided, others.count, own.uncertain + others.in_doubt,
               lock_set_count(shards->locks));
}

/* What was since the start of the process. */
static void print_ended(const struct metrics *metrics, struct out *out)
{
    uint64_t failed = 0;
    for (size_t i = 0; i < TRANSACTION_FAILURES; i++)
        failed += stats_metric(metrics, transaction_failures[i].metric);
    out_printf(out,
               "transactions_read_only_elsewhere:%" PRIu64 "\r\ntransactions_two_shards:%" PRIu64
               "\r\ntransactions_many_shards:%" PRIu64 "\r\ntransactions_retries:%" PRIu64
               "\r\ntransactions_failed:%" PRIu64 "\r\n",
               stats_metric(metrics, METRIC_BACKEND_ACROSS_ONE),
               stats_metric(metrics, METRIC_BACKEND_ACROSS_TWO),
               stats_metric(metrics, METRIC_BACKEND_ACROSS_MANY),
               stats_metric(metrics, METRIC_BACKEND_ACROSS_RETRIES), failed);
    for (size_t i = 0; i < TRANSACTION_FAILURES; i++)
        out_printf(out, "transactions_failed_%s:%" PRIu64 "\r\n", transaction_failures[i].reason,
                   stats_metric(metrics, transaction_failures[i].metric));
}

void info_transactions(const struct call *call, struct out *out)
{
    const struct partition *partition = call->partition;
    const struct metrics *metrics = partition->metrics.process;
    const struct metric_cell *cell = partition->metrics.cell;
    uint64_t held_us = atomic_load_explicit(
        &cell->words[PARTITION_LOCK_SECONDS + HISTOGRAM_BUCKETS], memory_order_relaxed);
    print_open(&partition->shards, out);
    print_ended(metrics, out);
    out_printf(out,
               "locks_held_usec:%" PRIu64 "\r\nlocked_key_errors:%" PRIu64
               "\r\nborrowed_bytes:%" PRIu64 "\r\n",
               held_us, stats_metric(metrics, METRIC_BACKEND_LOCKED_REFUSED),
               stats_metric(metrics, METRIC_BACKEND_ACROSS_BYTES));
}

bool info_may_count_keys(struct call *call)
{
    struct bytes name = session_namespace(call->session);
    for (int db = 0; db < session_databases(call->session); db++) {
        const struct space *space = space_open(call->partition->spaces, name, (uint8_t)db);
        if (!keyspace_await_prepared(call, space))
            return false;
        keyspace_observe_size(call, space);
    }
    return true;
}
