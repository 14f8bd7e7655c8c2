/*
 * hash_range.c - HRANGEBYLEX: the fields of a hash in a range of names, with their values, in the order of their names.
 */
#include "backend/commands/hash.h"
#include "backend/commands/name_range.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/reply_stream.h"

static const struct bytes NOTHING = {"", 0};

struct field_range {
    struct name_end from, to;
    bool is_reverse; /* replies the last field first; the arguments have the greater end first */
    int64_t offset;
    int64_t count; /* negative: all */
};

static bool range_parse(struct call *call, struct field_range *range)
{
    *range = (struct field_range){.count = -1};
    for (uint32_t i = 4; i < call->argc; i++) {
        if (bytes_is(call->argv[i], "REV")) {
            range->is_reverse = true;
        } else if (bytes_is(call->argv[i], "LIMIT") && i + 2 < call->argc) {
            if (!call_int64(call, i + 1, &range->offset) || !call_int64(call, i + 2, &range->count))
                return false;
            i += 2;
        } else {
            call_error(call, ERR_SYNTAX);
            return false;
        }
    }
    if (name_end_parse(call->argv[range->is_reverse ? 3 : 2], &range->from) &&
        name_end_parse(call->argv[range->is_reverse ? 2 : 3], &range->to))
        return true;
    call_error_text(call, NAME_RANGE_INVALID);
    return false;
}

/* Opens the iterator at the first field to reply, or at an earlier one, which range_next skips. */
static void range_begin(struct call *call, struct entry *entry, const struct field_range *range,
                        struct sub_iter *it)
{
    if (range->is_reverse)
        sub_iter_init_reverse(call, entry, CF_DATA, range->to.side ? NOTHING : range->to.member,
                              it);
    else
        sub_iter_init(call, entry, CF_DATA, range->from.side ? NOTHING : range->from.member, it);
}

/* Moves to the next field of the range. Returns false at the end. */
static bool range_next(const struct field_range *range, struct sub_iter *it)
{
    while (sub_iter_next(it)) {
        bool is_above = name_reaches(it->sub, &range->from);
        bool is_below = name_within(it->sub, &range->to);
        if (is_above && is_below)
            return true;
        if (range->is_reverse ? !is_above : !is_below)
            return false;
    }
    return false;
}

/* reply_stream_row_fn */
static void reply_pair(struct reply *reply, struct bytes field, struct bytes value, unsigned how)
{
    (void)how;
    reply_bulk(reply, field);
    reply_bulk(reply, value);
}

/* Counts the fields first, because the reply begins with their number; a second pass, which may be streamed, replies them. */
static void reply_counted(struct call *call, struct entry *entry, const struct field_range *range)
{
    struct sub_iter it;
    struct bytes first = NOTHING;
    int64_t passed = 0;
    int64_t found = 0;
    range_begin(call, entry, range, &it);
    while (found != range->count && range_next(range, &it)) {
        if (passed++ < range->offset)
            continue;
        if (found++ == 0)
            first = arena_copy(call->arena, it.sub);
    }
    if (!sub_iter_fini(&it))
        return;
    reply_array(&call->reply, 2 * found);
    if (found == 0)
        return;
    if (range->is_reverse)
        sub_iter_init_reverse(call, entry, CF_DATA, first, &it);
    else
        sub_iter_init(call, entry, CF_DATA, first, &it);
    (void)reply_stream_rows(call, &it, (uint64_t)found, reply_pair, 0);
}

struct pair {
    struct bytes field, value;
    struct pair *before;
};

/* Replies backwards over a hash with expired fields. Only forward iterators skip expired fields, so the range is collected first. */
static void reply_collected(struct call *call, struct entry *entry, struct field_range range)
{
    struct sub_iter it;
    struct pair *last = NULL;
    int64_t found = 0;
    range.is_reverse = false;
    range_begin(call, entry, &range, &it);
    for (; range_next(&range, &it); found++) {
        struct pair *pair = arena_alloc(call->arena, sizeof *pair);
        *pair =
            (struct pair){arena_copy(call->arena, it.sub), arena_copy(call->arena, it.value), last};
        last = pair;
    }
    if (!sub_iter_fini(&it))
        return;
    for (int64_t i = 0; last && i < range.offset; i++, found--)
        last = last->before;
    if (range.count >= 0 && found > range.count)
        found = range.count;
    reply_array(&call->reply, 2 * found);
    for (; found > 0; found--, last = last->before)
        reply_pair(&call->reply, last->field, last->value, 0);
}

void cmd_hrangebylex(struct call *call)
{
    struct entry entry;
    struct field_range range;
    if (!range_parse(call, &range) ||
        !keyspace_open_type(call, call->argv[1], TYPE_HASH, OPEN_READ, &entry))
        return;
    if (!entry.exists || range.offset < 0 || names_are_empty(&range.from, &range.to))
        reply_array(&call->reply, 0);
    else if (range.is_reverse && entry.hides_fields)
        reply_collected(call, &entry, range);
    else
        reply_counted(call, &entry, &range);
}
