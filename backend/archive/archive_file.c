#include "backend/archive/archive_file.h"

#include "backend/archive/archive_pack.h"
#include "backend/backup/disk_file.h"
#include "shared/check.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* No frame has more; it bounds what a file can make a reader allocate. */
#define FRAME_RAW_MAX ((uint64_t)6 << 30)

struct archive_file {
    char *path;
    int fd;
    uint64_t size;
    uint64_t at; /* of the next frame */
    struct archive_head head;
    struct archive_frame frame; /* the last one that was read */
    char *stored, *raw;         /* of its body */
};

static bool set_damaged(const struct archive_file *file, char *error, size_t size)
{
    (void)snprintf(error, size, "%s: the file is damaged at byte %llu", file->path,
                   (unsigned long long)file->at);
    return false;
}

static bool read_file_head(struct archive_file *file, char *error, size_t size)
{
    char head[ARCHIVE_HEAD_BYTES];
    struct stat found;
    if (fstat(file->fd, &found) != 0)
        return disk_failed(file->path, error, size);
    file->size = (uint64_t)found.st_size;
    if (file->size < sizeof head)
        return set_damaged(file, error, size);
    if (!disk_read_at(file->fd, 0, head, sizeof head))
        return disk_failed(file->path, error, size);
    file->at = sizeof head;
    return decode_archive_head((struct bytes){head, sizeof head}, &file->head) ||
           set_damaged(file, error, size);
}

struct archive_file *archive_file_open(const char *path, char *error, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) {
        (void)disk_failed(path, error, size);
        return NULL;
    }
    struct archive_file *file = calloc(1, sizeof *file);
    CHECK(file);
    file->fd = fd;
    CHECK((file->path = strdup(path)));
    if (read_file_head(file, error, size))
        return file;
    archive_file_free(file);
    return NULL;
}

void archive_file_free(struct archive_file *file)
{
    if (!file)
        return;
    (void)close(file->fd);
    free(file->stored);
    free(file->raw);
    free(file->path);
    free(file);
}

const struct archive_head *archive_file_head(const struct archive_file *file)
{
    return &file->head;
}

uint64_t archive_file_at(const struct archive_file *file)
{
    return file->at;
}

enum archive_read archive_file_next(struct archive_file *file, struct archive_frame *frame,
                                    char *error, size_t size)
{
    char header[ARCHIVE_FRAME_BYTES];
    if (file->size - file->at < sizeof header)
        return ARCHIVE_READ_END;
    if (!disk_read_at(file->fd, file->at, header, sizeof header)) {
        (void)disk_failed(file->path, error, size);
        return ARCHIVE_READ_BAD;
    }
    if (!decode_archive_frame((struct bytes){header, sizeof header}, frame) ||
        frame->raw > FRAME_RAW_MAX) {
        (void)set_damaged(file, error, size);
        return ARCHIVE_READ_BAD;
    }
    if (frame->stored > file->size - file->at - sizeof header)
        return ARCHIVE_READ_END;
    file->frame = *frame;
    file->at += sizeof header + frame->stored;
    return ARCHIVE_READ;
}

static char *renew_buffer(char **buffer, uint64_t len)
{
    free(*buffer);
    *buffer = malloc(len ? len : 1);
    CHECK(*buffer);
    return *buffer;
}

bool archive_file_body(struct archive_file *file, struct bytes *body, char *error, size_t size)
{
    const struct archive_frame *frame = &file->frame;
    char *stored = renew_buffer(&file->stored, frame->stored);
    if (!disk_read_at(file->fd, file->at - frame->stored, stored, frame->stored))
        return disk_failed(file->path, error, size);
    *body = (struct bytes){stored, frame->stored};
    if (archive_sum(*body) != frame->body_sum)
        return set_damaged(file, error, size);
    if (!frame->is_packed)
        return true;
    char *raw = renew_buffer(&file->raw, frame->raw);
    if (!archive_unpack(*body, raw, frame->raw))
        return set_damaged(file, error, size);
    *body = (struct bytes){raw, frame->raw};
    return true;
}
