/*
 * list_edit.c - commands that search the elements of a list: LPOS, LINSERT, LREM.
 *
 * Rows stay contiguous: inserting or removing an element moves all rows on its shorter side by one. Rows are moved in
 * pieces, in the direction that never overwrites a row before it was read.
 */
#include "backend/commands/list.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/notify.h"
#include "shared/number.h"

enum { PIECE_ROWS = 1024 };

/* Opens an iterator at a row; reversed: towards the head. */
static void iter_from(struct call *call, struct entry *entry, uint64_t row, bool is_reverse,
                      struct sub_iter *it)
{
    if (is_reverse)
        sub_iter_init_reverse(call, entry, CF_DATA, list_row(call, row), it);
    else
        sub_iter_init(call, entry, CF_DATA, list_row(call, row), it);
}

/* ---- LPOS ---- */

struct search {
    /* number of the match to begin with: 1 is the first; negative: counted from the end */
    int64_t rank;
    int64_t count;  /* of COUNT: number of results, 0 = all; -1: no COUNT */
    int64_t maxlen; /* maximum number of compared elements, 0 = all */
};

static bool parse_rank(struct call *call, uint32_t index, int64_t *rank)
{
    if (!call_int64(call, index, rank))
        return false;
    if (*rank == 0) {
        call_error_text(call, "ERR RANK can't be zero: use 1 to start from the first match, 2 from "
                              "the second ... or use negative to start from the end of the list");
        return false;
    }
    if (*rank == INT64_MIN) /* accepted by Redis 7.0; cannot be negated */
        *rank = -1;
    return true;
}

static bool parse_not_negative(struct call *call, uint32_t index, const char *error, int64_t *value)
{
    if (number_parse_int64(call->argv[index], value) && *value >= 0)
        return true;
    call_error_text(call, error);
    return false;
}

static bool parse_search(struct call *call, struct search *search)
{
    *search = (struct search){.rank = 1, .count = -1};
    for (uint32_t i = 3; i < call->argc; i += 2) {
        struct bytes option = call->argv[i];
        bool good;
        if (i + 1 == call->argc) {
            call_error(call, ERR_SYNTAX);
            return false;
        }
        if (bytes_is(option, "RANK")) {
            good = parse_rank(call, i + 1, &search->rank);
        } else if (bytes_is(option, "COUNT")) {
            good = parse_not_negative(call, i + 1, "ERR COUNT can't be negative", &search->count);
        } else if (bytes_is(option, "MAXLEN")) {
            good = parse_not_negative(call, i + 1, "ERR MAXLEN can't be negative", &search->maxlen);
        } else {
            call_error(call, ERR_SYNTAX);
            good = false;
        }
        if (!good)
            return false;
    }
    return true;
}

/* Found rows, in the order of the iteration, in the call's arena. */
struct rows {
    uint64_t *at;
    size_t count;
    size_t cap;
};

static void rows_add(struct call *call, struct rows *rows, uint64_t row)
{
    if (rows->count == rows->cap) {
        const uint64_t *old = rows->at;
        rows->cap = rows->cap ? rows->cap * 2 : 16;
        rows->at = arena_alloc(call->arena, rows->cap * sizeof *rows->at);
        if (rows->count)
            memcpy(rows->at, old, rows->count * sizeof *rows->at);
    }
    rows->at[rows->count++] = row;
}

/* Finds the rows whose element equals the value: skips the first `skip` matches, and stops after `wanted` matches
 * (0: all) or after comparing `maxlen` rows (0: all). False: the store failed. */
static bool find_rows(struct call *call, struct entry *entry, struct bytes value, bool is_reverse,
                      uint64_t skip, uint64_t wanted, uint64_t maxlen, struct rows *rows)
{
    struct sub_iter it;
    uint64_t left = maxlen && maxlen < entry->meta.size ? maxlen : entry->meta.size;
    uint64_t row = is_reverse ? entry->meta.tail - 1 : entry->meta.head;
    iter_from(call, entry, row, is_reverse, &it);
    for (; left > 0 && sub_iter_next(&it); left--, row += is_reverse ? -1 : 1) {
        if (!bytes_equal(it.value, value))
            continue;
        if (skip) {
            skip--;
            continue;
        }
        rows_add(call, rows, row);
        if (rows->count == wanted)
            break;
    }
    return sub_iter_fini(&it);
}

void cmd_lpos(struct call *call)
{
    struct entry entry;
    struct search search;
    struct rows rows = {0};
    if (!parse_search(call, &search) ||
        !keyspace_open_type(call, call->argv[1], TYPE_LIST, OPEN_READ, &entry))
        return;
    bool is_reverse = search.rank < 0;
    uint64_t skip = (uint64_t)(is_reverse ? -search.rank : search.rank) - 1;
    uint64_t wanted = search.count < 0 ? 1 : (uint64_t)search.count;
    if (entry.exists && !find_rows(call, &entry, call->argv[2], is_reverse, skip, wanted,
                                   (uint64_t)search.maxlen, &rows))
        return;
    if (search.count >= 0)
        reply_array(&call->reply, (int64_t)rows.count);
    else if (rows.count == 0)
        reply_null(&call->reply);
    for (size_t i = 0; i < rows.count; i++)
        reply_int(&call->reply, (int64_t)(rows.at[i] - entry.meta.head));
}

/* ---- moving rows ---- */

/* Moves rows one by one from `from` to `to`; both advance in the same direction. Rows in `holes`, which are in the
 * order of the iteration, are read but not written. */
struct shift {
    uint64_t from;
    uint64_t to;
    uint64_t left; /* rows still to read */
    bool is_reverse;
    const uint64_t *holes;
    size_t holes_count;
    size_t holes_seen;
};

/* Reads `count` (<= PIECE_ROWS) elements into the arena: values[0] is that of row shift->from. The iterator goes towards the tail in any
 * case, because the other direction costs more. False: an error was replied. */
static bool read_shift_piece(struct call *call, struct entry *entry, const struct shift *shift,
                             struct arena *arena, struct bytes values[PIECE_ROWS], uint64_t count)
{
    struct sub_iter it;
    uint64_t got = 0;
    iter_from(call, entry, shift->is_reverse ? shift->from - (count - 1) : shift->from, false, &it);
    for (; got < count && sub_iter_next(&it); got++)
        values[shift->is_reverse ? count - 1 - got : got] = arena_copy(arena, it.value);
    if (!sub_iter_fini(&it))
        return false;
    if (got < count)
        call_error(call, ERR_STORE);
    return got == count;
}

static void write_piece(struct call *call, struct entry *entry, struct shift *shift,
                        const struct bytes values[PIECE_ROWS], uint64_t count)
{
    uint64_t step = shift->is_reverse ? (uint64_t)-1 : 1;
    for (uint64_t i = 0; i < count; i++, shift->from += step) {
        if (shift->holes_seen < shift->holes_count &&
            shift->holes[shift->holes_seen] == shift->from) {
            shift->holes_seen++;
            continue;
        }
        sub_put(call, entry, CF_DATA, list_row(call, shift->to), values[i]);
        shift->to += step;
    }
    shift->left -= count;
}

static bool shift_rows(struct call *call, struct entry *entry, struct shift *shift)
{
    struct bytes values[PIECE_ROWS];
    struct arena arena;
    bool good = true;
    (void)entry_prefix(call, entry); /* before the mark: the entry keeps it */
    arena_init(&arena);
    arena.meter = call->arena->meter;
    while (good && shift->left > 0) {
        uint64_t count = shift->left < PIECE_ROWS ? shift->left : PIECE_ROWS;
        struct call_mark mark = keyspace_mark(call);
        good = read_shift_piece(call, entry, shift, &arena, values, count);
        if (good)
            write_piece(call, entry, shift, values, count);
        keyspace_release(call, &mark);
        arena_reset(&arena);
    }
    arena_fini(&arena);
    return good;
}

/* ---- LINSERT ---- */

/* Inserts the value before row `at`, which may be the tail. */
static bool insert_at(struct call *call, struct entry *entry, uint64_t at, struct bytes value)
{
    struct metadata *meta = &entry->meta;
    bool to_head = at - meta->head < meta->tail - at;
    struct shift shift = {.left = meta->tail - at, .is_reverse = true};
    if (to_head) {
        shift = (struct shift){.from = meta->head, .to = meta->head - 1, .left = at - meta->head};
        meta->head--;
        at--;
    } else {
        shift.from = meta->tail - 1;
        shift.to = meta->tail;
        meta->tail++;
    }
    if (!shift_rows(call, entry, &shift))
        return false;
    sub_put(call, entry, CF_DATA, list_row(call, at), value);
    meta->size++;
    return true;
}

void cmd_linsert(struct call *call)
{
    struct entry entry;
    struct rows rows = {0};
    bool is_after = bytes_is(call->argv[2], "AFTER");
    if (!is_after && !bytes_is(call->argv[2], "BEFORE")) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    if (!keyspace_open_type(call, call->argv[1], TYPE_LIST, OPEN_WRITE, &entry))
        return;
    if (!entry.exists) {
        reply_int(&call->reply, 0);
        return;
    }
    if (!find_rows(call, &entry, call->argv[3], false, 0, 1, 0, &rows))
        return;
    if (!rows.count) {
        reply_int(&call->reply, -1);
        return;
    }
    if (!insert_at(call, &entry, rows.at[0] + is_after, call->argv[4]))
        return;
    entry_save(call, &entry);
    reply_int(&call->reply, (int64_t)entry.meta.size);
    notify(call, NOTIFY_LIST, "linsert", call->argv[1]);
}

/* ---- LREM ---- */

static void reverse(struct rows *rows)
{
    for (size_t i = 0; i < rows->count / 2; i++) {
        uint64_t row = rows->at[i];
        rows->at[i] = rows->at[rows->count - 1 - i];
        rows->at[rows->count - 1 - i] = row;
    }
}

/* Removes the rows and closes the gaps from the shorter side. `is_reverse`: the rows are in descending order. */
static bool remove_rows(struct call *call, struct entry *entry, struct rows *rows, bool is_reverse)
{
    struct metadata *meta = &entry->meta;
    uint64_t lowest = rows->at[is_reverse ? rows->count - 1 : 0];
    uint64_t highest = rows->at[is_reverse ? 0 : rows->count - 1];
    bool to_tail = highest - meta->head < meta->tail - 1 - lowest;
    if (is_reverse != to_tail)
        reverse(rows);
    struct shift shift = {
        .from = to_tail ? highest : lowest,
        .to = to_tail ? highest : lowest,
        .left = to_tail ? highest - meta->head + 1 : meta->tail - lowest,
        .is_reverse = to_tail,
        .holes = rows->at,
        .holes_count = rows->count,
    };
    if (!shift_rows(call, entry, &shift))
        return false;
    list_cut(call, entry, to_tail ? LIST_HEAD : LIST_TAIL, rows->count);
    return true;
}

void cmd_lrem(struct call *call)
{
    struct entry entry;
    struct rows rows = {0};
    int64_t count;
    if (!call_int64(call, 2, &count) ||
        !keyspace_open_type(call, call->argv[1], TYPE_LIST, OPEN_WRITE, &entry))
        return;
    bool is_reverse = count < 0;
    uint64_t wanted = count == INT64_MIN ? 0 : (uint64_t)(is_reverse ? -count : count);
    if (entry.exists && !find_rows(call, &entry, call->argv[3], is_reverse, 0, wanted, 0, &rows))
        return;
    reply_int(&call->reply, (int64_t)rows.count);
    if (rows.count == 0)
        return;
    if (rows.count == entry.meta.size)
        entry.meta.size = 0;
    else if (!remove_rows(call, &entry, &rows, is_reverse))
        return;
    bool is_empty = entry.meta.size == 0;
    entry_save(call, &entry);
    call_changes(call, (int64_t)rows.count - 1);
    notify(call, NOTIFY_LIST, "lrem", call->argv[1]);
    if (is_empty)
        notify(call, NOTIFY_GENERIC, "del", call->argv[1]);
}
