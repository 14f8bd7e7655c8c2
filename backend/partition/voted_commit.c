#include "backend/partition/voted_commit.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/peer/message.h"
#include "backend/replica/replica.h"
#include "shared/error.h"

#include <stdio.h>

/* What the disk must have besides a record: a full disk ends leadership, and with all disks full no copy could lead, so nothing could
 * be read. */
enum { ROOM_BYTES = 32 << 20 };

static int check_log_room(const struct partition *partition, size_t bytes, char *error, size_t size)
{
    if (storage_figure(partition->storage, "disk_free_bytes") >= ROOM_BYTES + bytes)
        return OK;
    (void)snprintf(error, size, "less than %zu bytes are free", (size_t)ROOM_BYTES + bytes);
    return ERR_DISK_FULL;
}

/* commit_log.append; commit thread. The replica outlives the batches. */
static int append_voted(void *owner, struct bytes record, char *error, size_t size)
{
    const struct partition *partition = owner;
    if (record.len > MESSAGE_JOINED_MAX) {
        (void)snprintf(error, size, "a batch of %zu bytes is larger than other copies take",
                       record.len);
        return ERR_STORE;
    }
    int err = check_log_room(partition, record.len, error, size);
    if (err == OK)
        replica_append(partition->copies.replica, record);
    return err;
}

/* commit_log.may_append */
static int may_append(void *owner, char *error, size_t size)
{
    return check_log_room(owner, 0, error, size);
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
