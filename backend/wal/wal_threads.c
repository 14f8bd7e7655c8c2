/*
 * wal_threads.c - sync and copy of the present segments by any thread, during appends and removals.
 */
#include "backend/wal/wal_inner.h"
#include "backend/wal/wal_number.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/path.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COPY_BYTES = 256 << 10 };

/* ---- open files ---- */

void close_parts(struct part *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (parts[i].fd >= 0)
            (void)close(parts[i].fd);
    free(parts);
}

struct part *open_parts(struct wal *wal, uint64_t from, size_t *count)
{
    char path[PATH_MAX];
    size_t room = 0;
    bool good = true;
    *count = 0;
    pthread_mutex_lock(&wal->lock);
    for (struct list *node = wal->files.next; node != &wal->files; node = node->next)
        room++;
    struct part *parts = calloc(room + 1, sizeof *parts);
    CHECK(parts);
    for (struct list *node = wal->files.next; good && node != &wal->files; node = node->next) {
        const struct wal_segment *file = wal_segment_of(node);
        if (file->last < from)
            continue;
        wal_segment_path(path, wal->path, file->first);
        struct part *part = &parts[(*count)++];
        *part = (struct part){file->first, file->last, file->bytes, -1};
        part->fd = open(path, O_RDONLY | O_CLOEXEC);
        good = part->fd >= 0;
    }
    pthread_mutex_unlock(&wal->lock);
    if (good)
        return parts;
    int cause = errno;
    close_parts(parts, *count);
    errno = cause;
    return NULL;
}

/* ---- sync ---- */

bool sync_fd(int fd)
{
    int result;
    do
        result = fdatasync(fd);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

/* Stores the error for the appending thread, which must stop. */
static int sync_failed(struct wal *wal, char *error, size_t size)
{
    int failure = wal_segment_failure(wal->path, error, size);
    pthread_mutex_lock(&wal->lock);
    (void)snprintf(wal->late_reason, sizeof wal->late_reason, "%s", error);
    wal->late_failure = failure;
    pthread_mutex_unlock(&wal->lock);
    return failure;
}

/* The error of the WAL; OK: there is none. `late_failure` is read first: the appending thread moves it to `failed`, so in
 * the other order both could be missed. */
static int failure_of(struct wal *wal)
{
    int late = wal->late_failure;
    int failed = wal->failed;
    return failed ? failed : late;
}

/* Syncs files through new descriptors: each new descriptor reports a failed write once, unless an older descriptor
 * has reported it, and then the WAL has failed already. */
static int sync_files(struct wal *wal, uint64_t from, char *error, size_t size)
{
    size_t count;
    struct part *parts = open_parts(wal, from, &count);
    bool good = parts != NULL;
    for (size_t i = 0; good && i < count; i++)
        good = sync_fd(parts[i].fd);
    good = good && path_sync(wal->path);
    int failure = good ? OK : sync_failed(wal, error, size);
    close_parts(parts, parts ? count : 0);
    return failure;
}

int wal_sync_upto(struct wal *wal, uint64_t index, char *error, size_t size)
{
    uint64_t synced = wal->synced, upto = wal->last;
    int failure = failure_of(wal);
    if (!failure && index <= synced)
        return OK;
    if (!failure) {
        failure = sync_files(wal, synced + 1, error, size);
        if (failure)
            return failure;
        failure = failure_of(wal);
    }
    if (failure) {
        (void)snprintf(error, size, "%s: a write or sync failed", wal->path);
        return failure;
    }
    pthread_mutex_lock(&wal->lock);
    if (wal->synced < upto)
        wal->synced = upto;
    pthread_mutex_unlock(&wal->lock);
    return OK;
}

/* ---- copy ---- */

static int copy_file_bytes(int from, int to, uint64_t bytes)
{
    char *buf = malloc(COPY_BYTES);
    CHECK(buf);
    uint64_t at = 0;
    while (at < bytes) {
        size_t len = bytes - at < COPY_BYTES ? (size_t)(bytes - at) : COPY_BYTES;
        ssize_t got = pread(from, buf, len, (off_t)at);
        if (got > 0)
            got = pwrite(to, buf, (size_t)got, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = EIO; /* the file became shorter */
        if (got <= 0)
            break;
        at += (uint64_t)got;
    }
    free(buf);
    return at == bytes && sync_fd(to);
}

struct wal_copy {
    struct part *parts;
    size_t count;
    uint64_t first; /* batch of the log, or the one that will be */
};

struct wal_copy *wal_copy_begin(struct wal *wal, char *error, size_t size)
{
    struct wal_copy *copy = calloc(1, sizeof *copy);
    CHECK(copy);
    copy->parts = open_parts(wal, 0, &copy->count);
    copy->first = copy->parts && copy->count ? copy->parts[0].first : wal_first(wal);
    if (copy->parts)
        return copy;
    (void)wal_segment_failure(wal->path, error, size);
    free(copy);
    return NULL;
}

void wal_copy_free(struct wal_copy *copy)
{
    if (!copy)
        return;
    close_parts(copy->parts, copy->count);
    free(copy);
}

/* Shortens the part to the batches up to `index`, which is one of them. False and errno: they cannot be read. */
static bool shorten_part(struct part *part, uint64_t index)
{
    struct wal_reader reader;
    struct bytes batch;
    enum wal_read read = WAL_READ;
    wal_reader_init(&reader);
    wal_reader_begin(&reader, part->fd, part->bytes);
    for (uint64_t at = part->first; at <= index && read == WAL_READ; at++)
        read = wal_reader_next(&reader, at, &batch);
    if (read == WAL_READ_END)
        errno = EIO; /* it is damaged */
    part->bytes = reader.at;
    part->last = index;
    wal_reader_fini(&reader);
    return read == WAL_READ;
}

int wal_copy_end(struct wal_copy *copy, uint64_t index, char *error, size_t size)
{
    while (copy->count && copy->parts[copy->count - 1].first > index)
        (void)close(copy->parts[--copy->count].fd);
    struct part *last = copy->count ? &copy->parts[copy->count - 1] : NULL;
    if (!last && index + 1 == copy->first)
        return OK; /* the tables have it, and the log nothing after it that is wanted */
    if (!last || last->last < index) {
        (void)snprintf(error, size, "the log does not have batch %" PRIu64, index);
        return ERR_STORE;
    }
    if (last->last == index || shorten_part(last, index))
        return OK;
    (void)snprintf(error, size, "the log up to batch %" PRIu64 " cannot be read: %s", index,
                   strerror(errno));
    return ERR_STORE;
}

static int copy_part(const struct part *part, const char *path, char *error, size_t size)
{
    char to[PATH_MAX];
    wal_segment_path(to, path, part->first);
    int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    int failure = fd >= 0 && copy_file_bytes(part->fd, fd, part->bytes)
                      ? OK
                      : wal_segment_failure(to, error, size);
    if (fd >= 0 && close(fd) != 0 && !failure)
        failure = wal_segment_failure(to, error, size);
    return failure;
}

int wal_copy_write(const struct wal_copy *copy, const char *path, uint64_t committed, char *error,
                   size_t size)
{
    int failure = OK;
    if (strlen(path) > PATH_MAX - WAL_PATH_ROOM) {
        errno = ENAMETOOLONG;
        return wal_segment_failure(path, error, size);
    }
    for (size_t i = 0; i < copy->count && !failure; i++)
        failure = copy_part(&copy->parts[i], path, error, size);
    if (!failure && (!wal_number_write(path, WAL_COMMITTED, committed, true) || !path_sync(path)))
        failure = wal_segment_failure(path, error, size);
    return failure;
}

int wal_copy(struct wal *wal, const char *path, uint64_t committed, char *error, size_t size)
{
    struct wal_copy *copy = wal_copy_begin(wal, error, size);
    int failure = copy ? wal_copy_write(copy, path, committed, error, size) : ERR_STORE;
    wal_copy_free(copy);
    return failure;
}

uint64_t wal_committed_at(const char *path)
{
    return wal_number_read(path, WAL_COMMITTED);
}

/* The WAL itself may not sync its directory before batches are appended that the file must not call uncommitted. */
int wal_copy_ends(struct wal *wal, char *error, size_t size)
{
    wal_number_remove(wal->path, WAL_COMMITTED);
    return path_sync(wal->path) ? OK : wal_segment_failure(wal->path, error, size);
}
