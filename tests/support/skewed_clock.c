/*
 * skewed_clock.c - a machine whose clock is wrong: LD_PRELOAD=skewed_clock.so.
 *
 *   CLOCK_CONTROL=/path    a file with an int64: microseconds that the wall clock of the unchanged program is ahead; the
 *                          test may change it while the program runs
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead_us;

__attribute__((constructor)) static void open_control(void)
{
    const char *path = getenv("CLOCK_CONTROL");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *page = mmap(NULL, sizeof *ahead_us, PROT_READ, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED)
        ahead_us = page;
    close(fd);
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, id, now);
    if (result || !ahead_us || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE))
        return result;
    int64_t nsec = now->tv_nsec + *ahead_us % 1000000 * 1000;
    now->tv_sec += *ahead_us / 1000000 + (nsec >= 1000000000) - (nsec < 0);
    now->tv_nsec = (nsec + 1000000000) % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return result;
}

time_t time(time_t *to)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (to)
        *to = exact.tv_sec;
    return exact.tv_sec;
}
