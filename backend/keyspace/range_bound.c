#include "backend/keyspace/range_bound.h"

#include "backend/context/partition.h"
#include "shared/check.h"

#include <stdlib.h>

enum {
    BOUNDS = 64, /* collections in the table; a power of two */
    /* bytes kept of a bound; of a longer one only the beginning, if that is still a bound */
    PLACE_BYTES = 96,
};

static const struct bytes NOTHING = {"", 0};

struct range_bound {
    uint64_t version; /* version of the collection, unique in the partition */
    uint64_t generation;
    uint16_t first_len; /* 0: not known */
    uint16_t last_len;
    char first[PLACE_BYTES]; /* no row is before it */
    char last[PLACE_BYTES];  /* no row is at or after it */
};

struct range_bounds {
    struct range_bound bound[BOUNDS];
};

struct range_bounds *range_bounds_new(void)
{
    struct range_bounds *bounds = calloc(1, sizeof *bounds);
    CHECK(bounds);
    return bounds;
}

void range_bounds_free(struct range_bounds *bounds)
{
    free(bounds);
}

static struct range_bound *range_bound_slot(struct call *call, const struct entry *entry)
{
    uint64_t hash = entry->meta.version * 0x9e3779b97f4a7c15;
    return &call->partition->caches.range_bounds->bound[(hash >> 32) & (BOUNDS - 1)];
}

/* NULL: no bounds are known. */
static struct range_bound *range_bound_find(struct call *call, const struct entry *entry)
{
    struct range_bound *bound = range_bound_slot(call, entry);
    return bound->version == entry->meta.version &&
                   bound->generation == overlay_generation(call->partition->overlay)
               ? bound
               : NULL;
}

static struct range_bound *range_bound_make(struct call *call, const struct entry *entry)
{
    struct range_bound *bound = range_bound_find(call, entry);
    if (bound)
        return bound;
    bound = range_bound_slot(call, entry);
    bound->version = entry->meta.version;
    bound->generation = overlay_generation(call->partition->overlay);
    bound->first_len = bound->last_len = 0;
    return bound;
}

static struct bytes first_of(const struct range_bound *bound)
{
    return bound ? (struct bytes){bound->first, bound->first_len} : NOTHING;
}

static struct bytes last_of(const struct range_bound *bound)
{
    return bound ? (struct bytes){bound->last, bound->last_len} : NOTHING;
}

bool range_bound_is_first(struct call *call, const struct entry *entry, struct bytes from)
{
    return from.len == 0 || bytes_compare(from, first_of(range_bound_find(call, entry))) <= 0;
}

bool range_bound_is_last(struct call *call, const struct entry *entry, struct bytes to)
{
    struct bytes last = last_of(range_bound_find(call, entry));
    return to.len == 0 || (last.len && bytes_compare(to, last) >= 0);
}

struct bytes range_bound_first(struct call *call, const struct entry *entry, struct bytes from)
{
    struct bytes first = first_of(range_bound_find(call, entry));
    return first.len && range_bound_is_first(call, entry, from) ? arena_copy(call->arena, first)
                                                                : from;
}

struct bytes range_bound_last(struct call *call, const struct entry *entry, struct bytes to)
{
    struct bytes last = last_of(range_bound_find(call, entry));
    return last.len && range_bound_is_last(call, entry, to) ? arena_copy(call->arena, last) : to;
}

void range_bound_found_first(struct call *call, const struct entry *entry, struct bytes place)
{
    struct range_bound *bound = range_bound_make(call, entry);
    bound->first_len = (uint16_t)(place.len < PLACE_BYTES ? place.len : PLACE_BYTES);
    memcpy(bound->first, place.data, bound->first_len);
}

/* The bound is the shortest text after the row. */
void range_bound_found_last(struct call *call, const struct entry *entry, struct bytes place)
{
    struct range_bound *bound = range_bound_make(call, entry);
    bound->last_len = 0;
    if (place.len >= PLACE_BYTES)
        return;
    memcpy(bound->last, place.data, place.len);
    bound->last[place.len] = 0;
    bound->last_len = (uint16_t)(place.len + 1);
}

void range_bound_add(struct call *call, const struct entry *entry, struct bytes place)
{
    struct range_bound *bound = range_bound_find(call, entry);
    if (!bound)
        return;
    if (bound->first_len && bytes_compare(place, first_of(bound)) < 0)
        range_bound_found_first(call, entry, place);
    if (bound->last_len && bytes_compare(place, last_of(bound)) >= 0)
        range_bound_found_last(call, entry, place);
}
