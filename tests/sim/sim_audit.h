/*
 * sim_audit.h - walks a partition's rows and compares those that must agree.
 *
 *   metadata rows ─┬─ counted per namespace and slot == counter rows (keys, keys with a TTL)
 *                  ├─ expire set ◄──► exactly one row of the expiry index
 *                  └─ hash size == rows of its version; fields with a TTL == rows by name == rows by time
 */
#pragma once

#include "backend/storage/overlay.h"

#include <stdbool.h>
#include <stddef.h>

/* Call it when no write waits for a commit. False: the difference, as a line in why[size]. */
bool sim_audit_rows(struct overlay *overlay, char *why, size_t size);
