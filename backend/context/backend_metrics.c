#include "backend/context/backend_metrics.h"

#include "backend/context/process.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/command/command_cells.h"
#include "shared/shard_map.h"

#include <stdio.h>
#include <string.h>

const struct transaction_failure transaction_failures[TRANSACTION_FAILURES] = {
    {METRIC_BACKEND_FAILED_TIMEOUT, "transaction_timeout"},
    {METRIC_BACKEND_FAILED_UNREACHABLE, "shard_unreachable"},
    {METRIC_BACKEND_FAILED_REFUSED, "shard_refused"},
    {METRIC_BACKEND_FAILED_BORROW_LIMIT, "borrow_limit"},
    {METRIC_BACKEND_FAILED_MEMORY, "command_memory"},
    {METRIC_BACKEND_FAILED_LOG, "log_failure"},
};

void backend_metrics_init(struct backend_metrics *labelled)
{
    labelled->commands = labels_new(COMMAND_WORDS, COMMAND_COUNT);
    labelled->partitions = labels_new(PARTITION_WORDS, PARTITIONS_MAX);
    labelled->spaces = labels_new(SPACE_WORDS, METRICS_SPACES_MAX);
    labelled->links = labels_new(LINK_WORDS, SHARD_COUNT_MAX);
}

void backend_metrics_fini(struct backend_metrics *labelled)
{
    labels_free(labelled->commands);
    labels_free(labelled->partitions);
    labels_free(labelled->spaces);
    labels_free(labelled->links);
}

struct metric_cell *backend_metrics_partition(struct backend_metrics *labelled, uint32_t index)
{
    char name[16];
    (void)snprintf(name, sizeof name, "%u", index);
    return labels_cell(labelled->partitions, bytes_of(name), index);
}
