/*
 * oldest_first.c - a truncation removes the segments after its index from the oldest on, so that one which fails, or
 * ends with a power loss, leaves a gap.
 */
#include "backend/wal/wal.h"
#include "shared/error.h"
#include "shared/path.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __real_wal_truncate(struct wal *wal, uint64_t index, char *error, size_t size);
int __wrap_wal_truncate(struct wal *wal, uint64_t index, char *error, size_t size);

static uint64_t truncated; /* index of the truncation that has not succeeded yet */
static bool is_truncating;

/* The first index of the oldest segment after the truncation's index; UINT64_MAX: there is none. */
static uint64_t oldest_segment(const char *dir_path)
{
    uint64_t oldest = UINT64_MAX;
    DIR *dir = opendir(dir_path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char *end;
        uint64_t first = strtoull(entry->d_name, &end, 10);
        if (strcmp(end, ".batches") == 0 && first > truncated + 1 && first < oldest)
            oldest = first;
    }
    if (dir)
        (void)closedir(dir);
    return oldest;
}

int __wrap_unlink(const char *path)
{
    char other[PATH_MAX];
    const char *name = strrchr(path, '/');
    if (!is_truncating || !name || !strstr(name, ".batches") || strstr(name, ".new"))
        return __real_unlink(path);
    (void)snprintf(other, sizeof other, "%.*s", (int)(name - path), path);
    uint64_t oldest = oldest_segment(other);
    if (oldest == UINT64_MAX)
        return __real_unlink(path);
    (void)snprintf(other, sizeof other, "%.*s/%020" PRIu64 ".batches", (int)(name - path), path,
                   oldest);
    return __real_unlink(other);
}

int __wrap_wal_truncate(struct wal *wal, uint64_t index, char *error, size_t size)
{
    truncated = index;
    is_truncating = true;
    int failure = __real_wal_truncate(wal, index, error, size);
    is_truncating = failure != OK;
    return failure;
}
