/*
 * expiry.h - deletes keys whose time has come, and answers compaction whether a row is an orphan.
 *
 * Active expiry walks the expiry index from its beginning: rows are ordered by time, so nothing that is not
 * due is ever looked at. Each due row is compared with the metadata row, which wins: a row of the index that
 * the metadata does not confirm is dropped.
 */
#pragma once

#include "backend/store/store.h"

struct call;

/* Deletes due keys, a bounded number of them, in a call without a session. Returns true when more are due. */
bool expiry_cycle(struct call *call);
/* store_drop_fn: is this row of a collection an orphan (its key is gone, has another version, or expired long
 * ago)? Reads the metadata; false when in doubt. Thread-safe. */
bool expiry_is_orphan(void *owner, struct store *store, enum cf cf, struct bytes key);
