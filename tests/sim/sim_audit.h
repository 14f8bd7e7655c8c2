/*
 * sim_audit.h - walks a partition's rows and compares what must agree.
 *
 *   metadata rows ─┬─ counted per namespace and slot == counter rows (keys, keys with a TTL)
 *                  ├─ expire set ◄──► exactly one row of the expiry index
 *                  └─ hash size == rows of its version
 */
#pragma once

#include "backend/store/store.h"

#include <stdbool.h>
#include <stddef.h>

/* Call it when nothing waits to be committed. False: a line in why[size]. */
bool sim_audit_store(struct store *store, char *why, size_t size);
