/*
 * clock.h - the interface to time and chance; a simulation links another implementation.
 *
 * Hot paths do not call it: time is taken once per loop turn (shared/net/loop.h).
 */
#pragma once

#include <stdint.h>

uint64_t clock_wall_us(void); /* since the Unix epoch; may step */
uint64_t clock_mono_us(void); /* never steps back */
uint64_t clock_random(void);  /* 64 random bits; seeded from the system per thread */
/* Fills cryptographically strong bytes (run ids, tokens). */
void clock_random_bytes(void *to, unsigned long len);
