/*
 * arena_fixture.h - an arena for each test: tcase_add_checked_fixture(tests, arena_setup, arena_teardown).
 */
#pragma once

#include "shared/arena.h"

static struct arena arena;

static inline void arena_setup(void)
{
    arena_init(&arena);
}

static inline void arena_teardown(void)
{
    arena_fini(&arena);
}
