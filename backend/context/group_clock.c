#include "backend/context/group_clock.h"

#include "shared/clock.h"

enum {
    SLEW = 100, /* part of the time passed by which the time approaches a clock that is behind */
    SET_US = 1000000,       /* a leader whose time goes back by more has set its clock */
    KEPT_BEHIND_US = 10000, /* by which a time that is kept may be behind */
    KEPT_AHEAD_US = 1000000,
};

/* No clock shows a later time, in µs: it is about the year 150000. */
#define CLOCK_MAX ((uint64_t)1 << 62)

/* Messages come with different delays: of two, the one that was faster says more. */
static int64_t heard_from(const struct group_clock *clock, int64_t offset_us, uint64_t now_us)
{
    int64_t behind_us = clock->heard_us - offset_us;
    int64_t most_us = (int64_t)((now_us - clock->heard_at_us) / SLEW);
    if (!clock->heard_at_us || behind_us <= most_us || behind_us > SET_US)
        return offset_us;
    return clock->heard_us - most_us;
}

void group_clock_hear(struct group_clock *clock, uint64_t time_us)
{
    uint64_t now_us = clock_boot_us();
    if (!time_us || time_us > CLOCK_MAX)
        return;
    clock->heard_us = heard_from(clock, (int64_t)(time_us - now_us), now_us);
    clock->heard_at_us = now_us;
    int64_t shift_us = (int64_t)(now_us + (uint64_t)clock->heard_us - clock_wall_us());
    atomic_store(&clock->shift_us, shift_us > 0 ? shift_us : 0);
    atomic_store(&clock->is_known, true);
}

void group_clock_raise(struct group_clock *clock, uint64_t time_us)
{
    if (!time_us || time_us > CLOCK_MAX)
        return;
    int64_t shift_us = (int64_t)(time_us - clock_wall_us());
    int64_t known_us = atomic_load(&clock->shift_us);
    while (known_us < shift_us &&
           !atomic_compare_exchange_weak(&clock->shift_us, &known_us, shift_us))
        ;
    atomic_store(&clock->is_known, true);
}

void group_clock_elected(struct group_clock *clock)
{
    atomic_store(&clock->is_known, true);
}

static uint64_t passed(uint64_t from_us, uint64_t to_us)
{
    return to_us > from_us ? to_us - from_us : 0;
}

/* A clock that was set, or is another machine's, may show that more time has passed than it did, but not both. */
static uint64_t time_of(const struct replica_time *kept)
{
    uint64_t boot_us = passed(kept->boot_us, clock_boot_us());
    uint64_t system_us = passed(kept->system_us, clock_system_us());
    return kept->group_us ? kept->group_us + (boot_us < system_us ? boot_us : system_us) : 0;
}

void group_clock_go_on(struct group_clock *clock, const struct replica_time *kept)
{
    group_clock_raise(clock, time_of(kept));
}

bool group_clock_keep(const struct group_clock *clock, struct replica_time *kept)
{
    uint64_t now_us = group_clock_us(clock), kept_us = time_of(kept);
    if (!now_us || (now_us <= kept_us + KEPT_BEHIND_US && kept_us <= now_us + KEPT_AHEAD_US))
        return false;
    *kept = (struct replica_time){now_us, clock_boot_us(), clock_system_us()};
    return true;
}

int64_t group_clock_lead(struct group_clock *clock)
{
    int64_t shift_us = atomic_load(&clock->shift_us);
    clock->ticked_us = clock_boot_us();
    atomic_store(&clock->is_known, true);
    if (shift_us <= GROUP_CLOCK_BELIEVED_US)
        return 0;
    atomic_store(&clock->shift_us, 0);
    return shift_us;
}

void group_clock_tick(struct group_clock *clock)
{
    uint64_t now_us = clock_boot_us();
    int64_t shift_us = atomic_load(&clock->shift_us);
    int64_t less_us = (int64_t)((now_us - clock->ticked_us) / SLEW);
    if (shift_us && !less_us)
        return; /* the rest counts at the next tick */
    clock->ticked_us = now_us;
    if (shift_us) /* fails if the other thread has raised it: then at the next tick */
        (void)atomic_compare_exchange_strong(&clock->shift_us, &shift_us,
                                             shift_us > less_us ? shift_us - less_us : 0);
}

uint64_t group_clock_us(const struct group_clock *clock)
{
    return atomic_load(&clock->is_known) ? clock_wall_us() + (uint64_t)atomic_load(&clock->shift_us)
                                         : 0;
}
