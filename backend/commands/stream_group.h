/*
 * stream_group.h - consumer groups: who has been given which entry and has not said that it is done.
 *
 *   group ──► consumer ──► pending entries        rows: stream.h
 *
 * A group and one consumer are read once, changed in memory and written once at the command's end; every other
 * consumer that loses an entry is written at once.
 */
#pragma once

#include "backend/commands/stream.h"

enum { ENTRIES_READ_UNKNOWN = -1 };

struct stream_group {
    struct bytes name;
    struct stream_id last; /* newest entry delivered */
    int64_t entries_read;  /* ENTRIES_READ_UNKNOWN, or how many were added up to `last` */
    uint64_t pending;
    uint64_t consumers;
};

struct stream_consumer {
    struct bytes name;
    uint64_t seen_ms; /* wall clock */
    uint64_t pending;
    bool exists; /* has a row, or will have when it is put */
};

/* An entry that was delivered and is not acknowledged. */
struct stream_pending {
    uint64_t delivered_ms;
    uint64_t deliveries;
    struct bytes consumer; /* in the call's arena */
};

/* All of these give OK, ERR_NOT_FOUND or ERR_STORE (replied). */
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
/* Reads the consumer, or makes it: counts it in the group and tells the event. Seen now. */
bool consumer_open(struct call *call, struct entry *entry, struct stream_group *group,
                   struct bytes name, struct stream_consumer *consumer);

/* The stream's groups, a group's consumers; in the call's arena. NULL: the store failed (replied). */
struct stream_group *groups_read(struct call *call, struct entry *entry, uint64_t *count);
struct stream_consumer *consumers_read(struct call *call, struct entry *entry,
                                       const struct stream_group *group, uint64_t *count);
/* The row alone: counts and the consumer's row are the caller's. */
void pending_put(struct call *call, struct entry *entry, struct bytes group, struct stream_id id,
                 const struct stream_pending *pending);

/* Gives the entry to the consumer; `old` is what was pending of it, NULL: nothing. Keeps all counts. */
bool pending_give(struct call *call, struct entry *entry, struct stream_group *group,
                  struct stream_consumer *consumer, struct stream_id id,
                  const struct stream_pending *old, const struct stream_pending *fresh);
/* Nothing is pending of the entry any more. `consumer` (may be NULL) is one that is in memory. */
bool pending_drop(struct call *call, struct entry *entry, struct stream_group *group,
                  struct stream_consumer *consumer, struct stream_id id,
                  const struct stream_pending *old);

/* Where walks begin, and what their rows are. */
struct bytes group_row_key(struct call *call, struct bytes group);
struct bytes consumer_row_key(struct call *call, struct bytes group, struct bytes name);
struct bytes pending_row_key(struct call *call, struct bytes group, struct stream_id id);
struct bytes given_row_key(struct call *call, struct bytes group, struct bytes consumer,
                           struct stream_id id);
/* Take a walk's row apart, borrowed; false: it is none of that kind (of that group, that consumer). */
bool group_row_read(const struct sub_iter *it, struct stream_group *group);
bool consumer_row_read(const struct sub_iter *it, struct bytes group,
                       struct stream_consumer *consumer);
bool pending_row_read(const struct sub_iter *it, struct bytes group, struct stream_id *id,
                      struct stream_pending *pending);
bool given_row_read(const struct sub_iter *it, struct bytes group, struct bytes consumer,
                    struct stream_id *id);

/* Deletes all rows that begin with `prefix`. */
bool rows_drop(struct call *call, struct entry *entry, struct bytes prefix);
/* All of a group's rows but its own: consumers and pending entries. */
bool group_rows_drop(struct call *call, struct entry *entry, struct bytes group);

/* How many entries were added up to the id; ENTRIES_READ_UNKNOWN: cannot be told. */
int64_t stream_entries_before(const struct metadata *meta, struct stream_id id);
/* May entries from the id on have been deleted? */
bool stream_has_holes_from(const struct metadata *meta, struct stream_id id);
