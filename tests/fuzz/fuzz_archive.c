/*
 * fuzz_archive.c - archive_frame.h: any bytes as an archive file. Reading ends, stays within the bytes, and each frame that is taken
 * is written again as the same bytes.
 *
 *   input:  the file; its sums are put right first if the first byte is odd, so that what lies behind them is reached
 */
#include "backend/archive/archive_file.h"
#include "shared/byte_order.h"
#include "shared/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE_MAX_HERE = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/scree-fuzz-XXXXXX";
static char path[64];

static void remove_dir(void)
{
    (void)unlink(path);
    (void)rmdir(dir);
}

/* A head, then frames as long as their headers say. */
static void put_right(char *file, size_t len)
{
    static const char first_line[] = "scree archive 1\n";
    size_t at = ARCHIVE_HEAD_BYTES;
    if (len < at)
        return;
    memcpy(file, first_line, sizeof first_line - 1);
    put_le64(file + 40, archive_sum((struct bytes){file, 40}));
    while (len - at >= ARCHIVE_FRAME_BYTES) {
        char *frame = file + at;
        uint64_t stored = get_le64(frame + 8) % 256, left = len - at - ARCHIVE_FRAME_BYTES;
        stored = stored < left ? stored : left;
        put_le64(frame + 8, stored);
        put_le64(frame + 16, get_le64(frame + 16) % SIZE_MAX_HERE);
        put_le64(frame + 64, archive_sum((struct bytes){frame + ARCHIVE_FRAME_BYTES, stored}));
        put_le64(frame + 72, archive_sum((struct bytes){frame, 72}));
        at += ARCHIVE_FRAME_BYTES + stored;
    }
}

static void check_frame(const char *file, uint64_t end, const struct archive_frame *frame)
{
    char again[ARCHIVE_FRAME_BYTES];
    encode_archive_frame(frame, again);
    CHECK(memcmp(again, file + end - frame->stored - sizeof again, sizeof again) == 0);
}

static void read_all(const char *bytes)
{
    char error[256];
    struct archive_frame frame;
    struct bytes body, record;
    struct archive_file *file = archive_file_open(path, error, sizeof error);
    while (file && archive_file_next(file, &frame, error, sizeof error) == ARCHIVE_READ) {
        check_frame(bytes, archive_file_at(file), &frame);
        if (!archive_file_body(file, &body, error, sizeof error))
            continue;
        while (body.len && decode_archive_record(&body, &record))
            CHECK(record.len <= frame.raw);
    }
    archive_file_free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char file[SIZE_MAX_HERE];
    if (size < 1 || size > sizeof file)
        return 0;
    if (!*path) {
        CHECK(mkdtemp(dir) && atexit(remove_dir) == 0);
        (void)snprintf(path, sizeof path, "%s/file", dir);
    }
    memcpy(file, data + 1, size - 1);
    if (data[0] & 1)
        put_right(file, size - 1);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, file, size - 1) == (ssize_t)(size - 1) && close(fd) == 0);
    read_all(file);
    return 0;
}
