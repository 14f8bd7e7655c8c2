/*
 * set_algebra.c - intersection, union and difference: SINTER, SUNION, SDIFF and their variants.
 *
 *   sources ──► members, each once, in byte order ─┬─ reply
 *                                                  └─ STORE: rows of a new set
 *
 * An intersection iterates over the smallest set and finds its members in the others; a difference iterates over
 * the first set; a union iterates over all at once. Members are sorted because rows are.
 */
#include "backend/commands/equal_words.h"
#include "backend/commands/member_lookup.h"
#include "backend/context/goes_on.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/keyspace.h"
#include "backend/rank/rank.h"
#include "backend/session/notify.h"
#include "shared/command/arguments.h"
#include "shared/number.h"

static const struct bytes NOTHING = {"", 0};

/* The sets of a command; `exists` of a missing one is false. */
struct sources {
    struct entry *entries;
    uint32_t count;
    uint32_t missing;
};

/* The result, in the call's arena. */
struct members {
    struct bytes *items;
    uint64_t count;
    uint64_t cap;
};

static void members_add(struct call *call, struct members *members, struct bytes member)
{
    if (members->count == members->cap) {
        uint64_t cap = members->cap ? members->cap * 2 : 16;
        struct bytes *items = arena_alloc(call->arena, cap * sizeof *items);
        if (members->count)
            memcpy(items, members->items, members->count * sizeof *items);
        members->items = items;
        members->cap = cap;
    }
    members->items[members->count++] = arena_copy(call->arena, member);
}

/* Opens the keys in arguments first, first + 1 … and checks their types. A key that is given several times is one source, but the
 * first set of a difference is one of its own. */
static bool sources_open(struct call *call, uint32_t first, uint32_t count, bool is_difference,
                         struct sources *sources)
{
    const uint32_t *equal = first_of_equal(call->arena, call->argv + first, count);
    bool has_first_again = false;
    sources->entries = arena_alloc(call->arena, count * sizeof *sources->entries);
    sources->count = 0;
    sources->missing = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool is_first_again = is_difference && i && !equal[i] && !has_first_again;
        has_first_again |= is_first_again;
        struct entry *entry = &sources->entries[sources->count];
        if (!keyspace_open_type(call, call->argv[first + i], TYPE_SET, OPEN_READ, entry))
            return false;
        if (equal[i] != i && !is_first_again)
            continue; /* it was opened for its hit or miss, which Redis counts each time */
        sources->missing += !entry->exists;
        sources->count += entry->exists || i == 0; /* others that are missing change nothing */
    }
    return true;
}

/* Prepares to find members of set `walked` in the others; in the call's arena. */
static struct member_lookup *others_of(struct call *call, struct sources *sources, uint32_t walked)
{
    struct member_lookup *others = arena_alloc(call->arena, sources->count * sizeof *others);
    uint64_t sought = sources->entries[walked].meta.size;
    for (uint32_t i = 0; i < sources->count; i++)
        member_lookup_init(&others[i], call, &sources->entries[i], sought);
    return others;
}

/* True when all other sets that exist contain the member (wanted OK), or none (wanted ERR_NOT_FOUND). False also when the store
 * failed. */
static bool others_agree(struct member_lookup *others, uint32_t count, uint32_t walked,
                         struct bytes member, int wanted)
{
    struct bytes value;
    for (uint32_t i = 0; i < count; i++)
        if (i != walked && others[i].entry->exists &&
            member_lookup_find(&others[i], member, &value) != wanted)
            return false;
    return true;
}

/* Collects the members of set `walked` for which others_agree(); at most `limit`, 0 = all. */
static bool collect_common(struct call *call, struct sources *sources, uint32_t walked, int wanted,
                           uint64_t limit, struct members *members)
{
    struct member_lookup *others = others_of(call, sources, walked);
    struct sub_iter it;
    sub_iter_init(call, &sources->entries[walked], CF_DATA, NOTHING, &it);
    while (!call->failed && (!limit || members->count < limit) && sub_iter_next(&it))
        if (others_agree(others, sources->count, walked, it.sub, wanted))
            members_add(call, members, it.sub);
    bool is_good = sub_iter_fini(&it);
    for (uint32_t i = 0; i < sources->count; i++)
        is_good = member_lookup_fini(&others[i]) && is_good;
    return is_good && !call->failed;
}

static bool intersect(struct call *call, struct sources *sources, uint64_t limit,
                      struct members *members)
{
    uint32_t smallest = 0;
    if (sources->missing)
        return true;
    for (uint32_t i = 1; i < sources->count; i++)
        if (sources->entries[i].meta.size < sources->entries[smallest].meta.size)
            smallest = i;
    return collect_common(call, sources, smallest, OK, limit, members);
}

static bool subtract(struct call *call, struct sources *sources, struct members *members)
{
    return !sources->entries[0].exists ||
           collect_common(call, sources, 0, ERR_NOT_FOUND, 0, members);
}

/* ---- unions ---- */

/* Iterators over the sets, in a heap by their current members: that of heap[0] is the smallest. An iterator that has ended is not in it. */
struct merge {
    struct sub_iter **heap;
    uint32_t count;
};

/* Moves the iterator at `at` down to its place, after it has moved on. */
static void merge_sift(struct merge *merge, uint32_t at)
{
    struct sub_iter *moved = merge->heap[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= merge->count)
            break;
        if (child + 1 < merge->count &&
            bytes_compare(merge->heap[child + 1]->sub, merge->heap[child]->sub) < 0)
            child++;
        if (bytes_compare(moved->sub, merge->heap[child]->sub) <= 0)
            break;
        merge->heap[at] = merge->heap[child];
        at = child;
    }
    merge->heap[at] = moved;
}

static void merge_init(struct merge *merge)
{
    for (uint32_t i = merge->count / 2; i-- > 0;)
        merge_sift(merge, i);
}

/* Moves the iterator with the smallest member on. */
static void merge_advance(struct merge *merge)
{
    if (!sub_iter_next(merge->heap[0]))
        merge->heap[0] = merge->heap[--merge->count];
    if (merge->count)
        merge_sift(merge, 0);
}

/* Adds the smallest member, and moves all iterators that are at it on. */
static void merge_step(struct call *call, struct merge *merge, struct members *members)
{
    members_add(call, members, merge->heap[0]->sub);
    struct bytes member = members->items[members->count - 1];
    while (merge->count && bytes_equal(merge->heap[0]->sub, member))
        merge_advance(merge);
}

enum { MERGE_WORK = 4 };

static bool unite(struct call *call, struct sources *sources, struct members *members)
{
    struct sub_iter *iters = arena_alloc(call->arena, sources->count * sizeof *iters);
    struct merge merge = {.heap =
                              arena_alloc(call->arena, sources->count * sizeof(struct sub_iter *))};
    uint32_t count = 0;
    bool good = true;
    for (uint32_t i = 0; i < sources->count; i++) {
        if (!sources->entries[i].exists)
            continue;
        struct sub_iter *it = &iters[count++];
        sub_iter_init(call, &sources->entries[i], CF_DATA, NOTHING, it);
        if (sub_iter_next(it))
            merge.heap[merge.count++] = it;
    }
    merge_init(&merge);
    while (merge.count && call_goes_on(call, MERGE_WORK))
        merge_step(call, &merge, members);
    for (uint32_t i = 0; i < count; i++)
        good = sub_iter_fini(&iters[i]) && good;
    return good;
}

/* ---- results ---- */

static void reply_members(struct call *call, const struct members *members)
{
    reply_set(&call->reply, (int64_t)members->count);
    for (uint64_t i = 0; i < members->count && call_goes_on(call, BUDGET_ROW); i++)
        reply_bulk(&call->reply, members->items[i]);
}

/* Stores the members as the set in argument 1; deletes the key when there are none. */
static void store_members(struct call *call, const struct members *members, const char *event)
{
    struct entry entry;
    if (!keyspace_open(call, call->argv[1], OPEN_WRITE, &entry))
        return;
    if (members->count == 0) {
        if (entry.exists) {
            entry_delete(call, &entry);
            notify(call, NOTIFY_GENERIC, "del", call->argv[1]);
        }
        reply_int(&call->reply, 0);
        return;
    }
    entry_create(call, &entry, TYPE_SET);
    sub_put_rows(call, &entry, CF_DATA, members->items, NULL, members->count);
    entry.meta.size = members->count;
    if (call->failed || !rank_build_of(call, &entry, CF_DATA, members->items, members->count))
        return;
    entry_save(call, &entry);
    notify(call, NOTIFY_SET, event, call->argv[1]);
    reply_int(&call->reply, (int64_t)members->count);
}

/* ---- commands ---- */

enum operation { INTERSECTION, UNION, DIFFERENCE };

static bool operate(struct call *call, enum operation operation, uint32_t first,
                    struct members *members)
{
    struct sources sources;
    *members = (struct members){0};
    if (!sources_open(call, first, call->argc - first, operation == DIFFERENCE, &sources))
        return false;
    switch (operation) {
    case INTERSECTION:
        return intersect(call, &sources, 0, members);
    case UNION:
        return unite(call, &sources, members);
    case DIFFERENCE:
        break;
    }
    return subtract(call, &sources, members);
}

static void read_result(struct call *call, enum operation operation)
{
    struct members members;
    if (operate(call, operation, 1, &members))
        reply_members(call, &members);
}

static void store_result(struct call *call, enum operation operation, const char *event)
{
    struct members members;
    if (operate(call, operation, 2, &members))
        store_members(call, &members, event);
}

void cmd_sinter(struct call *call)
{
    read_result(call, INTERSECTION);
}

void cmd_sunion(struct call *call)
{
    read_result(call, UNION);
}

void cmd_sdiff(struct call *call)
{
    read_result(call, DIFFERENCE);
}

void cmd_sinterstore(struct call *call)
{
    store_result(call, INTERSECTION, "sinterstore");
}

void cmd_sunionstore(struct call *call)
{
    store_result(call, UNION, "sunionstore");
}

void cmd_sdiffstore(struct call *call)
{
    store_result(call, DIFFERENCE, "sdiffstore");
}

/* Parses `numkeys key … [LIMIT limit]`; SUNIONCARD also has APPROX, which needs no estimate here: the exact number is
 * the best one. */
static bool card_arguments(struct call *call, bool may_approx, struct counted_keys *keys,
                           uint64_t *limit)
{
    static const struct counted_errors errors = {
        "ERR numkeys should be greater than 0", "ERR numkeys should be greater than 0",
        "ERR Number of keys can't be greater than number of args"};
    int64_t most = 0;
    if (!call_counted_keys(call, &errors, keys))
        return false;
    for (uint32_t i = keys->behind; i < call->argc; i++) {
        if (may_approx && bytes_is(call->argv[i], "APPROX"))
            continue;
        if (!bytes_is(call->argv[i], "LIMIT") || i + 1 == call->argc) {
            call_error(call, ERR_SYNTAX);
            return false;
        }
        if (!number_parse_int64(call->argv[++i], &most) || most < 0) {
            call_error_text(call, "ERR LIMIT can't be negative");
            return false;
        }
    }
    *limit = (uint64_t)most;
    return true;
}

static void reply_card(struct call *call, enum operation operation)
{
    struct sources sources;
    struct members members = {0};
    struct counted_keys keys;
    uint64_t limit;
    if (!card_arguments(call, operation == UNION, &keys, &limit) ||
        !sources_open(call, keys.first, keys.count, operation == DIFFERENCE, &sources))
        return;
    bool good = operation == INTERSECTION ? intersect(call, &sources, limit, &members)
                : operation == UNION      ? unite(call, &sources, &members)
                                          : subtract(call, &sources, &members);
    if (good)
        reply_int(&call->reply, (int64_t)(limit && members.count > limit ? limit : members.count));
}

void cmd_sintercard(struct call *call)
{
    reply_card(call, INTERSECTION);
}

void cmd_sunioncard(struct call *call)
{
    reply_card(call, UNION);
}

void cmd_sdiffcard(struct call *call)
{
    reply_card(call, DIFFERENCE);
}
