/*
 * batch_log_open.c - reads the files of a batch log, and drops what is behind a gap.
 */
#include "backend/wal/batch_log.h"

#include "backend/wal/batch_log_inner.h"
#include "backend/wal/path.h"
#include "shared/check.h"
#include "shared/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t size_of(int fd)
{
    struct stat found;
    return fstat(fd, &found) == 0 && found.st_size > 0 ? (uint64_t)found.st_size : 0;
}

/* Puts the file where its name belongs. */
static void list_file(struct batch_log *log, struct batch_file *file)
{
    struct list *next = &log->files;
    while (next->prev != &log->files && batch_file_of(next->prev)->first > file->first)
        next = next->prev;
    list_push(next, &file->node);
}

/* Lists the files of the directory; removes what was being made. */
static bool list_files(struct batch_log *log, char *error, size_t size)
{
    DIR *dir = opendir(log->path);
    if (!dir) {
        (void)batch_file_failure(log->path, error, size);
        return false;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        uint64_t first;
        bool is_new;
        if (!batch_file_name(entry->d_name, &first, &is_new))
            continue;
        if (is_new)
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        else
            list_file(log, batch_file_new(first));
    }
    (void)closedir(dir);
    return true;
}

/* What is read is on the disk before: a file made of it must not outlive it. */
static bool open_files(struct batch_log *log, char *error, size_t size)
{
    char path[PATH_MAX];
    for (struct list *node = log->files.next; node != &log->files; node = node->next) {
        struct batch_file *file = batch_file_of(node);
        batch_file_path(path, log->path, file->first);
        file->fd = open(path, O_RDONLY | O_CLOEXEC);
        if (file->fd < 0 || !sync_fd(file->fd)) {
            (void)batch_file_failure(path, error, size);
            return false;
        }
        if (!batch_file_format_known(file->fd)) {
            (void)snprintf(error, size, "%s: written by a newer version, which can read it", path);
            return false;
        }
    }
    if (list_empty(&log->files) || path_sync(log->path))
        return true;
    (void)batch_file_failure(log->path, error, size);
    return false;
}

/* The file and those behind it go, durably. */
static bool drop_files(struct batch_log *log, struct list *from, char *error, size_t size)
{
    char path[PATH_MAX];
    while (from != &log->files) {
        struct batch_file *file = batch_log_newest(log);
        bool is_last = &file->node == from;
        batch_file_path(path, log->path, file->first);
        if (unlink(path) != 0) {
            (void)batch_file_failure(path, error, size);
            return false;
        }
        list_remove(&file->node);
        batch_file_free(file);
        if (is_last)
            break;
    }
    if (path_sync(log->path))
        return true;
    (void)batch_file_failure(log->path, error, size);
    return false;
}

/* What is behind the gap that `at` begins with is dropped; `before` is the file in which the run ended. */
static bool drop_gap(struct batch_log *log, const struct batch_file *before, struct list *at,
                     char *error, size_t size)
{
    char path[PATH_MAX];
    unsigned files = 0;
    uint64_t bytes = size_of(before->fd) - before->bytes;
    for (struct list *node = at; node != &log->files; node = node->next, files++)
        bytes += size_of(batch_file_of(node)->fd);
    batch_file_path(path, log->path, before->first);
    log_event(LOG_WARN, "log_cut",
              "file=" LOG_QUOTED " at=%" PRIu64 " after_batch=%" PRIu64 " dropped_files=%u "
              "dropped_bytes=%" PRIu64,
              path, before->bytes, before->last, files, bytes);
    return drop_files(log, at, error, size);
}

/* A crash of the process leaves nothing whole behind the end, and one of the machine only what was not synced. Says what
 * is dropped. */
static void tell_damage(struct batch_log *log, struct batch_reader *reader)
{
    char path[PATH_MAX];
    struct batch_later later = {0};
    const struct batch_file *file = batch_log_newest(log);
    if (file && reader->at == file->bytes)
        batch_reader_later(reader, file->last, &later);
    if (!later.count)
        return;
    batch_file_path(path, log->path, file->first);
    log->damaged_batches = later.count;
    log_event(later.was_durable ? LOG_ERROR : LOG_WARN, "log_damaged",
              "file=" LOG_QUOTED " at=%" PRIu64 " after_batch=%" PRIu64
              " whole_batch_behind=%" PRIu64 " dropped_batches=%" PRIu64 " dropped_bytes=%" PRIu64
              " synced=%s",
              path, file->bytes, file->last, later.first, later.count, later.end - file->bytes,
              later.was_durable ? "yes" : "unknown");
}

struct reading {
    struct batch_reader reader;
    batch_log_fn *read;
    void *owner;
};

/* Reads the file's batches, those that the next file begins with excepted. */
static bool read_file(struct batch_log *log, struct reading *reading, struct batch_file *file,
                      char *error, size_t size)
{
    struct bytes batch;
    char path[PATH_MAX];
    uint64_t end =
        file->node.next == &log->files ? UINT64_MAX : batch_file_of(file->node.next)->first;
    batch_file_path(path, log->path, file->first);
    batch_reader_begin(&reading->reader, file->fd, size_of(file->fd));
    while (file->last + 1 < end) {
        switch (batch_reader_next(&reading->reader, file->last + 1, &batch)) {
        case BATCH_READ_END:
            return true;
        case BATCH_READ_FAILED:
            (void)batch_file_failure(path, error, size);
            return false;
        case BATCH_READ:
            break;
        }
        if (!reading->read(reading->owner, file->last + 1, batch)) {
            (void)snprintf(error, size, "%s: batch %" PRIu64 " was refused", path, file->last + 1);
            return false;
        }
        file->last++;
        file->bytes = reading->reader.at;
        if (log->durable < reading->reader.durable)
            log->durable = reading->reader.durable;
    }
    return true;
}

static bool read_files(struct batch_log *log, struct reading *reading, char *error, size_t size)
{
    struct batch_file *before = NULL;
    for (struct list *node = log->files.next; node != &log->files; node = node->next) {
        struct batch_file *file = batch_file_of(node);
        uint64_t known = before && before->last > log->trimmed ? before->last : log->trimmed;
        if (before && file->first > known + 1)
            return drop_gap(log, before, node, error, size);
        if (!read_file(log, reading, file, error, size))
            return false;
        before = file;
    }
    return true;
}

struct batch_log *batch_log_open(const struct batch_log_options *options, batch_log_fn *read,
                                 void *owner, char *error, size_t size)
{
    if (strlen(options->path) > PATH_MAX - BATCH_LOG_PATH_ROOM) {
        errno = ENAMETOOLONG;
        (void)batch_file_failure(options->path, error, size);
        return NULL;
    }
    struct reading reading = {.read = read, .owner = owner};
    struct batch_log *log = calloc(1, sizeof *log);
    CHECK(log);
    log->path = strdup(options->path);
    CHECK(log->path);
    log->file_bytes = options->file_bytes;
    log->trimmed = options->trimmed;
    log->is_name_new = true;
    list_init(&log->files);
    list_init(&log->replaced);
    CHECK(pthread_mutex_init(&log->lock, NULL) == 0);
    CHECK(pthread_mutex_init(&log->trim_lock, NULL) == 0);
    batch_reader_init(&reading.reader);
    bool good = list_files(log, error, size) && open_files(log, error, size) &&
                read_files(log, &reading, error, size);
    if (good && batch_log_newest(log)) {
        log->last = batch_log_newest(log)->last;
        tell_damage(log, &reading.reader);
    }
    if (good &&
        log->last < log->trimmed) { /* not needed, and the next file would be behind a gap */
        good = drop_files(log, log->files.next, error, size);
        log->last = log->trimmed;
    }
    for (struct list *node = log->files.next; node != &log->files; node = node->next) {
        log->bytes += batch_file_of(node)->bytes;
        batch_file_close(batch_file_of(node));
    }
    if (log->durable > log->last)
        log->durable = log->last;
    log->is_sync_lost = log->durable < log->last;
    batch_reader_fini(&reading.reader);
    if (good)
        return log;
    batch_log_close(log);
    return NULL;
}
