/*
 * stream.h - streams: ids, rows, and what the commands of a stream share.
 *
 *   metadata row   size, first and last id: XLEN and the ends without a walk
 *   CF_STREAM      u64 ms | u64 seq → per string: varint length | bytes     (field, value, field, value ...)
 *   CF_DATA        'g' | group                                  → id last delivered | entries read | pending | consumers
 *                  'c' | u32 len | group | consumer             → u64 seen ms | u64 pending
 *                  'p' | u32 len | group | id                   → u64 delivered ms | u64 deliveries | consumer
 *                  'i' | u32 len | group | u32 len | consumer | id → (empty)
 *
 * Every read begins at the first existing id, so rows that were trimmed are not walked again.
 */
#pragma once

#include "backend/keyspace/keyspace.h"

static const struct stream_id STREAM_ID_MIN = {0, 0};
static const struct stream_id STREAM_ID_MAX = {UINT64_MAX, UINT64_MAX};

enum { STREAM_ID_BYTES = 16, STREAM_ID_TEXT_MAX = 42 };

static inline int stream_id_compare(struct stream_id a, struct stream_id b)
{
    if (a.ms != b.ms)
        return a.ms < b.ms ? -1 : 1;
    return (a.seq > b.seq) - (a.seq < b.seq);
}
static inline bool stream_id_is_zero(struct stream_id id)
{
    return id.ms == 0 && id.seq == 0;
}
/* The id next to it; false when there is none. */
bool stream_id_next(struct stream_id *id);
bool stream_id_before(struct stream_id *id);
/* "ms", "ms-seq", and unless strict "-" and "+"; has_seq not NULL: "ms-*" too, and it says whether seq was given. */
bool stream_id_parse(struct bytes text, uint64_t seq_missing, bool is_strict, struct stream_id *id,
                     bool *has_seq);
/* An argument as a strict id; replies Redis' error. */
bool stream_id_argument(struct call *call, uint32_t index, struct stream_id *id);
/* An end of a range: an id, "-", "+", or "(" and an id that is outside; replies errors. */
bool stream_bound_argument(struct call *call, uint32_t index, bool is_last, struct stream_id *id);
void stream_id_invalid(struct call *call);
/* Writes "ms-seq" without a zero byte; returns its length. to: STREAM_ID_TEXT_MAX. */
size_t stream_id_format(char *to, struct stream_id id);
void stream_id_reply(struct reply *reply, struct stream_id id);

struct bytes stream_id_encode(char to[STREAM_ID_BYTES], struct stream_id id);
bool stream_id_decode(struct bytes row, struct stream_id *id);

/* An entry's strings: the row of argc strings; then how many, and one by one. */
struct bytes stream_entry_encode(struct arena *arena, const struct bytes *strings, uint32_t count);
bool stream_entry_count(struct bytes row, uint32_t *count);
bool stream_entry_next(struct bytes *row, struct bytes *string);
/* [id, [field, value ...]]; false: the row is none (an error was replied). */
bool stream_entry_reply(struct call *call, struct stream_id id, struct bytes row);

/* Counts the entries from first to last, at most `most`; -1: the store failed. */
int64_t stream_count(struct call *call, struct entry *entry, struct stream_id first,
                     struct stream_id last, uint64_t most);
enum {
    STREAM_REVERSE = 1, /* from the last entry to the first */
    STREAM_ENDS_REPLY =
        2, /* nothing follows in the reply: it may leave in steps (reply_stream.h) */
};
/* Replies an array of the entries. False: an error was replied. */
bool stream_range_reply(struct call *call, struct entry *entry, struct stream_id first,
                        struct stream_id last, uint64_t most, unsigned how);
/* Finds the ends again after entries were removed. */
bool stream_find_ends(struct call *call, struct entry *entry);

/* XADD's and XTRIM's way to say how much is to stay. */
enum trim_by { TRIM_NONE, TRIM_LENGTH, TRIM_ID };
struct trim {
    enum trim_by by;
    bool is_rough; /* ~ */
    int64_t length;
    struct stream_id id;
    int64_t limit;
    bool limit_given;
};
/* Reads an option at *index, and moves it to the option's last word. 0: it is none, -1: an error was replied. */
int stream_trim_option(struct call *call, uint32_t *index, struct trim *trim);
/* Checks that the options go together, when all are read. */
bool stream_trim_complete(struct call *call, struct trim *trim, bool is_needed);
/* Removes entries; the metadata row is left to the caller. -1: the store failed. */
int64_t stream_trim(struct call *call, struct entry *entry, const struct trim *trim);
