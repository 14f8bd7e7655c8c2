#include "backend/archive/passed_time.h"

#include "backend/context/partition.h"
#include "shared/clock.h"

enum {
    GROUP_BEHIND_US =
        100 *
        1000, /* more than a new leader's time may be behind that of the one before (group_clock.h) */
};

/* No batch of this leader has this time from now on, nor one of a later leader: that goes on at the group's time (leadership.c). The lease
 * is looked at last, so no other one led when the time was read. 0: not known. */
static uint64_t group_passed_us(struct partition *partition)
{
    if (partition->copies.is_closed || !partition->copies.is_in_group)
        return 0;
    uint64_t passed_us = hybrid_clock_pass(&partition->batch.hybrid, clock_wall_us());
    uint64_t group_us = group_clock_us(&partition->copies.time);
    if (group_us < GROUP_BEHIND_US || partition_lease_is_over(partition))
        return 0;
    return passed_us < group_us - GROUP_BEHIND_US ? passed_us : group_us - GROUP_BEHIND_US;
}

struct passed_time passed_time_now(struct partition *partition)
{
    return (struct passed_time){
        .us = partition->copies.replica
                  ? group_passed_us(partition)
                  : hybrid_clock_pass(&partition->batch.hybrid, clock_wall_us()),
        .index = partition->batch.index,
        .newest_us = partition->batch.hybrid.last,
    };
}
