/*
 * usage.c - what each namespace has here; proxies ask for it, and add up the shards.
 *
 *   > SCREE USAGE 64 shop        at most 64 namespaces after "shop", by name; without a name: from the first one
 *   < [staff, 301, 70000, …]     name, keys, bytes (an estimate: space_bytes.h); fewer than 64: these were the last
 *
 * Clients without a namespace have the name "".
 */
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/space.h"
#include "backend/session/space_bytes.h"

#include <stdlib.h>

enum { LIMIT_AT = 2, AFTER_AT, NAMESPACES_MAX = 256, NUMBERS = 3 };

/* A database of a namespace. */
struct used {
    struct bytes name;
    struct space *space;
};

static int used_by_name(const void *a, const void *b)
{
    return bytes_compare(((const struct used *)a)->name, ((const struct used *)b)->name);
}

/* The databases of the namespaces whose names sort after `after`, ordered by name; `after` NULL: of all namespaces. The caller frees the
 * list. */
static struct used *list_used(struct space_set *spaces, const struct bytes *after, size_t *count)
{
    size_t cursor = 0;
    size_t room = 0;
    struct space *space;
    struct used *all = NULL;
    *count = 0;
    while ((space = space_next(spaces, &cursor))) {
        struct used one = {.space = space};
        uint8_t database;
        space_place(spaces, space, &one.name, &database);
        if (after && bytes_compare(one.name, *after) <= 0)
            continue;
        if (*count == room) {
            room = room ? 2 * room : 64;
            struct used *more = realloc(all, room * sizeof *all);
            CHECK(more);
            all = more;
        }
        all[(*count)++] = one;
    }
    if (*count)
        qsort(all, *count, sizeof *all, used_by_name);
    return all;
}

/* Replies the namespace of the first entry; returns how many entries it has. */
static size_t reply_used(struct call *call, const struct used *first, size_t left)
{
    struct space *spaces[DATABASES_MAX];
    size_t count = 0;
    uint64_t keys = 0;
    while (count < left && count < DATABASES_MAX && bytes_equal(first[count].name, first[0].name)) {
        spaces[count] = first[count].space;
        keys += first[count++].space->keys;
    }
    reply_bulk(&call->reply, first[0].name);
    reply_int(&call->reply, (int64_t)keys);
    reply_int(&call->reply, (int64_t)space_bytes_estimate(call->partition, spaces, count));
    return count;
}

/* Number of namespaces of the entries, at most `max`. */
static int64_t count_names(const struct used *all, size_t count, int64_t max)
{
    int64_t names = 0;
    for (size_t i = 0; i < count && names < max; i++)
        names += i + 1 == count || !bytes_equal(all[i].name, all[i + 1].name);
    return names;
}

void cmd_scree_usage(struct call *call)
{
    const struct bytes *after = call->argc > AFTER_AT ? &call->argv[AFTER_AT] : NULL;
    int64_t max;
    size_t count;
    if (!call_int64(call, LIMIT_AT, &max))
        return;
    if (max < 1 || max > NAMESPACES_MAX || call->argc > AFTER_AT + 1) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    struct used *all = list_used(call->partition->spaces, after, &count);
    int64_t names = count_names(all, count, max);
    reply_array(&call->reply, names * NUMBERS);
    for (size_t at = 0; names > 0; names--)
        at += reply_used(call, all + at, count - at);
    free(all);
}
