/*
 * list.h - intrusive doubly linked list: the node is a member of its owner, which container_of finds. An unlinked node
 * points to itself.
 */
#pragma once

#include "shared/check.h"

#include <stdbool.h>

struct list {
    struct list *next;
    struct list *prev;
};

static inline void list_init(struct list *list)
{
    list->next = list->prev = list;
}

static inline bool list_empty(const struct list *list)
{
    return list->next == list;
}

static inline void list_push(struct list *list, struct list *node)
{
    node->prev = list->prev;
    node->next = list;
    list->prev->next = node;
    list->prev = node;
}

/* Leaves the node pointing to itself, so unlinking twice is harmless. */
static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* The first node, unlinked; NULL when empty. */
static inline struct list *list_pop(struct list *list)
{
    if (list_empty(list))
        return NULL;
    struct list *node = list->next;
    list_remove(node);
    return node;
}
