/*
 * option_row.h - rows of stored options (backend/context/stored_options.h) in CF_SYSTEM.
 *
 *   'p' | name   → u64 version | value as text
 *
 * shared/option_version.h describes versions.
 */
#pragma once

#include "shared/arena.h"
#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct bytes option_row_key(struct arena *arena, struct bytes name);
struct bytes option_row_value(struct arena *arena, uint64_t version, struct bytes value);
bool is_option_key(struct bytes row);
/* The name in a key, borrowed. */
struct bytes option_row_name(struct bytes row);
/* Reads a value, which is borrowed. False: it is not one. */
bool option_row_read(struct bytes row, uint64_t *version, struct bytes *value);
/* Bounds of all keys. */
struct bytes option_rows_from(void);
struct bytes option_rows_to(void);
