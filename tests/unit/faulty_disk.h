/*
 * faulty_disk.h - a disk that fails and loses power, for one test program: it replaces the program's write, pwrite, pwritev,
 * fdatasync, fsync, rename and unlink. faulty_disk.c in tests/support does this for an unchanged program.
 *
 * `disk.fail_*` are the errors that calls fail with; disk_heal() ends the failures. With `disk.fail_files`, only calls
 * on files below `disk.dir` whose names contain this text fail; with `disk.is_lossy`, calls on all files fail, and a
 * power loss can be simulated:
 *
 * A power loss leaves a random one of the states that a system may leave: of each file, the contents at its last
 * fdatasync and any part of later writes, behind or over these contents; of each name, its state at the last fsync of
 * the directory or any later one, independent of other names. Bytes that were not on the disk when an fdatasync failed
 * never reach it, also if later calls succeed.
 */
#pragma once

#include "shared/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LOSSY_FILES_MAX = 4096, LOSSY_CHANGES_MAX = 4096, LOSSY_PATH_MAX = 256, LOSSY_SECTOR = 512 };

/* The bytes of a file that are certainly on the disk. */
struct lossy_file {
    uint64_t inode;
    char *data;
    size_t len;
    bool is_lost; /* an fdatasync failed: unsynced bytes never reach the disk */
};

/* A name that was created or removed since the last fsync of its directory. `kept` is a link to the file that had
 * the name before; "": there was none. */
struct lossy_change {
    char path[LOSSY_PATH_MAX], kept[LOSSY_PATH_MAX];
};

static struct {
    char dir[64], trash[64];
    _Atomic int fail_write, fail_sync, fail_dir_sync, fail_rename,
        fail_unlink;             /* errno of the failing call; 0: the call works */
    _Atomic unsigned fail_after; /* number of calls that work before the first failure */
    _Atomic bool is_full;        /* no file gets more space than it has */
    _Atomic bool fail_half;      /* half of the bytes are written first */
    /* only files whose name contains this fail; NULL: no file, unless is_lossy */
    const char *_Atomic fail_files;
    bool is_lossy;
    void (*before_dir_sync)(void); /* NULL: nothing is called */
    bool is_short; /* with is_lossy: some writes, chosen at random, are cut short or interrupted */
    uint64_t random;
    unsigned trash_count, changes, files;
    struct lossy_change change[LOSSY_CHANGES_MAX];
    struct lossy_file file[LOSSY_FILES_MAX];
} disk;

static inline uint64_t disk_random(uint64_t below)
{
    disk.random ^= disk.random << 13;
    disk.random ^= disk.random >> 7;
    disk.random ^= disk.random << 17;
    return below ? (disk.random >> 11) % below : 0;
}

/* Does the configuration select this file for failures? */
static inline bool disk_has(int fd)
{
    char link[64], name[LOSSY_PATH_MAX];
    const char *files = disk.fail_files;
    if (!files)
        return disk.is_lossy;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, name, sizeof name - 1);
    if (len <= 0)
        return false;
    name[len] = 0;
    return strstr(name, disk.dir) && strstr(strrchr(name, '/'), files);
}

/* Does this call fail? Sets errno to `cause` if so. A `cause` of 0: it works. */
static inline bool disk_fails(int cause)
{
    unsigned left = disk.fail_after;
    if (!cause)
        return false;
    while (left && !atomic_compare_exchange_weak(&disk.fail_after, &left, left - 1))
        ;
    if (left)
        return false;
    errno = cause;
    return true;
}

static inline void disk_heal(void)
{
    disk.is_full = false;
    disk.fail_write = disk.fail_sync = disk.fail_dir_sync = disk.fail_rename = disk.fail_unlink = 0;
}

static inline struct lossy_file *lossy_file_of(const struct stat *found)
{
    for (unsigned i = 0; i < disk.files; i++)
        if (disk.file[i].inode == found->st_ino)
            return &disk.file[i];
    CHECK(disk.files < LOSSY_FILES_MAX);
    disk.file[disk.files] = (struct lossy_file){.inode = found->st_ino};
    return &disk.file[disk.files++];
}

/* All bytes of the file; the caller frees them. */
static inline char *lossy_read(int fd, size_t *len)
{
    struct stat found;
    CHECK(fstat(fd, &found) == 0);
    *len = (size_t)found.st_size;
    char *data = malloc(*len + 1);
    CHECK(data && pread(fd, data, *len, 0) == found.st_size);
    return data;
}

static inline void lossy_forget(struct lossy_file *file)
{
    free(file->data);
    *file = (struct lossy_file){0};
}

/* Starts without any recorded file or name. */
static inline void lossy_start(void)
{
    while (disk.files)
        lossy_forget(&disk.file[--disk.files]);
    disk.changes = 0;
}

static inline void lossy_sync_file(int fd, bool is_good)
{
    struct stat found;
    CHECK(fstat(fd, &found) == 0);
    struct lossy_file *file = lossy_file_of(&found);
    size_t len;
    char *data = lossy_read(fd, &len);
    if (len < file->len)
        file->len = len;
    bool is_same = len == file->len && (len == 0 || memcmp(data, file->data, len) == 0);
    if (is_good && !file->is_lost) {
        free(file->data);
        file->data = data;
        file->len = len;
    } else {
        free(data);
    }
    file->is_lost |= !is_good && !is_same;
}

/* ---- the calls --------------------------------------------------------------------------- */

int fdatasync(int fd)
{
    bool is_good = !(disk.fail_sync && disk_has(fd) && disk_fails(disk.fail_sync));
    if (disk.is_lossy) {
        int cause = errno;
        lossy_sync_file(fd, is_good);
        errno = cause;
        return is_good ? 0 : -1;
    }
    return is_good ? (int)syscall(SYS_fdatasync, fd) : -1;
}

int fsync(int fd)
{
    if (disk.before_dir_sync)
        disk.before_dir_sync();
    if (!disk.is_lossy)
        return (int)syscall(SYS_fsync, fd);
    struct stat found, dir;
    CHECK(fstat(fd, &found) == 0 && S_ISDIR(found.st_mode));
    CHECK(stat(disk.dir, &dir) == 0);
    if (disk_fails(disk.fail_dir_sync))
        return -1;
    if (found.st_ino == dir.st_ino)
        disk.changes = 0;
    return 0;
}

/* Used for files other than the WAL's. */
ssize_t write(int fd, const void *data, size_t size)
{
    if (!disk.fail_files || !disk.fail_write || !disk_has(fd) || !disk_fails(disk.fail_write))
        return syscall(SYS_write, fd, data, size);
    int cause = errno;
    if (disk.fail_half)
        (void)syscall(SYS_write, fd, data, size / 2);
    errno = cause;
    return -1;
}

/* Writes a random part of the bytes; -1 when it wrote none. */
static inline ssize_t lossy_write(int fd, struct iovec first, off_t at)
{
    first.iov_len = disk_random(first.iov_len + 1);
    return first.iov_len ? syscall(SYS_pwritev, fd, &first, 1, (long)at, 0L) : -1;
}

/* Does the full disk have no space for bytes up to `end` of the file? Sets errno if so. */
static inline bool lacks_space(int fd, off_t end)
{
    struct stat found;
    if (!disk.is_full || !disk_has(fd))
        return false;
    CHECK(fstat(fd, &found) == 0);
    errno = ENOSPC;
    return end > found.st_blocks * 512;
}

int fallocate(int fd, int mode, off_t at, off_t len)
{
    return lacks_space(fd, at + len) ? -1
                                     : (int)syscall(SYS_fallocate, fd, mode, (long)at, (long)len);
}

/* Used for the WAL. */
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    off_t end = at;
    for (int i = 0; i < count; i++)
        end += (off_t)parts[i].iov_len;
    if (lacks_space(fd, end))
        return -1;
    bool is_failing = disk.fail_write && disk_has(fd) && disk_fails(disk.fail_write);
    int cause = is_failing ? errno : EINTR;
    bool is_short = disk.is_lossy && !is_failing && disk.is_short && disk_random(4) == 0;
    if (!is_failing && !is_short)
        return syscall(SYS_pwritev, fd, parts, count, (long)at, 0L);
    ssize_t put = -1;
    if (is_failing && disk.fail_half)
        (void)syscall(SYS_pwritev, fd, parts, 1, (long)at, 0L);
    else if (is_failing ? disk.is_lossy : disk_random(2) != 0)
        put = lossy_write(fd, parts[0], at);
    errno = cause;
    return is_failing ? -1 : put;
}

/* Used for the files of copies. */
ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    struct iovec part = {(void *)(uintptr_t)data, size};
    return pwritev(fd, &part, 1, at);
}

/* Records a change of this name, and keeps the file that has the name now. */
static inline void lossy_note(const char *path)
{
    if (strncmp(path, disk.dir, strlen(disk.dir)) != 0 || strstr(path, ".new"))
        return;
    CHECK(disk.changes < LOSSY_CHANGES_MAX);
    struct lossy_change *change = &disk.change[disk.changes++];
    snprintf(change->path, sizeof change->path, "%s", path);
    snprintf(change->kept, sizeof change->kept, "%s/%u", disk.trash, disk.trash_count++);
    if (link(path, change->kept) != 0)
        change->kept[0] = 0;
}

int rename(const char *from, const char *to)
{
    if (disk.is_lossy && disk_fails(disk.fail_rename))
        return -1;
    if (disk.is_lossy)
        lossy_note(to);
    return (int)syscall(SYS_rename, from, to);
}

int unlink(const char *path)
{
    struct stat found;
    if (disk.is_lossy && strstr(path, ".new") && stat(path, &found) == 0)
        lossy_forget(lossy_file_of(&found)); /* the inode may be reused */
    if (disk.is_lossy && !strstr(path, ".new")) {
        if (disk_fails(disk.fail_unlink))
            return -1;
        lossy_note(path);
    }
    return (int)syscall(SYS_unlink, path);
}

/* ---- power loss -------------------------------------------------------------------------- */

static inline void lossy_empty(const char *path)
{
    char name[LOSSY_PATH_MAX * 2];
    DIR *dir = opendir(path);
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        (void)syscall(SYS_unlink, name);
    }
    (void)closedir(dir);
}

/* Undoes a random number of the latest changes of each name. */
static inline void lossy_roll_back(void)
{
    static bool is_kept[LOSSY_CHANGES_MAX];
    for (unsigned i = disk.changes; i-- > 0;) {
        const struct lossy_change *change = &disk.change[i];
        is_kept[i] = disk_random(2) == 0;
        for (unsigned later = i + 1; later < disk.changes && !is_kept[i]; later++)
            is_kept[i] = is_kept[later] && strcmp(disk.change[later].path, change->path) == 0;
        if (is_kept[i])
            continue;
        (void)syscall(SYS_unlink, change->path);
        if (change->kept[0])
            CHECK(link(change->kept, change->path) == 0);
    }
}

/* Keeps the synced bytes, and of the unsynced ones either a beginning or random sectors. A sector that did not reach
 * the disk has zeros, or the file ends before it. */
static inline void lossy_cut(int fd)
{
    struct stat found;
    CHECK(fstat(fd, &found) == 0);
    const struct lossy_file *file = lossy_file_of(&found);
    size_t len, same = 0;
    char *data = lossy_read(fd, &len);
    size_t sure = file->len < len ? file->len : len;
    while (same < sure && data[same] == file->data[same])
        same++;
    size_t cut = file->is_lost ? same : same + disk_random(len - same + 1);
    bool is_torn = !file->is_lost && disk_random(2), is_here = true;
    for (size_t at = same; at < len; at++) {
        if (is_torn && at % LOSSY_SECTOR == 0)
            is_here = disk_random(2);
        if (is_torn ? !is_here : at >= cut)
            data[at] = at < sure ? file->data[at] : 0;
    }
    CHECK(syscall(SYS_pwrite64, fd, data, len, 0L) == (long)len);
    if (!is_torn && disk_random(2))
        CHECK(ftruncate(fd, (off_t)(cut > sure ? cut : sure)) == 0);
    free(data);
}

/* Changes the files to what a power loss may leave. Everything left then counts as synced. */
static inline void lossy_power_loss(void)
{
    char path[LOSSY_PATH_MAX * 2];
    lossy_roll_back();
    DIR *dir = opendir(disk.dir);
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.' || strstr(entry->d_name, ".new"))
            continue;
        snprintf(path, sizeof path, "%s/%s", disk.dir, entry->d_name);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        CHECK(fd >= 0);
        lossy_cut(fd);
        (void)close(fd);
    }
    lossy_start();
    rewinddir(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", disk.dir, entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        CHECK(fd >= 0);
        lossy_sync_file(fd, true);
        (void)close(fd);
    }
    (void)closedir(dir);
    lossy_empty(disk.trash);
}
