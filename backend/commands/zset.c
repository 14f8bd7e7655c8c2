/*
 * zset.c - sorted sets: their rows, and the commands on single members.
 *
 * Each member has two rows: member → score for its score, and score | member for the order. A score of -0 is stored as
 * 0, as in Redis' compact form (up to 128 members of up to 64 bytes).
 */
#include "backend/commands/zset.h"

#include "backend/commands/scan.h"
#include "backend/context/goes_on.h"
#include "backend/dispatch/handlers.h"
#include "backend/rank/range_bound.h"
#include "backend/rank/rank.h"
#include "backend/session/notify.h"
#include "shared/check.h"
#include "shared/command/arguments.h"
#include "shared/merge_sort.h"
#include "shared/number.h"

#include <math.h>
#include <stdlib.h>

static const struct bytes NOTHING = {"", 0};
static const double WHOLE_MAX =
    (double)(INT64_MAX / 2); /* scores up to this are printed as integers when they are whole */

/* ---- rows ---- */

bool zset_open_read(struct call *call, struct bytes key, struct entry *entry)
{
    return keyspace_open_type(call, key, TYPE_ZSET, OPEN_READ, entry);
}

int zset_score(struct call *call, struct entry *entry, struct bytes member, double *score)
{
    struct bytes value;
    uint64_t bits;
    if (entry->meta.type != TYPE_ZSET)
        return ERR_NOT_FOUND;
    int err = sub_get(call, entry, CF_DATA, member, &value);
    if (err != OK)
        return err;
    if (!decode_u64(value, &bits) || isnan(decode_score(bits))) {
        call_error(call, ERR_STORE);
        return ERR_STORE;
    }
    *score = decode_score(bits);
    return OK;
}

struct bytes zset_place(struct call *call, double score, struct bytes member)
{
    char *place = arena_alloc(call->arena, sizeof(uint64_t) + member.len);
    put_be64(place, encode_score(score));
    if (member.len)
        memcpy(place + sizeof(uint64_t), member.data, member.len);
    return (struct bytes){place, sizeof(uint64_t) + member.len};
}

struct bytes zset_bound(struct call *call, double score, bool is_behind)
{
    return encode_u64(call->arena, encode_score(score) + is_behind);
}

static void put_score(struct call *call, struct entry *entry, struct bytes member, double score)
{
    char bits[sizeof(uint64_t)];
    put_be64(bits, encode_score(score));
    sub_put(call, entry, CF_DATA, member, (struct bytes){bits, sizeof bits});
}

/* Adds the row of the order and increments the size. */
static bool place_put(struct call *call, struct entry *entry, struct bytes member, double score)
{
    struct bytes place = zset_place(call, score, member);
    sub_put(call, entry, CF_ZSET_SCORE, place, NOTHING);
    entry->meta.size++;
    range_bound_add(call, entry, place);
    return rank_add(call, entry, CF_ZSET_SCORE, place);
}

static bool place_delete(struct call *call, struct entry *entry, struct bytes member, double score)
{
    struct bytes place = zset_place(call, score, member);
    sub_delete(call, entry, CF_ZSET_SCORE, place);
    entry->meta.size--;
    return rank_remove(call, entry, CF_ZSET_SCORE, place);
}

bool zset_set(struct call *call, struct entry *entry, struct bytes member, double score,
              enum zset_change *change)
{
    double old;
    int err = zset_score(call, entry, member, &old);
    if (is_read_failure(err))
        return false;
    *change = err == ERR_NOT_FOUND ? ZSET_ADDED : old == score ? ZSET_SAME : ZSET_MOVED;
    if (*change == ZSET_SAME)
        return true;
    put_score(call, entry, member, score);
    return (*change == ZSET_ADDED || place_delete(call, entry, member, old)) &&
           place_put(call, entry, member, score);
}

bool zset_remove(struct call *call, struct entry *entry, struct bytes member, double score)
{
    sub_delete(call, entry, CF_DATA, member);
    return place_delete(call, entry, member, score);
}

bool zset_remove_rows(struct call *call, struct entry *entry, const struct zset_rows *rows)
{
    if (rows->count)
        call_changes(call, (int64_t)rows->count - 1);
    if (rows->count >= entry->meta.size) {
        entry_delete(call, entry);
        return true;
    }
    struct rank_edit edit;
    rank_edit_begin(&edit, call, entry, CF_ZSET_SCORE);
    for (uint64_t i = 0; i < rows->count && !call->failed; i++) {
        struct bytes place = zset_place(call, rows->row[i].score, rows->row[i].member);
        sub_delete(call, entry, CF_DATA, rows->row[i].member);
        sub_delete(call, entry, CF_ZSET_SCORE, place);
        entry->meta.size--;
        if (!rank_edit_remove(&edit, place))
            return false;
    }
    if (!rank_edit_end(&edit))
        return false;
    if (rows->count)
        entry_save(call, entry);
    return true;
}

/* merge_compare_fn */
static int row_order(const void *a, const void *b, void *owner)
{
    const struct zset_row *x = a;
    const struct zset_row *y = b;
    (void)owner;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return bytes_compare(x->member, y->member);
}

bool zset_rows_sort(struct call *call, struct zset_rows *rows)
{
    return merge_sort(call->arena, rows->row, rows->count, sizeof *rows->row, row_order, NULL);
}

enum { SCORES_AT_ONCE = 256 };

/* As put_score for each row. */
static void put_scores(struct call *call, struct entry *entry, const struct zset_row *rows,
                       uint64_t count)
{
    struct bytes members[SCORES_AT_ONCE];
    struct bytes scores[SCORES_AT_ONCE];
    char bits[SCORES_AT_ONCE][sizeof(uint64_t)];
    for (uint64_t first = 0; first < count && !call->failed; first += SCORES_AT_ONCE) {
        uint64_t n = count - first < SCORES_AT_ONCE ? count - first : SCORES_AT_ONCE;
        for (uint64_t i = 0; i < n; i++) {
            members[i] = rows[first + i].member;
            put_be64(bits[i], encode_score(rows[first + i].score));
            scores[i] = (struct bytes){bits[i], sizeof bits[i]};
        }
        sub_put_rows(call, entry, CF_DATA, members, scores, n);
    }
}

/* Puts the rows of a new sorted set, each column family in one go and the places in their order: rows that are written in order cost
 * least, also later, when they are sorted for iterations. */
static bool put_rows(struct call *call, struct entry *entry, struct zset_rows *rows)
{
    struct bytes *places = call_array(call, rows->count, sizeof *places);
    if (!places)
        return false;
    put_scores(call, entry, rows->row, rows->count);
    if (call->failed || !zset_rows_sort(call, rows))
        return false;
    for (uint64_t i = 0; i < rows->count; i++)
        places[i] = zset_place(call, rows->row[i].score, rows->row[i].member);
    sub_put_rows(call, entry, CF_ZSET_SCORE, places, NULL, rows->count);
    entry->meta.size = rows->count;
    return !call->failed && rank_build_of(call, entry, CF_ZSET_SCORE, places, rows->count);
}

void zset_store(struct call *call, struct bytes key, struct zset_rows *rows, const char *event)
{
    struct entry entry;
    if (!keyspace_open(call, key, OPEN_WRITE, &entry))
        return;
    if (rows->count) {
        entry_create(call, &entry, TYPE_ZSET);
        if (!put_rows(call, &entry, rows))
            return;
        entry_save(call, &entry);
        notify(call, NOTIFY_ZSET, event, key);
    } else if (entry.exists) {
        entry_delete(call, &entry);
        notify(call, NOTIFY_GENERIC, "del", key);
    }
    reply_int(&call->reply, (int64_t)rows->count);
}

void zset_rows_add(struct call *call, struct zset_rows *rows, struct bytes member, double score)
{
    if (rows->count == rows->cap) {
        uint64_t cap = rows->cap ? rows->cap * 2 : 16;
        struct zset_row *row = arena_alloc(call->arena, cap * sizeof *row);
        if (rows->count)
            memcpy(row, rows->row, rows->count * sizeof *row);
        rows->row = row;
        rows->cap = cap;
    }
    rows->row[rows->count++] = (struct zset_row){arena_copy(call->arena, member), score};
}

int64_t zset_reply_count(const struct call *call, uint64_t count, bool with_scores)
{
    return (int64_t)(with_scores && call->reply.resp < 3 ? count * 2 : count);
}

void zset_reply_row(struct reply *reply, struct bytes member, double score, bool with_scores)
{
    if (with_scores && reply->resp >= 3)
        reply_array(reply, 2);
    reply_bulk(reply, member);
    if (with_scores)
        reply_double(reply, score);
}

void zset_rows_reply(struct call *call, const struct zset_rows *rows, bool with_scores)
{
    reply_array(&call->reply, zset_reply_count(call, rows->count, with_scores));
    for (uint64_t i = 0; i < rows->count && call_goes_on(call, BUDGET_ROW); i++)
        zset_reply_row(&call->reply, rows->row[i].member, rows->row[i].score, with_scores);
}

/* ---- iteration ---- */

void zset_iter_init(struct call *call, struct entry *entry, struct bytes from, struct bytes to,
                    bool is_reverse, struct zset_iter *iter)
{
    *iter = (struct zset_iter){.from = from, .to = to, .is_reverse = is_reverse};
    iter->is_at_bound =
        is_reverse ? range_bound_is_last(call, entry, to) : range_bound_is_first(call, entry, from);
    if (is_reverse) {
        iter->to = range_bound_last(call, entry, to);
        sub_iter_init_reverse(call, entry, CF_ZSET_SCORE, iter->to, &iter->it);
    } else {
        sub_iter_init(call, entry, CF_ZSET_SCORE, range_bound_first(call, entry, from), &iter->it);
    }
}

bool zset_iter_next(struct zset_iter *iter)
{
    bool is_first = !iter->it.started;
    if (!sub_iter_next(&iter->it))
        return false;
    if (is_first && iter->is_reverse && iter->to.len && bytes_equal(iter->it.sub, iter->to) &&
        !sub_iter_next(&iter->it)) /* `to` itself is excluded */
        return false;
    struct bytes place = iter->it.sub;
    if (place.len < sizeof(uint64_t) || isnan(zset_place_score(place))) { /* from another shard? */
        call_error(iter->it.call, ERR_STORE);
        return false;
    }
    if (is_first && iter->is_at_bound) {
        if (iter->is_reverse)
            range_bound_found_last(iter->it.call, iter->it.entry, place);
        else
            range_bound_found_first(iter->it.call, iter->it.entry, place);
    }
    if (iter->is_reverse ? bytes_compare(place, iter->from) < 0
                         : iter->to.len && bytes_compare(place, iter->to) >= 0)
        return false;
    iter->member = zset_place_member(place);
    iter->score = zset_place_score(place);
    return true;
}

bool zset_iter_fini(struct zset_iter *iter)
{
    return sub_iter_fini(&iter->it) && !iter->it.call->failed;
}

bool zset_rank(struct call *call, struct entry *entry, struct bytes bound, uint64_t *rank)
{
    *rank = 0;
    return bound.len == 0 || rank_of(call, entry, CF_ZSET_SCORE, bound, rank);
}

bool zset_first_bound(struct call *call, struct entry *entry, struct bytes *bound)
{
    uint64_t skip;
    *bound = range_bound_first(call, entry, NOTHING);
    if (bound->len)
        return true;
    if (!rank_seek(call, entry, CF_ZSET_SCORE, 0, bound, &skip))
        return false;
    if (bound->len)
        range_bound_found_first(call, entry, *bound);
    return true;
}

bool zset_place_at(struct call *call, struct entry *entry, uint64_t rank, struct bytes *place)
{
    struct bytes from;
    uint64_t skip;
    struct sub_iter it;
    *place = NOTHING;
    if (!rank_seek(call, entry, CF_ZSET_SCORE, rank, &from, &skip))
        return false;
    sub_iter_init(call, entry, CF_ZSET_SCORE, from, &it);
    while (sub_iter_next(&it))
        if (skip-- == 0) {
            *place = arena_copy(call->arena, it.sub);
            break;
        }
    return sub_iter_fini(&it) && call_rows_end(call, place->len < sizeof(uint64_t));
}

/* ---- ZADD, ZINCRBY ---- */

struct add_options {
    bool nx, xx, gt, lt, ch, incr;
    uint32_t pairs_at; /* argument index of the first score */
};

static void add_options_read(struct call *call, struct add_options *options)
{
    uint32_t given;
    *options = (struct add_options){.pairs_at = add_arguments_find(call->argv, call->argc, &given)};
    options->nx = given & 1U << ADD_NX;
    options->xx = given & 1U << ADD_XX;
    options->gt = given & 1U << ADD_GT;
    options->lt = given & 1U << ADD_LT;
    options->ch = given & 1U << ADD_CH;
    options->incr = given & 1U << ADD_INCR;
}

/* Parses options and scores; false: an error was replied. */
static bool add_parse(struct call *call, const struct add_options *options, double **scores)
{
    uint32_t words = call->argc - options->pairs_at;
    const char *error = NULL;
    if (words % 2 || words == 0)
        error = error_text(ERR_SYNTAX);
    else if (options->nx && options->xx)
        error = "ERR XX and NX options at the same time are not compatible";
    else if ((options->gt && options->nx) || (options->lt && options->nx) ||
             (options->gt && options->lt))
        error = "ERR GT, LT, and/or NX options at the same time are not compatible";
    else if (options->incr && words > 2)
        error = "ERR INCR option supports a single increment-element pair";
    if (error) {
        call_error_text(call, error);
        return false;
    }
    *scores = arena_alloc(call->arena, words / 2 * sizeof **scores);
    for (uint32_t i = 0; i < words / 2; i++)
        if (!number_parse_double(call->argv[options->pairs_at + 2 * i], &(*scores)[i])) {
            call_error(call, ERR_NOT_FLOAT);
            return false;
        }
    return true;
}

/* Results so far. */
struct added {
    uint64_t added, moved;
    bool is_done; /* the last member was set, not prevented by an option */
    double score; /* score of the last member */
};

/* Adds or updates one member. False: an error was replied. */
static bool add_one(struct call *call, struct entry *entry, const struct add_options *options,
                    struct bytes member, double score, struct added *added)
{
    double old;
    enum zset_change change;
    int err = zset_score(call, entry, member, &old);
    if (is_read_failure(err))
        return false;
    added->is_done = false;
    if (err == OK ? options->nx : options->xx)
        return true;
    if (err == OK && options->incr) {
        score += old;
        if (isnan(score)) {
            call_error_text(call, "ERR resulting score is not a number (NaN)");
            return false;
        }
    }
    if (err == OK && ((options->lt && score >= old) || (options->gt && score <= old)))
        return true;
    if (entry->meta.type != TYPE_ZSET)
        entry_create(call, entry, TYPE_ZSET);
    if (!zset_set(call, entry, member, score, &change))
        return false;
    added->added += change == ZSET_ADDED;
    added->moved += change == ZSET_MOVED;
    added->is_done = true;
    added->score = score;
    return true;
}

static void add_members(struct call *call, const struct add_options *options, const double *scores)
{
    struct entry entry;
    struct added added = {0};
    if (!keyspace_open_type(call, call->argv[1], TYPE_ZSET, OPEN_WRITE, &entry))
        return;
    for (uint32_t i = options->pairs_at, j = 0; i < call->argc; i += 2, j++)
        if (!add_one(call, &entry, options, call->argv[i + 1], scores[j], &added))
            return;
    if (added.added)
        entry_save(call, &entry);
    else if (added.moved)
        entry_touch(call, &entry);
    if (added.added || added.moved) {
        call_changes(call, (int64_t)(added.added + added.moved) - 1);
        notify(call, NOTIFY_ZSET, options->incr ? "zincr" : "zadd", call->argv[1]);
    }
    if (!options->incr)
        reply_int(&call->reply, (int64_t)(added.added + (options->ch ? added.moved : 0)));
    else if (added.is_done)
        reply_double(&call->reply, added.score);
    else
        reply_null(&call->reply);
}

static void add_command(struct call *call, bool incr)
{
    struct add_options options;
    double *scores;
    add_options_read(call, &options);
    options.incr |= incr;
    if (add_parse(call, &options, &scores))
        add_members(call, &options, scores);
}

void cmd_zadd(struct call *call)
{
    add_command(call, false);
}

/* Like Redis, accepts ZADD's options. */
void cmd_zincrby(struct call *call)
{
    add_command(call, true);
}

/* ---- single members ---- */

void cmd_zrem(struct call *call)
{
    struct entry entry;
    int64_t removed = 0;
    if (!keyspace_open_type(call, call->argv[1], TYPE_ZSET, OPEN_WRITE, &entry))
        return;
    for (uint32_t i = 2; i < call->argc; i++) {
        double score;
        int err = zset_score(call, &entry, call->argv[i], &score);
        if (err == ERR_NOT_FOUND)
            continue;
        if (err != OK || !zset_remove(call, &entry, call->argv[i], score))
            return;
        removed++;
    }
    if (removed) {
        entry_save(call, &entry);
        call_changes(call, removed - 1);
        notify(call, NOTIFY_ZSET, "zrem", call->argv[1]);
        if (!entry.exists)
            notify(call, NOTIFY_GENERIC, "del", call->argv[1]);
    }
    reply_int(&call->reply, removed);
}

void cmd_zcard(struct call *call)
{
    struct entry entry;
    if (zset_open_read(call, call->argv[1], &entry))
        reply_int(&call->reply, (int64_t)entry.meta.size);
}

static void reply_score(struct call *call, struct entry *entry, struct bytes member)
{
    double score;
    int err = zset_score(call, entry, member, &score);
    if (err == OK)
        reply_double(&call->reply, score);
    else if (err == ERR_NOT_FOUND)
        reply_null(&call->reply);
}

void cmd_zscore(struct call *call)
{
    struct entry entry;
    if (zset_open_read(call, call->argv[1], &entry))
        reply_score(call, &entry, call->argv[2]);
}

void cmd_zmscore(struct call *call)
{
    struct entry entry;
    if (!zset_open_read(call, call->argv[1], &entry))
        return;
    reply_array(&call->reply, call->argc - 2);
    for (uint32_t i = 2; i < call->argc && !call->failed; i++)
        reply_score(call, &entry, call->argv[i]);
}

/* Checks the optional last argument of ZRANK and ZREVRANK. False: an error was replied. */
static bool rank_option(struct call *call)
{
    if (call->argc > 4)
        call_error_arity(call);
    else if (call->argc == 4 && !bytes_is(call->argv[3], "withscore"))
        call_error(call, ERR_SYNTAX);
    return !call->failed;
}

static void reply_rank(struct call *call, bool is_reverse)
{
    struct entry entry;
    double score;
    uint64_t rank;
    bool with_score = call->argc == 4;
    if (!rank_option(call) || !zset_open_read(call, call->argv[1], &entry))
        return;
    int err = zset_score(call, &entry, call->argv[2], &score);
    if (err == ERR_NOT_FOUND && with_score)
        reply_null_array(&call->reply);
    else if (err == ERR_NOT_FOUND)
        reply_null(&call->reply);
    if (err != OK || !zset_rank(call, &entry, zset_place(call, score, call->argv[2]), &rank))
        return;
    if (with_score)
        reply_array(&call->reply, 2);
    reply_int(&call->reply, (int64_t)(is_reverse ? entry.meta.size - 1 - rank : rank));
    if (with_score)
        reply_double(&call->reply, score);
}

void cmd_zrank(struct call *call)
{
    reply_rank(call, false);
}

void cmd_zrevrank(struct call *call)
{
    reply_rank(call, true);
}

/* Formats a score for ZSCAN: a bulk string, also in RESP3, and whole numbers without an exponent. */
static struct bytes scan_value(struct call *call, struct bytes value)
{
    uint64_t bits;
    char *text = arena_alloc(call->arena, DOUBLE_TEXT_MAX);
    if (!decode_u64(value, &bits)) {
        call_error(call, ERR_STORE);
        return NOTHING;
    }
    double score = decode_score(bits);
    if (fabs(score) <= WHOLE_MAX && score == trunc(score))
        return (struct bytes){text, number_format_int64(text, (int64_t)score)};
    return (struct bytes){text, number_format_double(text, score)};
}

void cmd_zscan(struct call *call)
{
    scan_collection_as(call, TYPE_ZSET, CF_DATA, scan_value);
}
