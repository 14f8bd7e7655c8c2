/*
 * archive_writer.h - writes the archive files of one log.
 *
 *   <archive-dir>/<shard>/<log id>/00000000000000000001-00000000000000081234.log     closed: never changes again
 *                                  00000000000000081235.part                         grows; its whole frames count
 *                                  .lock                                             held by the process that writes
 *
 * While a log rests, the file that grows only gets times, up to which there is nothing to copy.
 * A file that an earlier process left open is cut after its last whole frame, and closed. Names of closed files tell which
 * batches they have, so a tool may copy them one by one, in any order, while the archive grows.
 *
 * All functions block; false and a one-line reason in error[size]: the writer must be freed, and a new one repairs the end of the file.
 */
#pragma once

#include "backend/format/archive_frame.h"

struct archive_writer;

/* The name of a closed file, or (last 0) of one that grows. */
enum { ARCHIVE_NAME_MAX = 64 };
void archive_file_name(char name[ARCHIVE_NAME_MAX], uint64_t first, uint64_t last);
/* False: it is no such name. *last is 0 for a file that grows. */
bool archive_file_parse(const char *name, uint64_t *first, uint64_t *last);

/* Opens the directory of the log for writing, and makes it if it does not exist. NULL and a reason in error[size]: it cannot be written, or
 * another process holds its lock. */
struct archive_writer *archive_writer_new(const char *dir, uint64_t log_id, uint64_t data_format,
                                          char *error, size_t size);
/* Without closing the file. NULL is allowed. */
void archive_writer_free(struct archive_writer *writer);
/* Is it the writer of this directory? */
bool archive_writer_is_in(const struct archive_writer *writer, const char *dir);
/* Index of the newest batch in the archive; 0: it has none. */
uint64_t archive_writer_last(const struct archive_writer *writer);
/* Its checksum. */
uint64_t archive_writer_last_sum(const struct archive_writer *writer);
/* The latest time of a TIME frame or a batch. */
uint64_t archive_writer_time_us(const struct archive_writer *writer);
/* The next batch has this index. Unless it follows the last one, a new file begins, and what lies between is a gap. */
bool archive_writer_begin(struct archive_writer *writer, uint64_t next, char *error, size_t size);
/* Adds the batch with this index, the one after the last. It may be lost by a power failure until archive_writer_sync has returned. */
bool archive_writer_add(struct archive_writer *writer, uint64_t index, struct bytes record,
                        char *error, size_t size);
/* Makes durable what was added, and that the log has no later batch with a time up to this one (0: not known). */
bool archive_writer_sync(struct archive_writer *writer, uint64_t time_us, char *error, size_t size);
/* Bytes of the file that grows; 0: there is none. */
uint64_t archive_writer_bytes(const struct archive_writer *writer);
/* Closes the file that grows, if there is one; durable on return. One without batches is removed. */
bool archive_writer_close(struct archive_writer *writer, char *error, size_t size);
