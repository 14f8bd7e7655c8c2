#include "backend/keyspace/slot_set.h"

#include "shared/check.h"
#include "shared/slot_ranges.h"

#include <stdlib.h>

/* slot_range_fn */
static void add_range(void *owner, uint16_t first, uint16_t last)
{
    for (unsigned slot = first; slot <= last; slot++)
        slot_set_add(owner, (uint16_t)slot);
}

static bool has_all_slots(const struct slot_set *set)
{
    for (size_t i = 0; i < sizeof set->words / sizeof set->words[0]; i++)
        if (set->words[i] != UINT64_MAX)
            return false;
    return true;
}

bool slot_set_get(struct list *sets, struct bytes ranges, struct slot_set **set)
{
    struct slot_set *fresh = calloc(1, sizeof *fresh);
    CHECK(fresh);
    *set = NULL;
    bool is_good = slot_ranges_each(ranges, add_range, fresh);
    if (!is_good || has_all_slots(fresh)) {
        free(fresh);
        return is_good;
    }
    for (struct list *link = sets->next; link != sets; link = link->next) {
        struct slot_set *other = container_of(link, struct slot_set, link);
        if (memcmp(other->words, fresh->words, sizeof fresh->words) != 0)
            continue;
        free(fresh);
        other->refs++;
        *set = other;
        return true;
    }
    fresh->refs = 1;
    list_push(sets, &fresh->link);
    *set = fresh;
    return true;
}

void slot_set_unref(struct slot_set *set)
{
    if (!set || --set->refs > 0)
        return;
    list_remove(&set->link);
    free(set);
}

bool slot_set_next_run(const struct slot_set *set, unsigned *from, uint16_t *first, uint16_t *last)
{
    unsigned slot = *from;
    while (slot < SLOT_COUNT && !slot_set_has(set, (uint16_t)slot))
        slot++;
    if (slot == SLOT_COUNT)
        return false;
    *first = (uint16_t)slot;
    while (slot < SLOT_COUNT && slot_set_has(set, (uint16_t)slot))
        slot++;
    *last = (uint16_t)(slot - 1);
    *from = slot;
    return true;
}

uint64_t slot_set_sum(const struct slot_set *set)
{
    uint64_t sum = 0;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        if (slot_set_has(set, (uint16_t)slot))
            sum += slot_term((uint16_t)slot);
    return sum & SLOT_SUM_MASK;
}
