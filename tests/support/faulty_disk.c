/*
 * faulty_disk.c - a disk that loses power, fails or is slow, for an unchanged program: LD_PRELOAD=faulty_disk.so.
 * Tests control it with disk.py. Only files below $DISK_ROOT are affected.
 *
 * Power loss: a file certainly keeps the contents that it had when its last fsync began. Changes are recorded in
 * $DISK_LOG. After a kill -9 the test removes all other changes from every file, except for a random part:
 *
 *   W inode offset bytes     a pwritev that begins before the file's end
 *   B inode 0 thread         an fsync begins
 *   S inode size thread      the fsync has succeeded; size: the file's size when it began
 *   T inode size 0           a truncation
 *   U inode 0 0              a removal
 *
 * $DISK_CONTROL is a page shared with the test, see struct control.
 *
 * Failing calls: the call that the test has selected fails with the test's errno. Files of the WAL, whose names contain
 * .batches, and other files are selected separately, because a program reacts differently to their errors.
 *
 * Slow reads: every read of a data file (.sst, .blob) takes the time given in the page. Without this, rows that the
 * test has just written would be read from the system's page cache at once. RocksDB's own threads are not slowed down.
 * A read that waits notices a change of the page.
 *
 * Held syncs: while the page says so, syncs of the WAL do not return.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITE_LOG = 1, SYNC_LOG = 2, WRITE_OTHER = 4, SYNC_OTHER = 8 };
enum { SLICE_US = 2000 };

/* int32 each, in the order of FIELDS in disk.py. */
struct control {
    _Atomic int32_t kinds;     /* which calls are counted: the bits above; 0: none */
    _Atomic int32_t countdown; /* the call that makes it 0 fails */
    _Atomic int32_t failures;  /* number of further calls that fail; -1: all of them */
    _Atomic int32_t error;     /* errno */
    /* number of failed calls; read by the test, like all fields below except read_us and holds_syncs */
    _Atomic int32_t failed;

    _Atomic int32_t read_us;            /* time that a read takes; 0: no delay */
    _Atomic int32_t reads;              /* delayed reads that have ended */
    _Atomic int32_t reads_now;          /* delayed reads in progress */
    _Atomic int32_t reads_most;         /* highest number of delayed reads at a time */
    _Atomic int32_t reads_by_partition; /* delayed reads by the partitions' own threads */
    _Atomic int32_t holds_syncs; /* 1: syncs of the WAL wait until it is 0; set by the test */
    _Atomic int32_t syncs_held;  /* syncs that wait now */
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

__attribute__((constructor)) static void faulty_disk_init(void)
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

/* 0: the file is not below root; else the size of its path, which is written to `path`. */
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

/* ---- failing calls, and a record of synced files ------------------------------------------ */

/* Counts this call. True: it must fail. */
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

/* Is the file below root? */
static bool is_ours(int fd, struct stat *now)
{
    char path[4096];
    return path_of(fd, path, sizeof path) && fstat(fd, now) == 0 && S_ISREG(now->st_mode);
}

static void wait_held_syncs(int fd)
{
    char path[4096];
    if (!control || !atomic_load(&control->holds_syncs) || !path_of(fd, path, sizeof path) ||
        !strstr(path, ".batches"))
        return;
    atomic_fetch_add(&control->syncs_held, 1);
    while (atomic_load(&control->holds_syncs))
        usleep(SLICE_US);
    atomic_fetch_sub(&control->syncs_held, 1);
}

static int sync_with(const char *name, int fd)
{
    struct stat before;
    int (*real)(int) = (int (*)(int))next(name);
    if (fails(fd, SYNC_LOG, SYNC_OTHER))
        return -1;
    wait_held_syncs(fd);
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

/* ---- slow reads -------------------------------------------------------------------------- */

static bool ends_with(const char *path, const char *end)
{
    size_t len = strlen(path), end_len = strlen(end);
    return len >= end_len && strcmp(path + len - end_len, end) == 0;
}

static bool is_data(int fd)
{
    char path[4096];
    return path_of(fd, path, sizeof path) && (ends_with(path, ".sst") || ends_with(path, ".blob"));
}

static bool thread_is(const char *begin)
{
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    return strncmp(name, begin, strlen(begin)) == 0;
}

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void wait_read_us(void)
{
    int64_t begun_us = now_us();
    for (;;) {
        int64_t left_us = begun_us + atomic_load(&control->read_us) - now_us();
        if (left_us <= 0)
            return;
        usleep((useconds_t)(left_us < SLICE_US ? left_us : SLICE_US));
    }
}

static void delay_read(int fd)
{
    int32_t read_us = control ? atomic_load(&control->read_us) : 0;
    if (read_us <= 0 || thread_is("rocksdb") || !is_data(fd))
        return;
    if (thread_is("partition"))
        atomic_fetch_add(&control->reads_by_partition, 1);
    int32_t now = atomic_fetch_add(&control->reads_now, 1) + 1;
    int32_t most = atomic_load(&control->reads_most);
    while (now > most && !atomic_compare_exchange_weak(&control->reads_most, &most, now))
        ;
    wait_read_us();
    atomic_fetch_sub(&control->reads_now, 1);
    atomic_fetch_add(&control->reads, 1);
}

typedef ssize_t pread_fn(int fd, void *data, size_t size, off64_t at);

static ssize_t read_at(const char *name, int fd, void *data, size_t size, off64_t at)
{
    static _Atomic(pread_fn *) found;
    pread_fn *real = atomic_load(&found);
    if (!real) {
        real = (pread_fn *)next(name);
        atomic_store(&found, real);
    }
    delay_read(fd);
    return real(fd, data, size, at);
}

ssize_t pread64(int fd, void *data, size_t size, off64_t at)
{
    return read_at("pread64", fd, data, size, at);
}

ssize_t pread(int fd, void *data, size_t size, off_t at)
{
    return read_at("pread64", fd, data, size, at);
}
