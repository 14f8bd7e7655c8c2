#include "shared/option_version.h"

#include "shared/clock.h"

enum { RANDOM_BITS = 10 };

uint64_t option_version_after(uint64_t version, uint64_t now_us)
{
    uint16_t random;
    uint64_t next_us = (version >> RANDOM_BITS) + 1;
    clock_random_bytes(&random, sizeof random);
    return (next_us > now_us ? next_us : now_us) << RANDOM_BITS |
           (random & ((1u << RANDOM_BITS) - 1));
}
