/*
 * edge.h - between which places a sorted set's rows lie, as far as walks have seen lately.
 *
 *   rows of the order   ✗ ✗ ✗ ✗ ✗ ✗ ✗ a b c … x y z ✗ ✗ ✗ ✗
 *                                     ↑ first     ↑ last
 *
 * What was popped stays in the engine for a while, and a walk from the beginning steps over all of it. A walk that
 * began at an edge and found its first row tells where the next may begin. An edge is a bound, not a row: nothing
 * lies beyond it. New rows move it; after a rollback or a failed commit all edges are forgotten (the overlay's
 * generation); a collection that is made anew has another version. What is not known is not bounded.
 */
#pragma once

#include "backend/keyspace/keyspace.h"

struct edges;

struct edges *edges_new(void);
void edges_free(struct edges *edges); /* NULL is allowed */

/* Narrows a walk's bounds; the results lie in the call's arena. Empty `to`: to the end, which includes. */
struct bytes edge_first(struct call *call, const struct entry *entry, struct bytes from);
/* To be called with `to` exclusive. */
struct bytes edge_last(struct call *call, const struct entry *entry, struct bytes to);
/* Does a walk that begins at the bound see the collection's first (last) row first? */
bool edge_is_first(struct call *call, const struct entry *entry, struct bytes from);
bool edge_is_last(struct call *call, const struct entry *entry, struct bytes to);
/* `place` is the collection's first (last) row now. */
void edge_found_first(struct call *call, const struct entry *entry, struct bytes place);
void edge_found_last(struct call *call, const struct entry *entry, struct bytes place);
/* A row comes. */
void edge_add(struct call *call, const struct entry *entry, struct bytes place);
