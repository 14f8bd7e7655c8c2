/*
 * sim_seeds.h - main() of simulations of whole clusters: which worlds to run, in child processes, so that an abort ends only
 * one of them.
 *
 *   program [--seed N] [--seeds COUNT] [--steps N] [--break NAME] [--part I/N] [-v]
 *
 *     --seed N      one world, which is always the same; -v prints its events
 *     --seeds N     so many worlds, beginning with that of --seed (default: those of the simulation, from 1)
 *     --steps N     events before the faults end
 *     --break NAME  a promise is broken (sim_break.h), and the worlds must fail
 *     --part 1/2    the first half of what a run without arguments does, so that two processes do it at the same time
 *
 * Without arguments it runs the known seeds, which failed in the past, the first seeds, and every control of the
 * simulation until it is detected. Every tenth world runs twice, and both histories must be equal.
 */
#pragma once

#include "tests/sim/sim_break.h"

#include <stddef.h>
#include <stdint.h>

struct sim_result {
    uint64_t seed;
    uint64_t hash; /* of the history */
    uint64_t undecided;
    bool has_passed;
    char why[600]; /* it has not passed */
};

struct sim_simulation {
    /* Runs the seed's world and fills in the result. A failed world need not be freed: the process ends. */
    void (*run)(struct sim_result *result);
    uint64_t seeds;
    uint64_t steps;
    const uint64_t *known; /* seeds that failed in the past; they run first */
    size_t known_count;
    enum sim_break first_break, end_break;
    uint64_t break_seed; /* the first seed that runs with a control */
};

struct sim_options {
    uint64_t seed;
    uint64_t seeds;
    uint64_t steps;
    bool is_verbose;
    bool is_default; /* no argument was given but --part */
    uint32_t part;   /* from 0 */
    uint32_t parts;
    bool is_breaking;
};

/* In force since sim_seeds_main. */
extern struct sim_options sim_options;

/* Returns the exit code. */
int sim_seeds_main(int argc, char **argv, const struct sim_simulation *simulation);
