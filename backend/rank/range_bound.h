/*
 * range_bound.h - range bounds: the first and last row of a sorted set, as found by recent iterations.
 *
 *   rows of the order   ✗ ✗ ✗ ✗ ✗ ✗ ✗ a b c … x y z ✗ ✗ ✗ ✗
 *                                     ↑ first     ↑ last
 *
 * Deleted rows stay in RocksDB until compaction, and an iteration from the beginning has to skip all of them. The first
 * row that an iteration finds is where the next one may begin. A bound need not be the key of a row: it guarantees only
 * that no row is beyond it. New rows beyond a bound move it. The bounds of a collection are dropped when anything else than a
 * handler has changed its rows (stamps.h). Bounds belong to the prefix of the collection's rows, so neither a collection that is
 * created again nor one of another partition with the same version gets them.
 */
#pragma once

#include "backend/keyspace/keyspace.h"

struct range_bounds;

struct range_bounds *range_bounds_new(void);
void range_bounds_free(struct range_bounds *bounds); /* NULL is allowed */

/* Narrows the start of an iteration; the result is in the call's arena. Empty `to`: up to the end, inclusive. */
struct bytes range_bound_first(struct call *call, struct entry *entry, struct bytes from);
/* Narrows the end of an iteration; `to` is exclusive. */
struct bytes range_bound_last(struct call *call, struct entry *entry, struct bytes to);
/* If an iteration begins at `from` (ends at `to`), is the first row that it finds the collection's first (last) row? */
bool range_bound_is_first(struct call *call, struct entry *entry, struct bytes from);
bool range_bound_is_last(struct call *call, struct entry *entry, struct bytes to);
/* Sets a bound: `place` is the collection's first (last) row. */
void range_bound_found_first(struct call *call, struct entry *entry, struct bytes place);
void range_bound_found_last(struct call *call, struct entry *entry, struct bytes place);
/* Widens the bounds if they exclude this row, which will be added. */
void range_bound_add(struct call *call, struct entry *entry, struct bytes place);
