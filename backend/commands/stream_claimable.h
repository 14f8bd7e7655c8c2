/*
 * stream_claimable.h - XREADGROUP CLAIM: finds entries of a group that have been pending long enough for another consumer to claim them.
 */
#pragma once

#include "backend/commands/stream_group.h"

struct stream_claimable {
    struct stream_id *ids; /* the longest pending first */
    uint64_t count;
    uint64_t next_ms; /* time until the next entry may be claimed; UINT64_MAX: none is pending */
};

/* Finds at most `most` entries (0: all) that were last delivered at least `min_ms` ago; entries that were removed from the stream do
 * not count. Reads all pending entries of the group. Returns false if the store failed. */
bool stream_claimable_find(struct call *call, struct entry *entry, const struct stream_group *group,
                           uint64_t min_ms, uint64_t most, struct stream_claimable *claimable);
