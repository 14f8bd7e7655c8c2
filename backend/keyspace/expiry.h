/*
 * expiry.h - deletes expired keys, and expired fields of hashes (field_expiry.h).
 *
 * Active expiry iterates over the expiry index from its beginning: rows are ordered by time, so only due rows are read.
 * Each due row is compared with the key's metadata row; if they differ, the index row is stale and is deleted.
 */
#pragma once

#include <stdbool.h>

struct call;

/* Deletes a bounded number of expired keys and fields, in a call without a session. True: more are due. */
bool expiry_cycle(struct call *call);
