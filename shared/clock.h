/*
 * clock.h - the interface to time and random numbers; a simulation links another implementation.
 *
 * Hot paths do not call it: the time is read once per turn of the loop (shared/net/loop.h).
 */
#pragma once

#include <stdint.h>

uint64_t clock_wall_us(void); /* since the Unix epoch; may jump */
uint64_t clock_mono_us(void); /* never goes back */
uint64_t clock_random(void);  /* 64 random bits; seeded from the system per thread */
/* Fills `to` with cryptographically strong bytes (run ids, tokens). */
void clock_random_bytes(void *to, unsigned long len);
