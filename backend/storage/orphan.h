/*
 * orphan.h - tells compaction which rows of collections may be dropped.
 *
 * Deleting a collection deletes its metadata row; its other rows become orphans, which compaction drops.
 */
#pragma once

#include "backend/store/store.h"

/* store_drop_fn: is the key of this row gone, does it have another version, or has it expired long ago? Reads the
 * metadata row; false when in doubt. Thread-safe. */
bool orphan_check(void *owner, struct store *store, enum cf cf, struct bytes key);
