#include "backend/partition/voted_commit.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/partition/copies_room.h"
#include "backend/peer/message.h"
#include "backend/replica/replica.h"
#include "shared/error.h"

#include <stdio.h>

/* commit_log.append; commit thread or the partition's. The replica outlives the batches. */
static int append_voted(void *owner, struct bytes record, char *error, size_t size)
{
    const struct partition *partition = owner;
    if (record.len > MESSAGE_JOINED_MAX) {
        (void)snprintf(error, size, "a batch of %zu bytes is larger than other copies take",
                       record.len);
        return ERR_STORE;
    }
    int err = copies_room_check(partition, record.len, error, size);
    if (err == OK)
        replica_append(partition->copies.replica, record);
    return err;
}

/* commit_log.may_append */
static int may_append(void *owner, char *error, size_t size)
{
    return copies_room_again(owner, error, size);
}

/* commit_log.has_committed */
static bool has_committed(void *owner, uint64_t index, uint64_t term)
{
    const struct partition *partition = owner;
    return replica_has_committed(partition->copies.replica, term, index);
}

static bool is_voted(const struct partition *partition)
{
    return partition->copies.replica && partition->snapshot->config.replicas == REPLICAS_VOTERS;
}

void voted_commit_begin(struct partition *partition)
{
    const struct commit_log log = {
        .append = append_voted,
        .may_append = may_append,
        .has_committed = has_committed,
        .owner = partition,
    };
    if (is_voted(partition))
        commit_use_log(partition->commit, &log);
}
