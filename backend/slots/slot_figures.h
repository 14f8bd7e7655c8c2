/*
 * slot_figures.h - what a partition owns, compared with what its shard map gives it.
 *
 *              wanted                 owned
 *        ┌───────────────────┬──────────────────┐
 *        │ to_get            │ both │ to_send   │
 *        │  └ orphaned       │      │           │
 *        └───────────────────┴──────────────────┘
 *
 * Slots that the map gives to this partition arrive from the shard that owns them. An orphaned slot has no such shard: no
 * other shard owns it or moves it here, so it never arrives, and every command for its keys fails. The usual cause is an
 * empty disk: the records of the slots were on the one that was replaced.
 */
#pragma once

#include "backend/context/partition.h"

struct slot_figures {
    uint32_t owned, wanted;
    uint32_t to_send;  /* owned, and not wanted */
    uint32_t to_get;   /* wanted, and not owned */
    uint32_t orphaned; /* of to_get; 0 while the partition claims its first slots */
};

/* All are 0 without a shard map. */
struct slot_figures slot_figures_of(const struct partition *partition);
