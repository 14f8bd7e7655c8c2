/*
 * slot_moves_inner.h - what the files of the moves of a partition share (slot_moves.h).
 *
 *   slot_moves.c ──────► moves in memory: life, steps, requests, control
 *   slot_moves_plan.c ─► which begin, and which are no longer wished
 *   slot_moves_list.c ─► SCREE MOVES
 */
#pragma once

#include "backend/context/partition.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/slots/move_source.h"
#include "backend/slots/move_target.h"
#include "backend/slots/slot_moves.h"

struct timer;

struct slot_moves {
    struct move_host host;
    struct list sources;
    struct list targets;
    struct moving_slots moving;
    struct timer *timer; /* runs while there are moves */
    bool is_running;
    bool must_load;
    bool is_held;            /* for a backup */
    uint64_t plan_ms;        /* monotonic: when to look for slots to move */
    uint64_t planned_by;     /* epoch of the map at the last look */
    uint32_t planned;        /* moves that ran after the last look */
    struct slot_set taken;   /* slots of moves when slots are looked for */
    uint64_t filled_ms;      /* monotonic: when the allowance was filled */
    struct slot_set damaged; /* slots that cannot move, because a row of theirs is damaged */
    uint64_t damaged_ms;     /* monotonic: when they are tried again; 0: there are none */
};

static inline uint64_t moves_now_ms(const struct slot_moves *moves)
{
    return loop_mono_ms(moves->host.partition->loop);
}

static inline struct move_source *source_at(struct list *link)
{
    return container_of(link, struct move_source, link);
}

static inline struct move_target *target_at(struct list *link)
{
    return container_of(link, struct move_target, link);
}

static inline uint32_t count_moves(const struct list *list)
{
    uint32_t count = 0;
    for (const struct list *at = list->next; at != list; at = at->next)
        count++;
    return count;
}

/* ---- slot_moves.c ---- */

void move_slots_add(struct slot_set *set, const struct move_slots *slots);

/* ---- slot_moves_plan.c ---- */

/* Why no move begins now; NULL: moves may begin. */
const char *moves_reason_to_wait(const struct slot_moves *moves);
/* Begins moves. */
void moves_plan(struct slot_moves *moves);
/* Gives up moves that the map no longer wishes. */
void moves_check_wishes(struct slot_moves *moves);
