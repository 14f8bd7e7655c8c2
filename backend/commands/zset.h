/*
 * zset.h - sorted sets: members with scores, in the order of both.
 *
 *   CF_DATA        member → score          zset_score
 *   CF_ZSET_SCORE  score | member → (empty)  zset_iter, ranks (rank.h)
 *
 * A row of the ranked order is called a place: 8-byte score, then member. So a range of scores, or a range of members
 * with one score, is a range of places [from, to).
 */
#pragma once

#include "backend/keyspace/keyspace.h"

/* Opens a key for reading. False: an error was replied. */
bool zset_open_read(struct call *call, struct bytes key, struct entry *entry);
/* A member's score: OK, ERR_NOT_FOUND (also when there is no key), or a read failure (replied). */
int zset_score(struct call *call, struct entry *entry, struct bytes member, double *score);

enum zset_change { ZSET_SAME, ZSET_ADDED, ZSET_MOVED };
/* Sets the score of a member; the sorted set must exist or just have been created, and the caller saves the entry.
 * False: the store failed (replied). */
bool zset_set(struct call *call, struct entry *entry, struct bytes member, double score,
              enum zset_change *change);
/* Removes a member that has this score; the caller saves the entry. False: the store failed (replied). */
bool zset_remove(struct call *call, struct entry *entry, struct bytes member, double score);

/* A member and its score, in the call's arena. */
struct zset_row {
    struct bytes member;
    double score;
};
/* Rows collected in the call's arena. */
struct zset_rows {
    struct zset_row *row;
    uint64_t count;
    uint64_t cap;
};
/* Adds a row; copies the member. */
void zset_rows_add(struct call *call, struct zset_rows *rows, struct bytes member, double score);
/* Replies the rows; with scores, as pairs in RESP3. */
void zset_rows_reply(struct call *call, const struct zset_rows *rows, bool with_scores);
/* Replies one row in the format of zset_rows_reply. */
void zset_reply_row(struct reply *reply, struct bytes member, double score, bool with_scores);
/* Number of array elements that zset_rows_reply needs for `count` rows. */
int64_t zset_reply_count(const struct call *call, uint64_t count, bool with_scores);
/* Stores the rows, which have different members, as a sorted set, and sorts them; without rows it deletes the key. Notifies,
 * and replies the number of rows. */
void zset_store(struct call *call, struct bytes key, struct zset_rows *rows, const char *event);
/* Sorts the rows by score and member. False: the call must end. */
bool zset_rows_sort(struct call *call, struct zset_rows *rows);
/* Removes these rows and saves the entry. False: the store failed (replied). */
bool zset_remove_rows(struct call *call, struct entry *entry, const struct zset_rows *rows);

/* Iterates over places in [from, to), forwards, or backwards from the last one; an empty bound means no bound.
 * Nothing may be written during an iteration. zset_iter_fini returns false when the store failed (replied). */
struct zset_iter {
    struct sub_iter it;
    struct bytes from;
    struct bytes to;
    bool is_reverse;
    bool is_at_bound;    /* the iteration begins at the first (or last) row of the whole set */
    struct bytes member; /* borrowed until the next step */
    double score;
};
void zset_iter_init(struct call *call, struct entry *entry, struct bytes from, struct bytes to,
                    bool is_reverse, struct zset_iter *iter);
bool zset_iter_next(struct zset_iter *iter);
bool zset_iter_fini(struct zset_iter *iter);

/* The place of (score, member), in the call's arena. */
struct bytes zset_place(struct call *call, double score, struct bytes member);
/* The bound before all places of the score, or after them. */
struct bytes zset_bound(struct call *call, double score, bool is_behind);
/* Number of places before the bound (empty: 0). */
bool zset_rank(struct call *call, struct entry *entry, struct bytes bound, uint64_t *rank);
/* A bound shortly before the first place, so that iterators from it do not pass the tombstones of removed members. */
bool zset_first_bound(struct call *call, struct entry *entry, struct bytes *bound);
/* The place with rank `rank` < size; in the call's arena. */
bool zset_place_at(struct call *call, struct entry *entry, uint64_t rank, struct bytes *place);
static inline double zset_place_score(struct bytes place)
{
    return place.len < sizeof(uint64_t) ? 0 : decode_score(get_be64(place.data));
}
static inline struct bytes zset_place_member(struct bytes place)
{
    size_t skip = place.len < sizeof(uint64_t) ? place.len : sizeof(uint64_t);
    return (struct bytes){place.data + skip, place.len - skip};
}
