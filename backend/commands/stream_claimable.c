#include "backend/commands/stream_claimable.h"

#include <stdlib.h>

struct idle {
    uint64_t delivered_ms;
    struct stream_id id;
    bool is_there; /* it was checked that the stream has the entry */
};

/* The entries found so far. When they are twice as many as wanted, those that were idle for the shortest time are dropped. */
struct idles {
    struct idle *idle;
    uint64_t count;
    uint64_t cap;
    uint64_t most;
};

static int longest_first(const void *a, const void *b)
{
    const struct idle *x = a;
    const struct idle *y = b;
    if (x->delivered_ms != y->delivered_ms)
        return x->delivered_ms < y->delivered_ms ? -1 : 1;
    return stream_id_compare(x->id, y->id);
}

/* Sorts the entries by idle time, and keeps as many of the first as are wanted, without those that the stream no longer has. Returns
 * false if the store failed. */
static bool keep_first(struct call *call, struct entry *entry, struct idles *idles)
{
    uint64_t kept = 0;
    if (idles->count)
        qsort(idles->idle, idles->count, sizeof *idles->idle, longest_first);
    for (uint64_t i = 0; i < idles->count && kept < idles->most; i++) {
        struct idle *idle = &idles->idle[i];
        char sub[STREAM_ID_BYTES];
        struct bytes row;
        int err = idle->is_there
                      ? OK
                      : sub_get(call, entry, CF_STREAM, stream_id_encode(sub, idle->id), &row);
        if (is_read_failure(err))
            return false;
        idle->is_there = true;
        if (err == OK)
            idles->idle[kept++] = *idle;
    }
    idles->count = kept;
    return true;
}

static bool add_idle(struct call *call, struct entry *entry, struct idles *idles, struct idle idle)
{
    if (idles->count == idles->cap) {
        uint64_t cap = idles->cap * 2 + 64;
        struct idle *bigger = arena_alloc(call->arena, cap * sizeof *bigger);
        if (idles->count)
            memcpy(bigger, idles->idle, idles->count * sizeof *bigger);
        idles->idle = bigger;
        idles->cap = cap;
    }
    idles->idle[idles->count++] = idle;
    return idles->count / 2 < idles->most || keep_first(call, entry, idles);
}

bool stream_claimable_find(struct call *call, struct entry *entry, const struct stream_group *group,
                           uint64_t min_ms, uint64_t most, struct stream_claimable *claimable)
{
    struct idles idles = {.most = most ? most : UINT64_MAX};
    struct stream_pending pending;
    struct stream_id id;
    struct sub_iter it;
    bool is_good = true;
    *claimable = (struct stream_claimable){.next_ms = UINT64_MAX};
    if (group->pending == 0 || entry->meta.size == 0)
        return true;
    /* pending entries below the stream's first id were removed from the stream */
    sub_iter_init(call, entry, CF_DATA,
                  pending_row_key(call, group->name, entry->meta.stream_first), &it);
    while (is_good && sub_iter_next(&it) && pending_row_read(&it, group->name, &id, &pending)) {
        uint64_t idle_ms = stream_idle_ms(call, &pending);
        if (idle_ms >= min_ms)
            is_good = add_idle(call, entry, &idles, (struct idle){pending.delivered_ms, id, false});
        else if (min_ms - idle_ms < claimable->next_ms)
            claimable->next_ms = min_ms - idle_ms;
    }
    if (!sub_iter_fini(&it) || !is_good || !keep_first(call, entry, &idles))
        return false;
    claimable->count = idles.count;
    claimable->ids = arena_alloc(call->arena, (idles.count + 1) * sizeof *claimable->ids);
    for (uint64_t i = 0; i < idles.count; i++)
        claimable->ids[i] = idles.idle[i].id;
    return true;
}
