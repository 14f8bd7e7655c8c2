/*
 * wal_inner.h - shared by the files wal*.c.
 *
 *   wal.c             append, sync, rotate, trim
 *   wal_open.c        replay at the start
 *   wal_cursor.c      reads by index, beside appends
 *   wal_threads.c     sync and copy of the present files, by other threads
 *   wal_kept.c        segments that are kept for readers of changes
 *   wal_probe.c       does the disk take data again?
 *   wal_number.c      the files `filed` and `committed`
 */
#pragma once

#include "backend/wal/wal.h"
#include "backend/wal/wal_segment.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

enum { WAL_REASON_MAX = 512, WAL_PATH_ROOM = 64 /* for a name */ };

/* Keeps batches from `next` on from being trimmed, unless it is weak. */
struct wal_hold {
    struct list node;
    uint64_t next;
    bool is_weak;
    bool is_truncated; /* batches before `next` were truncated */
};

/* What was dropped at opening. */
struct wal_lost {
    uint64_t damaged_batches; /* whole ones after a damaged one */
    bool has_durable;         /* files after a gap, or batches that had been durable */
};

struct wal {
    char *path;
    uint64_t file_bytes;
    bool is_read_only; /* another process may be appending: files are left alone */
    struct wal_lost lost;

    /* used by the appending thread */
    /* the newest file, to which batches are appended; NULL: the next append creates it */
    struct wal_segment *current;
    uint64_t durable;   /* batches up to this one are on the disk */
    bool has_spare;     /* wal_spare.c */
    bool is_name_new;   /* the name of a file may not be durable yet */
    bool is_sync_lost;  /* a sync failed here, or may have failed in the process before: syncs of
                                 * these files do not show whether batches after `durable` are on disk */
    _Atomic int failed; /* error that all calls return; OK: none */
    char reason[WAL_REASON_MAX];
    /* files whose batches the current file has too; to be removed before wal_rotate succeeds */
    struct list replaced;

    pthread_mutex_t trim_lock; /* serialises the removal of files; taken before `lock` */
    pthread_mutex_t lock;      /* guards the members below; not held during disk access */
    struct list files;         /* oldest first. Files that were left unsynced keep their
                                * descriptor; without syncs their number is limited only by the size
                                * that the owner allows the WAL */
    uint64_t trimmed;
    struct list holds;
    struct list kept; /* files in the directory `kept`, oldest first */
    uint64_t kept_bytes;
    struct wal_keep keep;         /* guarded by trim_lock */
    _Atomic uint64_t last, bytes; /* written under `lock` */

    /* syncs of other threads; written under `lock` */
    _Atomic uint64_t synced;  /* batches up to this one are on the disk */
    _Atomic int late_failure; /* error that the appending thread has not seen yet; OK: none */
    char late_reason[WAL_REASON_MAX];
};

/* An open descriptor of a file of the WAL, with which its batches can be read after it was trimmed. */
struct part {
    uint64_t first, last, bytes;
    int fd;
};
/* Opens the files with batches from `from` on; to be closed with close_parts. NULL and errno: one cannot be opened. */
struct part *open_parts(struct wal *wal, uint64_t from, size_t *count);
void close_parts(struct part *parts, size_t count);
bool sync_fd(int fd);

/* As wal_segment_make, of the spare segment. False: there is none. */
bool wal_use_spare(struct wal *wal, struct wal_segment *file);

/* The directory of the kept files. */
void wal_kept_dir(const struct wal *wal, char dir[PATH_MAX]);
/* Lists the kept files; the WAL's own are listed already. */
void wal_kept_open(struct wal *wal);
/* Moves the oldest file of the WAL to the kept ones. False: it is not kept, and its removal would leave a gap, so kept files
 * have to be cleared. trim_lock is held for both. */
bool wal_kept_take(struct wal *wal, struct wal_segment *file);
void wal_kept_clear(struct wal *wal);

static inline struct wal_segment *wal_segment_of(struct list *node)
{
    return container_of(node, struct wal_segment, node);
}

/* The oldest batch with which a reader may begin; without batches, the next one. The lock is held. */
static inline uint64_t wal_oldest(struct wal *wal)
{
    for (struct list *node = wal->files.next; node != &wal->files; node = node->next)
        if (!wal_segment_of(node)->is_leaving)
            return wal_segment_of(node)->first;
    return wal->last + 1;
}

/* The newest file; NULL: there is none. */
static inline struct wal_segment *wal_newest(struct wal *wal)
{
    return list_empty(&wal->files) ? NULL : wal_segment_of(wal->files.prev);
}
