/*
 * disk_file.h - reads, writes and copies whole files of a backup, durably and with their digests.
 *
 * All functions return false with a one-line reason in error[size]. Only regular files are accepted: symbolic links,
 * pipes and devices are refused.
 */
#pragma once

#include "shared/bytes.h"

#include <stdatomic.h>

/* Progress of long copies; other threads may read it and cancel. */
struct disk_progress {
    _Atomic uint64_t bytes_done;
    _Atomic uint64_t bytes_total;
    atomic_bool is_cancelled;
};

struct disk_list {
    char **names; /* sorted */
    size_t count;
};

/* Describes errno for the path in error[size]; returns false. */
bool disk_failed(const char *path, char *error, size_t size);
/* Writes dir/name to path[PATH_MAX]. */
bool disk_path(char *path, const char *dir, const char *name, char *error, size_t size);
/* The names in a directory, without "." and "..". */
bool disk_list(struct disk_list *list, const char *dir, char *error, size_t size);
void disk_list_free(struct disk_list *list);
/* Reads `len` bytes from the offset `at` on. False and errno: also when the file has fewer (EIO). */
bool disk_read_at(int fd, uint64_t at, char *to, size_t len);
/* Writes all bytes where the descriptor stands. False and errno: some may be written. */
bool disk_append(int fd, const char *from, size_t len);
/* Reads a file; the caller frees data->data. A file longer than `max` is refused. */
bool disk_read(const char *path, size_t max, struct bytes *data, char *error, size_t size);
/* Replaces the file durably. */
bool disk_write(const char *path, struct bytes data, char *error, size_t size);
/* Copies and syncs a file; `to` must not exist. Writes the digest's 64 digits and a zero byte to sha256. */
bool disk_copy(const char *from, const char *to, struct disk_progress *progress, char sha256[65],
               char *error, size_t size);
/* Computes the digest of a file. */
bool disk_digest(const char *path, struct disk_progress *progress, char sha256[65], char *error,
                 size_t size);
