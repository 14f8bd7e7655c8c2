/*
 * named_keys.h - the keys that a command names in its arguments; for EXEC those of all queued commands. Keys that a script
 * computes are not among them.
 */
#pragma once

#include "backend/context/call.h"

/* True ends the search. */
typedef bool named_key_fn(struct call *call, uint16_t slot, struct bytes key, void *owner);
/* Calls the function with each key, until it returns true. False: it never did. */
bool named_keys_find(struct call *call, named_key_fn *is_wanted, void *owner);
/* Likewise, with those keys that the commands write. */
bool named_keys_find_written(struct call *call, named_key_fn *is_wanted, void *owner);
