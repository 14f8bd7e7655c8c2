/*
 * wal_open.c - replays the files of a WAL, and drops the files after a gap.
 */
#include "backend/wal/wal.h"

#include "backend/wal/wal_inner.h"
#include "backend/wal/wal_number.h"
#include "shared/check.h"
#include "shared/log.h"
#include "shared/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t file_size(int fd)
{
    struct stat found;
    return fstat(fd, &found) == 0 && found.st_size > 0 ? (uint64_t)found.st_size : 0;
}

/* Inserts the file into the list, which is sorted by name. */
static void list_file(struct wal *wal, struct wal_segment *file)
{
    struct list *next = &wal->files;
    while (next->prev != &wal->files && wal_segment_of(next->prev)->first > file->first)
        next = next->prev;
    list_push(next, &file->node);
}

/* Lists the files of the directory; removes incomplete new ones. */
static bool list_files(struct wal *wal, char *error, size_t size)
{
    DIR *dir = opendir(wal->path);
    if (!dir) {
        (void)wal_segment_failure(wal->path, error, size);
        return false;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        uint64_t first;
        bool is_new;
        if (!wal_segment_name(entry->d_name, &first, &is_new))
            continue;
        if (is_new && !wal->is_read_only)
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        if (!is_new)
            list_file(wal, wal_segment_new(first));
    }
    (void)closedir(dir);
    return true;
}

/* Syncs the file before it is replayed: otherwise a power loss could lose its batches, but not an SST file that was
 * made from them. */
static bool open_for_replay(const struct wal *wal, struct wal_segment *file, char *error,
                            size_t size)
{
    char path[PATH_MAX];
    wal_segment_path(path, wal->path, file->first);
    file->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (file->fd < 0 || (!wal->is_read_only && !sync_fd(file->fd))) {
        (void)wal_segment_failure(path, error, size);
        return false;
    }
    if (wal_segment_format_known(file->fd))
        return true;
    (void)snprintf(error, size,
                   "%s: it was written by a newer version of this program: use that version", path);
    return false;
}

static bool open_files(struct wal *wal, char *error, size_t size)
{
    for (struct list *node = wal->files.next, *next; node != &wal->files; node = next) {
        struct wal_segment *file = wal_segment_of(node);
        next = node->next;
        if (open_for_replay(wal, file, error, size))
            continue;
        if (!wal->is_read_only || file->fd >= 0 || errno != ENOENT)
            return false;
        list_remove(&file->node); /* another process has trimmed the file */
        wal_segment_free(file);
    }
    if (wal->is_read_only || list_empty(&wal->files) || path_sync(wal->path))
        return true;
    (void)wal_segment_failure(wal->path, error, size);
    return false;
}

/* Removes the file and those after it, durably. */
static bool drop_files(struct wal *wal, struct list *from, char *error, size_t size)
{
    char path[PATH_MAX];
    while (from != &wal->files) {
        struct wal_segment *file = wal_newest(wal);
        bool is_last = &file->node == from;
        wal_segment_path(path, wal->path, file->first);
        if (unlink(path) != 0) {
            (void)wal_segment_failure(path, error, size);
            return false;
        }
        list_remove(&file->node);
        wal_segment_free(file);
        if (is_last)
            break;
    }
    if (path_sync(wal->path))
        return true;
    (void)wal_segment_failure(wal->path, error, size);
    return false;
}

/* Drops the files from `at` on, which follow a gap; `before` is the file in which the run ended. */
static bool drop_gap(struct wal *wal, const struct wal_segment *before, struct list *at,
                     char *error, size_t size)
{
    char path[PATH_MAX];
    unsigned files = 0;
    uint64_t bytes = file_size(before->fd) - before->bytes;
    for (struct list *node = at; node != &wal->files; node = node->next, files++)
        bytes += file_size(wal_segment_of(node)->fd);
    wal->lost.has_durable = true;
    wal_segment_path(path, wal->path, before->first);
    log_event(LOG_WARN, "wal_gap",
              "file=" LOG_QUOTED " at=%" PRIu64 " after_batch=%" PRIu64 " dropped_files=%u "
              "dropped_bytes=%" PRIu64,
              path, before->bytes, before->last, files, bytes);
    return drop_files(wal, at, error, size);
}

/* Logs the complete records after the first damaged one, which are dropped. A crash of the process leaves no such
 * record; after a power loss none of the dropped batches should have been synced. */
static void log_damage(struct wal *wal, struct wal_reader *reader)
{
    char path[PATH_MAX];
    struct wal_later later = {0};
    const struct wal_segment *file = wal_newest(wal);
    if (file && reader->at == file->bytes)
        wal_reader_later(reader, file->last, &later);
    if (!later.count)
        return;
    wal_segment_path(path, wal->path, file->first);
    wal->lost.damaged_batches = later.count;
    wal->lost.has_durable |= later.was_durable != 0;
    log_event(later.was_durable ? LOG_ERROR : LOG_WARN, "wal_damaged",
              "file=" LOG_QUOTED " at=%" PRIu64 " after_batch=%" PRIu64 " next_whole_batch=%" PRIu64
              " dropped_batches=%" PRIu64 " dropped_bytes=%" PRIu64 " synced=%s",
              path, file->bytes, file->last, later.first, later.count, later.end - file->bytes,
              later.was_durable ? "yes" : "unknown");
}

struct reading {
    struct wal_reader reader;
    wal_fn *read;
    void *owner;
};

/* Replays the file's batches, except those with which the next file begins. */
static bool replay_segment(struct wal *wal, struct reading *reading, struct wal_segment *file,
                           char *error, size_t size)
{
    struct bytes batch;
    char path[PATH_MAX], reason[WAL_REASON_MAX] = "";
    uint64_t end =
        file->node.next == &wal->files ? UINT64_MAX : wal_segment_of(file->node.next)->first;
    wal_segment_path(path, wal->path, file->first);
    wal_reader_begin(&reading->reader, file->fd, file_size(file->fd));
    while (file->last + 1 < end) {
        switch (wal_reader_next(&reading->reader, file->last + 1, &batch)) {
        case WAL_READ_END:
            return true;
        case WAL_READ_FAILED:
            (void)wal_segment_failure(path, error, size);
            return false;
        case WAL_READ:
            break;
        }
        if (file->last + 1 > wal->trimmed &&
            !reading->read(reading->owner, file->last + 1, batch, reason, sizeof reason)) {
            (void)snprintf(error, size, "%s: batch %" PRIu64 ": %s", path, file->last + 1, reason);
            return false;
        }
        file->last++;
        file->bytes = reading->reader.at;
        if (wal->durable < reading->reader.durable)
            wal->durable = reading->reader.durable;
    }
    return true;
}

/* Are all batches of the file trimmed ones? Then a longer log makes a start no longer. */
static bool is_trimmed(const struct wal *wal, const struct wal_segment *file)
{
    return file->node.next != &wal->files &&
           wal_segment_of(file->node.next)->first <= wal->trimmed + 1;
}

/* Takes the file's batches as read. */
static void skip_segment(struct wal_segment *file)
{
    file->last = wal_segment_of(file->node.next)->first - 1;
    file->bytes = file_size(file->fd);
}

static bool read_files(struct wal *wal, struct reading *reading, char *error, size_t size)
{
    struct wal_segment *before = NULL;
    for (struct list *node = wal->files.next; node != &wal->files; node = node->next) {
        struct wal_segment *file = wal_segment_of(node);
        uint64_t known = before && before->last > wal->trimmed ? before->last : wal->trimmed;
        if (before && file->first > known + 1)
            return wal->is_read_only || drop_gap(wal, before, node, error, size);
        if (is_trimmed(wal, file))
            skip_segment(file);
        else if (!replay_segment(wal, reading, file, error, size))
            return false;
        before = file;
    }
    return true;
}

static struct wal *new_wal(const struct wal_options *options)
{
    struct wal *wal = calloc(1, sizeof *wal);
    CHECK(wal);
    wal->path = strdup(options->path);
    CHECK(wal->path);
    wal->file_bytes = options->file_bytes;
    wal->trimmed = options->trimmed;
    wal->is_name_new = true;
    list_init(&wal->files);
    list_init(&wal->replaced);
    list_init(&wal->holds);
    list_init(&wal->kept);
    CHECK(pthread_mutex_init(&wal->lock, NULL) == 0);
    CHECK(pthread_mutex_init(&wal->trim_lock, NULL) == 0);
    return wal;
}

bool wal_read_only(const char *path, wal_fn *read, void *owner, char *error, size_t size)
{
    if (strlen(path) > PATH_MAX - WAL_PATH_ROOM) {
        errno = ENAMETOOLONG;
        (void)wal_segment_failure(path, error, size);
        return false;
    }
    struct reading reading = {.read = read, .owner = owner};
    struct wal *wal = new_wal(&(struct wal_options){.path = path});
    wal->is_read_only = true;
    wal_reader_init(&reading.reader);
    bool good = list_files(wal, error, size) && open_files(wal, error, size) &&
                read_files(wal, &reading, error, size);
    wal_reader_fini(&reading.reader);
    wal_close(wal);
    return good;
}

struct wal *wal_open(const struct wal_options *options, wal_fn *read, void *owner, char *error,
                     size_t size)
{
    if (strlen(options->path) > PATH_MAX - WAL_PATH_ROOM) {
        errno = ENAMETOOLONG;
        (void)wal_segment_failure(options->path, error, size);
        return NULL;
    }
    struct reading reading = {.read = read, .owner = owner};
    struct wal *wal = new_wal(options);
    if (!wal->trimmed)
        wal->trimmed = wal_number_read(wal->path, WAL_FILED);
    wal_reader_init(&reading.reader);
    bool good = list_files(wal, error, size) && open_files(wal, error, size) &&
                read_files(wal, &reading, error, size);
    if (good && wal_newest(wal)) {
        wal->last = wal_newest(wal)->last;
        log_damage(wal, &reading.reader);
    }
    if (good &&
        wal->last < wal->trimmed) { /* these files are not needed, and a gap would follow them */
        good = drop_files(wal, wal->files.next, error, size);
        wal->last = wal->trimmed;
    }
    for (struct list *node = wal->files.next; node != &wal->files; node = node->next) {
        wal->bytes += wal_segment_of(node)->bytes;
        wal_segment_close(wal_segment_of(node));
    }
    if (wal->durable > wal->last)
        wal->durable = wal->last;
    wal->synced = wal->durable;
    wal->is_sync_lost = wal->durable < wal->last;
    wal_kept_open(wal);
    wal_reader_fini(&reading.reader);
    if (good)
        return wal;
    wal_close(wal);
    return NULL;
}
