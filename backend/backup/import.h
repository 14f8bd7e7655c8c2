/*
 * import.h - copies the rows of some slots from several stores into another one, to change the number of shards, or for a
 * backup of some slots.
 *
 *   metadata row of a wanted slot ─► metadata, expiry index, counts
 *   row of a collection ─► its metadata row has the same version? ─► the row
 *   functions ─► all of them; batch header, format, counter rows ─► written at the end
 *
 * Orphans are not copied. Databases that SWAPDB has swapped are written under the number that clients see, so no database
 * map is needed.
 */
#pragma once

#include "backend/store/store.h"

struct import;
struct storage;

/* Called often; false: the copy fails. */
typedef bool import_progress_fn(void *owner, uint64_t keys, uint64_t rows, uint64_t bytes);
struct import *import_new(struct storage *to, import_progress_fn *on_progress, void *owner);
void import_free(struct import *import);
/* Only keys of this namespace are copied, borrowed; empty: the default one. */
void import_only(struct import *import, const char *space);
/* Copies the rows of slots with wanted[slot]. False and a reason in error[size]. */
bool import_from(struct import *import, struct store *from, const bool *wanted, char *error,
                 size_t size);
/* Writes the rows that complete the store, and syncs. */
bool import_end(struct import *import, char *error, size_t size);
/* May a partition go on after the last batch of this store? False, and the reason in error[size]: its times are far in the future. */
bool import_check_header(struct store *store, char *error, size_t size);
uint64_t import_keys(const struct import *import);
