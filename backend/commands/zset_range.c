/*
 * zset_range.c - ranges of a sorted set by rank, score or name: read, count, store, remove.
 *
 *   arguments ─► struct range ─► places [from, to) and a number of rows ─► iterator, forwards or backwards
 *
 * Ranges by name are defined for members with equal scores. With several scores, Redis takes the rows from the first
 * member that is not below the range up to the first member after it that is above the range; so do we.
 */
#include "backend/commands/name_range.h"
#include "backend/commands/zset.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/notify.h"
#include "backend/session/reply_stream.h"
#include "shared/number.h"

#include <math.h>
#include <stdlib.h>

enum {
    SKIP_MAX = 64,  /* more rows are skipped with ranks, not one by one */
    FEW_ROWS = 256, /* more rows are counted with ranks, not collected */
};

static const struct bytes NOTHING = {"", 0};

enum range_by { BY_ANY, BY_RANK, BY_SCORE, BY_NAME };

struct range {
    enum range_by by;
    int64_t first, last; /* ranks; negative: from the end */
    double min, max;
    bool min_open, max_open;
    struct name_end from, to;
    uint64_t skipped; /* LIMIT's offset: Redis skips these rows without comparing their names */
};

/* ---- arguments ---- */

static bool parse_score(struct call *call, struct bytes text, double *score, bool *is_open)
{
    *is_open = text.len > 0 && text.data[0] == '(';
    size_t at = *is_open;
    char *copy = arena_alloc(call->arena, text.len + 1);
    char *end;
    memcpy(copy, text.data + at, text.len - at);
    copy[text.len - at] = '\0';
    *score = strtod(copy, &end);
    return *end == '\0' && !isnan(*score);
}

/* Parses a range from two arguments; false: an error was replied. */
static bool parse_range(struct call *call, enum range_by by, uint32_t min_at, uint32_t max_at,
                        struct range *range)
{
    struct bytes min = call->argv[min_at];
    struct bytes max = call->argv[max_at];
    *range = (struct range){.by = by};
    if (by == BY_RANK)
        return call_int64(call, min_at, &range->first) && call_int64(call, max_at, &range->last);
    if (by == BY_SCORE && parse_score(call, min, &range->min, &range->min_open) &&
        parse_score(call, max, &range->max, &range->max_open))
        return true;
    if (by == BY_NAME && name_end_parse(min, &range->from) && name_end_parse(max, &range->to))
        return true;
    call_error_text(call, by == BY_SCORE ? "ERR min or max is not a float" : NAME_RANGE_INVALID);
    return false;
}

/* ---- from ranges to places ---- */

/* Rows to iterate over: [from, to), at most `rows` of them. */
struct window {
    struct bytes from, to;
    uint64_t rows; /* 0: none */
};

/* The smallest place greater than `place`. */
static struct bytes place_behind(struct call *call, struct bytes place)
{
    char *behind = arena_alloc(call->arena, place.len + 1);
    memcpy(behind, place.data, place.len);
    behind[place.len] = '\0';
    return (struct bytes){behind, place.len + 1};
}

/* Reads the first or the last row. False: the store failed. */
static bool outermost(struct call *call, struct entry *entry, bool is_last, struct bytes *place)
{
    struct zset_iter iter;
    *place = NOTHING;
    zset_iter_init(call, entry, NOTHING, NOTHING, is_last, &iter);
    if (zset_iter_next(&iter))
        *place = arena_copy(call->arena, iter.it.sub);
    return zset_iter_fini(&iter) && call_rows_end(call, place->len == 0);
}

/* Finds the window of a range by member when scores differ, where rows are not in the order of members: compares row by
 * row as Redis does, forwards from the first row or backwards from the last. */
static bool mixed_window(struct call *call, struct entry *entry, const struct range *range,
                         bool is_reverse, struct window *window)
{
    struct zset_iter iter;
    bool is_inside = false;
    uint64_t number = 0; /* rows read since the first row in the range */
    window->rows = 0;
    zset_iter_init(call, entry, NOTHING, NOTHING, is_reverse, &iter);
    while (zset_iter_next(&iter)) {
        bool reaches = name_reaches(iter.member, &range->from);
        bool within = name_within(iter.member, &range->to);
        if (is_inside ? ++number < range->skipped : !(is_reverse ? within : reaches))
            continue;
        struct bytes place = arena_copy(call->arena, iter.it.sub);
        if (!(is_reverse ? reaches : within)) {
            if (is_reverse)
                window->from = place_behind(call, place);
            else
                window->to = place;
            break;
        }
        if (!is_inside && is_reverse)
            window->to = place_behind(call, place);
        else if (!is_inside)
            window->from = place;
        is_inside = true;
        window->rows = UINT64_MAX;
    }
    return zset_iter_fini(&iter);
}

static bool name_window(struct call *call, struct entry *entry, const struct range *range,
                        bool is_reverse, struct window *window)
{
    struct bytes first;
    struct bytes last;
    window->rows = 0;
    if (names_are_empty(&range->from, &range->to))
        return true;
    if (!outermost(call, entry, false, &first) || !outermost(call, entry, true, &last))
        return false;
    if (!name_reaches(zset_place_member(last), &range->from) ||
        !name_within(zset_place_member(first), &range->to))
        return true;
    if (get_be64(first.data) != get_be64(last.data))
        return mixed_window(call, entry, range, is_reverse, window);
    double score = decode_score(get_be64(first.data));
    if (range->from.side == 0) {
        window->from = zset_place(call, score, range->from.member);
        if (range->from.is_open)
            window->from = place_behind(call, window->from);
    }
    if (range->to.side == 0) {
        window->to = zset_place(call, score, range->to.member);
        if (!range->to.is_open)
            window->to = place_behind(call, window->to);
    }
    window->rows = UINT64_MAX;
    return true;
}

/* The window begins with the row of this rank; with `is_reverse` it ends there. False: the store failed (replied). */
static bool window_begin_at(struct call *call, struct entry *entry, uint64_t rank, bool is_reverse,
                            struct window *window)
{
    struct bytes place;
    if (!zset_place_at(call, entry, rank, &place))
        return false;
    if (is_reverse)
        window->to = place_behind(call, place);
    else
        window->from = place;
    return true;
}

static bool rank_window(struct call *call, struct entry *entry, const struct range *range,
                        bool is_reverse, struct window *window)
{
    int64_t size = (int64_t)entry->meta.size;
    int64_t first = range->first < 0 ? size + range->first : range->first;
    int64_t last = range->last < 0 ? size + range->last : range->last;
    first = first < 0 ? 0 : first;
    last = last >= size ? size - 1 : last;
    window->rows = 0;
    if (first > last || first >= size)
        return true;
    window->rows = (uint64_t)(last - first + 1);
    if (first == 0)
        return is_reverse || zset_first_bound(call, entry, &window->from);
    return window_begin_at(call, entry, (uint64_t)(is_reverse ? size - 1 - first : first),
                           is_reverse, window);
}

/* Computes the window in an existing sorted set. False: the store failed (replied). */
static bool range_window(struct call *call, struct entry *entry, const struct range *range,
                         bool is_reverse, struct window *window)
{
    *window = (struct window){NOTHING, NOTHING, UINT64_MAX};
    if (range->by == BY_RANK)
        return rank_window(call, entry, range, is_reverse, window);
    if (range->by == BY_NAME)
        return name_window(call, entry, range, is_reverse, window);
    window->from = zset_bound(call, range->min, range->min_open);
    window->to = zset_bound(call, range->max, !range->max_open);
    if (bytes_compare(window->from, window->to) >= 0)
        window->rows = 0;
    return true;
}

/* Skips the first `offset` rows with ranks if they are many, and then sets *offset to 0; few rows are left to the
 * iterator. */
static bool window_skip(struct call *call, struct entry *entry, bool is_reverse, uint64_t *offset,
                        struct window *window)
{
    uint64_t rank = is_reverse ? entry->meta.size : 0;
    struct bytes bound = is_reverse ? window->to : window->from;
    if (*offset <= SKIP_MAX || window->rows == 0)
        return true;
    if (bound.len && !zset_rank(call, entry, bound, &rank))
        return false;
    if (*offset >= (is_reverse ? rank : entry->meta.size - rank)) {
        window->rows = 0;
        return true;
    }
    rank = is_reverse ? rank - 1 - *offset : rank + *offset;
    *offset = 0;
    return window_begin_at(call, entry, rank, is_reverse, window);
}

/* Collects the rows of a window. False: the store failed. */
static bool collect_window(struct call *call, struct entry *entry, const struct window *window,
                           bool is_reverse, uint64_t offset, struct zset_rows *rows)
{
    struct zset_iter iter;
    if (window->rows == 0)
        return true;
    zset_iter_init(call, entry, window->from, window->to, is_reverse, &iter);
    while (rows->count < window->rows && zset_iter_next(&iter)) {
        if (offset)
            offset--;
        else
            zset_rows_add(call, rows, iter.member, iter.score);
    }
    return zset_iter_fini(&iter);
}

/* ---- ZRANGE and its variants ---- */

enum direction { ANY_DIRECTION, FORWARDS, BACKWARDS };

struct query {
    struct range range;
    enum direction direction;
    enum range_by by;
    bool is_stored;
    bool with_scores;
    int64_t offset;
    int64_t limit; /* negative: unlimited */
    bool has_limit;
};

static bool query_options(struct call *call, uint32_t at, struct query *query)
{
    for (; at < call->argc; at++) {
        struct bytes word = call->argv[at];
        if (!query->is_stored && bytes_is(word, "withscores")) {
            query->with_scores = true;
        } else if (bytes_is(word, "limit") && call->argc - at > 2) {
            if (!call_int64(call, at + 1, &query->offset) ||
                !call_int64(call, at + 2, &query->limit))
                return false;
            query->has_limit = query->limit != -1;
            at += 2;
        } else if (query->direction == ANY_DIRECTION && bytes_is(word, "rev")) {
            query->direction = BACKWARDS;
        } else if (query->by == BY_ANY && bytes_is(word, "bylex")) {
            query->by = BY_NAME;
        } else if (query->by == BY_ANY && bytes_is(word, "byscore")) {
            query->by = BY_SCORE;
        } else {
            call_error(call, ERR_SYNTAX);
            return false;
        }
    }
    return true;
}

/* Parses key, range and options from argument `at` on. */
static bool query_parse(struct call *call, uint32_t at, struct query *query)
{
    query->limit = -1;
    if (!query_options(call, at + 3, query))
        return false;
    if (query->direction == ANY_DIRECTION)
        query->direction = FORWARDS;
    if (query->by == BY_ANY)
        query->by = BY_RANK;
    if (query->by == BY_RANK && query->has_limit) {
        call_error_text(call,
                        "ERR syntax error, LIMIT is only supported in combination with either "
                        "BYSCORE or BYLEX");
        return false;
    }
    if (query->by == BY_NAME && query->with_scores) {
        call_error_text(call,
                        "ERR syntax error, WITHSCORES not supported in combination with BYLEX");
        return false;
    }
    bool is_swapped = query->direction == BACKWARDS && query->by != BY_RANK;
    return parse_range(call, query->by, at + 1 + is_swapped, at + 2 - is_swapped, &query->range);
}

/* reply_stream_row_fn */
static void reply_member_row(struct reply *reply, struct bytes place, struct bytes value,
                             unsigned with_scores)
{
    (void)value;
    zset_reply_row(reply, zset_place_member(place), zset_place_score(place), with_scores);
}

/* Streams the rows of a window whose number is known, without the first `offset`. */
static void reply_window(struct call *call, struct entry *entry, const struct window *window,
                         uint64_t offset, const struct query *query)
{
    struct zset_iter iter;
    bool is_there = true;
    reply_array(&call->reply, zset_reply_count(call, window->rows, query->with_scores));
    if (window->rows == 0)
        return;
    zset_iter_init(call, entry, window->from, window->to, query->direction == BACKWARDS, &iter);
    for (uint64_t i = 0; i <= offset && is_there; i++)
        is_there = zset_iter_next(&iter);
    if (!is_there) {
        if (zset_iter_fini(&iter))
            (void)call_rows_end(call, window->rows);
        return;
    }
    reply_member_row(&call->reply, iter.it.sub, NOTHING, query->with_scores);
    (void)reply_stream_rows(call, &iter.it, window->rows - 1, reply_member_row, query->with_scores);
}

/* Counts the rows in [from, to), regardless of window->rows. False: the store failed. */
static bool window_count(struct call *call, struct entry *entry, const struct window *window,
                         uint64_t *count)
{
    uint64_t before;
    uint64_t behind = entry->meta.size;
    if (!zset_rank(call, entry, window->from, &before) ||
        (window->to.len && !zset_rank(call, entry, window->to, &behind)))
        return false;
    *count = behind > before ? behind - before : 0;
    return true;
}

/* Replies a window whose number of rows is unknown: collects the rows if
 * they are few, else counts them with ranks first. */
static void reply_uncounted(struct call *call, struct entry *entry, struct window *window,
                            uint64_t offset, const struct query *query)
{
    struct zset_rows rows = {0};
    struct window few = *window;
    uint64_t count;
    if (few.rows > FEW_ROWS)
        few.rows = FEW_ROWS + 1;
    if (!collect_window(call, entry, &few, query->direction == BACKWARDS, offset, &rows))
        return;
    if (rows.count <= FEW_ROWS) {
        zset_rows_reply(call, &rows, query->with_scores);
        return;
    }
    if (!window_count(call, entry, window, &count))
        return;
    if (!call_rows_end(call, count <= offset)) /* although more than FEW_ROWS were read */
        return;
    if (window->rows > count - offset)
        window->rows = count - offset;
    reply_window(call, entry, window, offset, query);
}

/* Collects rows that are to be stored; otherwise replies them. False: a reply was written, perhaps an error. */
static bool query_run(struct call *call, struct entry *entry, const struct query *query,
                      struct zset_rows *rows)
{
    struct window window;
    bool is_reverse = query->direction == BACKWARDS;
    uint64_t offset = query->by == BY_RANK ? 0 : (uint64_t)query->offset;
    if (!entry->exists)
        return true;
    if (query->by != BY_RANK && (query->offset < 0 || query->limit == 0))
        return true;
    if (!range_window(call, entry, &query->range, is_reverse, &window))
        return false;
    if (query->by == BY_RANK && !query->is_stored) {
        reply_window(call, entry, &window, 0, query);
        return false;
    }
    if (!window_skip(call, entry, is_reverse, &offset, &window))
        return false;
    if (query->limit >= 0 && query->by != BY_RANK && (uint64_t)query->limit < window.rows)
        window.rows = (uint64_t)query->limit;
    if (query->is_stored)
        return collect_window(call, entry, &window, is_reverse, offset, rows);
    reply_uncounted(call, entry, &window, offset, query);
    return false;
}

static void run_query(struct call *call, uint32_t at, struct query query)
{
    struct entry entry;
    struct zset_rows rows = {0};
    if (!query_parse(call, at, &query) || !zset_open_read(call, call->argv[at], &entry))
        return;
    query.range.skipped = query.offset > 0 ? (uint64_t)query.offset : 0;
    if (!query_run(call, &entry, &query, &rows))
        return;
    if (query.is_stored)
        zset_store(call, call->argv[1], &rows, "zrangestore");
    else
        zset_rows_reply(call, &rows, query.with_scores);
}

void cmd_zrange(struct call *call)
{
    run_query(call, 1, (struct query){0});
}

void cmd_zrangestore(struct call *call)
{
    run_query(call, 2, (struct query){.is_stored = true});
}

void cmd_zrevrange(struct call *call)
{
    run_query(call, 1, (struct query){.by = BY_RANK, .direction = BACKWARDS});
}

void cmd_zrangebyscore(struct call *call)
{
    run_query(call, 1, (struct query){.by = BY_SCORE, .direction = FORWARDS});
}

void cmd_zrevrangebyscore(struct call *call)
{
    run_query(call, 1, (struct query){.by = BY_SCORE, .direction = BACKWARDS});
}

void cmd_zrangebylex(struct call *call)
{
    run_query(call, 1, (struct query){.by = BY_NAME, .direction = FORWARDS});
}

void cmd_zrevrangebylex(struct call *call)
{
    run_query(call, 1, (struct query){.by = BY_NAME, .direction = BACKWARDS});
}

/* ---- counting ---- */

static void count_members(struct call *call, enum range_by by)
{
    struct entry entry;
    struct range range;
    struct window window;
    uint64_t count = 0;
    if (!parse_range(call, by, 2, 3, &range) || !zset_open_read(call, call->argv[1], &entry))
        return;
    if (!entry.exists) {
        reply_int(&call->reply, 0);
        return;
    }
    if (!range_window(call, &entry, &range, false, &window))
        return;
    if (window.rows > 0 && !window_count(call, &entry, &window, &count))
        return;
    reply_int(&call->reply, (int64_t)count);
}

void cmd_zcount(struct call *call)
{
    count_members(call, BY_SCORE);
}

void cmd_zlexcount(struct call *call)
{
    count_members(call, BY_NAME);
}

/* ---- removing ---- */

static void remove_range(struct call *call, enum range_by by, const char *event)
{
    struct entry entry;
    struct range range;
    struct window window = {.rows = 0};
    struct zset_rows rows = {0};
    if (!parse_range(call, by, 2, 3, &range) ||
        !keyspace_open_type(call, call->argv[1], TYPE_ZSET, OPEN_WRITE, &entry))
        return;
    if (entry.exists && (!range_window(call, &entry, &range, false, &window) ||
                         !collect_window(call, &entry, &window, false, 0, &rows)))
        return;
    if (rows.count) {
        if (!zset_remove_rows(call, &entry, &rows))
            return;
        notify(call, NOTIFY_ZSET, event, call->argv[1]);
        if (!entry.exists)
            notify(call, NOTIFY_GENERIC, "del", call->argv[1]);
    }
    reply_int(&call->reply, (int64_t)rows.count);
}

void cmd_zremrangebyrank(struct call *call)
{
    remove_range(call, BY_RANK, "zremrangebyrank");
}

void cmd_zremrangebyscore(struct call *call)
{
    remove_range(call, BY_SCORE, "zremrangebyscore");
}

void cmd_zremrangebylex(struct call *call)
{
    remove_range(call, BY_NAME, "zremrangebylex");
}
