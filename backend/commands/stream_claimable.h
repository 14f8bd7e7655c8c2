/*
 * stream_claimable.h - XREADGROUP CLAIM: which entries of a group have been pending for so long that others may have them.
 */
#pragma once

#include "backend/commands/stream_group.h"

struct stream_claimable {
    struct stream_id *ids; /* the longest pending first */
    uint64_t count;
    uint64_t next_ms; /* until the next pending entry may be claimed; UINT64_MAX: none is pending */
};

/* Finds at most `most` entries (0: all) that have been idle for `min_ms`; entries that were removed from the stream do not
 * count. Reads all pending entries of the group. False: the store failed. */
bool stream_claimable_find(struct call *call, struct entry *entry, const struct stream_group *group,
                           uint64_t min_ms, uint64_t most, struct stream_claimable *claimable);
