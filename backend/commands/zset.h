/*
 * zset.h - sorted sets for those who build on them: members with scores, in the order of both.
 *
 *   CF_DATA        member → score          zset_score
 *   CF_ZSET_SCORE  score | member → (empty)  zset_iter, ranks (rank.h)
 *
 * A row of the ranked order is called a place here: 8-byte score, then member. So a range of scores, and a range of
 * members of one score, is a range of places [from, to).
 */
#pragma once

#include "backend/keyspace/keyspace.h"

/* Opens for reading. False: an error was replied. */
bool zset_open_read(struct call *call, struct bytes key, struct entry *entry);
/* A member's score: OK, ERR_NOT_FOUND (also when there is no key), or ERR_STORE (replied). */
int zset_score(struct call *call, struct entry *entry, struct bytes member, double *score);

enum zset_change { ZSET_SAME, ZSET_ADDED, ZSET_MOVED };
/* Gives a member of an existing (or just created) sorted set its score; the caller saves the entry. False: the store
 * failed (replied). */
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
/* The member is copied. */
void zset_rows_add(struct call *call, struct zset_rows *rows, struct bytes member, double score);
/* Replies them, "WITHSCORES" as pairs in RESP3. */
void zset_rows_reply(struct call *call, const struct zset_rows *rows, bool with_scores);
/* One element of such a reply. */
void zset_reply_row(struct reply *reply, struct bytes member, double score, bool with_scores);
/* Elements of such a reply of `count` rows. */
int64_t zset_reply_count(const struct call *call, uint64_t count, bool with_scores);
/* Makes the key a sorted set of these rows, of different members; of none: deletes it. Says so to listeners and replies
 * how many. */
void zset_store(struct call *call, struct bytes key, const struct zset_rows *rows,
                const char *event);
/* Removes these rows and saves the entry. False: the store failed (replied). */
bool zset_remove_rows(struct call *call, struct entry *entry, const struct zset_rows *rows);

/* Walks over places in [from, to), forwards, or backwards from the last one; empty: no bound. No effects meanwhile.
 * False at the end of zset_iter_fini: the store failed (replied). */
struct zset_iter {
    struct sub_iter it;
    struct bytes from;
    struct bytes to;
    bool is_reverse;
    bool is_at_bound;    /* its first row is the first (last) of all */
    struct bytes member; /* borrowed until the next step */
    double score;
};
void zset_iter_init(struct call *call, struct entry *entry, struct bytes from, struct bytes to,
                    bool is_reverse, struct zset_iter *iter);
bool zset_iter_next(struct zset_iter *iter);
bool zset_iter_fini(struct zset_iter *iter);

/* The place of (score, member), in the call's arena. */
struct bytes zset_place(struct call *call, double score, struct bytes member);
/* The bound before every place of the score, or behind them. */
struct bytes zset_bound(struct call *call, double score, bool is_behind);
/* How many places lie before the bound (empty: none). */
bool zset_rank(struct call *call, struct entry *entry, struct bytes bound, uint64_t *rank);
/* A bound not far before the first place: walks from it do not cross the remains of what was taken there. */
bool zset_first_bound(struct call *call, struct entry *entry, struct bytes *bound);
/* The place of row number `rank` < size; in the call's arena. */
bool zset_place_at(struct call *call, struct entry *entry, uint64_t rank, struct bytes *place);
static inline double zset_place_score(struct bytes place)
{
    return decode_score(get_be64(place.data));
}
static inline struct bytes zset_place_member(struct bytes place)
{
    return (struct bytes){place.data + sizeof(uint64_t), place.len - sizeof(uint64_t)};
}
