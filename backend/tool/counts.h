/*
 * counts.h - keys by slot of every storage namespace, as a tool counts them, and the counter rows that say so.
 */
#pragma once

#include "backend/store/store.h"
#include "shared/slot.h"

struct table;

struct counts {
    uint64_t keys[SLOT_COUNT];
    uint64_t expires[SLOT_COUNT];
};

/* Those of a storage namespace; made when it is new. `table` holds them by its name. */
struct counts *counts_open(struct table *table, struct bytes space);
/* Adds the counter rows of all. */
void counts_write(const struct table *table, struct effects *effects);
/* Frees a table and the values in it, which come from malloc. NULL is allowed. */
void table_free_values(struct table *table);
