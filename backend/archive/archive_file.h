/*
 * archive_file.h - reads an archive file frame by frame (archive_frame.h).
 */
#pragma once

#include "backend/format/archive_frame.h"

struct archive_file;

/* NULL and a one-line reason in error[size]: it cannot be read, or is no archive file. */
struct archive_file *archive_file_open(const char *path, char *error, size_t size);
void archive_file_free(struct archive_file *file); /* NULL is allowed */
const struct archive_head *archive_file_head(const struct archive_file *file);

enum archive_read {
    ARCHIVE_READ,
    ARCHIVE_READ_END, /* the file ends here, or has only a part of a frame */
    ARCHIVE_READ_BAD, /* a reason is in error[size] */
};

/* The next frame; its body is skipped unless archive_file_body reads it. */
enum archive_read archive_file_next(struct archive_file *file, struct archive_frame *frame,
                                    char *error, size_t size);
/* The unpacked body of the frame that was read last, borrowed until the next call. False: it is damaged, or not whole. */
bool archive_file_body(struct archive_file *file, struct bytes *body, char *error, size_t size);
/* The offset after the last frame that was read. */
uint64_t archive_file_at(const struct archive_file *file);
