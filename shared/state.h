/*
 * state.h - the states of a machine as a table: what each is called, and which may follow.
 *
 *   PART_LOCKED ── next: LOCKING, PREPARING ──► set_state(PART_PREPARED): CHECK fails, a bug is seen where it happens
 *
 * A header draws the states of its machine as lines "NAME ─► NAME, NAME", and tests/unit/test_states.c compares them with the table.
 * Questions about several states name them as a set, so that the order of an enum means nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A set of one state; sets are joined by |. An enum of states has at most 32. */
#define STATE_BIT(state) (UINT32_C(1) << (state))

struct state_row {
    const char *name; /* as in the drawing */
    const char *word; /* for operators: SCREE MOVES, SCREE TRANSACTIONS */
    uint32_t next;    /* the states that may follow */
};

static inline bool state_is_in(unsigned state, uint32_t set)
{
    return (STATE_BIT(state) & set) != 0;
}

static inline bool state_may_follow(const struct state_row *states, unsigned from, unsigned to)
{
    return state_is_in(to, states[from].next);
}
