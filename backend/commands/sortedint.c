/*
 * sortedint.c - sorted sets of unsigned 64-bit integers, as in Kvrocks: SIADD and related commands.
 *
 *   row: u64 big-endian → nothing        rows are in numeric order, and ranks make offsets fast
 *
 * https://kvrocks.apache.org/docs/supported-commands#sortedint-commands
 */
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/keyspace.h"
#include "backend/rank/rank.h"
#include "backend/session/notify.h"
#include "shared/number.h"

static const struct bytes NOTHING = {"", 0};

static bool ints_open(struct call *call, enum open_flag flags, struct entry *entry)
{
    return keyspace_open_type(call, call->argv[1], TYPE_SORTEDINT, flags, entry);
}

static bool uint_parse(struct call *call, struct bytes text, uint64_t *value)
{
    if (number_parse_uint64(text, value))
        return true;
    call_error(call, ERR_NOT_INTEGER);
    return false;
}

/* Parses every argument from 2 on as a number. NULL: an error was replied. */
static uint64_t *integers_parse(struct call *call)
{
    uint64_t *values = arena_alloc(call->arena, call->argc * sizeof *values);
    for (uint32_t i = 2; i < call->argc; i++)
        if (!uint_parse(call, call->argv[i], &values[i - 2]))
            return NULL;
    return values;
}

static struct bytes row_of(struct call *call, uint64_t value)
{
    return encode_u64(call->arena, value);
}

/* ---- writes ---- */

/* Adds or removes numbers; replies how many were added or removed. */
static void add_or_remove(struct call *call, bool add, const char *event)
{
    struct entry entry;
    struct rank_edit edit;
    struct bytes old;
    int64_t count = 0;
    const uint64_t *values = integers_parse(call);
    if (!values || !ints_open(call, OPEN_WRITE, &entry))
        return;
    if (!entry.exists && !add) {
        reply_int(&call->reply, 0);
        return;
    }
    if (!entry.exists)
        entry_create(call, &entry, TYPE_SORTEDINT);
    rank_edit_begin(&edit, call, &entry, CF_DATA);
    for (uint32_t i = 0; i < call->argc - 2; i++) {
        struct bytes row = row_of(call, values[i]);
        int err = sub_get(call, &entry, CF_DATA, row, &old);
        if (is_read_failure(err))
            return;
        if ((err == OK) == add)
            continue;
        if (add)
            sub_put(call, &entry, CF_DATA, row, NOTHING);
        else
            sub_delete(call, &entry, CF_DATA, row);
        entry.meta.size += add ? 1 : (uint64_t)-1;
        if (!(add ? rank_edit_add(&edit, row) : rank_edit_remove(&edit, row)))
            return;
        count++;
    }
    if (!rank_edit_end(&edit))
        return;
    if (count) {
        entry_save(call, &entry);
        notify(call, NOTIFY_MODULE, event, call->argv[1]);
        if (entry.meta.size == 0)
            notify(call, NOTIFY_GENERIC, "del", call->argv[1]);
    }
    reply_int(&call->reply, count);
}

void cmd_siadd(struct call *call)
{
    add_or_remove(call, true, "siadd");
}

void cmd_sirem(struct call *call)
{
    add_or_remove(call, false, "sirem");
}

/* ---- reads ---- */

void cmd_sicard(struct call *call)
{
    struct entry entry;
    if (ints_open(call, OPEN_READ, &entry))
        reply_int(&call->reply, (int64_t)entry.meta.size);
}

void cmd_siexists(struct call *call)
{
    struct entry entry;
    struct bytes old;
    const uint64_t *values = integers_parse(call);
    if (!values || !ints_open(call, OPEN_READ, &entry))
        return;
    reply_array(&call->reply, call->argc - 2);
    for (uint32_t i = 0; i < call->argc - 2; i++) {
        int err = entry.exists ? sub_get(call, &entry, CF_DATA, row_of(call, values[i]), &old)
                               : ERR_NOT_FOUND;
        if (is_read_failure(err))
            return;
        reply_int(&call->reply, err == OK);
    }
}

/* ---- ranges ---- */

/* Numbers from `low` to `high`, both included; of these, `count` after the first `offset`. */
struct range {
    uint64_t low, high;
    bool is_empty;
    uint64_t offset, count;
};

static void reply_integer(struct call *call, struct bytes row)
{
    uint64_t value;
    char text[24];
    if (!decode_u64(row, &value)) {
        call_error(call, ERR_STORE);
        return;
    }
    size_t len = 0;
    do
        text[sizeof text - ++len] = (char)('0' + value % 10);
    while (value /= 10);
    reply_bulk(&call->reply, (struct bytes){text + sizeof text - len, len});
}

/* Replies the rows with rank first, first + 1 …, or backwards: first, first - 1 … */
static void reply_integers(struct call *call, struct entry *entry, uint64_t first, uint64_t count,
                           bool reverse)
{
    struct bytes from;
    uint64_t skip;
    struct sub_iter it;
    reply_array(&call->reply, (int64_t)count);
    if (count == 0 || !rank_seek(call, entry, CF_DATA, first, &from, &skip))
        return;
    sub_iter_init(call, entry, CF_DATA, from, &it);
    bool good = sub_iter_next(&it);
    while (good && skip-- > 0)
        good = sub_iter_next(&it);
    if (good && reverse) {
        struct bytes row = arena_copy(call->arena, it.sub);
        if (!sub_iter_fini(&it))
            return;
        sub_iter_init_reverse(call, entry, CF_DATA, row, &it);
        good = sub_iter_next(&it);
    }
    for (; good && count > 0 && !call->failed; count--) {
        reply_integer(call, it.sub);
        good = count > 1 && sub_iter_next(&it);
    }
    if (sub_iter_fini(&it) && count > 0 && !call->failed)
        call_error(call, ERR_STORE); /* inconsistent: fewer rows than the ranks count */
}

static void reply_range(struct call *call, const struct range *range, bool reverse)
{
    struct entry entry;
    uint64_t low = 0;
    uint64_t end;
    if (!ints_open(call, OPEN_READ, &entry))
        return;
    if (!entry.exists || range->is_empty || range->low > range->high) {
        reply_array(&call->reply, 0);
        return;
    }
    end = entry.meta.size;
    if ((range->low && !rank_of(call, &entry, CF_DATA, row_of(call, range->low), &low)) ||
        (range->high < UINT64_MAX &&
         !rank_of(call, &entry, CF_DATA, row_of(call, range->high + 1), &end)))
        return;
    uint64_t all = end - low;
    uint64_t left = range->offset < all ? all - range->offset : 0;
    uint64_t count = range->count < left ? range->count : left;
    uint64_t first = reverse ? end - 1 - range->offset : low + range->offset;
    reply_integers(call, &entry, count ? first : 0, count, reverse);
}

/* SIRANGE key offset count [CURSOR id]: numbers after the id, in the direction of the iteration. */
static void range_by_place(struct call *call, bool reverse)
{
    struct range range = {.high = UINT64_MAX};
    uint64_t cursor;
    if (!uint_parse(call, call->argv[2], &range.offset) ||
        !uint_parse(call, call->argv[3], &range.count))
        return;
    if (call->argc != 4 && (call->argc != 6 || !bytes_is(call->argv[4], "CURSOR"))) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    if (call->argc == 6) {
        if (!uint_parse(call, call->argv[5], &cursor))
            return;
        if (reverse) {
            range.is_empty = cursor == 0;
            range.high = cursor - 1;
        } else {
            range.is_empty = cursor == UINT64_MAX;
            range.low = cursor + 1;
        }
    }
    reply_range(call, &range, reverse);
}

void cmd_sirange(struct call *call)
{
    range_by_place(call, false);
}

void cmd_sirevrange(struct call *call)
{
    range_by_place(call, true);
}

/* Parses a bound: a number, "(" and a number to be excluded, -inf, or +inf. */
static bool bound_parse(struct call *call, uint32_t index, bool is_high, struct range *range)
{
    struct bytes text = call->argv[index];
    uint64_t *bound = is_high ? &range->high : &range->low;
    bool is_open = text.len > 1 && *text.data == '(';
    if (bytes_is(text, "-inf") || bytes_is(text, "+inf") || bytes_is(text, "inf")) {
        bool is_max = *text.data != '-';
        range->is_empty |= is_max != is_high;
        *bound = is_max ? UINT64_MAX : 0;
        return true;
    }
    if (is_open)
        text = (struct bytes){text.data + 1, text.len - 1};
    if (!number_parse_uint64(text, bound)) {
        call_error_text(call, "ERR the min or max isn't integer");
        return false;
    }
    if (!is_open)
        return true;
    range->is_empty |= *bound == (is_high ? 0 : UINT64_MAX);
    *bound += is_high ? (uint64_t)-1 : 1;
    return true;
}

/* SIRANGEBYVALUE key min max [LIMIT offset count]; the reversed command has max first. */
static void range_by_value(struct call *call, bool reverse)
{
    struct range range = {.count = UINT64_MAX};
    if (!bound_parse(call, reverse ? 3 : 2, false, &range) ||
        !bound_parse(call, reverse ? 2 : 3, true, &range))
        return;
    if (call->argc != 4 && (call->argc != 7 || !bytes_is(call->argv[4], "LIMIT"))) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    if (call->argc == 7) {
        int64_t count;
        if (!uint_parse(call, call->argv[5], &range.offset) || !call_int64(call, 6, &count))
            return;
        range.count = count < 0 ? UINT64_MAX : (uint64_t)count;
    }
    reply_range(call, &range, reverse);
}

void cmd_sirangebyvalue(struct call *call)
{
    range_by_value(call, false);
}

void cmd_sirevrangebyvalue(struct call *call)
{
    range_by_value(call, true);
}
