#include "backend/partition/copies_room.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/partition/hand_over.h"
#include "backend/replica/replica.h"
#include "shared/error.h"

#include <stdio.h>

/* What a disk must have besides a record. It is left for the records with which leaders begin: without these nothing could be read. */
enum { COPIES_ROOM_BYTES = 32 << 20 };

/* A disk that was full counts as full until so much is free, so that writes do not begin and end all the time. */
enum { ROOM_AGAIN_BYTES = COPIES_ROOM_BYTES / 4 * 5 };

static bool has_free(const struct partition *partition, size_t bytes)
{
    return storage_figure(partition->storage, "disk_free_bytes") >= bytes;
}

static int find_lack(const struct partition *partition, size_t bytes, char *error, size_t size)
{
    if (!has_free(partition, bytes)) {
        (void)snprintf(error, size, "less than %zu bytes are free", bytes);
        return ERR_DISK_FULL;
    }
    if (replica_room_of_most(partition->copies.replica) == REPLICA_ROOM_NONE) {
        (void)snprintf(error, size, "the disks of most copies are full");
        return ERR_DISK_FULL;
    }
    return OK;
}

int copies_room_check(const struct partition *partition, size_t bytes, char *error, size_t size)
{
    return find_lack(partition, COPIES_ROOM_BYTES + bytes, error, size);
}

int copies_room_again(const struct partition *partition, char *error, size_t size)
{
    return find_lack(partition, ROOM_AGAIN_BYTES, error, size);
}

static enum replica_room own_room(const struct partition *partition)
{
    bool was_none = partition->copies.room == REPLICA_ROOM_NONE;
    if (!has_free(partition, was_none ? ROOM_AGAIN_BYTES : COPIES_ROOM_BYTES))
        return REPLICA_ROOM_NONE;
    return commit_is_disk_low(partition->commit) ? REPLICA_ROOM_LOW : REPLICA_ROOM;
}

static const enum commit_room rooms[] = {
    [REPLICA_ROOM] = COMMIT_ROOM,
    [REPLICA_ROOM_LOW] = COMMIT_ROOM_LOW,
    [REPLICA_ROOM_NONE] = COMMIT_ROOM_NONE,
};

void copies_room_tick(struct partition *partition)
{
    struct partition_copies *copies = &partition->copies;
    if (!copies->replica || partition->snapshot->config.replicas != REPLICAS_VOTERS)
        return;
    enum replica_room own = own_room(partition), most = replica_room_of_most(copies->replica);
    copies->room = (int)own;
    replica_note_room(copies->replica, own);
    commit_watch_copies(partition->commit, copies->is_closed ? COMMIT_ROOM : rooms[most]);
    if (!copies->is_closed && own > most)
        hand_over_for_room(partition);
}
