/*
 * stream_claimable.h - XREADGROUP CLAIM: finds entries of a group that have been pending long enough for another consumer to claim them.
 *
 *   index by time   oldest │ a  b  c │ d  e  f         rows 't' of stream.h
 *                          └─────────┘
 *                    at least min_ms ago
 *
 * The first search of a group makes its index from all pending entries. Later ones read the entries that they find, and one more.
 */
#pragma once

#include "backend/commands/stream_group.h"

struct stream_claimable {
    struct stream_id *ids; /* the longest pending first */
    uint64_t count;
    uint64_t next_ms; /* time until the next entry may be claimed; UINT64_MAX: none is pending */
};

/* Finds at most `most` entries (0: all) that were last delivered at least `min_ms` ago; entries that were removed from the stream do
 * not count. May write the group's row. Returns false if the store failed. */
bool stream_claimable_find(struct call *call, struct entry *entry, struct stream_group *group,
                           uint64_t min_ms, uint64_t most, struct stream_claimable *claimable);
