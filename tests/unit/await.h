/*
 * await.h - runs a loop until a condition holds, at most AWAIT_MS: the tests' way not to sleep.
 */
#pragma once

#include "shared/net/loop.h"

#include <stddef.h>

enum { AWAIT_MS = 60000 };

struct await {
    struct loop *loop;
    struct turn_hook hook;
    bool (*is_done)(void *owner); /* NULL: no call waits */
    void *owner;
    bool is_late;
};

static inline bool await_on_turn(void *owner)
{
    struct await *await = owner;
    if (await->is_done && await->is_done(await->owner)) {
        await->is_done = NULL;
        loop_stop(await->loop);
    }
    return false;
}

static inline void await_on_limit(void *owner)
{
    struct await *await = owner;
    await->is_late = true;
    loop_stop(await->loop);
}

/* Adds the hook; `await` lives as long as the loop. */
static inline void await_init(struct await *await, struct loop *loop)
{
    *await = (struct await){.loop = loop, .hook = {.run = await_on_turn, .owner = await}};
    loop_add_hook(loop, &await->hook);
}

/* Runs the loop until is_done(owner) is true. False: it was not true within AWAIT_MS. */
static inline bool await_until(struct await *await, bool (*is_done)(void *owner), void *owner)
{
    struct timer *limit = timer_new(await->loop, await_on_limit, await);
    timer_start(limit, AWAIT_MS, 0);
    await->is_late = false;
    await->is_done = is_done;
    await->owner = owner;
    loop_run(await->loop);
    await->is_done = NULL;
    timer_free(limit);
    return !await->is_late;
}

static inline bool await_flag(void *owner)
{
    return *(bool *)owner;
}
