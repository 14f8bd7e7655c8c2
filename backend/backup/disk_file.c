#include "backend/backup/disk_file.h"

#include "shared/check.h"
#include "shared/digest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 20, NAMES_MAX = 1 << 20 };

bool disk_failed(const char *path, char *error, size_t size)
{
    (void)snprintf(error, size, "%s: %s", path, strerror(errno));
    return false;
}

bool disk_path(char *path, const char *dir, const char *name, char *error, size_t size)
{
    int len = snprintf(path, PATH_MAX, "%s/%s", dir, name);
    if (len > 0 && len < PATH_MAX)
        return true;
    (void)snprintf(error, size, "%s: the path is too long", name);
    return false;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool disk_list(struct disk_list *list, const char *dir, char *error, size_t size)
{
    DIR *from = opendir(dir);
    *list = (struct disk_list){0};
    if (!from)
        return disk_failed(dir, error, size);
    for (struct dirent *entry; (entry = readdir(from)) && list->count < NAMES_MAX;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        list->names = realloc(list->names, (list->count + 1) * sizeof list->names[0]);
        CHECK(list->names);
        list->names[list->count] = strdup(entry->d_name);
        CHECK(list->names[list->count]);
        list->count++;
    }
    (void)closedir(from);
    if (list->count)
        qsort(list->names, list->count, sizeof list->names[0], compare_names);
    return true;
}

void disk_list_free(struct disk_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
    *list = (struct disk_list){0};
}

/* ---- small files ---- */

bool disk_read_at(int fd, uint64_t at, char *to, size_t len)
{
    while (len) {
        ssize_t got = pread(fd, to, len, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = EIO; /* the file became shorter */
        if (got <= 0)
            return false;
        to += got;
        at += (uint64_t)got;
        len -= (size_t)got;
    }
    return true;
}

bool disk_append(int fd, const char *from, size_t len)
{
    while (len) {
        ssize_t put = write(fd, from, len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        from += put;
        len -= (size_t)put;
    }
    return true;
}

/* Opens a regular file for reading; -1 and errno. A pipe would block the thread, and a symbolic link could lead out of
 * the backup: both are refused, because other users may be able to write into a backup's directory. */
static int open_regular(const char *path, struct stat *found)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return -1;
    int err = fstat(fd, found) != 0 ? errno : S_ISREG(found->st_mode) ? 0 : EINVAL;
    if (!err)
        return fd;
    (void)close(fd);
    errno = err;
    return -1;
}

bool disk_read(const char *path, size_t max, struct bytes *data, char *error, size_t size)
{
    struct stat found;
    int fd = open_regular(path, &found);
    if (fd < 0)
        return disk_failed(path, error, size);
    bool good = (uint64_t)found.st_size <= max;
    if (!good)
        errno = EFBIG;
    if (good) {
        char *text = malloc((size_t)found.st_size + 1);
        CHECK(text);
        good = disk_read_at(fd, 0, text, (size_t)found.st_size);
        *data = (struct bytes){text, (size_t)found.st_size};
        if (!good)
            free(text);
    }
    if (!good)
        (void)disk_failed(path, error, size);
    (void)close(fd);
    return good;
}

bool disk_write(const char *path, struct bytes data, char *error, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0640);
    if (fd < 0)
        return disk_failed(path, error, size);
    bool good = disk_append(fd, data.data, data.len) && fsync(fd) == 0;
    good = close(fd) == 0 && good;
    return good || disk_failed(path, error, size);
}

/* ---- big files ---- */

/* Reads a file, updates the digest, and writes to `to` unless that is -1. False: errno. */
static bool pass_chunks(int from, int to, struct disk_progress *progress, struct sha256 *sha256)
{
    char *chunk = malloc(CHUNK_BYTES);
    ssize_t got;
    bool good = true;
    CHECK(chunk);
    do {
        got = read(from, chunk, CHUNK_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got > 0) {
            sha256_add(sha256, (struct bytes){chunk, (size_t)got});
            good = to < 0 || disk_append(to, chunk, (size_t)got);
            atomic_fetch_add_explicit(&progress->bytes_done, (uint64_t)got, memory_order_relaxed);
        }
        if (good && atomic_load(&progress->is_cancelled)) {
            errno = ECANCELED;
            good = false;
        }
    } while (good && got != 0 && (got > 0 || errno == EINTR));
    free(chunk);
    return good && got == 0;
}

static void digest_end(struct sha256 *digest, bool good, char sha256[65])
{
    sha256_end(digest, good ? sha256 : NULL);
    sha256[good ? SHA256_HEX_LEN : 0] = 0;
}

bool disk_digest(const char *path, struct disk_progress *progress, char sha256[65], char *error,
                 size_t size)
{
    struct stat found;
    int fd = open_regular(path, &found);
    if (fd < 0)
        return disk_failed(path, error, size);
    struct sha256 *digest = sha256_new();
    bool good = pass_chunks(fd, -1, progress, digest);
    if (!good)
        (void)disk_failed(path, error, size);
    digest_end(digest, good, sha256);
    (void)close(fd);
    return good;
}

bool disk_copy(const char *from, const char *to, struct disk_progress *progress, char sha256[65],
               char *error, size_t size)
{
    struct stat found;
    int in = open_regular(from, &found);
    if (in < 0)
        return disk_failed(from, error, size);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (out < 0) {
        (void)disk_failed(to, error, size);
        (void)close(in);
        return false;
    }
    struct sha256 *digest = sha256_new();
    bool good = pass_chunks(in, out, progress, digest) && fsync(out) == 0;
    if (!good)
        (void)disk_failed(to, error, size);
    digest_end(digest, good, sha256);
    if (close(out) != 0 && good)
        good = disk_failed(to, error, size);
    (void)close(in);
    return good;
}
