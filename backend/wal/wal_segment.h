/*
 * wal_segment.h - one file of the WAL: its name, its records written and read. What several files mean together is for
 * wal.c.
 *
 *   <index of its first batch, 20 digits>.batches
 *   "scree batches 2\n" | record | record | ...                      2: the format
 *   record:  length u32 | checksum u64 | index u64 | durable u64 | batch          numbers little-endian
 *
 * durable: batches up to it were on the disk when this one was written. The checksum is XXH3 of the batch, seeded with
 * that of length, index and durable: nothing of a record can change unseen. The first line says the format and nothing
 * else; where only it is damaged, nothing is lost. Zeros behind the last record are room that is on the disk already.
 *
 * In files of format 1 a batch is RocksDB's write batch, in those of format 2 it is effects.h; what a batch holds is
 * not known here, and its first bytes tell which it is.
 *
 * A file is made under another name, <index>.batches.new, and gets its own by rename: it takes the place of a file of
 * the same name at once.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/list.h"

#define BATCH_BYTES_MAX UINT32_MAX

struct wal_segment {
    struct list node;  /* of the WAL */
    uint64_t first;    /* its name */
    uint64_t serial;   /* of the object: two files of a name differ in it */
    uint64_t last;     /* first - 1: it has none */
    uint64_t bytes;    /* up to the end of `last`; what is behind is void */
    uint64_t reserved; /* the disk has room for so many */
    uint64_t zeroed;   /* zeros are written up to there, or could not be */
    int fd;            /* -1: closed */
};

/* From errno: ERR_DISK_FULL or ERR_STORE, and "<path>: why" in error[size]. */
int wal_segment_failure(const char *path, char *error, size_t size);
/* path[PATH_MAX] of the file that begins with batch `first`; `dir` is not longer than PATH_MAX - 64. */
void wal_segment_path(char *path, const char *dir, uint64_t first);
/* Is this the name of a WAL segment, or (then *is_new) of one that was being made? */
bool wal_segment_name(const char *name, uint64_t *first, bool *is_new);
/* False: its first line says that a newer program wrote it. */
bool wal_segment_format_known(int fd);

/* Without batches and not open yet. */
struct wal_segment *wal_segment_new(uint64_t first);
void wal_segment_close(struct wal_segment *file); /* no sync */
void wal_segment_free(struct wal_segment *file);  /* closes it */
/* Makes it on the disk, under the name for new ones; then gives it its own. What stops half way is removed. */
int wal_segment_make(struct wal_segment *file, const char *dir, char *error, size_t size);
int wal_segment_publish(struct wal_segment *file, const char *dir, char *error, size_t size);
void wal_segment_discard(struct wal_segment *file, const char *dir); /* it was not published */
/* Has room on the disk for a record of the batch and some more, up to `limit` bytes, if that is possible. */
void wal_segment_reserve(struct wal_segment *file, size_t batch_len, uint64_t limit);
/* Where a record of the batch does not end in front of zeros, writes some behind it, up to `limit`. The sync of the
 * batch brings them to the disk. Those of the batches then written over them find the file's length and extents as they
 * were, so they do not wait for the file system's journal. */
void wal_segment_zero_ahead(struct wal_segment *file, size_t batch_len, uint64_t limit);
/* Writes the record behind what it has; it counts from wal_segment_extend on. */
bool wal_segment_write(struct wal_segment *file, uint64_t index, uint64_t durable,
                       struct bytes batch);
void wal_segment_extend(struct wal_segment *file, size_t batch_len);
/* Bytes of a record with such a batch. */
uint64_t wal_segment_record_bytes(size_t batch_len);
/* Gives back what is reserved, and void bytes at the end; may fail without harm. */
void wal_segment_truncate(struct wal_segment *file);

/* Reads records one behind the other; the memory grows to the longest and serves for many files. */
struct wal_reader {
    int fd;
    uint64_t at;      /* offset of the next record */
    uint64_t limit;   /* of the file */
    uint64_t durable; /* what the last record read says */
    char *buf;        /* has bytes from `at` on in buf[begin..end) */
    size_t room, begin, end;
};

enum wal_read { WAL_READ, WAL_READ_END, WAL_READ_FAILED /* errno */ };

void wal_reader_init(struct wal_reader *reader);
void wal_reader_fini(struct wal_reader *reader);
/* From the first record on, up to `limit` bytes of the file. */
void wal_reader_begin(struct wal_reader *reader, int fd, uint64_t limit);
/* The file has grown up to `limit` since. */
void wal_reader_extend(struct wal_reader *reader, uint64_t limit);
/* The next record, if it is whole and that of `index`; the batch is borrowed until the next call. */
enum wal_read wal_reader_next(struct wal_reader *reader, uint64_t index, struct bytes *batch);
/* Whole records behind one that cannot be read. */
struct wal_later {
    uint64_t
        first; /* index of the first; 0: none found, or too many bytes that only look like a record */
    uint64_t count;
    uint64_t end; /* of the last one in the file */
    /* Index of the first that says that batches behind the readable ones were durable when it was written; 0: none. */
    uint64_t was_durable;
};
/* Searches for whole records behind the last record read, that of `index`. */
void wal_reader_later(struct wal_reader *reader, uint64_t index, struct wal_later *later);
