/*
 * clock_system.c - clock.h with the system's clocks.
 *
 * clock_random is splitmix64: a counter that advances by an odd constant, and a mixer that makes every bit of the
 * counter change every bit of the result. Good for choices, not for secrets.
 */
#include "shared/check.h"
#include "shared/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/random.h>
#include <time.h>

static uint64_t read_us(clockid_t id)
{
    struct timespec now;
    CHECK(clock_gettime(id, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static _Atomic int64_t wall_offset_us; /* of clock_set_wall */

uint64_t clock_system_us(void)
{
    return read_us(CLOCK_REALTIME);
}

uint64_t clock_wall_us(void)
{
    int64_t offset_us = atomic_load_explicit(&wall_offset_us, memory_order_relaxed);
    return offset_us ? clock_mono_us() + (uint64_t)offset_us : clock_system_us();
}

void clock_set_wall(int64_t offset_us)
{
    atomic_store_explicit(&wall_offset_us, offset_us, memory_order_relaxed);
}

uint64_t clock_mono_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

uint64_t clock_boot_us(void)
{
    return read_us(CLOCK_BOOTTIME);
}

uint64_t clock_thread_us(void)
{
    return read_us(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t clock_random(void)
{
    static _Thread_local uint64_t counter;
    static _Thread_local bool seeded;
    if (!seeded) {
        clock_random_bytes(&counter, sizeof(counter));
        seeded = true;
    }
    counter += 0x9e3779b97f4a7c15;
    uint64_t mixed = counter;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
}

void clock_random_bytes(void *to, unsigned long len)
{
    char *at = to;
    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);
        CHECK(got > 0 || errno == EINTR);
        size_t came = got > 0 ? (size_t)got : 0;
        at += came;
        len -= came;
    }
}
