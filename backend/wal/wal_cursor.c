/*
 * wal_cursor.c - reads batches by index while others are appended. A cursor searches the segment of its next batch each
 * time, because a rotation may have copied the batch to another segment.
 */
#include "backend/wal/wal_inner.h"
#include "shared/check.h"
#include "shared/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct wal_cursor {
    struct wal_hold hold; /* keeps the next batch to read, and later ones, from being trimmed */
    struct wal *wal;
    struct wal_reader reader;
    uint64_t serial; /* of the open segment; 0: none */
    uint64_t at;     /* index of the record at the reader's position */
};

/* The oldest batch in a file, also of one that is kept or is leaving. The lock is held. */
static uint64_t oldest_present(const struct wal *wal)
{
    const struct list *files = list_empty(&wal->kept) ? &wal->files : &wal->kept;
    return list_empty(files) ? wal->last + 1 : wal_segment_of(files->next)->first;
}

static struct wal_cursor *new_cursor(struct wal *wal, uint64_t from, bool is_weak)
{
    struct wal_cursor *cursor = calloc(1, sizeof *cursor);
    CHECK(cursor);
    CHECK(from > 0);
    cursor->wal = wal;
    cursor->hold.is_weak = is_weak;
    wal_reader_init(&cursor->reader);
    pthread_mutex_lock(&wal->lock);
    uint64_t first = is_weak ? oldest_present(wal) : wal_oldest(wal);
    bool has_from = from >= first && from <= wal->last + 1;
    cursor->hold.next = from;
    if (has_from)
        list_push(&wal->holds, &cursor->hold.node);
    pthread_mutex_unlock(&wal->lock);
    if (has_from)
        return cursor;
    free(cursor);
    return NULL;
}

struct wal_cursor *wal_cursor_new(struct wal *wal, uint64_t from)
{
    return new_cursor(wal, from, false);
}

struct wal_cursor *wal_cursor_new_weak(struct wal *wal, uint64_t from)
{
    return new_cursor(wal, from, true);
}

static void close_segment(struct wal_cursor *cursor)
{
    if (cursor->serial)
        (void)close(cursor->reader.fd);
    cursor->serial = 0;
}

void wal_cursor_free(struct wal_cursor *cursor)
{
    if (!cursor)
        return;
    pthread_mutex_lock(&cursor->wal->lock);
    list_remove(&cursor->hold.node);
    pthread_mutex_unlock(&cursor->wal->lock);
    close_segment(cursor);
    wal_reader_fini(&cursor->reader);
    free(cursor);
}

static struct wal_segment *find_in_list(const struct list *files, uint64_t index)
{
    for (struct list *node = files->prev; node != files; node = node->prev) {
        struct wal_segment *file = wal_segment_of(node);
        if (file->first <= index)
            return file->last >= index ? file : NULL;
    }
    return NULL;
}

/* The segment with the next batch. The lock is held. */
static struct wal_segment *find_segment(struct wal_cursor *cursor)
{
    struct wal_segment *file = find_in_list(&cursor->wal->files, cursor->hold.next);
    return file || !cursor->hold.is_weak ? file
                                         : find_in_list(&cursor->wal->kept, cursor->hold.next);
}

/* The file may be a kept one, or be moved to these right now. */
static int open_anywhere(const struct wal_cursor *cursor, uint64_t first, char path[PATH_MAX])
{
    char dir[PATH_MAX];
    wal_segment_path(path, cursor->wal->path, first);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT || !cursor->hold.is_weak)
        return fd;
    wal_kept_dir(cursor->wal, dir);
    wal_segment_path(path, dir, first);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static int gone(const struct wal_cursor *cursor, char *error, size_t size)
{
    (void)snprintf(error, size, "%s: the log does not have batch %" PRIu64 " any more",
                   cursor->wal->path, cursor->hold.next);
    return cursor->hold.is_weak ? ERR_GONE : ERR_STORE;
}

static int open_segment(struct wal_cursor *cursor, const struct wal_segment *file, char *error,
                        size_t size)
{
    char path[PATH_MAX];
    close_segment(cursor);
    int fd = open_anywhere(cursor, file->first, path);
    if (fd < 0)
        return wal_segment_failure(path, error, size);
    wal_reader_begin(&cursor->reader, fd, file->bytes);
    cursor->serial = file->serial;
    cursor->at = file->first;
    return OK;
}

/* May the cursor read this batch, if it is there? The lock is held. */
static bool is_readable(const struct wal_cursor *cursor)
{
    const struct wal *wal = cursor->wal;
    uint64_t durable = wal->synced > wal->trimmed ? wal->synced : wal->trimmed;
    bool is_durable = cursor->hold.next <= durable || !cursor->hold.is_weak;
    return cursor->hold.next <= wal->last && is_durable;
}

/* Opens the segment with the next batch, up to its present end. */
static int open_next_segment(struct wal_cursor *cursor, char *error, size_t size)
{
    struct wal *wal = cursor->wal;
    int result = OK;
    pthread_mutex_lock(&wal->lock);
    struct wal_segment *file = is_readable(cursor) ? find_segment(cursor) : NULL;
    if (cursor->hold.is_truncated) {
        (void)snprintf(error, size, "%s: batch %" PRIu64 " was truncated", wal->path,
                       cursor->hold.next);
        result = ERR_STORE;
    } else if (!file) {
        result = is_readable(cursor) ? gone(cursor, error, size) : ERR_NOT_FOUND;
    } else if (file->serial != cursor->serial) {
        result = open_segment(cursor, file, error, size);
    } else {
        wal_reader_extend(&cursor->reader, file->bytes);
    }
    pthread_mutex_unlock(&wal->lock);
    return result;
}

int wal_cursor_next(struct wal_cursor *cursor, uint64_t *index, struct bytes *batch, char *error,
                    size_t size)
{
    int result = open_next_segment(cursor, error, size);
    if (result != OK)
        return result;
    do {
        enum wal_read read = wal_reader_next(&cursor->reader, cursor->at, batch);
        if (read == WAL_READ_END && cursor->hold.is_weak)
            return gone(cursor, error, size);
        if (read != WAL_READ) {
            (void)snprintf(error, size, "%s: batch %" PRIu64 " cannot be read: %s",
                           cursor->wal->path, cursor->at,
                           read == WAL_READ_END ? "it is damaged" : strerror(errno));
            return ERR_STORE;
        }
    } while (cursor->at++ < cursor->hold.next);
    pthread_mutex_lock(&cursor->wal->lock);
    *index = cursor->hold.next++;
    pthread_mutex_unlock(&cursor->wal->lock);
    return OK;
}
