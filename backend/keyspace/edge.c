#include "backend/keyspace/edge.h"

#include "backend/context/partition.h"
#include "shared/check.h"

#include <stdlib.h>

enum {
    EDGES = 64,       /* collections remembered; a power of two */
    PLACE_BYTES = 96, /* of longer places the beginning is kept, where that is right */
};

static const struct bytes NOTHING = {"", 0};

struct edge {
    uint64_t version; /* of the collection: no other of the partition has it */
    uint64_t generation;
    uint16_t first_len; /* 0: not known */
    uint16_t last_len;
    char first[PLACE_BYTES]; /* no row is less */
    char last[PLACE_BYTES];  /* no row is greater or equal */
};

struct edges {
    struct edge edge[EDGES];
};

struct edges *edges_new(void)
{
    struct edges *edges = calloc(1, sizeof *edges);
    CHECK(edges);
    return edges;
}

void edges_free(struct edges *edges)
{
    free(edges);
}

static struct edge *edge_slot(struct call *call, const struct entry *entry)
{
    uint64_t hash = entry->meta.version * 0x9e3779b97f4a7c15;
    return &call->partition->caches.edges->edge[(hash >> 32) & (EDGES - 1)];
}

/* NULL: nothing is known. */
static struct edge *edge_find(struct call *call, const struct entry *entry)
{
    struct edge *edge = edge_slot(call, entry);
    return edge->version == entry->meta.version &&
                   edge->generation == overlay_generation(call->partition->overlay)
               ? edge
               : NULL;
}

static struct edge *edge_make(struct call *call, const struct entry *entry)
{
    struct edge *edge = edge_find(call, entry);
    if (edge)
        return edge;
    edge = edge_slot(call, entry);
    edge->version = entry->meta.version;
    edge->generation = overlay_generation(call->partition->overlay);
    edge->first_len = edge->last_len = 0;
    return edge;
}

static struct bytes first_of(const struct edge *edge)
{
    return edge ? (struct bytes){edge->first, edge->first_len} : NOTHING;
}

static struct bytes last_of(const struct edge *edge)
{
    return edge ? (struct bytes){edge->last, edge->last_len} : NOTHING;
}

bool edge_is_first(struct call *call, const struct entry *entry, struct bytes from)
{
    return from.len == 0 || bytes_compare(from, first_of(edge_find(call, entry))) <= 0;
}

bool edge_is_last(struct call *call, const struct entry *entry, struct bytes to)
{
    struct bytes last = last_of(edge_find(call, entry));
    return to.len == 0 || (last.len && bytes_compare(to, last) >= 0);
}

struct bytes edge_first(struct call *call, const struct entry *entry, struct bytes from)
{
    struct bytes first = first_of(edge_find(call, entry));
    return first.len && edge_is_first(call, entry, from) ? arena_copy(call->arena, first) : from;
}

struct bytes edge_last(struct call *call, const struct entry *entry, struct bytes to)
{
    struct bytes last = last_of(edge_find(call, entry));
    return last.len && edge_is_last(call, entry, to) ? arena_copy(call->arena, last) : to;
}

void edge_found_first(struct call *call, const struct entry *entry, struct bytes place)
{
    struct edge *edge = edge_make(call, entry);
    edge->first_len = (uint16_t)(place.len < PLACE_BYTES ? place.len : PLACE_BYTES);
    memcpy(edge->first, place.data, edge->first_len);
}

/* The bound is the shortest text behind the place. */
void edge_found_last(struct call *call, const struct entry *entry, struct bytes place)
{
    struct edge *edge = edge_make(call, entry);
    edge->last_len = 0;
    if (place.len >= PLACE_BYTES)
        return;
    memcpy(edge->last, place.data, place.len);
    edge->last[place.len] = 0;
    edge->last_len = (uint16_t)(place.len + 1);
}

void edge_add(struct call *call, const struct entry *entry, struct bytes place)
{
    struct edge *edge = edge_find(call, entry);
    if (!edge)
        return;
    if (edge->first_len && bytes_compare(place, first_of(edge)) < 0)
        edge_found_first(call, entry, place);
    if (edge->last_len && bytes_compare(place, last_of(edge)) >= 0)
        edge_found_last(call, entry, place);
}
