/*
 * rdb_input.h - reads an RDB file, standard input or a directory of Kvrocks, and yields its items (format/rdb_file.h).
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

enum { INPUT_ERROR_MAX = 1024 };

enum input_result { INPUT_ITEM, INPUT_END, INPUT_BAD };

struct kvrocks;

struct rdb_input {
    int fd;
    struct kvrocks *kvrocks; /* NULL: the bytes come from fd */
    const char *path;        /* "-": standard input */
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
void rdb_input_close(struct rdb_input *input);
/* The item, and what it borrows, is valid until the next call. */
enum input_result rdb_input_next(struct rdb_input *input, struct rdb_item *item);
