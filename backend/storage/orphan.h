/*
 * orphan.h - decides which rows of collections compaction may drop.
 *
 * Deleting a collection deletes its metadata row; its other rows become orphans, which compaction drops.
 */
#pragma once

#include "backend/store/store.h"

/* From now on clock_wall_us is the time by which keys expire (cluster_clock.h). Before, no row counts as expired: the machine's
 * clock may be wrong after a start, and compaction would drop rows of keys that live. */
void orphan_trust_clock(void);
/* store_drop_fn: true when the row's key was deleted, has another version, or expired long ago. Reads the metadata
 * row; false when in doubt. Thread-safe. */
bool orphan_check(void *owner, struct store *store, enum cf cf, struct bytes key);
