#include "shared/backoff.h"

#include "shared/check.h"
#include "shared/clock.h"

enum { DOUBLINGS_MAX = 20 };

uint64_t backoff_ms(uint32_t failures, uint64_t min_ms, uint64_t max_ms)
{
    CHECK(failures > 0);
    uint32_t doublings = failures - 1 < DOUBLINGS_MAX ? failures - 1 : DOUBLINGS_MAX;
    uint64_t wait_ms = min_ms << doublings;
    if (wait_ms > max_ms)
        wait_ms = max_ms;
    return wait_ms / 2 + clock_random() % (wait_ms / 2 + 1);
}
