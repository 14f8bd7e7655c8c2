/*
 * sized.h - how many rounds a random test runs: usually, under a sanitizer, and with --long.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

enum { SIZED_LONG = 20, SIZED_SANITIZED = 4 };

/* How many seeds or rounds of `usual` to take: 20 times as many with `tests/run --long`, a quarter under a sanitizer. */
static inline unsigned sized(unsigned usual)
{
    const char *is_long = getenv("SCREE_TEST_LONG");
    if (is_long && strcmp(is_long, "1") == 0)
        return usual * SIZED_LONG;
    return getenv("SCREE_TEST_SLOW") ? (usual + SIZED_SANITIZED - 1) / SIZED_SANITIZED : usual;
}
