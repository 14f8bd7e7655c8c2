#include "shared/acl/acl_order.h"

#include "shared/check.h"
#include "shared/glob.h"
#include "shared/merge_sort.h"

#include <stdlib.h>

enum { SORTED_MIN = 8 }; /* fewer texts are compared as fast as they are found */

struct place {
    struct bytes beginning; /* of the text */
    uint32_t item;          /* of the texts */
    /* place of the longest other beginning of this beginning, from 1; 0: there is none */
    uint32_t above;
};
struct acl_order {
    size_t depth; /* places above each other, at most */
    struct place places[];
};

/* ---- making it ---- */

static int compare_places(const void *a, const void *b, void *owner)
{
    (void)owner;
    return bytes_compare(((const struct place *)a)->beginning,
                         ((const struct place *)b)->beginning);
}

static bool has_beginning(struct bytes text, struct bytes beginning)
{
    return text.len >= beginning.len && memcmp(text.data, beginning.data, beginning.len) == 0;
}

static void sort_places(struct place *places, size_t count)
{
    struct arena arena;
    arena_init(&arena);
    CHECK(merge_sort(&arena, places, count, sizeof *places, compare_places, NULL));
    arena_fini(&arena);
}

/* What lies above a place is the place before it, or lies above that one. */
static void link_places(struct acl_order *order, size_t count)
{
    uint32_t *depths = calloc(count + 1, sizeof *depths);
    CHECK(depths);
    for (uint32_t i = 0; i < count; i++) {
        struct place *place = &order->places[i];
        uint32_t above = i;
        while (above && !has_beginning(place->beginning, order->places[above - 1].beginning))
            above = order->places[above - 1].above;
        place->above = above;
        depths[i + 1] = depths[above] + 1;
        if (depths[i + 1] > order->depth)
            order->depth = depths[i + 1];
    }
    free(depths);
}

static struct acl_order *new_order(const struct acl_texts *texts)
{
    struct acl_order *order = calloc(1, sizeof *order + texts->count * sizeof *order->places);
    CHECK(order);
    return order;
}

void acl_texts_sort(struct acl_texts *texts)
{
    if (texts->order || texts->count < SORTED_MIN)
        return;
    texts->order = new_order(texts);
    for (uint32_t i = 0; i < texts->count; i++) {
        struct bytes text = texts->items[i].text;
        texts->order->places[i] =
            (struct place){.beginning = {text.data, glob_plain_length(text)}, .item = i};
    }
    sort_places(texts->order->places, texts->count);
    link_places(texts->order, texts->count);
}

void acl_order_copy(struct acl_texts *texts, const struct acl_texts *from)
{
    if (!from->order)
        return;
    texts->order = new_order(texts);
    texts->order->depth = from->order->depth;
    for (size_t i = 0; i < texts->count; i++) {
        struct place place = from->order->places[i];
        place.beginning.data = texts->items[place.item].text.data;
        texts->order->places[i] = place;
    }
}

/* ---- using it ---- */

static size_t steps_of_search(size_t count)
{
    size_t steps = 0;
    for (; count; count /= 2)
        steps++;
    return steps;
}

size_t acl_texts_depth(const struct acl_texts *texts)
{
    return texts->order ? texts->order->depth + steps_of_search(texts->count) : texts->count;
}

/* The last place whose beginning is not behind the text, from 1. */
static size_t place_of_last(const struct acl_texts *texts, struct bytes text)
{
    size_t low = 0;
    size_t high = texts->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(texts->order->places[middle].beginning, text) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct acl_candidates acl_candidates(const struct acl_texts *texts, struct bytes text)
{
    size_t first = texts->order ? place_of_last(texts, text) : texts->count;
    return (struct acl_candidates){texts, first};
}

const struct acl_text *acl_candidates_next(struct acl_candidates *candidates)
{
    const struct acl_texts *texts = candidates->texts;
    size_t at = candidates->next;
    if (at == 0)
        return NULL;
    candidates->next = texts->order ? texts->order->places[at - 1].above : at - 1;
    return &texts->items[texts->order ? texts->order->places[at - 1].item : at - 1];
}
