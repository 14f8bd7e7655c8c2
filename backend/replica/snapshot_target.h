/*
 * snapshot_target.h - fetches the files of a shard from another copy (snapshot_source.h) into a directory.
 *
 *   ASKING ─list─► PREPARING ─► FETCHING ─all files─► SYNCING ─► ended: OK
 *      │             │ what is there already, is there room?    │
 *      └─────────────┴──────── link lost, refused, disk ───────┴─► ended: an error, and a reason
 *
 *   directory:  .origin             the copy that the files are from
 *               000012.sst          whole and durable
 *               000013.sst.part     is being fetched
 *
 * A file gets its name when it is whole on the disk. So an end with an error loses no more than the files that were being fetched: the
 * next target of this directory keeps each table file (.sst, .blob) that the new list has with the same origin, name and size, and removes
 * all others. At most WINDOW pieces are on their way or in memory. Disk work is done on a worker's thread.
 */
#pragma once

#include "backend/peer/link.h"
#include "backend/replica/snapshot_message.h"

struct snapshot_target;

/* Directories without this file have no parts of an unfinished snapshot. */
#define SNAPSHOT_ORIGIN ".origin"

enum snapshot_result {
    SNAPSHOT_IS_HERE,
    SNAPSHOT_PEER_FAILED, /* the link was lost, the other copy refused, or sent nonsense: worth another try */
    SNAPSHOT_NO_ROOM, /* on the disk */
    SNAPSHOT_DISK_FAILED,
};

struct snapshot_target_events {
    /* Called once. SNAPSHOT_IS_HERE: the directory has all files, durably, and the list is valid until snapshot_target_free; else the
     * reason is one line. The owner may free the target in it. */
    void (*on_end)(void *owner, enum snapshot_result result, const struct snapshot_list *list,
                   const char *reason);
    void *owner;
};

/* Begins. The directory is made if it does not exist. NULL: the link is not up. The link must outlive the target. */
struct snapshot_target *snapshot_target_new(struct loop *loop, struct peer_link *link,
                                            const char *dir,
                                            const struct snapshot_target_events *events);
/* Ends it without on_end, and waits for disk work. NULL is allowed. */
void snapshot_target_free(struct snapshot_target *target);
/* Bytes that are in the directory, and bytes of all files; 0 while the list is not known. */
void snapshot_target_progress(const struct snapshot_target *target, uint64_t *bytes,
                              uint64_t *total);
