/*
 * stream_entry.h - reads and writes the values of rows of a stream: of entries, groups, consumers and pending entries. stream.h shows the keys.
 *
 *   entry   per string, varint length | bytes (field, value, field, value ...)
 */
#pragma once

#include "backend/format/stream_id.h"

struct bytes stream_entry_encode(struct arena *arena, const struct bytes *strings, uint32_t count);
/* Counts the strings. False: the row is damaged. */
bool stream_entry_count(struct bytes row, uint32_t *count);
/* Takes the next string from the front of a row that is not empty. */
bool stream_entry_next(struct bytes *row, struct bytes *string);

/* ---- groups ---- */

enum { ENTRIES_READ_UNKNOWN = -1 };

struct stream_group {
    struct bytes name;
    struct stream_id last; /* newest delivered entry */
    int64_t entries_read;  /* number of entries added up to `last`, or ENTRIES_READ_UNKNOWN */
    uint64_t pending;
    uint64_t consumers;
    /* there is an index of the pending entries by time: the group was used with CLAIM */
    bool has_times;
    uint64_t oldest_ms; /* then: no entry of the index was delivered earlier */
};

static const uint64_t NEVER_ACTIVE = UINT64_MAX;

struct stream_consumer {
    struct bytes name;
    uint64_t seen_ms;   /* wall clock time of the last command for it */
    uint64_t active_ms; /* … that delivered entries to it or claimed some, or NEVER_ACTIVE */
    uint64_t pending;
    bool exists; /* has a row, or gets one when saved */
};

/* An entry that was delivered and not acknowledged. */
struct stream_pending {
    uint64_t delivered_ms;
    uint64_t deliveries;
    struct bytes consumer; /* consumer's name, borrowed from the row, or in the call's arena */
};

/* Sub keys of the rows in CF_DATA, also used as the start of iterators. */
struct bytes encode_group_row(struct arena *arena, struct bytes group);
struct bytes encode_consumer_row(struct arena *arena, struct bytes group, struct bytes name);
struct bytes encode_pending_row(struct arena *arena, struct bytes group, struct stream_id id);
struct bytes encode_given_row(struct arena *arena, struct bytes group, struct bytes consumer,
                              struct stream_id id);
struct bytes encode_time_row(struct arena *arena, struct bytes group, uint64_t delivered_ms,
                             struct stream_id id);
/* The common prefix of all rows of a group of one kind, except the group's own row. */
enum { STREAM_GROUP_KINDS = 4 };
struct bytes encode_group_rows(struct arena *arena, unsigned kind, struct bytes group);
/* Decode a row, borrowed; false: it is of another kind (or group, or consumer), or damaged. */
bool decode_group_row(struct bytes sub, struct bytes value, struct stream_group *group);
bool decode_consumer_row(struct bytes sub, struct bytes value, struct bytes group,
                         struct stream_consumer *consumer);
bool decode_pending_row(struct bytes sub, struct bytes value, struct bytes group,
                        struct stream_id *id, struct stream_pending *pending);
bool decode_given_row(struct bytes sub, struct bytes group, struct bytes consumer,
                      struct stream_id *id);
bool decode_time_row(struct bytes sub, struct bytes group, uint64_t *delivered_ms,
                     struct stream_id *id);
/* The values of these rows. Decoding leaves the names as they are, but that of a pending entry's consumer. */
struct bytes encode_group(struct arena *arena, const struct stream_group *group);
struct bytes encode_consumer(struct arena *arena, const struct stream_consumer *consumer);
struct bytes encode_pending(struct arena *arena, const struct stream_pending *pending);
bool decode_group(struct bytes value, struct stream_group *group);
bool decode_consumer(struct bytes value, struct stream_consumer *consumer);
bool decode_pending(struct bytes value, struct stream_pending *pending);
