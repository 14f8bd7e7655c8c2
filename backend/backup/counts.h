/*
 * counts.h - numbers of keys by storage namespace and slot, as counted by a tool, and their counter rows.
 */
#pragma once

#include "backend/store/store.h"
#include "shared/slot.h"

struct table;

struct counts {
    uint64_t keys[SLOT_COUNT];
    uint64_t expires[SLOT_COUNT];
};

/* The counts of a storage namespace in `table`; created if they are new. */
struct counts *counts_open(struct table *table, struct bytes space);
/* Adds the counter rows of all namespaces. */
void counts_write(const struct table *table, struct effects *effects);
