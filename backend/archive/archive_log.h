/*
 * archive_log.h - reads the archive of one log: the batches of all its files, in order, each once.
 *
 *   <dir>/<shard>/<log id>/[copy/]  1-100.log    101-250.log    (gap)    300-420.log    421.part
 *                                 from ──────────────►│ reach: next 251, until the time of batch 250
 *
 * Several directories may have parts of the same log, as those of a shard's copies have, and files may overlap: where they meet, the checksums
 * of a batch that both have must be equal.
 */
#pragma once

#include "shared/bytes.h"

struct archive_log;

/* Finds the files of the log with this name in directories of archives, separated by commas. NULL and a reason in error[size]: a directory cannot be
 * read. */
struct archive_log *archive_log_new(const char *dirs, uint64_t log_id, char *error, size_t size);
void archive_log_free(struct archive_log *log); /* NULL is allowed */
/* How many files there are. */
size_t archive_log_files(const struct archive_log *log);

enum archive_go { ARCHIVE_GO_ON, ARCHIVE_STOP, ARCHIVE_FAIL };
/* Takes a record. FAIL: a reason is in error[size]. */
typedef enum archive_go archive_record_fn(void *owner, uint64_t index, struct bytes record,
                                          char *error, size_t size);

struct archive_reach {
    uint64_t next;     /* the first batch that was not read */
    uint64_t until_us; /* the log has no other batch up to this time; 0: nothing was read */
    uint64_t later;    /* the first batch of the files behind a gap; 0: there is none */
    uint64_t later_us; /* its time */
    char damage[512];  /* why a file could not be read to its end; empty: all were */
};

/* Reads from batch `from` on, without a gap. With `read` NULL only the heads of frames are read. False: `read` has failed, with a reason in error[size]. */
bool archive_log_walk(const struct archive_log *log, uint64_t from, archive_record_fn *read,
                      void *owner, struct archive_reach *reach, char *error, size_t size);
