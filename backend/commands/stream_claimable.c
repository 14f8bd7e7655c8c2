#include "backend/commands/stream_claimable.h"

/* A row of the index. */
struct timed {
    uint64_t delivered_ms;
    struct stream_id id;
};

struct timed_list {
    struct timed *at;
    uint64_t count;
    uint64_t cap;
};

static void timed_add(struct call *call, struct timed_list *list, struct timed timed)
{
    if (list->count == list->cap) {
        uint64_t cap = list->cap * 2 + 16;
        struct timed *bigger = arena_alloc(call->arena, cap * sizeof *bigger);
        if (list->count)
            memcpy(bigger, list->at, list->count * sizeof *bigger);
        list->at = bigger;
        list->cap = cap;
    }
    list->at[list->count++] = timed;
}

/* Makes the index of the group. */
static bool make_index(struct call *call, struct entry *entry, struct stream_group *group)
{
    struct timed_list list = {0};
    struct stream_pending pending;
    struct stream_id id;
    struct sub_iter it;
    sub_iter_init(call, entry, CF_DATA, pending_row_key(call, group->name, STREAM_ID_MIN), &it);
    while (sub_iter_next(&it) && pending_row_read(&it, group->name, &id, &pending))
        timed_add(call, &list, (struct timed){pending.delivered_ms, id});
    if (!sub_iter_fini(&it))
        return false;
    group->has_times = true;
    group->oldest_ms = call->now_ms;
    for (uint64_t i = 0; i < list.count; i++)
        pending_time_put(call, entry, group, list.at[i].delivered_ms, list.at[i].id);
    group_put(call, entry, group);
    return true;
}

/* Is the entry in the stream? 1: it is; 0: it was removed; -1: the store failed. */
static int is_in_stream(struct call *call, struct entry *entry, struct stream_id id)
{
    char sub[STREAM_ID_BYTES];
    struct bytes row;
    if (stream_id_compare(id, entry->meta.stream_first) < 0)
        return 0;
    int err = sub_get(call, entry, CF_STREAM, stream_id_encode(sub, id), &row);
    return is_read_failure(err) ? -1 : err == OK;
}

/* Removes entries from the index that are no longer in the stream, so that they are not read again, and moves its beginning to
 * the oldest entry that is left. */
static void shorten_index(struct call *call, struct entry *entry, struct stream_group *group,
                          const struct timed_list *removed, uint64_t oldest_ms)
{
    for (uint64_t i = 0; i < removed->count; i++)
        pending_time_delete(call, entry, group, removed->at[i].delivered_ms, removed->at[i].id);
    if (removed->count || oldest_ms != group->oldest_ms) {
        group->oldest_ms = oldest_ms;
        group_put(call, entry, group);
    }
}

/* Reads the index up to the first entry that may not be claimed yet. */
static bool read_index(struct call *call, struct entry *entry, struct stream_group *group,
                       uint64_t min_ms, uint64_t most, struct stream_claimable *claimable)
{
    struct timed_list found = {0};
    struct timed_list removed = {0};
    struct timed timed;
    struct sub_iter it;
    uint64_t oldest_ms = call->now_ms;
    int is_there = 0;
    sub_iter_init(call, entry, CF_DATA,
                  time_row_key(call, group->name, group->oldest_ms, STREAM_ID_MIN), &it);
    while (found.count < most && is_there >= 0 && sub_iter_next(&it) &&
           time_row_read(&it, group->name, &timed.delivered_ms, &timed.id)) {
        uint64_t idle_ms =
            call->now_ms > timed.delivered_ms ? call->now_ms - timed.delivered_ms : 0;
        if (idle_ms < min_ms) {
            claimable->next_ms = min_ms - idle_ms;
            if (!found.count)
                oldest_ms = timed.delivered_ms;
            break;
        }
        is_there = is_in_stream(call, entry, timed.id);
        if (is_there > 0 && !found.count)
            oldest_ms = timed.delivered_ms;
        if (is_there >= 0)
            timed_add(call, is_there ? &found : &removed, timed);
    }
    if (!sub_iter_fini(&it) || is_there < 0)
        return false;
    shorten_index(call, entry, group, &removed, oldest_ms);
    claimable->count = found.count;
    claimable->ids = arena_alloc(call->arena, (found.count + 1) * sizeof *claimable->ids);
    for (uint64_t i = 0; i < found.count; i++)
        claimable->ids[i] = found.at[i].id;
    return true;
}

bool stream_claimable_find(struct call *call, struct entry *entry, struct stream_group *group,
                           uint64_t min_ms, uint64_t most, struct stream_claimable *claimable)
{
    *claimable = (struct stream_claimable){.next_ms = UINT64_MAX};
    if (group->pending == 0 || entry->meta.size == 0)
        return true;
    return (group->has_times || make_index(call, entry, group)) &&
           read_index(call, entry, group, min_ms, most ? most : UINT64_MAX, claimable);
}
