/*
 * rdb_input.h - reads an RDB file, standard input, or what is read as one, and yields its items (format/rdb_file.h).
 *
 *   file ─ read ─► buffer [ consumed │ item │ item │ ite… ] ─ rdb_file_next ─► item
 *                                     └─ checksum of the consumed bytes ─┘
 *
 * The buffer grows only as far as bytes have arrived, so a damaged length costs no memory. A file that is too short for a length is
 * refused at once. Behind the end nothing may follow: an append-only file would, and its commands would be lost.
 */
#pragma once

#include "backend/copy/options.h"
#include "backend/format/rdb_file.h"

#include <sys/types.h>

enum { INPUT_ERROR_MAX = 1024 };

enum input_result { INPUT_ITEM, INPUT_END, INPUT_BAD };

/* What is read as if it were an RDB file: a directory of Kvrocks (kvrocks.h), a backup (backup_rdb.h). */
struct input_bytes {
    ssize_t (*read)(void *owner, char *to, size_t size); /* as read(2) */
    const char *(*error)(const void *owner);             /* why it has failed */
    void (*close)(void *owner);                          /* NULL: the owner goes on */
};

struct rdb_input {
    int fd;
    const struct input_bytes *bytes; /* NULL: they come from fd */
    void *owner;
    const char *path; /* "-": standard input */
    char *buffer;
    size_t start; /* of the bytes that are not consumed */
    size_t end;
    size_t cap;
    size_t item_size; /* of the last item, which the next call consumes */
    bool is_at_end;   /* the file has no more bytes */
    uint64_t offset;  /* in the file, of buffer[start] */
    uint64_t size;    /* of the file; 0: not known */
    uint64_t crc;
    struct arena arena;
    struct rdb_file file;
    char error[INPUT_ERROR_MAX]; /* after INPUT_BAD: a sentence with the path and the offset */
};

/* False: error says why. */
bool rdb_input_open(struct rdb_input *input, const char *path, size_t part_max);
/* Opens the file or the directory of Kvrocks (kvrocks.h) that is to be copied. */
bool rdb_input_open_source(struct rdb_input *input, const struct copy_options *options,
                           size_t part_max);
/* Reads from these; `path` is their name for errors. */
void rdb_input_open_bytes(struct rdb_input *input, const char *path,
                          const struct input_bytes *bytes, void *owner, size_t part_max);
void rdb_input_close(struct rdb_input *input);
/* The item, and what it borrows, is valid until the next call. */
enum input_result rdb_input_next(struct rdb_input *input, struct rdb_item *item);
