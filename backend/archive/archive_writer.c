#include "backend/archive/archive_writer.h"

#include "backend/archive/archive_file.h"
#include "backend/archive/archive_pack.h"
#include "backend/backup/disk_file.h"
#include "backend/format/effects.h"
#include "shared/check.h"
#include "shared/path.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

/* A frame with so many bytes is written; one big record makes it longer. */
enum { FRAME_BYTES = 1 << 20 };

struct archive_writer {
    char *dir;
    int lock;
    struct archive_head head;
    int fd;                     /* of the file that grows; -1: there is none */
    uint64_t bytes;             /* of this file */
    bool is_dirty;              /* it was written since the last sync */
    struct archive_frame open;  /* the frame that is being filled; count 0: it is empty */
    struct archive_frame whole; /* of all RECORDS of the file; first 0: there are none */
    char *raw;                  /* body of the open frame */
    size_t raw_room;
    struct archive_packer *packer;
    char *packed;
    size_t packed_room;
    uint64_t last, last_sum, time_us;
};

/* ---- names ---- */

void archive_file_name(char name[ARCHIVE_NAME_MAX], uint64_t first, uint64_t last)
{
    if (last)
        (void)snprintf(name, ARCHIVE_NAME_MAX, "%020" PRIu64 "-%020" PRIu64 ".log", first, last);
    else
        (void)snprintf(name, ARCHIVE_NAME_MAX, "%020" PRIu64 ".part", first);
}

bool archive_file_parse(const char *name, uint64_t *first, uint64_t *last)
{
    char again[ARCHIVE_NAME_MAX];
    char *end;
    errno = 0;
    *first = strtoull(name, &end, 10);
    *last = *end == '-' ? strtoull(end + 1, NULL, 10) : 0;
    archive_file_name(again, *first, *last);
    return errno == 0 && *first && strcmp(name, again) == 0;
}

static bool file_path(const struct archive_writer *writer, uint64_t first, uint64_t last,
                      char path[PATH_MAX], char *error, size_t size)
{
    char name[ARCHIVE_NAME_MAX];
    archive_file_name(name, first, last);
    return disk_path(path, writer->dir, name, error, size);
}

/* ---- what is there already ---- */

static void note_frame(struct archive_writer *writer, const struct archive_frame *frame)
{
    if (frame->kind != ARCHIVE_TIME && frame->last >= writer->last) {
        writer->last = frame->last;
        writer->last_sum = frame->last_sum;
    }
    if (frame->ends_us > writer->time_us)
        writer->time_us = frame->ends_us;
}

/* All RECORDS of a file in one frame. */
static void add_to_whole(struct archive_frame *whole, const struct archive_frame *frame)
{
    if (!whole->first) {
        whole->first = frame->first;
        whole->begins_us = frame->begins_us;
    }
    whole->last = frame->last;
    whole->ends_us = frame->ends_us;
    whole->last_sum = frame->last_sum;
}

/* Reads the frames, up to the last one that is whole; *end is the offset after it. */
static void read_frames(struct archive_writer *writer, struct archive_file *file,
                        struct archive_frame *whole, uint64_t *end)
{
    char ignored[256];
    struct archive_frame frame;
    struct bytes body;
    *end = archive_file_at(file);
    while (archive_file_next(file, &frame, ignored, sizeof ignored) == ARCHIVE_READ &&
           (frame.kind != ARCHIVE_RECORDS ||
            archive_file_body(file, &body, ignored, sizeof ignored))) {
        note_frame(writer, &frame);
        if (frame.kind == ARCHIVE_RECORDS)
            add_to_whole(whole, &frame);
        *end = archive_file_at(file);
        if (frame.kind == ARCHIVE_END)
            break;
    }
}

static bool append_to_file(struct archive_writer *writer, const char *from, size_t len, char *error,
                           size_t size)
{
    writer->is_dirty = true;
    writer->bytes += len;
    return disk_append(writer->fd, from, len) || disk_failed(writer->dir, error, size);
}

static bool append_frame(struct archive_writer *writer, struct archive_frame *frame,
                         struct bytes body, char *error, size_t size)
{
    char header[ARCHIVE_FRAME_BYTES];
    frame->stored = body.len;
    frame->body_sum = archive_sum(body);
    encode_archive_frame(frame, header);
    return append_to_file(writer, header, sizeof header, error, size) &&
           append_to_file(writer, body.data, body.len, error, size);
}

static bool sync_file(struct archive_writer *writer, char *error, size_t size)
{
    if (writer->fd >= 0 && writer->is_dirty && fdatasync(writer->fd) != 0)
        return disk_failed(writer->dir, error, size);
    writer->is_dirty = false;
    return true;
}

/* Gives the file its last frame and its last name. */
static bool end_file(struct archive_writer *writer, char *error, size_t size)
{
    char from[PATH_MAX], to[PATH_MAX];
    struct archive_frame end = writer->whole;
    end.kind = ARCHIVE_END;
    if (!append_frame(writer, &end, BYTES(""), error, size) || !sync_file(writer, error, size) ||
        !file_path(writer, end.first, 0, from, error, size) ||
        !file_path(writer, end.first, end.last, to, error, size))
        return false;
    (void)close(writer->fd);
    writer->fd = -1;
    if (path_exists(to)) {
        errno = EEXIST; /* a closed file is never replaced */
        return disk_failed(to, error, size);
    }
    return (rename(from, to) == 0 && path_sync(writer->dir)) || disk_failed(from, error, size);
}

/* Cuts a file that was left open after its last whole frame, and closes it; one without batches is removed. */
static bool repair_part(struct archive_writer *writer, const char *path, char *error, size_t size)
{
    uint64_t end = 0;
    struct archive_file *file = archive_file_open(path, error, size);
    writer->whole = (struct archive_frame){0};
    if (file)
        read_frames(writer, file, &writer->whole, &end);
    archive_file_free(file);
    if (!writer->whole.first)
        return unlink(path) == 0 || disk_failed(path, error, size);
    writer->fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    if (writer->fd < 0 || ftruncate(writer->fd, (off_t)end) != 0)
        return disk_failed(path, error, size);
    return end_file(writer, error, size);
}

/* The newest closed file tells the last batch. */
static bool read_newest_file(struct archive_writer *writer, const char *path, char *error,
                             size_t size)
{
    uint64_t end;
    struct archive_frame whole = {0};
    struct archive_file *file = archive_file_open(path, error, size);
    if (!file)
        return false;
    read_frames(writer, file, &whole, &end);
    archive_file_free(file);
    return true;
}

static bool look_at_files(struct archive_writer *writer, const struct disk_list *list, char *error,
                          size_t size)
{
    char path[PATH_MAX];
    uint64_t first, last, newest_first = 0, newest = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (!archive_file_parse(list->names[i], &first, &last))
            continue;
        if (last > newest) {
            newest = last;
            newest_first = first;
        }
        if (!last && (!file_path(writer, first, 0, path, error, size) ||
                      !repair_part(writer, path, error, size)))
            return false;
    }
    return newest <= writer->last || (file_path(writer, newest_first, newest, path, error, size) &&
                                      read_newest_file(writer, path, error, size));
}

static bool lock_log(struct archive_writer *writer, char *error, size_t size)
{
    char path[PATH_MAX];
    if (!disk_path(path, writer->dir, ".lock", error, size))
        return false;
    writer->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (writer->lock < 0)
        return disk_failed(path, error, size);
    if (flock(writer->lock, LOCK_EX | LOCK_NB) == 0)
        return true;
    (void)snprintf(error, size, "%s: another process archives this log here", writer->dir);
    return false;
}

struct archive_writer *archive_writer_new(const char *dir, uint64_t log_id, uint64_t data_format,
                                          char *error, size_t size)
{
    struct archive_writer *writer = calloc(1, sizeof *writer);
    struct disk_list list = {0};
    CHECK(writer);
    CHECK((writer->dir = strdup(dir)));
    writer->head = (struct archive_head){.log_id = log_id, .data_format = data_format};
    writer->fd = writer->lock = -1;
    writer->packer = archive_packer_new();
    bool good = path_make(dir, error, size) && lock_log(writer, error, size) &&
                disk_list(&list, dir, error, size) && look_at_files(writer, &list, error, size);
    disk_list_free(&list);
    writer->whole = (struct archive_frame){0};
    if (good)
        return writer;
    archive_writer_free(writer);
    return NULL;
}

void archive_writer_free(struct archive_writer *writer)
{
    if (!writer)
        return;
    if (writer->fd >= 0)
        (void)close(writer->fd);
    if (writer->lock >= 0)
        (void)close(writer->lock);
    free(writer->raw);
    free(writer->packed);
    archive_packer_free(writer->packer);
    free(writer->dir);
    free(writer);
}

bool archive_writer_is_in(const struct archive_writer *writer, const char *dir)
{
    return strcmp(writer->dir, dir) == 0;
}

uint64_t archive_writer_last(const struct archive_writer *writer)
{
    return writer->last;
}

uint64_t archive_writer_last_sum(const struct archive_writer *writer)
{
    return writer->last_sum;
}

uint64_t archive_writer_time_us(const struct archive_writer *writer)
{
    return writer->time_us;
}

uint64_t archive_writer_bytes(const struct archive_writer *writer)
{
    return writer->fd < 0 ? 0 : writer->bytes;
}

/* ---- writing ---- */

static bool begin_archive_file(struct archive_writer *writer, uint64_t first, char *error,
                               size_t size)
{
    char path[PATH_MAX], head[ARCHIVE_HEAD_BYTES];
    if (!file_path(writer, first, 0, path, error, size))
        return false;
    writer->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (writer->fd < 0)
        return disk_failed(path, error, size);
    writer->bytes = 0;
    writer->whole = (struct archive_frame){0};
    writer->head.first = first;
    encode_archive_head(&writer->head, head);
    return append_to_file(writer, head, sizeof head, error, size) &&
           (path_sync(writer->dir) || disk_failed(writer->dir, error, size));
}

static void grow_buffer(char **buffer, size_t *room, size_t len)
{
    if (*room >= len)
        return;
    *room = len > 2 * *room ? len : 2 * *room;
    *buffer = realloc(*buffer, *room);
    CHECK(*buffer);
}

/* Writes the open frame, compressed if that makes it shorter. */
static bool flush_frame(struct archive_writer *writer, char *error, size_t size)
{
    struct archive_frame *frame = &writer->open;
    struct bytes body = {writer->raw, frame->raw};
    if (!frame->count)
        return true;
    grow_buffer(&writer->packed, &writer->packed_room, body.len);
    size_t packed = archive_pack(writer->packer, body, writer->packed, body.len);
    frame->is_packed = packed > 0;
    if (packed)
        body = (struct bytes){writer->packed, packed};
    if (!append_frame(writer, frame, body, error, size))
        return false;
    add_to_whole(&writer->whole, frame);
    *frame = (struct archive_frame){0};
    return true;
}

/* The time of a batch; one of an older program has that of the batch before. */
static uint64_t batch_time(const struct archive_writer *writer, struct bytes record)
{
    struct effects_header header;
    struct effects_reader reader;
    bool has_time = effects_open(record, &header, &reader) == EFFECTS_READ && header.hybrid;
    return has_time ? header.hybrid : writer->open.count ? writer->open.ends_us : writer->time_us;
}

static void add_record(struct archive_writer *writer, uint64_t index, struct bytes record)
{
    struct archive_frame *frame = &writer->open;
    uint64_t time_us = batch_time(writer, record);
    size_t len = ARCHIVE_RECORD_BYTES + record.len;
    if (!frame->count)
        *frame = (struct archive_frame){
            .kind = ARCHIVE_RECORDS, .first = index, .begins_us = time_us, .ends_us = time_us};
    grow_buffer(&writer->raw, &writer->raw_room, frame->raw + len);
    frame->last_sum = encode_archive_record(record, writer->raw + frame->raw);
    memcpy(writer->raw + frame->raw + ARCHIVE_RECORD_BYTES, record.data, record.len);
    frame->raw += len;
    frame->count++;
    frame->last = index;
    if (time_us > frame->ends_us)
        frame->ends_us = time_us;
    writer->last = index;
    writer->last_sum = frame->last_sum;
}

bool archive_writer_begin(struct archive_writer *writer, uint64_t next, char *error, size_t size)
{
    if (next == writer->last + 1)
        return true;
    if (!archive_writer_close(writer, error, size))
        return false;
    writer->last = next - 1;
    writer->last_sum = 0;
    return true;
}

bool archive_writer_add(struct archive_writer *writer, uint64_t index, struct bytes record,
                        char *error, size_t size)
{
    CHECK(index == writer->last + 1);
    if (writer->fd < 0 && !begin_archive_file(writer, index, error, size))
        return false;
    add_record(writer, index, record);
    return writer->open.raw < FRAME_BYTES || flush_frame(writer, error, size);
}

static bool write_time(struct archive_writer *writer, uint64_t time_us, char *error, size_t size)
{
    struct archive_frame time = {.kind = ARCHIVE_TIME,
                                 .first = writer->last,
                                 .last = writer->last,
                                 .begins_us = time_us,
                                 .ends_us = time_us,
                                 .last_sum = writer->last_sum};
    return (writer->fd >= 0 || begin_archive_file(writer, writer->last + 1, error, size)) &&
           append_frame(writer, &time, BYTES(""), error, size);
}

bool archive_writer_sync(struct archive_writer *writer, uint64_t time_us, char *error, size_t size)
{
    uint64_t known_us =
        writer->open.ends_us > writer->time_us ? writer->open.ends_us : writer->time_us;
    if (!flush_frame(writer, error, size) ||
        (time_us > known_us && !write_time(writer, time_us, error, size)) ||
        !sync_file(writer, error, size))
        return false;
    known_us = known_us > writer->whole.ends_us ? known_us : writer->whole.ends_us;
    writer->time_us = time_us > known_us ? time_us : known_us;
    return true;
}

/* A file with times only. */
static bool remove_open_file(struct archive_writer *writer, char *error, size_t size)
{
    char path[PATH_MAX];
    (void)close(writer->fd);
    writer->fd = -1;
    writer->is_dirty = false;
    return file_path(writer, writer->head.first, 0, path, error, size) &&
           (unlink(path) == 0 || disk_failed(path, error, size));
}

bool archive_writer_close(struct archive_writer *writer, char *error, size_t size)
{
    if (writer->fd < 0)
        return true;
    if (!flush_frame(writer, error, size))
        return false;
    return writer->whole.first ? end_file(writer, error, size)
                               : remove_open_file(writer, error, size);
}
