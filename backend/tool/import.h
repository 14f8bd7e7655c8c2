/*
 * import.h - moves the rows of some slots from stores into another one: how data gets another number of shards.
 *
 *   metadata row of a wanted slot ─► metadata, expiry index, counts
 *   row of a collection ─► its metadata row has the same version? ─► the row
 *   functions ─► all of them; batch header, format, counter rows ─► made anew at the end
 *
 * Orphans stay behind. Databases that SWAPDB swapped are written where clients see them, so no database map is needed.
 */
#pragma once

#include "backend/store/store.h"

struct import;

struct import *import_new(struct store *to);
void import_free(struct import *import);
/* Takes over the rows of the slots for which wanted[slot] is set. False and a reason in error[size]. */
bool import_from(struct import *import, struct store *from, const bool *wanted, char *error,
                 size_t size);
/* Writes what makes it a whole store, and syncs. */
bool import_end(struct import *import, char *error, size_t size);
uint64_t import_keys(const struct import *import);
