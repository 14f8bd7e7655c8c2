/*
 * compare_row.h - the row '=' (CF_SYSTEM): the record that writes it is where all copies of a shard sum up their rows (backend/partition/compare.h).
 *
 *   '='   → u16 first slot | u16 last slot | u64 wall clock of the leader, ms
 *
 * The row itself says nothing later: each comparison replaces it.
 */
#pragma once

#include "shared/arena.h"
#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

#define SYSTEM_COMPARE "="

struct compare_row {
    uint16_t first, last; /* slots */
    uint64_t now_ms;
};

struct bytes compare_row_write(struct arena *arena, const struct compare_row *row);
/* False: it is no such row. */
bool compare_row_read(struct bytes value, struct compare_row *row);
