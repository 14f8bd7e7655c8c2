#include "shared/fair_queue.h"

#include "shared/table.h"

#include <stdlib.h>

enum { GROUPS_KEPT = 1024, RESERVED_PART = 8 };

void fair_queue_init(struct fair_queue *queue)
{
    *queue = (struct fair_queue){.groups = table_new()};
    for (int i = 0; i < FAIR_LEVELS; i++)
        list_init(&queue->levels[i]);
}

void fair_queue_fini(struct fair_queue *queue)
{
    size_t cursor = 0;
    struct bytes name;
    void *group;
    CHECK(!queue->in_use && !fair_queue_pop(queue));
    while (table_next(queue->groups, &cursor, &name, &group))
        free(group);
    table_free(queue->groups);
}

struct fair_group *fair_queue_group(struct fair_queue *queue, struct bytes name)
{
    struct fair_group *group = table_get(queue->groups, name);
    if (group)
        return group;
    group = calloc(1, sizeof *group + name.len + 1);
    CHECK(group);
    if (name.len)
        memcpy(group->text, name.data, name.len);
    group->name = (struct bytes){group->text, name.len};
    list_init(&group->link);
    list_init(&group->waiting);
    (void)table_put(queue->groups, name, group);
    return group;
}

/* Frees a group that has nothing, if there are many. */
static void forget_group(struct fair_queue *queue, struct fair_group *group)
{
    if (group->in_use || fair_group_waits(group) || !list_empty(&group->link) ||
        table_count(queue->groups) <= GROUPS_KEPT)
        return;
    CHECK(table_remove(queue->groups, group->name) == group);
    free(group);
}

bool fair_queue_has_room(const struct fair_queue *queue, const struct fair_group *group,
                         struct fair_limit limit)
{
    uint32_t reserved = limit.count / RESERVED_PART;
    if (queue->in_use >= limit.count)
        return false;
    return queue->in_use < limit.count - reserved ||
           (uint64_t)group->in_use * 100 <= (uint64_t)limit.count * limit.percent;
}

/* ---- levels ---------------------------------------------------------------------------------- */

static void leave_level(struct fair_queue *queue, struct fair_group *group)
{
    list_remove(&group->link);
    if (list_empty(&queue->levels[group->level]))
        queue->levels_used &= ~(1ULL << group->level);
}

static void enter_level(struct fair_queue *queue, struct fair_group *group)
{
    group->level = (uint8_t)(group->in_use < FAIR_LEVELS ? group->in_use : FAIR_LEVELS - 1);
    list_push(&queue->levels[group->level], &group->link);
    queue->levels_used |= 1ULL << group->level;
}

/* Puts a group that waits behind the others of its level. */
static void change_level(struct fair_queue *queue, struct fair_group *group)
{
    if (list_empty(&group->link))
        return;
    leave_level(queue, group);
    enter_level(queue, group);
}

/* The group that waits with least in use. Groups whose waiters have left are removed on the way. */
static struct fair_group *least_group(struct fair_queue *queue)
{
    while (queue->levels_used) {
        struct list *level = &queue->levels[__builtin_ctzll(queue->levels_used)];
        struct fair_group *group = container_of(level->next, struct fair_group, link);
        if (fair_group_waits(group))
            return group;
        leave_level(queue, group);
        forget_group(queue, group);
    }
    return NULL;
}

/* ---- in use, waiting ------------------------------------------------------------------------- */

void fair_queue_take(struct fair_queue *queue, struct fair_group *group)
{
    queue->in_use++;
    group->in_use++;
    change_level(queue, group);
}

void fair_queue_give_back(struct fair_queue *queue, struct fair_group *group)
{
    CHECK(queue->in_use && group->in_use);
    queue->in_use--;
    group->in_use--;
    change_level(queue, group);
    forget_group(queue, group);
}

void fair_queue_wait(struct fair_queue *queue, struct fair_group *group, struct list *waiter,
                     bool is_first)
{
    list_push(is_first ? group->waiting.next : &group->waiting, waiter);
    if (list_empty(&group->link))
        enter_level(queue, group);
}

/* The group's first waiter; the group's turn is over. */
static struct list *pop_waiter(struct fair_queue *queue, struct fair_group *group)
{
    struct list *waiter = list_pop(&group->waiting);
    leave_level(queue, group);
    if (fair_group_waits(group))
        enter_level(queue, group);
    return waiter;
}

struct list *fair_queue_next(struct fair_queue *queue, struct fair_limit limit)
{
    struct fair_group *group = least_group(queue);
    if (!group || !fair_queue_has_room(queue, group, limit))
        return NULL;
    return pop_waiter(queue, group);
}

struct list *fair_queue_pop(struct fair_queue *queue)
{
    struct fair_group *group = least_group(queue);
    return group ? pop_waiter(queue, group) : NULL;
}
