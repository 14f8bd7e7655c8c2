#include "backend/wal/wal_segment.h"

#include "backend/wal/wal.h"
#include "shared/byte_order.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/path.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

enum {
    INDEX_DIGITS = 20,
    READ_BYTES = 1 << 20,
    RESERVE_BYTES = 4 << 20,
    ZERO_BYTES = 256 << 10,
    LENGTH_AT = 0,
    CHECKSUM_AT = 4,
    INDEX_AT = 12,
    DURABLE_AT = 20,
    HEADER_BYTES = 28,
    LATER_TRIES = 16, /* false candidates after which the search for records ends */
};

static const char suffix[] = ".batches";
static const char suffix_new[] = ".batches.new";
static const char suffix_kept[] = ".kept";
static const char first_line[] = "scree batches 2\n";
enum { LINE_BYTES = sizeof first_line - 1, FORMAT_AT = LINE_BYTES - 2 };

uint64_t wal_bytes_at(const char *path)
{
    return path_bytes(path, suffix);
}

int wal_segment_failure(const char *path, char *error, size_t size)
{
    int cause = errno;
    (void)snprintf(error, size, "%s: %s", path, strerror(cause));
    return cause == ENOSPC || cause == EDQUOT ? ERR_DISK_FULL : ERR_STORE;
}

/* ---- names ---- */

static void make_path(char *path, const char *dir, uint64_t first, const char *end)
{
    int len = snprintf(path, PATH_MAX, "%s/%0*" PRIu64 "%s", dir, INDEX_DIGITS, first, end);
    CHECK(len > 0 && len < PATH_MAX);
}

void wal_segment_path(char *path, const char *dir, uint64_t first)
{
    make_path(path, dir, first, suffix);
}

void wal_segment_kept_path(char *path, const char *dir, uint64_t first)
{
    make_path(path, dir, first, suffix_kept);
}

/* Reads the digits; NULL: there are fewer, or no batch has this index. */
static const char *read_first_index(const char *name, uint64_t *first)
{
    uint64_t number = 0;
    for (int i = 0; i < INDEX_DIGITS; i++) {
        if (!isdigit((unsigned char)name[i]) || number > INT64_MAX / 10 - 1)
            return NULL;
        number = number * 10 + (uint64_t)(name[i] - '0');
    }
    *first = number;
    return number ? name + INDEX_DIGITS : NULL;
}

bool wal_segment_kept_name(const char *name, uint64_t *first)
{
    const char *rest = read_first_index(name, first);
    return rest && strcmp(rest, suffix_kept) == 0;
}

bool wal_segment_name(const char *name, uint64_t *first, bool *is_new)
{
    const char *rest = read_first_index(name, first);
    *is_new = rest && strcmp(rest, suffix_new) == 0;
    return *is_new || (rest && strcmp(rest, suffix) == 0);
}

bool wal_segment_format_known(int fd)
{
    char line[LINE_BYTES];
    if (pread(fd, line, LINE_BYTES, 0) != LINE_BYTES || line[LINE_BYTES - 1] != '\n')
        return true;
    return memcmp(line, first_line, FORMAT_AT) != 0 || line[FORMAT_AT] <= first_line[FORMAT_AT];
}

/* ---- write ---- */

struct wal_segment *wal_segment_new(uint64_t first)
{
    struct wal_segment *file = calloc(1, sizeof *file);
    CHECK(file);
    CHECK(first > 0);
    static _Atomic uint64_t serials; /* number of serials so far */
    *file = (struct wal_segment){.first = first, .last = first - 1, .written = first - 1, .fd = -1};
    file->serial = ++serials;
    list_init(&file->node);
    return file;
}

void wal_segment_close(struct wal_segment *file)
{
    if (file->fd >= 0)
        (void)close(file->fd);
    file->fd = -1;
}

void wal_segment_free(struct wal_segment *file)
{
    wal_segment_close(file);
    free(file);
}

static bool pwrite_fully(int fd, struct iovec *part, int count, uint64_t at)
{
    while (count) {
        ssize_t put = pwritev(fd, part, count, (off_t)at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put == 0)
            errno = EIO;
        if (put <= 0)
            return false;
        at += (uint64_t)put;
        for (; count && (size_t)put >= part->iov_len; part++, count--)
            put -= (ssize_t)part->iov_len;
        if (count) {
            part->iov_base = (char *)part->iov_base + put;
            part->iov_len -= (size_t)put;
        }
    }
    return true;
}

int wal_segment_make(struct wal_segment *file, const char *dir, char *error, size_t size)
{
    char path[PATH_MAX];
    make_path(path, dir, file->first, suffix_new);
    CHECK(file->fd < 0);
    if (unlink(path) != 0 && errno != ENOENT)
        return wal_segment_failure(path, error, size);
    file->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    struct iovec line = {(char *)(uintptr_t)first_line, LINE_BYTES};
    if (file->fd < 0 || !pwrite_fully(file->fd, &line, 1, 0)) {
        int failure = wal_segment_failure(path, error, size);
        wal_segment_discard(file, dir);
        return failure;
    }
    file->bytes = file->end = LINE_BYTES;
    return OK;
}

bool wal_segment_make_of(struct wal_segment *file, const char *dir, const char *name)
{
    char from[PATH_MAX], to[PATH_MAX];
    struct iovec line = {(char *)(uintptr_t)first_line, LINE_BYTES};
    make_path(to, dir, file->first, suffix_new);
    int len = snprintf(from, sizeof from, "%s/%s", dir, name);
    CHECK(len > 0 && len < PATH_MAX && file->fd < 0);
    if (rename(from, to) != 0)
        return false;
    file->fd = open(to, O_RDWR | O_CLOEXEC);
    if (file->fd < 0 || !pwrite_fully(file->fd, &line, 1, 0)) {
        wal_segment_discard(file, dir);
        return false;
    }
    file->bytes = file->end = LINE_BYTES;
    return true;
}

int wal_segment_publish(struct wal_segment *file, const char *dir, char *error, size_t size)
{
    char from[PATH_MAX], to[PATH_MAX];
    make_path(from, dir, file->first, suffix_new);
    make_path(to, dir, file->first, suffix);
    if (rename(from, to) == 0)
        return OK;
    int failure = wal_segment_failure(to, error, size);
    wal_segment_discard(file, dir);
    return failure;
}

void wal_segment_discard(struct wal_segment *file, const char *dir)
{
    char path[PATH_MAX];
    make_path(path, dir, file->first, suffix_new);
    (void)unlink(path);
}

bool wal_segment_allocate(int fd, uint64_t bytes)
{
    return fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) == 0;
}

void wal_segment_reserve(struct wal_segment *file, size_t batch_len, uint64_t limit)
{
    uint64_t end = file->end + HEADER_BYTES + batch_len;
    if (end <= file->reserved)
        return;
    file->reserved = end + RESERVE_BYTES < limit ? end + RESERVE_BYTES : limit;
    if (file->reserved > end)
        (void)!fallocate(file->fd, FALLOC_FL_KEEP_SIZE, (off_t)file->end,
                         (off_t)(file->reserved - file->end));
}

void wal_segment_zero_ahead(struct wal_segment *file, uint64_t limit)
{
    static char zeros[ZERO_BYTES]; /* never written, so it takes no memory */
    uint64_t end = file->end;
    if (end <= file->zeroed || end >= limit || end - file->bytes > ZERO_BYTES + HEADER_BYTES)
        return;
    size_t len = limit - end < ZERO_BYTES ? (size_t)(limit - end) : ZERO_BYTES;
    struct iovec part = {zeros, len};
    file->zeroed = end + len;
    (void)pwrite_fully(file->fd, &part, 1, end);
}

static uint64_t checksum(uint64_t index, uint64_t durable, struct bytes batch)
{
    char head[20];
    put_le32(head, (uint32_t)batch.len);
    put_le64(head + 4, index);
    put_le64(head + 12, durable);
    return XXH3_64bits_withSeed(batch.data, batch.len, XXH3_64bits(head, sizeof head));
}

bool wal_segment_write(struct wal_segment *file, uint64_t index, uint64_t durable,
                       struct bytes batch)
{
    char header[HEADER_BYTES];
    CHECK(index == file->written + 1);
    CHECK(batch.len <= BATCH_BYTES_MAX);
    put_le32(header + LENGTH_AT, (uint32_t)batch.len);
    put_le64(header + CHECKSUM_AT, checksum(index, durable, batch));
    put_le64(header + INDEX_AT, index);
    put_le64(header + DURABLE_AT, durable);
    struct iovec parts[2] = {{header, HEADER_BYTES}, {(char *)(uintptr_t)batch.data, batch.len}};
    if (!pwrite_fully(file->fd, parts, 2, file->end))
        return false;
    file->written++;
    file->end += HEADER_BYTES + batch.len;
    return true;
}

uint64_t wal_segment_show(struct wal_segment *file)
{
    uint64_t bytes = file->end - file->bytes;
    file->last = file->written;
    file->bytes = file->end;
    return bytes;
}

void wal_segment_truncate(struct wal_segment *file)
{
    file->written = file->last;
    file->end = file->bytes;
    (void)!ftruncate(file->fd, (off_t)file->bytes);
    file->reserved = file->zeroed = 0;
    if (file->spare_bytes)
        (void)wal_segment_allocate(file->fd, file->spare_bytes);
}

/* ---- read ---- */

void wal_reader_init(struct wal_reader *reader)
{
    *reader = (struct wal_reader){.fd = -1};
}

void wal_reader_fini(struct wal_reader *reader)
{
    free(reader->buf);
}

void wal_reader_begin(struct wal_reader *reader, int fd, uint64_t limit)
{
    reader->fd = fd;
    reader->at = LINE_BYTES;
    reader->limit = limit;
    reader->begin = reader->end = 0;
}

/* Bytes after the old limit that were already read may have been overwritten. */
void wal_reader_extend(struct wal_reader *reader, uint64_t limit)
{
    if (reader->limit == limit)
        return;
    reader->limit = limit;
    reader->begin = reader->end = 0;
}

/* Reads until `len` bytes are in memory, unless the file has become shorter. */
static enum wal_read fill(struct wal_reader *reader, size_t len)
{
    size_t has = reader->end - reader->begin;
    if (has >= len)
        return WAL_READ;
    if (has)
        memmove(reader->buf, reader->buf + reader->begin, has);
    reader->begin = 0;
    reader->end = has;
    uint64_t left = reader->limit - reader->at;
    size_t room = left < READ_BYTES ? (size_t)left : READ_BYTES;
    if (room < len)
        room = len;
    if (reader->room < room) {
        reader->room = room;
        reader->buf = realloc(reader->buf, reader->room);
        CHECK(reader->buf);
    }
    while (reader->end < len) {
        ssize_t got = pread(reader->fd, reader->buf + reader->end, reader->room - reader->end,
                            (off_t)(reader->at + reader->end));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? WAL_READ_FAILED : WAL_READ_END;
        reader->end += (size_t)got;
    }
    return WAL_READ;
}

enum wal_read wal_reader_next(struct wal_reader *reader, uint64_t index, struct bytes *batch)
{
    if (reader->limit < HEADER_BYTES || reader->at > reader->limit - HEADER_BYTES)
        return WAL_READ_END;
    enum wal_read result = fill(reader, HEADER_BYTES);
    if (result != WAL_READ)
        return result;
    const char *header = reader->buf + reader->begin;
    size_t len = get_le32(header + LENGTH_AT);
    uint64_t left = reader->limit - reader->at - HEADER_BYTES;
    if (len > BATCH_BYTES_MAX || len > left || get_le64(header + INDEX_AT) != index)
        return WAL_READ_END;
    result = fill(reader, HEADER_BYTES + len);
    if (result != WAL_READ)
        return result;
    header = reader->buf + reader->begin;
    *batch = (struct bytes){header + HEADER_BYTES, len};
    reader->durable = get_le64(header + DURABLE_AT);
    if (get_le64(header + CHECKSUM_AT) != checksum(index, reader->durable, *batch))
        return WAL_READ_END;
    reader->begin += HEADER_BYTES + len;
    reader->at += HEADER_BYTES + len;
    return WAL_READ;
}

void wal_reader_later(struct wal_reader *reader, uint64_t index, struct wal_later *later)
{
    struct bytes batch;
    uint64_t end = index + reader->limit / HEADER_BYTES + 1;
    int tries = 0;
    *later = (struct wal_later){0};
    for (; reader->at + HEADER_BYTES <= reader->limit; reader->at++, reader->begin++) {
        if (fill(reader, HEADER_BYTES) != WAL_READ)
            return;
        uint64_t found = get_le64(reader->buf + reader->begin + INDEX_AT);
        if (found <= index || found >= end)
            continue;
        if (wal_reader_next(reader, found, &batch) == WAL_READ) {
            later->first = later->first ? later->first : found;
            if (reader->durable > index && !later->was_durable)
                later->was_durable = found;
            later->count++;
            later->end = reader->at;
            reader->at--; /* the next record begins at the end of this one */
            reader->begin--;
        } else if (tries++ == LATER_TRIES) {
            return;
        }
    }
}
