/*
 * rdb_output.h - writes an RDB file. It has its name only when it is whole.
 *
 *   rdb_writer ─► FILE.part, with a checksum of all bytes ─► end, checksum, sync ─► FILE, sync of the directory
 *                   └─► an error: it is removed
 */
#pragma once

#include "backend/format/rdb.h"

#include <limits.h>

enum { OUTPUT_ERROR_MAX = PATH_MAX + 256 };

struct rdb_output {
    const char *path;
    char part[PATH_MAX];
    int fd; /* -1: it is not open */
    uint64_t crc;
    uint64_t size;
    struct arena arena;
    struct rdb_writer writer;     /* bytes that wait to be written */
    char error[OUTPUT_ERROR_MAX]; /* a sentence */
};

/* Makes FILE.part, locks it until the end, and writes the header to the writer. What other tools must not touch while this one runs is safe from
 * here on. False: `error` says why. */
bool rdb_output_open(struct rdb_output *output, const char *path, uint64_t version);
/* Writes what the writer has, once it is much. To be called after each item. */
bool rdb_output_go_on(struct rdb_output *output);
/* Ends the file and gives it its name, durably. A file that has the name is kept and is an error, unless `replaces`. */
bool rdb_output_end(struct rdb_output *output, bool replaces);
/* Removes what is not whole. */
void rdb_output_close(struct rdb_output *output);

/* Write items. `expire_ms` 0: the key does not expire. */
void rdb_output_aux(struct rdb_output *output, const char *name, struct bytes value);
void rdb_output_function(struct rdb_output *output, struct bytes code);
void rdb_output_database(struct rdb_output *output, uint64_t db);
void rdb_output_sizes(struct rdb_output *output, uint64_t keys, uint64_t expires);
/* What stands before a value. */
void rdb_output_key(struct rdb_output *output, uint64_t expire_ms, uint8_t type, struct bytes key);
