/*
 * stream.h - streams: ids, rows, and functions shared by the stream commands.
 *
 *   metadata row   size, first and last id: XLEN and both ends need no iterator
 *   CF_STREAM      u64 ms | u64 seq → per string: varint length | bytes     (field, value, field, value ...)
 *   CF_DATA        'g' | group                                  → id last delivered | entries read | pending | consumers
 *                                                                 and with an index by time: | u64 oldest ms
 *                  'c' | u32 len | group | consumer             → u64 seen ms | u64 pending | u64 active ms
 *                  'p' | u32 len | group | id                   → u64 delivered ms | u64 deliveries | consumer
 *                  'i' | u32 len | group | u32 len | consumer | id → (empty)
 *                  't' | u32 len | group | u64 delivered ms | id → (empty)
 *
 * Every read begins at the first existing id, so that it does not pass the tombstones of trimmed rows.
 */
#pragma once

#include "backend/format/stream_entry.h"
#include "backend/format/stream_id.h"
#include "backend/keyspace/keyspace.h"

/* The next greater id, or the next smaller one; false when there is none. */
bool stream_id_next(struct stream_id *id);
bool stream_id_before(struct stream_id *id);
/* Parses "ms", "ms-seq", and unless is_strict "-" and "+". If has_seq is not NULL, also "ms-*"; *has_seq is then
 * whether seq was given. */
bool stream_id_parse(struct bytes text, uint64_t seq_missing, bool is_strict, struct stream_id *id,
                     bool *has_seq);
/* Parses an argument as a strict id; replies Redis' error. */
bool stream_id_argument(struct call *call, uint32_t index, struct stream_id *id);
/* Parses an end of a range: an id, "-", "+", or "(" and an id to be excluded; replies errors. */
bool stream_bound_argument(struct call *call, uint32_t index, bool is_last, struct stream_id *id);
void stream_id_invalid(struct call *call);
void stream_id_reply(struct reply *reply, struct stream_id id);

/* Replies [id, [field, value ...]]; false: the row is damaged (an error was replied). */
bool stream_entry_reply(struct call *call, struct stream_id id, struct bytes row);
/* As stream_entry_reply, for XREADGROUP CLAIM: the entry is followed by the time since its last delivery, and by the number of
 * its deliveries. */
bool stream_entry_reply_delivered(struct call *call, struct stream_id id, struct bytes row,
                                  uint64_t idle_ms, uint64_t deliveries);

/* Counts the entries from first to last, at most `most`; -1: the store failed. */
int64_t stream_count(struct call *call, struct entry *entry, struct stream_id first,
                     struct stream_id last, uint64_t most);
enum {
    STREAM_REVERSE = 1,    /* from the last entry to the first */
    STREAM_ENDS_REPLY = 2, /* the array ends the reply, so it may be streamed (reply_stream.h) */
};
/* Replies an array of the entries. False: an error was replied. */
bool stream_range_reply(struct call *call, struct entry *entry, struct stream_id first,
                        struct stream_id last, uint64_t most, unsigned how);
/* Updates the first and last id after entries were removed. */
bool stream_find_ends(struct call *call, struct entry *entry);

/* What happens to entries that are pending in a group when they are removed from the stream. */
enum stream_policy {
    STREAM_POLICY_NONE, /* not given: as KEEPREF */
    STREAM_KEEPREF,     /* they stay pending */
    STREAM_DELREF,      /* they are no longer pending in any group */
    STREAM_ACKED,       /* only entries are removed that every group has read and acknowledged */
};
/* Parses KEEPREF, DELREF or ACKED. False: the word is none of these, or *policy is already given: as in Redis, a second one
 * is no option (XADD then takes it for the id). */
bool stream_policy_option(struct bytes word, enum stream_policy *policy);

/* Entries that a command removes one by one. */
struct stream_removal {
    uint64_t count;
    bool has_end; /* the first or the last entry of the stream was removed */
};
/* Removes an entry: OK, ERR_NOT_FOUND or a read failure. stream_removal_end() completes the removal of all. */
int stream_remove(struct call *call, struct entry *entry, struct stream_id id,
                  struct stream_removal *removal);
/* Finds the new ends of the stream, saves its metadata row and reports the event. False: the store failed. */
bool stream_removal_end(struct call *call, struct entry *entry,
                        const struct stream_removal *removal);

/* Limits of XADD and XTRIM. */
enum trim_by { TRIM_NONE, TRIM_LENGTH, TRIM_ID };
struct trim {
    enum trim_by by;
    enum stream_policy policy;
    bool is_rough; /* "~": remove whole nodes only */
    int64_t length;
    struct stream_id id;
    int64_t limit;
    bool limit_given;
};
/* Parses an option at *index, and sets *index to its last argument. 0: not an option, -1: an error was replied. */
int stream_trim_option(struct call *call, uint32_t *index, struct trim *trim);
/* Checks that the options are compatible, after all were parsed. */
bool stream_trim_complete(struct call *call, struct trim *trim, bool is_needed);
/* Removes entries; the caller saves the metadata row. -1: the store failed. */
int64_t stream_trim(struct call *call, struct entry *entry, const struct trim *trim);
/* Maximum number of entries that a trim with "~" removes; 0: unlimited. */
int64_t stream_trim_limit(const struct call *call, const struct trim *trim);
