/*
 * list_move.c - commands that move elements between lists, or pop from the first of several lists; and their blocking
 * forms.
 *
 * A blocking form is the same command: when there are no elements, it blocks (blocking.h) and runs again later.
 */
#include "backend/commands/list.h"
#include "backend/dispatch/blocking.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/notify.h"
#include "shared/command/arguments.h"

/* ---- moves ---- */

static void notify_push(struct call *call, enum list_end end, struct bytes key)
{
    notify(call, NOTIFY_LIST, end == LIST_HEAD ? "lpush" : "rpush", key);
}

/* Moves an element within one list, which keeps existing even if it has only one element. */
static void rotate_list(struct call *call, struct entry *entry, enum list_end from,
                        enum list_end to, struct bytes value)
{
    if (from != to && entry->meta.size > 1) {
        list_cut(call, entry, from, 1);
        list_push_end(call, entry, to, value);
    }
    notify_push(call, to, entry->key);
    list_removed_from(call, entry, from);
}

/* Moves an element out of an existing list, and replies it. */
static void move(struct call *call, struct entry *source, enum list_end from, enum list_end to)
{
    struct entry target;
    struct bytes value;
    uint64_t index = from == LIST_HEAD ? source->meta.head : source->meta.tail - 1;
    if (!keyspace_open_type(call, call->argv[2], TYPE_LIST, OPEN_WRITE, &target) ||
        !list_get(call, source, index, &value))
        return;
    reply_bulk(&call->reply, value);
    if (bytes_equal(call->argv[1], call->argv[2])) {
        rotate_list(call, source, from, to, value);
        return;
    }
    if (!target.exists)
        entry_create(call, &target, TYPE_LIST);
    list_push_end(call, &target, to, value);
    entry_save(call, &target);
    notify_push(call, to, target.key);
    list_cut(call, source, from, 1);
    list_removed_from(call, source, from);
    call_changes(call, -1);
}

static void move_now(struct call *call, enum list_end from, enum list_end to)
{
    struct entry source;
    if (!keyspace_open_type(call, call->argv[1], TYPE_LIST, OPEN_WRITE, &source))
        return;
    if (source.exists)
        move(call, &source, from, to);
    else
        reply_null(&call->reply);
}

static void move_waiting(struct call *call, enum list_end from, enum list_end to,
                         uint32_t timeout_at)
{
    struct entry source;
    uint64_t timeout_ms;
    if (!blocking_timeout(call, timeout_at, &timeout_ms) ||
        !keyspace_open_type(call, call->argv[1], TYPE_LIST, OPEN_WRITE, &source))
        return;
    if (source.exists)
        move(call, &source, from, to);
    else if (!blocking_wait(call, &call->argv[1], 1, timeout_ms))
        reply_null(&call->reply);
}

void cmd_lmove(struct call *call)
{
    enum list_end from;
    enum list_end to;
    if (list_end_parse(call, 3, &from) && list_end_parse(call, 4, &to))
        move_now(call, from, to);
}

void cmd_rpoplpush(struct call *call)
{
    move_now(call, LIST_TAIL, LIST_HEAD);
}

void cmd_blmove(struct call *call)
{
    enum list_end from;
    enum list_end to;
    if (list_end_parse(call, 3, &from) && list_end_parse(call, 4, &to))
        move_waiting(call, from, to, 5);
}

void cmd_brpoplpush(struct call *call)
{
    move_waiting(call, LIST_TAIL, LIST_HEAD, 3);
}

/* ---- pops from the first list ---- */

/* What to pop, and from which lists. */
struct pop {
    const struct bytes *keys;
    uint32_t keys_count;
    enum list_end end;
    bool is_many; /* reply an array of up to `count` elements, otherwise a single element */
    uint64_t count;
};

/* Pops elements; replies the key and the elements. */
static void pop_from_list(struct call *call, const struct pop *pop, struct entry *entry)
{
    uint64_t count = pop->count < entry->meta.size ? pop->count : entry->meta.size;
    reply_array(&call->reply, 2);
    reply_bulk(&call->reply, entry->key);
    if (pop->is_many)
        reply_array(&call->reply, (int64_t)count);
    if (!list_reply(call, entry, pop->end, count))
        return;
    list_cut(call, entry, pop->end, count);
    list_removed_from(call, entry, pop->end);
    call_changes(call, (int64_t)count - 1);
}

/* Pops from the first list that exists. True: elements or an error were replied. */
static bool pop_first_list(struct call *call, const struct pop *pop)
{
    struct entry entry;
    for (uint32_t i = 0; i < pop->keys_count; i++) {
        if (call->ready_key && !bytes_equal(pop->keys[i], *call->ready_key))
            continue;
        if (!keyspace_open_type(call, pop->keys[i], TYPE_LIST, OPEN_WRITE, &entry))
            return true;
        if (entry.exists) {
            pop_from_list(call, pop, &entry);
            return true;
        }
    }
    return false;
}

static void pop_list_or_wait(struct call *call, const struct pop *pop, uint32_t timeout_at)
{
    uint64_t timeout_ms;
    if (!blocking_timeout(call, timeout_at, &timeout_ms) || pop_first_list(call, pop))
        return;
    if (!blocking_wait(call, pop->keys, pop->keys_count, timeout_ms))
        reply_null_array(&call->reply);
}

static void blocking_list_pop(struct call *call, enum list_end end)
{
    const struct pop pop = {
        .keys = &call->argv[1], .keys_count = call->argc - 2, .end = end, .count = 1};
    pop_list_or_wait(call, &pop, call->argc - 1);
}

void cmd_blpop(struct call *call)
{
    blocking_list_pop(call, LIST_HEAD);
}

void cmd_brpop(struct call *call)
{
    blocking_list_pop(call, LIST_TAIL);
}

/* Parses numkeys key … LEFT|RIGHT [COUNT n]. */
static bool parse_lmpop(struct call *call, struct pop *pop)
{
    const struct counted_errors errors = {"ERR numkeys should be greater than 0",
                                          "ERR numkeys should be greater than 0",
                                          error_text(ERR_SYNTAX)};
    struct counted_keys keys;
    if (!call_counted_keys(call, &errors, &keys))
        return false;
    *pop = (struct pop){
        .keys = &call->argv[keys.first], .keys_count = keys.count, .is_many = true, .count = 1};
    uint32_t end_at = keys.behind;
    if (!list_end_parse(call, end_at, &pop->end))
        return false;
    if (end_at + 1 == call->argc)
        return true;
    if (!bytes_is(call->argv[end_at + 1], "COUNT") || end_at + 2 == call->argc) {
        call_error(call, ERR_SYNTAX);
        return false;
    }
    if (!call_positive(call, end_at + 2, "ERR count should be greater than 0", &pop->count))
        return false;
    if (end_at + 3 == call->argc)
        return true;
    call_error(call, ERR_SYNTAX);
    return false;
}

void cmd_lmpop(struct call *call)
{
    struct pop pop;
    if (parse_lmpop(call, &pop) && !pop_first_list(call, &pop))
        reply_null_array(&call->reply);
}

void cmd_blmpop(struct call *call)
{
    struct pop pop;
    if (parse_lmpop(call, &pop))
        pop_list_or_wait(call, &pop, 1);
}
