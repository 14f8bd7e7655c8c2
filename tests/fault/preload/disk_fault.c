/*
 * disk_fault.c - a disk that loses power or fails, for an unchanged program: LD_PRELOAD=disk_fault.so.
 *
 * Power loss: what a file is guaranteed to hold is what it held when its last fsync began. What happens to files under
 * $DISK_ROOT is noted in $DISK_LOG, and after a kill -9 the test takes from every file what was not guaranteed, but for
 * a random part (tests/fault/disk.py):
 *
 *   W inode offset bytes     a write that begins before the file's end, by pwritev
 *   B inode 0 thread         an fsync begins,
 *   S inode size thread      and has worked; size: when it began
 *   T inode size 0           a truncation
 *   U inode 0 0              a removal
 *
 * Failing calls: $DISK_CONTROL is a shared page, see struct control. The test arms it, and the call whose turn it is
 * fails with the errno it asks for. Files whose name ends with .batches (the log) or .batches.new and others are told
 * apart, because what a program can do about them differs.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE_LOG = 1, SYNC_LOG = 2, WRITE_OTHER = 4, SYNC_OTHER = 8 };

/* Shared with the test; int32 each, in this order. */
struct control {
    _Atomic int32_t kinds;     /* which calls count: bits above; 0: none */
    _Atomic int32_t countdown; /* fails when it reaches 0 */
    _Atomic int32_t failures;  /* how many further calls fail; -1: all from then on */
    _Atomic int32_t error;     /* errno */
    _Atomic int32_t failed;    /* how many have failed, for the test */
};

static struct control *control;
static const char *root;
static int log_fd = -1;

static void *next(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    if (!symbol)
        abort();
    return symbol;
}

__attribute__((constructor)) static void disk_fault_init(void)
{
    root = getenv("DISK_ROOT");
    const char *log_path = getenv("DISK_LOG");
    const char *control_path = getenv("DISK_CONTROL");
    if (root && log_path)
        log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int fd = root && control_path ? open(control_path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *page = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    control = page == MAP_FAILED ? NULL : page;
    close(fd);
}

/* 0: not below root; else the size of the path, which stands in `path`. */
static size_t path_of(int fd, char *path, size_t size)
{
    char link[64];
    if (!root)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, size - 1);
    if (len <= 0 || strncmp(path, root, strlen(root)) != 0)
        return 0;
    path[len] = '\0';
    return (size_t)len;
}

/* Is it this call's turn to fail? */
static bool fails(int fd, int kind_log, int kind_other)
{
    char path[4096];
    if (!control || !atomic_load(&control->kinds))
        return false;
    size_t len = path_of(fd, path, sizeof path);
    if (!len)
        return false;
    bool is_log = strstr(path, ".batches") != NULL;
    if (!(atomic_load(&control->kinds) & (is_log ? kind_log : kind_other)))
        return false;
    if (atomic_fetch_sub(&control->countdown, 1) > 1)
        return false;
    int left = atomic_load(&control->failures);
    if (left == 0)
        return false;
    if (left > 0)
        atomic_fetch_sub(&control->failures, 1);
    atomic_fetch_add(&control->failed, 1);
    errno = atomic_load(&control->error);
    return true;
}

static void note(char what, uint64_t inode, int64_t number, int64_t other)
{
    char line[96];
    if (log_fd < 0)
        return;
    int len = snprintf(line, sizeof line, "%c %llu %lld %lld\n", what, (unsigned long long)inode,
                       (long long)number, (long long)other);
    ssize_t (*real)(int, const void *, size_t) =
        (ssize_t(*)(int, const void *, size_t))next("write");
    if (real(log_fd, line, (size_t)len) != len)
        abort();
}

/* A file below root. */
static bool is_ours(int fd, struct stat *now)
{
    char path[4096];
    return path_of(fd, path, sizeof path) && fstat(fd, now) == 0 && S_ISREG(now->st_mode);
}

static int sync_with(const char *name, int fd)
{
    struct stat before;
    int (*real)(int) = (int (*)(int))next(name);
    if (fails(fd, SYNC_LOG, SYNC_OTHER))
        return -1;
    bool ours = is_ours(fd, &before);
    if (ours)
        note('B', before.st_ino, 0, gettid());
    int result = real(fd);
    if (ours && result == 0)
        note('S', before.st_ino, before.st_size, gettid());
    return result;
}

int fsync(int fd)
{
    return sync_with("fsync", fd);
}

int fdatasync(int fd)
{
    return sync_with("fdatasync", fd);
}

ssize_t write(int fd, const void *data, size_t size)
{
    static ssize_t (*real)(int, const void *, size_t);
    if (!real)
        real = (ssize_t(*)(int, const void *, size_t))next("write");
    if (control && atomic_load(&control->kinds) && fails(fd, WRITE_LOG, WRITE_OTHER))
        return -1;
    return real(fd, data, size);
}

static ssize_t pwrite_with(const char *name, int fd, const void *data, size_t size, off_t offset)
{
    ssize_t (*real)(int, const void *, size_t, off_t) =
        (ssize_t(*)(int, const void *, size_t, off_t))next(name);
    if (fails(fd, WRITE_LOG, WRITE_OTHER))
        return -1;
    return real(fd, data, size, offset);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    return pwrite_with("pwrite", fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset)
{
    return pwrite_with("pwrite64", fd, data, size, offset);
}

static ssize_t pwritev_with(const char *name, int fd, const struct iovec *parts, int count,
                            off_t offset)
{
    ssize_t (*real)(int, const struct iovec *, int, off_t) =
        (ssize_t(*)(int, const struct iovec *, int, off_t))next(name);
    struct stat before;
    if (fails(fd, WRITE_LOG, WRITE_OTHER))
        return -1;
    bool is_over = is_ours(fd, &before) && offset < before.st_size;
    ssize_t put = real(fd, parts, count, offset);
    if (is_over && put > 0)
        note('W', before.st_ino, offset, put);
    return put;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    return pwritev_with("pwritev", fd, parts, count, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t offset)
{
    return pwritev_with("pwritev64", fd, parts, count, offset);
}

static int truncate_with(const char *name, int fd, off_t size)
{
    struct stat now;
    int (*real)(int, off_t) = (int (*)(int, off_t))next(name);
    if (is_ours(fd, &now))
        note('T', now.st_ino, size, 0);
    return real(fd, size);
}

int ftruncate(int fd, off_t size)
{
    return truncate_with("ftruncate", fd, size);
}

int ftruncate64(int fd, off_t size)
{
    return truncate_with("ftruncate64", fd, size);
}

int unlink(const char *path)
{
    struct stat now;
    int (*real)(const char *) = (int (*)(const char *))next("unlink");
    bool ours = root && strncmp(path, root, strlen(root)) == 0 && lstat(path, &now) == 0;
    int result = real(path);
    if (ours && result == 0)
        note('U', now.st_ino, 0, 0);
    return result;
}
