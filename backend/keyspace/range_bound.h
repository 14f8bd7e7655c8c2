/*
 * range_bound.h - range bounds: between which places a sorted set's rows lie, as far as iterations have seen lately.
 *
 *   rows of the order   ✗ ✗ ✗ ✗ ✗ ✗ ✗ a b c … x y z ✗ ✗ ✗ ✗
 *                                     ↑ first     ↑ last
 *
 * What was popped stays in the engine for a while, and a walk from the beginning steps over all of it. An iteration
 * that began at a bound and found its first row shows where the next may begin. It is a bound, not a row: nothing
 * lies beyond it. New rows move it; after a rollback or a failed commit all bounds are forgotten (the overlay's
 * generation); a collection that is made anew has another version. What is not known is not bounded.
 */
#pragma once

#include "backend/keyspace/keyspace.h"

struct range_bounds;

struct range_bounds *range_bounds_new(void);
void range_bounds_free(struct range_bounds *bounds); /* NULL is allowed */

/* Narrows a walk's bounds; the results lie in the call's arena. Empty `to`: to the end, which includes. */
struct bytes range_bound_first(struct call *call, const struct entry *entry, struct bytes from);
/* To be called with `to` exclusive. */
struct bytes range_bound_last(struct call *call, const struct entry *entry, struct bytes to);
/* Does a walk that begins at the bound see the collection's first (last) row first? */
bool range_bound_is_first(struct call *call, const struct entry *entry, struct bytes from);
bool range_bound_is_last(struct call *call, const struct entry *entry, struct bytes to);
/* `place` is the collection's first (last) row now. */
void range_bound_found_first(struct call *call, const struct entry *entry, struct bytes place);
void range_bound_found_last(struct call *call, const struct entry *entry, struct bytes place);
/* A row comes. */
void range_bound_add(struct call *call, const struct entry *entry, struct bytes place);
