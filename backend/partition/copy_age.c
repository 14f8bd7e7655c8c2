#include "backend/partition/copy_age.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/replica/replica_figures.h"
#include "shared/check.h"
#include "shared/clock.h"

#include <stdlib.h>

/* How old its data may be. */
static uint64_t age_us(struct partition *partition)
{
    struct partition_copies *copies = &partition->copies;
    struct replica_figures figures;
    if (!copies->age.of_data)
        copies->age.of_data = calloc(1, sizeof *copies->age.of_data);
    CHECK(copies->age.of_data);
    replica_figures(copies->replica, &figures);
    return replica_age_note(copies->age.of_data, &figures, storage_committed(partition->storage),
                            clock_boot_us());
}

/* Until when its data may be read, by clock_boot_us. */
static uint64_t fresh_until_us(struct partition *partition)
{
    struct partition_copies *copies = &partition->copies;
    uint64_t limit_us = partition->snapshot->config.replica_reads_lag_ms * 1000;
    if (!limit_us || !copies->replica) /* no limit, or a simulation */
        return UINT64_MAX;
    uint64_t age = copies->may_read ? age_us(partition) : UINT64_MAX;
    return age < limit_us ? clock_boot_us() + limit_us - age : 0;
}

void copy_age_tick(struct partition *partition)
{
    partition->copies.age.look = copy_age_tick;
    partition->copies.age.fresh_until_us = fresh_until_us(partition);
}
