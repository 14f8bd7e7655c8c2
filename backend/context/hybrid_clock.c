#include "backend/context/hybrid_clock.h"

static uint64_t later_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void hybrid_clock_begin(struct hybrid_clock *clock, uint64_t time)
{
    clock->last = later_of(clock->last, time);
    clock->announced = later_of(clock->announced, time);
}

uint64_t hybrid_clock_close(struct hybrid_clock *clock, uint64_t wall_us)
{
    uint64_t before = later_of(clock->last, clock->heard);
    uint64_t time = later_of(wall_us, before + 1);
    clock->last = time < HYBRID_MAX ? time : HYBRID_MAX;
    return clock->last;
}

uint64_t hybrid_clock_pass(struct hybrid_clock *clock, uint64_t wall_us)
{
    uint64_t time = later_of(wall_us, later_of(clock->last, clock->heard));
    clock->heard = time < HYBRID_MAX ? time : HYBRID_MAX;
    return clock->heard;
}

void hybrid_clock_announce(struct hybrid_clock *clock)
{
    clock->announced = clock->last;
}

bool hybrid_clock_hear(struct hybrid_clock *clock, uint64_t time, uint64_t wall_us)
{
    if (time > wall_us && time - wall_us > HYBRID_AHEAD_US)
        return false;
    clock->heard = later_of(clock->heard, time);
    return true;
}

uint64_t hybrid_clock_now(const struct hybrid_clock *clock)
{
    return later_of(clock->announced, clock->heard);
}
