/*
 * stream_group.h - consumer groups: which entries were delivered to which consumer and are not acknowledged.
 *
 *   group ──► consumer ──► pending entries        rows: stream.h
 *
 * A command reads a group and one consumer once, changes them in memory, and writes them at its end. Any other
 * consumer that loses an entry is written immediately.
 */
#pragma once

#include "backend/commands/stream.h"

/* The time since the entry was delivered. */
static inline uint64_t stream_idle_ms(const struct call *call, const struct stream_pending *pending)
{
    return call->now_ms > pending->delivered_ms ? call->now_ms - pending->delivered_ms : 0;
}

/* These functions return OK, ERR_NOT_FOUND or a read failure (replied). */
int group_find(struct call *call, struct entry *entry, struct bytes name,
               struct stream_group *group);
int consumer_find(struct call *call, struct entry *entry, struct bytes group, struct bytes name,
                  struct stream_consumer *consumer);
int pending_find(struct call *call, struct entry *entry, struct bytes group, struct stream_id id,
                 struct stream_pending *pending);

void group_put(struct call *call, struct entry *entry, const struct stream_group *group);
void group_delete(struct call *call, struct entry *entry, struct bytes name);
void consumer_put(struct call *call, struct entry *entry, struct bytes group,
                  const struct stream_consumer *consumer);
/* Reads the consumer, or creates it: increments the group's counter and notifies. Sets seen_ms to now. */
bool consumer_open(struct call *call, struct entry *entry, struct stream_group *group,
                   struct bytes name, struct stream_consumer *consumer);

/* The groups of the stream, the consumers of a group; in the call's arena. NULL: the store failed (replied). */
struct stream_group *groups_read(struct call *call, struct entry *entry, uint64_t *count);
struct stream_consumer *consumers_read(struct call *call, struct entry *entry,
                                       const struct stream_group *group, uint64_t *count);
/* Writes only the row of the pending entry; the caller updates the counters and the consumer's row. The group must have no index by
 * time. */
void pending_put(struct call *call, struct entry *entry, struct bytes group, struct stream_id id,
                 const struct stream_pending *pending);

/* Assigns the entry to the consumer and updates all counters; `old`: the entry as it was pending before, or NULL. */
bool pending_give(struct call *call, struct entry *entry, struct stream_group *group,
                  struct stream_consumer *consumer, struct stream_id id,
                  const struct stream_pending *old, const struct stream_pending *fresh);
/* Ends the pending state of the entry. `consumer` (may be NULL) is the one that the command holds in memory. */
bool pending_drop(struct call *call, struct entry *entry, struct stream_group *group,
                  struct stream_consumer *consumer, struct stream_id id,
                  const struct stream_pending *old);

/* Adds a pending entry of a group that has an index by time to this index, or removes it. */
void pending_time_put(struct call *call, struct entry *entry, struct stream_group *group,
                      uint64_t delivered_ms, struct stream_id id);
void pending_time_delete(struct call *call, struct entry *entry, const struct stream_group *group,
                         uint64_t delivered_ms, struct stream_id id);

/* Keys of rows, also used as the start of iterators. */
struct bytes group_row_key(struct call *call, struct bytes group);
struct bytes consumer_row_key(struct call *call, struct bytes group, struct bytes name);
struct bytes pending_row_key(struct call *call, struct bytes group, struct stream_id id);
struct bytes given_row_key(struct call *call, struct bytes group, struct bytes consumer,
                           struct stream_id id);
struct bytes time_row_key(struct call *call, struct bytes group, uint64_t delivered_ms,
                          struct stream_id id);
/* Decode the current row of an iterator, borrowed; false: it is of another kind (or group, or consumer). */
bool group_row_read(const struct sub_iter *it, struct stream_group *group);
bool consumer_row_read(const struct sub_iter *it, struct bytes group,
                       struct stream_consumer *consumer);
bool pending_row_read(const struct sub_iter *it, struct bytes group, struct stream_id *id,
                      struct stream_pending *pending);
bool given_row_read(const struct sub_iter *it, struct bytes group, struct bytes consumer,
                    struct stream_id *id);
bool time_row_read(const struct sub_iter *it, struct bytes group, uint64_t *delivered_ms,
                   struct stream_id *id);

/* Deletes all rows that begin with `prefix`. */
bool rows_drop(struct call *call, struct entry *entry, struct bytes prefix);
/* Deletes all rows of a group except its own: consumers and pending entries. */
bool group_rows_drop(struct call *call, struct entry *entry, struct bytes group);

/* Number of entries added up to the id, or ENTRIES_READ_UNKNOWN. */
int64_t stream_entries_before(const struct metadata *meta, struct stream_id id);
/* May entries with this or a greater id have been deleted? */
bool stream_has_holes_from(const struct metadata *meta, struct stream_id id);
