/*
 * sim_strays.h - strays of a simulated world: keys that lie at shards that do not own their slots, and must reach the owners.
 *
 *   sim_strays_add ─► a stray lies at a shard ─► it is durable ─ STRAYS MOVE, while slots move and shards crash ─► it is at the owner
 *
 * A stray that was durable exists until the end, once, and with its value, whatever fails. Some are deleted as soon as they are at
 * the owner: once that is durable, the stray is gone for ever. All functions are called between two steps of the world.
 */
#pragma once

#include "backend/session/ticket_wait.h"
#include "tests/sim/sim_cluster.h"

enum { SIM_STRAYS_MAX = 60 };

struct sim_stray {
    char key[SIM_NAMES_MAX];
    bool is_long; /* it takes several requests */
    uint16_t slot;
    unsigned shard;  /* where it was added */
    uint64_t ticket; /* of the batch with which it becomes durable */
    bool is_durable;
    bool is_doubtful; /* that shard has crashed, or its disk has failed, before it was durable */
    struct sim_deletion {
        bool is_begun;
        bool is_durable;
        unsigned shard; /* where it was deleted */
        struct ticket_wait wait;
    } deletion;
};

struct sim_strays {
    struct sim_cluster *cluster;
    struct sim_stray strays[SIM_STRAYS_MAX];
    unsigned count;
    bool has_long; /* some are longer than a request between shards may be */
    char why[200]; /* the first failure; empty: none */
};

void sim_strays_init(struct sim_strays *strays, struct sim_cluster *cluster);
/* Adds one, perhaps. */
void sim_strays_add(struct sim_strays *strays);
/* Sees which are durable, and lets a shard move its strays now and then; with `at_once` as soon as it has any. */
void sim_strays_tend(struct sim_strays *strays, bool at_once);
/* The shard is about to crash, or to stop. */
void sim_strays_crashed(struct sim_strays *strays, unsigned shard);
/* Does every one lie at a shard that owns its slot? All shards must be up. */
bool sim_strays_are_home(struct sim_strays *strays);
/* After that: each exists once. */
void sim_strays_check(struct sim_strays *strays);
