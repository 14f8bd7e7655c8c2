#include "backend/rank/range_bound.h"

#include "backend/context/partition.h"
#include "shared/check.h"

#include <stdlib.h>

enum {
    BOUNDS = 64, /* collections in the table; a power of two */
    /* memory for a bound; a longer bound is cut if its beginning is still a bound */
    PLACE_BYTES = 96,
    PREFIX_BYTES_MAX = 4096, /* collections with a longer prefix have no bounds */
};

static const struct bytes NOTHING = {"", 0};

struct range_bound {
    char *prefix; /* of the collection's rows; heap, NULL: the entry is empty */
    size_t prefix_len;
    uint64_t stamp;     /* of the collection, when the bounds were found */
    uint16_t first_len; /* 0: not known */
    uint16_t last_len;
    char first[PLACE_BYTES]; /* no row is before this key */
    char last[PLACE_BYTES];  /* no row is at or after this key */
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
    for (size_t i = 0; bounds && i < BOUNDS; i++)
        free(bounds->bound[i].prefix);
    free(bounds);
}

static struct range_bound *range_bound_slot(struct call *call, const struct entry *entry)
{
    return &call->partition->caches.range_bounds->bound[(entry_hash(entry) >> 32) & (BOUNDS - 1)];
}

static bool is_of(const struct range_bound *bound, struct bytes prefix)
{
    return bound->prefix && bytes_equal((struct bytes){bound->prefix, bound->prefix_len}, prefix);
}

/* The bounds of the collection; NULL: none are cached. */
static struct range_bound *range_bound_find(struct call *call, struct entry *entry)
{
    struct range_bound *bound = range_bound_slot(call, entry);
    return bound->stamp == overlay_stamp(call->partition->overlay, entry->meta.version) &&
                   is_of(bound, entry_prefix(call, entry))
               ? bound
               : NULL;
}

/* The bounds of the collection, made if they are not cached; NULL: the prefix is too long. */
static struct range_bound *range_bound_make(struct call *call, struct entry *entry)
{
    struct bytes prefix = entry_prefix(call, entry);
    struct range_bound *bound = range_bound_slot(call, entry);
    uint64_t stamp = overlay_stamp(call->partition->overlay, entry->meta.version);
    bool is_same = is_of(bound, prefix);
    if (prefix.len > PREFIX_BYTES_MAX)
        return NULL;
    if (is_same && bound->stamp == stamp)
        return bound;
    if (!is_same) {
        free(bound->prefix);
        bound->prefix = malloc(prefix.len);
        CHECK(bound->prefix);
        memcpy(bound->prefix, prefix.data, prefix.len);
        bound->prefix_len = prefix.len;
    }
    bound->stamp = stamp;
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

bool range_bound_is_first(struct call *call, struct entry *entry, struct bytes from)
{
    return from.len == 0 || bytes_compare(from, first_of(range_bound_find(call, entry))) <= 0;
}

bool range_bound_is_last(struct call *call, struct entry *entry, struct bytes to)
{
    struct bytes last = last_of(range_bound_find(call, entry));
    return to.len == 0 || (last.len && bytes_compare(to, last) >= 0);
}

struct bytes range_bound_first(struct call *call, struct entry *entry, struct bytes from)
{
    struct bytes first = first_of(range_bound_find(call, entry));
    return first.len && range_bound_is_first(call, entry, from) ? arena_copy(call->arena, first)
                                                                : from;
}

struct bytes range_bound_last(struct call *call, struct entry *entry, struct bytes to)
{
    struct bytes last = last_of(range_bound_find(call, entry));
    return last.len && range_bound_is_last(call, entry, to) ? arena_copy(call->arena, last) : to;
}

void range_bound_found_first(struct call *call, struct entry *entry, struct bytes place)
{
    struct range_bound *bound = range_bound_make(call, entry);
    if (!bound)
        return;
    bound->first_len = (uint16_t)(place.len < PLACE_BYTES ? place.len : PLACE_BYTES);
    memcpy(bound->first, place.data, bound->first_len);
}

/* The bound is the row's key plus a zero byte: the first key after the row. */
void range_bound_found_last(struct call *call, struct entry *entry, struct bytes place)
{
    struct range_bound *bound = range_bound_make(call, entry);
    if (!bound)
        return;
    bound->last_len = 0;
    if (place.len >= PLACE_BYTES)
        return;
    memcpy(bound->last, place.data, place.len);
    bound->last[place.len] = 0;
    bound->last_len = (uint16_t)(place.len + 1);
}

void range_bound_add(struct call *call, struct entry *entry, struct bytes place)
{
    struct range_bound *bound = range_bound_find(call, entry);
    if (!bound)
        return;
    if (bound->first_len && bytes_compare(place, first_of(bound)) < 0)
        range_bound_found_first(call, entry, place);
    if (bound->last_len && bytes_compare(place, last_of(bound)) >= 0)
        range_bound_found_last(call, entry, place);
}
