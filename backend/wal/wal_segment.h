/*
 * wal_segment.h - one file of the WAL: its name, and its records. wal.c combines several files.
 *
 *   <index of its first batch, 20 digits>.batches
 *   "scree batches 2\n" | record | record | ...                      2: the format
 *   record:  length u32 | checksum u64 | index u64 | durable u64 | batch          numbers little-endian
 *
 * durable: batches up to this one were on the disk when the record was written. The checksum is XXH3 of the batch, seeded
 * with that of length, index and durable: it covers the whole record. The first line contains only the format; if only that
 * line is damaged, no batch is lost. Zeros after the last record are space that is allocated on the disk already.
 *
 * In files of format 1 a batch is a write batch of RocksDB, in files of format 2 it has the format of effects.h; the
 * first bytes of a batch distinguish the two.
 *
 * A file is created as <index>.batches.new and renamed when it is complete, which replaces a file of the same name
 * atomically.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/list.h"

#define BATCH_BYTES_MAX UINT32_MAX

struct wal_segment {
    struct list node; /* of the WAL */
    uint64_t first;   /* its name */
    uint64_t serial;  /* of the object: distinguishes files of the same name */
    uint64_t last;    /* first - 1: the file has no batch */
    uint64_t bytes;   /* offset after batch `last`; later bytes are void, except written batches */
    uint64_t written; /* the last batch in the file; those after `last` are not shown yet */
    uint64_t end;     /* offset after batch `written` */
    uint64_t changed_s;   /* of a kept file: wall clock of its last change */
    uint64_t reserved;    /* bytes allocated on the disk */
    uint64_t zeroed;      /* end of the zeros, or of the attempt to write them */
    uint64_t spare_bytes; /* of the spare segment: it keeps so many allocated; 0: of another one */
    bool is_leaving;      /* no reader may begin in it any more */
    int fd;               /* -1: closed */
};

/* Converts errno to ERR_DISK_FULL or ERR_STORE, and writes "<path>: why" to error[size]. */
int wal_segment_failure(const char *path, char *error, size_t size);
/* Writes the path of the file that begins with batch `first` to path[PATH_MAX]; `dir` has at most PATH_MAX - 64 bytes. */
void wal_segment_path(char *path, const char *dir, uint64_t first);
/* Is this the name of a WAL segment, or (then *is_new) of one that was being created? */
bool wal_segment_name(const char *name, uint64_t *first, bool *is_new);
/* Likewise of a kept segment in a copy of the files (wal_copy_kept). */
void wal_segment_kept_path(char *path, const char *dir, uint64_t first);
bool wal_segment_kept_name(const char *name, uint64_t *first);
/* False: the first line has the format of a newer program. */
bool wal_segment_format_known(int fd);

/* A segment without batches, not open. */
struct wal_segment *wal_segment_new(uint64_t first);
void wal_segment_close(struct wal_segment *file); /* no sync */
void wal_segment_free(struct wal_segment *file);  /* closes it */
/* Creates the file on the disk under its new name, then renames it. An incomplete file is removed. */
int wal_segment_make(struct wal_segment *file, const char *dir, char *error, size_t size);
/* … of a file in the directory with this name, which has space already, and is renamed. False: there is none. */
bool wal_segment_make_of(struct wal_segment *file, const char *dir, const char *name);
int wal_segment_publish(struct wal_segment *file, const char *dir, char *error, size_t size);
void wal_segment_discard(struct wal_segment *file, const char *dir); /* it was not published */
/* Allocates disk space from the start of the file on. */
bool wal_segment_allocate(int fd, uint64_t bytes);
/* Allocates disk space for a record of the batch and some more, up to `limit` bytes, if possible. */
void wal_segment_reserve(struct wal_segment *file, size_t batch_len, uint64_t limit);
/* Unless zeros follow the last written record, writes some after it, up to `limit`; the next sync brings them to the
 * disk. Later batches that overwrite them change neither the file's length nor its extents, so their syncs need
 * not wait for the file system's journal. */
void wal_segment_zero_ahead(struct wal_segment *file, uint64_t limit);
/* Writes the record after the others; it counts only after wal_segment_show. */
bool wal_segment_write(struct wal_segment *file, uint64_t index, uint64_t durable,
                       struct bytes batch);
/* From now on written records count; returns their bytes. */
uint64_t wal_segment_show(struct wal_segment *file);
/* Frees allocated space and void bytes at the end, written records included; may fail without harm. The spare segment keeps its space. */
void wal_segment_truncate(struct wal_segment *file);

/* Reads consecutive records. The memory grows to the longest record and can be used for many files. */
struct wal_reader {
    int fd;
    uint64_t at;      /* offset of the next record */
    uint64_t limit;   /* of the file */
    uint64_t durable; /* of the last record that was read */
    char *buf;        /* bytes from `at` on are in buf[begin..end) */
    size_t room, begin, end;
};

enum wal_read { WAL_READ, WAL_READ_END, WAL_READ_FAILED /* errno */ };

void wal_reader_init(struct wal_reader *reader);
void wal_reader_fini(struct wal_reader *reader);
/* Starts at the first record; reads at most `limit` bytes of the file. */
void wal_reader_begin(struct wal_reader *reader, int fd, uint64_t limit);
/* The file has grown to `limit` since. */
void wal_reader_extend(struct wal_reader *reader, uint64_t limit);
/* The next record, if it is complete and has this index; the batch is borrowed until the next call. */
enum wal_read wal_reader_next(struct wal_reader *reader, uint64_t index, struct bytes *batch);
/* Complete records after one that cannot be read. */
struct wal_later {
    /* index of the first; 0: none was found, or too many candidates were no records */
    uint64_t first;
    uint64_t count;
    uint64_t end; /* of the last one in the file */
    /* Index of the first record which shows that batches after the readable ones were durable; 0: none. */
    uint64_t was_durable;
};
/* Searches complete records after the last one that was read, which has this index. */
void wal_reader_later(struct wal_reader *reader, uint64_t index, struct wal_later *later);
