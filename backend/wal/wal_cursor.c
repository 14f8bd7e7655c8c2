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

struct wal_cursor *wal_cursor_new(struct wal *wal, uint64_t from)
{
    struct wal_cursor *cursor = calloc(1, sizeof *cursor);
    CHECK(cursor);
    CHECK(from > 0);
    cursor->wal = wal;
    wal_reader_init(&cursor->reader);
    pthread_mutex_lock(&wal->lock);
    uint64_t first =
        list_empty(&wal->files) ? wal->last + 1 : wal_segment_of(wal->files.next)->first;
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

/* The segment with the next batch. The lock is held. */
static struct wal_segment *find_segment(struct wal_cursor *cursor)
{
    struct wal *wal = cursor->wal;
    for (struct list *node = wal->files.prev; node != &wal->files; node = node->prev) {
        struct wal_segment *file = wal_segment_of(node);
        if (file->first <= cursor->hold.next)
            return file->last >= cursor->hold.next ? file : NULL;
    }
    return NULL;
}

static int open_segment(struct wal_cursor *cursor, const struct wal_segment *file, char *error,
                        size_t size)
{
    char path[PATH_MAX];
    close_segment(cursor);
    wal_segment_path(path, cursor->wal->path, file->first);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return wal_segment_failure(path, error, size);
    wal_reader_begin(&cursor->reader, fd, file->bytes);
    cursor->serial = file->serial;
    cursor->at = file->first;
    return OK;
}

/* Opens the segment with the next batch, up to its present end. */
static int open_next_segment(struct wal_cursor *cursor, char *error, size_t size)
{
    struct wal *wal = cursor->wal;
    int result = OK;
    pthread_mutex_lock(&wal->lock);
    struct wal_segment *file = find_segment(cursor);
    if (cursor->hold.is_truncated || (!file && cursor->hold.next <= wal->last)) {
        (void)snprintf(error, size, "%s: batch %" PRIu64 " was truncated", wal->path,
                       cursor->hold.next);
        result = ERR_STORE;
    } else if (!file) {
        result = ERR_NOT_FOUND;
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
