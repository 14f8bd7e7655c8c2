/*
 * slow_disk.c - a disk whose reads take time, for an unchanged program: LD_PRELOAD=slow_disk.so.
 *
 * Every read of a data file (.sst, .blob) waits for as long as the shared page at $DISK_CONTROL says, because what the
 * test wrote a moment ago is in the system's page cache, and reading it again costs nothing. RocksDB's own threads read
 * as they like. A read that waits sees when the page says something else.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Shared with the test; int32 each, in this order. */
struct control {
    _Atomic int32_t microseconds; /* a read takes; 0: it is not touched */
    _Atomic int32_t reads;        /* that were slow, for the test */
    _Atomic int32_t reads_now;
    _Atomic int32_t reads_most; /* at a time */
    _Atomic int32_t executing;  /* of the slow reads: made by partitions' own threads */
};

enum { SLICE_US = 2000 };

static struct control *control;

__attribute__((constructor)) static void slow_disk_init(void)
{
    const char *path = getenv("DISK_CONTROL");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *page = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    control = page == MAP_FAILED ? NULL : page;
    close(fd);
}

static bool ends_with(const char *path, const char *end)
{
    size_t len = strlen(path), end_len = strlen(end);
    return len >= end_len && strcmp(path + len - end_len, end) == 0;
}

static bool is_data(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len <= 0)
        return false;
    path[len] = '\0';
    return ends_with(path, ".sst") || ends_with(path, ".blob");
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

static void wait_long(void)
{
    int64_t begun_us = now_us();
    for (;;) {
        int64_t left_us = begun_us + atomic_load(&control->microseconds) - now_us();
        if (left_us <= 0)
            return;
        usleep((useconds_t)(left_us < SLICE_US ? left_us : SLICE_US));
    }
}

static void be_slow(int fd)
{
    int32_t microseconds = control ? atomic_load(&control->microseconds) : 0;
    if (microseconds <= 0 || thread_is("rocksdb") || !is_data(fd))
        return;
    if (thread_is("partition"))
        atomic_fetch_add(&control->executing, 1);
    int32_t now = atomic_fetch_add(&control->reads_now, 1) + 1;
    int32_t most = atomic_load(&control->reads_most);
    while (now > most && !atomic_compare_exchange_weak(&control->reads_most, &most, now))
        ;
    wait_long();
    atomic_fetch_sub(&control->reads_now, 1);
    atomic_fetch_add(&control->reads, 1);
}

typedef ssize_t pread_fn(int fd, void *data, size_t size, off64_t at);

static ssize_t read_at(const char *name, int fd, void *data, size_t size, off64_t at)
{
    static _Atomic(pread_fn *) found;
    pread_fn *real = atomic_load(&found);
    if (!real) {
        real = (pread_fn *)dlsym(RTLD_NEXT, name);
        atomic_store(&found, real);
    }
    be_slow(fd);
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
