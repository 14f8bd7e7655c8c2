#include "backend/archive/archive_log.h"

#include "backend/archive/archive_file.h"
#include "backend/archive/archive_writer.h"
#include "backend/backup/disk_file.h"
#include "shared/check.h"
#include "shared/path.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

struct log_file {
    char *path;
    uint64_t first, last; /* last 0: the file grows, or a crash has left it */
};

struct archive_log {
    uint64_t id;
    struct log_file *files; /* by their first batches */
    size_t count;
};

/* ---- files ---- */

static void add_log_file(struct archive_log *log, const char *dir, const char *name)
{
    char path[PATH_MAX], ignored[64];
    uint64_t first, last;
    if (!archive_file_parse(name, &first, &last) ||
        !disk_path(path, dir, name, ignored, sizeof ignored))
        return;
    log->files = realloc(log->files, (log->count + 1) * sizeof log->files[0]);
    CHECK(log->files);
    log->files[log->count] = (struct log_file){.path = strdup(path), .first = first, .last = last};
    CHECK(log->files[log->count++].path);
}

static bool add_files(struct archive_log *log, const char *dir, char *error, size_t size)
{
    struct disk_list list;
    if (!disk_list(&list, dir, error, size))
        return false;
    for (size_t i = 0; i < list.count; i++)
        add_log_file(log, dir, list.names[i]);
    disk_list_free(&list);
    return true;
}

/* The directory of one copy of the shard. */
static bool is_copy_dir(const char *name)
{
    return strlen(name) == 16 && strspn(name, "0123456789abcdef") == 16;
}

/* The directory of a log, with those of the shard's copies; it may be missing. */
static bool add_log_dir(struct archive_log *log, const char *dir, char *error, size_t size)
{
    struct disk_list list;
    char copy[PATH_MAX];
    if (!path_exists(dir))
        return true;
    if (!add_files(log, dir, error, size) || !disk_list(&list, dir, error, size))
        return false;
    bool good = true;
    for (size_t i = 0; good && i < list.count; i++)
        good = !is_copy_dir(list.names[i]) || (disk_path(copy, dir, list.names[i], error, size) &&
                                               add_files(log, copy, error, size));
    disk_list_free(&list);
    return good;
}

/* The log's directories below all shards of one archive. */
static bool add_archive(struct archive_log *log, const char *archive, char *error, size_t size)
{
    struct disk_list list;
    char dir[PATH_MAX], name[320];
    if (!disk_list(&list, archive, error, size))
        return false;
    bool good = true;
    for (size_t i = 0; good && i < list.count; i++) {
        (void)snprintf(name, sizeof name, "%s/%016" PRIx64, list.names[i], log->id);
        good = disk_path(dir, archive, name, error, size) && add_log_dir(log, dir, error, size);
    }
    disk_list_free(&list);
    return good;
}

static int compare_log_files(const void *a, const void *b)
{
    const struct log_file *one = a, *other = b;
    if (one->first != other->first)
        return one->first < other->first ? -1 : 1;
    return (one->last > other->last) - (one->last < other->last);
}

struct archive_log *archive_log_new(const char *dirs, uint64_t log_id, char *error, size_t size)
{
    struct archive_log *log = calloc(1, sizeof *log);
    char path[PATH_MAX];
    bool good = true;
    CHECK(log);
    log->id = log_id;
    while (good && *dirs) {
        size_t len = strcspn(dirs, ",");
        (void)snprintf(path, sizeof path, "%.*s", (int)len, dirs);
        good = add_archive(log, path, error, size);
        dirs += len + (dirs[len] == ',');
    }
    if (log->count)
        qsort(log->files, log->count, sizeof log->files[0], compare_log_files);
    if (good)
        return log;
    archive_log_free(log);
    return NULL;
}

void archive_log_free(struct archive_log *log)
{
    if (!log)
        return;
    for (size_t i = 0; i < log->count; i++)
        free(log->files[i].path);
    free(log->files);
    free(log);
}

size_t archive_log_files(const struct archive_log *log)
{
    return log->count;
}

/* ---- batches ---- */

struct walk {
    const struct archive_log *log;
    archive_record_fn *read;
    void *owner;
    struct archive_reach *reach;
    char *error;
    size_t size;
    const char *path;  /* of the file */
    uint64_t last_sum; /* of the batch before the next one; 0: not known */
};

/* Of a batch that two files have, this one has the other checksum. */
static enum archive_go say_different(const struct walk *walk)
{
    (void)snprintf(walk->error, walk->size,
                   "%s: it has another batch %" PRIu64
                   " than the file before: both are of one log, so one was written for a data "
                   "directory that was put back by other means than --restore",
                   walk->path, walk->reach->next - 1);
    return ARCHIVE_FAIL;
}

/* Has the frame the batch before the next one, as its last one, with another checksum? */
static bool is_different(const struct walk *walk, const struct archive_frame *frame)
{
    return frame->kind == ARCHIVE_RECORDS && walk->last_sum &&
           frame->last + 1 == walk->reach->next && frame->last_sum != walk->last_sum;
}

/* Gives the records of the frame from the next one on. */
static enum archive_go walk_records(struct walk *walk, const struct archive_frame *frame,
                                    struct bytes body)
{
    struct archive_reach *reach = walk->reach;
    struct bytes record;
    for (uint64_t index = frame->first; index <= frame->last; index++) {
        if (!decode_archive_record(&body, &record)) {
            (void)snprintf(reach->damage, sizeof reach->damage, "batch %" PRIu64 " is damaged",
                           index);
            return ARCHIVE_STOP;
        }
        if (index + 1 == reach->next && walk->last_sum && archive_sum(record) != walk->last_sum)
            return say_different(walk);
        if (index < reach->next)
            continue;
        walk->last_sum = 0;
        enum archive_go go = walk->read(walk->owner, index, record, walk->error, walk->size);
        if (go != ARCHIVE_GO_ON)
            return go;
        reach->next = index + 1;
    }
    walk->last_sum = frame->last_sum;
    return ARCHIVE_GO_ON;
}

static enum archive_go walk_frame(struct walk *walk, struct archive_file *file,
                                  const struct archive_frame *frame)
{
    struct archive_reach *reach = walk->reach;
    struct bytes body;
    enum archive_go go = ARCHIVE_GO_ON;
    bool is_new = frame->kind == ARCHIVE_RECORDS && frame->last >= reach->next;
    bool is_time = frame->kind == ARCHIVE_TIME && frame->last + 1 == reach->next;
    if (is_new && walk->read) {
        if (!archive_file_body(file, &body, reach->damage, sizeof reach->damage))
            return ARCHIVE_STOP;
        go = walk_records(walk, frame, body);
    } else if (is_new) {
        reach->next = frame->last + 1;
        walk->last_sum = frame->last_sum;
    }
    if ((is_new || is_time) && go == ARCHIVE_GO_ON && frame->ends_us > reach->until_us)
        reach->until_us = frame->ends_us;
    return go;
}

/* STOP: `read` said so. A damaged file ends early, and the next one may have what is missing. */
static enum archive_go walk_frames(struct walk *walk, struct archive_file *file)
{
    struct archive_reach *reach = walk->reach;
    struct archive_frame frame;
    enum archive_read read;
    while ((read = archive_file_next(file, &frame, reach->damage, sizeof reach->damage)) ==
           ARCHIVE_READ) {
        if (frame.kind == ARCHIVE_RECORDS && frame.first > reach->next)
            return ARCHIVE_GO_ON;
        if (frame.kind == ARCHIVE_END)
            return ARCHIVE_GO_ON;
        if (is_different(walk, &frame))
            return say_different(walk);
        enum archive_go go = walk_frame(walk, file, &frame);
        if (go != ARCHIVE_GO_ON)
            return *reach->damage ? ARCHIVE_GO_ON : go;
    }
    return ARCHIVE_GO_ON;
}

/* A file that grew may have been closed since it was found: it has another name, and the same batches first. */
static struct archive_file *open_closed(const struct log_file *from, char *error, size_t size)
{
    struct disk_list list;
    char dir[PATH_MAX], path[PATH_MAX];
    uint64_t first, last;
    struct archive_file *file = NULL;
    (void)snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(from->path, '/') - from->path),
                   from->path);
    if (!disk_list(&list, dir, error, size))
        return NULL;
    for (size_t i = 0; !file && i < list.count; i++)
        if (archive_file_parse(list.names[i], &first, &last) && first == from->first && last &&
            disk_path(path, dir, list.names[i], error, size))
            file = archive_file_open(path, error, size);
    disk_list_free(&list);
    return file;
}

static struct archive_file *open_log_file(const struct log_file *from, char *error, size_t size)
{
    struct archive_file *file = archive_file_open(from->path, error, size);
    return file || from->last ? file : open_closed(from, error, size);
}

static enum archive_go walk_file(struct walk *walk, const struct log_file *from)
{
    struct archive_reach *reach = walk->reach;
    struct archive_file *file = open_log_file(from, reach->damage, sizeof reach->damage);
    enum archive_go go = ARCHIVE_GO_ON;
    walk->path = from->path;
    if (file && archive_file_head(file)->log_id == walk->log->id)
        go = walk_frames(walk, file);
    else if (file)
        (void)snprintf(reach->damage, sizeof reach->damage, "%s: it belongs to another log",
                       from->path);
    archive_file_free(file);
    if (!from->last)
        *reach->damage = 0; /* a crash may leave a part of a frame in a file that grows */
    return go;
}

/* What lies behind a gap. */
static void note_later(struct archive_reach *reach, const struct log_file *from)
{
    char ignored[64];
    struct archive_frame frame;
    struct archive_file *file = open_log_file(from, ignored, sizeof ignored);
    if (file && archive_file_next(file, &frame, ignored, sizeof ignored) == ARCHIVE_READ) {
        reach->later = from->first;
        reach->later_us = frame.begins_us;
    }
    archive_file_free(file);
}

bool archive_log_walk(const struct archive_log *log, uint64_t from, archive_record_fn *read,
                      void *owner, struct archive_reach *reach, char *error, size_t size)
{
    struct walk walk = {log, read, owner, reach, error, size, NULL, 0};
    *reach = (struct archive_reach){.next = from};
    for (size_t i = 0; i < log->count; i++) {
        const struct log_file *file = &log->files[i];
        if (file->first > reach->next) {
            note_later(reach, file);
            return true;
        }
        if (file->last && file->last + 1 < reach->next)
            continue;
        enum archive_go go = walk_file(&walk, file);
        if (go != ARCHIVE_GO_ON)
            return go == ARCHIVE_STOP;
    }
    return true;
}
