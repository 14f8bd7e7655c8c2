/*
 * stream_references.h - for KEEPREF, DELREF and ACKED: finds the groups that still need an entry of a stream.
 *
 * A group needs an entry in two cases: it has not delivered the entry yet, because the entry's id is greater than the id that it
 * delivered last; or it has delivered the entry, and no consumer has acknowledged it.
 */
#pragma once

#include "backend/commands/stream_group.h"

/* The groups of a stream; changes are made here and written by stream_references_save. */
struct stream_references {
    struct stream_group *groups;
    bool *is_changed;
    uint64_t count;
};

/* Reads the groups into the call's arena. False: the store failed. */
bool stream_references_read(struct call *call, struct entry *entry,
                            struct stream_references *references);
/* The number of this group; -1: it does not exist. */
int64_t stream_references_find(const struct stream_references *references, struct bytes name);
/* Does a group need the entry? 1, 0, or -1: the store failed. */
int stream_references_has(struct call *call, struct entry *entry,
                          const struct stream_references *references, struct stream_id id);
/* Ends the pending state of the entry in one group: OK, ERR_NOT_FOUND or a read failure. */
int stream_references_ack(struct call *call, struct entry *entry,
                          struct stream_references *references, uint64_t group,
                          struct stream_id id);
/* Ends the pending state of the entry in all groups. False: the store failed. */
bool stream_references_drop(struct call *call, struct entry *entry,
                            struct stream_references *references, struct stream_id id);
/* Writes the rows of the groups that have changed. */
void stream_references_save(struct call *call, struct entry *entry,
                            const struct stream_references *references);

/* XTRIM and XADD with ACKED, in a stream with groups: removes the entries that no group needs, the oldest first. Returns
 * their number; -1: the store failed. */
int64_t stream_trim_acked(struct call *call, struct entry *entry, const struct trim *trim,
                          const struct stream_references *references);
