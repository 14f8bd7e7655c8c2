#include "backend/context/measures.h"

#include "backend/context/process.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/command_cells.h"

#include <stdio.h>
#include <string.h>

void measures_init(struct measures *measures)
{
    measures->commands = labels_new(COMMAND_WORDS, COMMAND_COUNT);
    measures->partitions = labels_new(PARTITION_WORDS, PARTITIONS_MAX);
    measures->spaces = labels_new(SPACE_WORDS, MEASURED_SPACES_MAX);
}

void measures_fini(struct measures *measures)
{
    labels_free(measures->commands);
    labels_free(measures->partitions);
    labels_free(measures->spaces);
}

struct metric_cell *measures_partition(struct measures *measures, uint32_t index)
{
    char name[16];
    (void)snprintf(name, sizeof name, "%u", index);
    return labels_cell(measures->partitions, bytes_of(name), index);
}
