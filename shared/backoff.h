/*
 * backoff.h - how long to wait before a failed connection is tried again.
 */
#pragma once

#include <stdint.h>

/* Doubles with each failure in a row (1, 2, 3 …) from min_ms up to max_ms. Up to half of the wait is random, so that
 * many clients do not reconnect at the same moment. */
uint64_t backoff_ms(uint32_t failures, uint64_t min_ms, uint64_t max_ms);
