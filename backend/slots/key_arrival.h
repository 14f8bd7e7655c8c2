/*
 * key_arrival.h - receives keys that are too long for one request (KEY_PART, key_message.h): row by row, and visible at once.
 *
 *   part ─► bytes of the row that is not complete ─► rows at the key's place, with a new version ─► the metadata row, when it has come
 *                                                    no command finds them                          makes them the key
 *
 * (1) The rows have a version that no metadata row names until the last part, so a transfer that ends early leaves only orphans,
 *     which compaction drops. While a transfer lasts, compaction drops no rows of this partition.
 * (2) A transfer belongs to the connection on which it comes, and is not stored. After a break, a restart or a failed batch the
 *     sender begins again. It also does if rows may have been deleted since: by a flush, or because the slot was away.
 * (3) If the owner already has the key, and it is not to be replaced, the parts are compared with it: a key that was sent twice is
 *     recognised.
 */
#pragma once

#include "backend/peer/incoming.h"

struct key_arrivals;
struct partition;

struct key_arrivals *key_arrivals_new(struct partition *partition);
/* NULL is allowed. */
void key_arrivals_free(struct key_arrivals *arrivals);
/* The store was recovered: all transfers begin again. */
void key_arrivals_load(struct key_arrivals *arrivals);
void key_arrivals_tick(struct key_arrivals *arrivals);
/* The connection has ended. */
void key_arrivals_closed(struct key_arrivals *arrivals, const struct peer_incoming *incoming);
