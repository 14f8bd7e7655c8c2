/* replica_time.c - the time of the group, in messages and on the disk (group_clock.h). */
#include "backend/context/group_clock.h"
#include "backend/replica/replica_inner.h"

void replica_time_hear(struct replica *replica, const struct replica_heard *heard,
                       bool is_of_leader)
{
    const struct consensus_message *message = heard->message;
    if (!replica->options.time)
        return;
    if (is_of_leader && message->kind != CONSENSUS_APPEND_REPLY)
        group_clock_hear(replica->options.time, heard->time_us);
    else if (message->kind == CONSENSUS_VOTE_REPLY && message->is_good)
        group_clock_raise(replica->options.time, heard->time_us);
}

void replica_time_go_on(struct replica *replica)
{
    if (replica->options.time)
        group_clock_go_on(replica->options.time, &replica->record.time);
}

bool replica_time_keep(struct replica *replica, bool is_elected)
{
    struct group_clock *time = replica->options.time;
    if (!time)
        return false;
    if (is_elected)
        group_clock_elected(time);
    return group_clock_keep(time, &replica->record.time);
}

void replica_time_tick(struct replica *replica)
{
    if (replica_is_leading(replica) && replica_time_keep(replica, false))
        replica_group_save(replica, NULL);
}
