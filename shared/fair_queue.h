/*
 * fair_queue.h - gives out a limited number of things, such as connections, to groups, such as namespaces.
 *
 *   group a   in_use 40   waiting ─► 1 ─► 2 ─► …          levels, by in_use:  [0]  [1] b  [2]  …  [40] a
 *   group b   in_use  1   waiting ─► 9                                             ▲ next
 *
 * (1) Within a group the order is that of arrival.
 * (2) A free thing goes to the waiting group that has least in use; groups with the same number take turns.
 * (3) All but an eighth may be used by one group. Of the last eighth a group gets none if it has more than `percent` of the
 *     limit, so that another group finds something free at once.
 *
 * Every function takes constant time. While nothing waits, only in_use is counted. The queue holds waiters by list nodes of
 * the caller, which may be removed (list_remove) at any time.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/list.h"

#include <stdbool.h>

enum { FAIR_LEVELS = 64 };

struct table;

struct fair_queue {
    struct list levels[FAIR_LEVELS]; /* groups that wait; the last level is for more in use, too */
    uint64_t levels_used;            /* bit i: levels[i] is not empty */
    uint32_t in_use;
    struct table *groups; /* by name */
};

struct fair_group {
    struct list link;    /* in a level, while it waits */
    struct list waiting; /* nodes of the caller, the first one is next */
    uint32_t in_use;
    uint8_t level;
    struct bytes name;
    char text[];
};

/* What may be given out; may differ from call to call. */
struct fair_limit {
    uint32_t count;
    uint32_t percent; /* rule (3) */
};

void fair_queue_init(struct fair_queue *queue);
/* Nothing may be in use or wait. */
void fair_queue_fini(struct fair_queue *queue);
/* Finds or makes the group; it stays at least as long as it has something in use or waits. */
struct fair_group *fair_queue_group(struct fair_queue *queue, struct bytes name);
/* May the group take one more? Its own waiters are not regarded. */
bool fair_queue_has_room(const struct fair_queue *queue, const struct fair_group *group,
                         struct fair_limit limit);
static inline bool fair_group_waits(const struct fair_group *group)
{
    return !list_empty(&group->waiting);
}
void fair_queue_take(struct fair_queue *queue, struct fair_group *group);
/* The group may be freed. */
void fair_queue_give_back(struct fair_queue *queue, struct fair_group *group);
/* Adds a waiter, which must be in no list, at the end of its group's, or in front. */
void fair_queue_wait(struct fair_queue *queue, struct fair_group *group, struct list *waiter,
                     bool is_first);
/* Removes and returns the waiter that may take something now; NULL: none. It has not taken it yet. */
struct list *fair_queue_next(struct fair_queue *queue, struct fair_limit limit);
/* Removes and returns any waiter; NULL: none is left. */
struct list *fair_queue_pop(struct fair_queue *queue);
