/*
 * clock.h - the interface to time and random numbers; a simulation links another implementation.
 *
 * Hot paths do not call it: the time is read once per turn of the loop (shared/net/loop.h).
 */
#pragma once

#include <stdint.h>

/* Since the Unix epoch; may jump. It is the system's clock, or after clock_set_wall the time that all shards agree on. */
uint64_t clock_wall_us(void);
uint64_t clock_system_us(void); /* the system's clock, since the Unix epoch; may jump */
/* From now on clock_wall_us of the whole process is clock_mono_us + offset_us; 0: the system's clock again. Thread-safe. */
void clock_set_wall(int64_t offset_us);
uint64_t clock_mono_us(void); /* never goes back */
/* Never goes back, and goes on while the machine is suspended: for promises to other machines, whose clocks go on. */
uint64_t clock_boot_us(void);
/* CPU time of the calling thread: does not go on while the thread waits, or others use the processor. A system call. */
uint64_t clock_thread_us(void);
uint64_t clock_random(void); /* 64 random bits; seeded from the system per thread */
/* Fills `to` with cryptographically strong bytes (run ids, tokens). */
void clock_random_bytes(void *to, unsigned long len);
