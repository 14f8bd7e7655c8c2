/*
 * wal_inner.h - what the files wal*.c share.
 *
 *   wal.c             append, sync, rotate, trim
 *   wal_open.c        replays what there is
 *   wal_cursor.c      reads by index, beside appends
 *   wal_threads.c     what other threads do with a moment's files: sync, copy
 */
#pragma once

#include "backend/wal/wal.h"
#include "backend/wal/wal_segment.h"

#include <pthread.h>
#include <stdatomic.h>

enum { WAL_REASON_MAX = 512, WAL_PATH_ROOM = 64 /* for a name */ };

/* Keeps a batch and those behind it from being trimmed. */
struct wal_hold {
    struct list node;
    uint64_t next;
    bool is_truncated; /* batches before `next` were */
};

struct wal {
    char *path;
    uint64_t file_bytes;
    bool is_read_only;        /* another process may be appending: files are left alone */
    uint64_t damaged_batches; /* whole batches dropped at the start, behind a damaged one */

    /* of the thread that appends */
    struct wal_segment *current; /* appended to, the newest; NULL: the next append makes one */
    uint64_t durable;            /* batches up to it are on the disk */
    bool is_name_new;            /* a file's name may not be on the disk yet */
    bool is_sync_lost;           /* no sync of these files tells whether what is behind `durable` is
                                 * on the disk: one failed, here or (who knows) in the process before */
    _Atomic int failed;          /* what everything is refused with; OK: works */
    char reason[WAL_REASON_MAX];
    struct list
        replaced; /* files whose batches the current one has; must go before wal_rotate succeeds */

    pthread_mutex_t trim_lock; /* one at a time removes files; taken before `lock` */
    pthread_mutex_t lock;      /* guards what follows; not held while the disk works */
    struct list files;         /* oldest first. Those left unsynced keep their fd: where nobody
                                * syncs, as many as the owner lets the WAL have bytes, divided by
                                * file_bytes */
    uint64_t trimmed;
    struct list holds;
    _Atomic uint64_t last, bytes; /* written under `lock` */

    /* of other threads' syncs; written under `lock` */
    _Atomic uint64_t synced;  /* batches up to it are on the disk */
    _Atomic int late_failure; /* that the thread that appends has not met yet; OK: none */
    char late_reason[WAL_REASON_MAX];
};

/* A moment's files, open: trimming does not take them away. */
struct part {
    uint64_t first, last, bytes;
    int fd;
};
/* Those that have batches from `from` on, to be closed with close_parts; NULL and errno: one cannot be opened. */
struct part *open_parts(struct wal *wal, uint64_t from, size_t *count);
void close_parts(struct part *parts, size_t count);
bool sync_fd(int fd);

static inline struct wal_segment *wal_segment_of(struct list *node)
{
    return container_of(node, struct wal_segment, node);
}

/* NULL: there is none. */
static inline struct wal_segment *wal_newest(struct wal *wal)
{
    return list_empty(&wal->files) ? NULL : wal_segment_of(wal->files.prev);
}
