#include "backend/session/waiters.h"

#include "backend/context/partition.h"
#include "shared/check.h"
#include "shared/command/arguments.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { TIMER_MS_MAX = 60 * 60 * 1000 }; /* the timer is set again for a later deadline */

/* ---- deadlines ---- */

static void heap_set(struct blocking_set *set, uint32_t place, struct waiter *waiter)
{
    set->heap[place] = waiter;
    waiter->place = place;
}

static void heap_up(struct blocking_set *set, struct waiter *waiter)
{
    uint32_t place = waiter->place;
    for (; place > 0; place = (place - 1) / 2) {
        struct waiter *parent = set->heap[(place - 1) / 2];
        if (parent->due_ms <= waiter->due_ms)
            break;
        heap_set(set, place, parent);
    }
    heap_set(set, place, waiter);
}

static void heap_down(struct blocking_set *set, struct waiter *waiter)
{
    uint32_t place = waiter->place;
    for (;;) {
        uint32_t child = place * 2 + 1;
        if (child + 1 < set->heap_count && set->heap[child + 1]->due_ms < set->heap[child]->due_ms)
            child++;
        if (child >= set->heap_count || waiter->due_ms <= set->heap[child]->due_ms)
            break;
        heap_set(set, place, set->heap[child]);
        place = child;
    }
    heap_set(set, place, waiter);
}

void waiters_set_timer(struct blocking_set *set)
{
    if (set->heap_count == 0) {
        timer_stop(set->timer);
        return;
    }
    uint64_t now_ms = loop_mono_ms(set->partition->loop);
    uint64_t due_ms = set->heap[0]->due_ms;
    uint64_t wait_ms = due_ms > now_ms ? due_ms - now_ms : 0;
    timer_start(set->timer, wait_ms < TIMER_MS_MAX ? wait_ms : TIMER_MS_MAX, 0);
}

static void heap_add(struct blocking_set *set, struct waiter *waiter)
{
    if (set->heap_count == set->heap_cap) {
        set->heap_cap = set->heap_cap ? set->heap_cap * 2 : 16;
        struct waiter **heap = realloc(set->heap, set->heap_cap * sizeof(struct waiter *));
        CHECK(heap);
        set->heap = heap;
    }
    waiter->place = set->heap_count++;
    heap_up(set, waiter);
    if (waiter->place == 0)
        waiters_set_timer(set);
}

void waiter_unschedule(struct blocking_set *set, struct waiter *waiter)
{
    struct waiter *last = set->heap[--set->heap_count];
    uint32_t place = waiter->place;
    if (last == waiter)
        return;
    heap_set(set, place, last);
    heap_up(set, last);
    heap_down(set, last);
}

void waiter_schedule(struct blocking_set *set, struct waiter *waiter)
{
    if (waiter->due_ms)
        waiter_unschedule(set, waiter);
    bool is_earlier =
        waiter->again_ms && (!waiter->deadline_ms || waiter->again_ms < waiter->deadline_ms);
    waiter->due_ms = is_earlier ? waiter->again_ms : waiter->deadline_ms;
    if (waiter->due_ms)
        heap_add(set, waiter);
}

/* ---- keys ---- */

static struct bytes waiter_key(const struct space *space, struct bytes key, char **buffer)
{
    *buffer = malloc(sizeof(void *) + key.len);
    CHECK(*buffer);
    memcpy(*buffer, &space, sizeof(void *));
    if (key.len)
        memcpy(*buffer + sizeof(void *), key.data, key.len);
    return (struct bytes){*buffer, sizeof(void *) + key.len};
}

/* The argument with the timeout of the waiter's command; 0: none. */
static uint32_t timeout_argument(const struct waiter *waiter)
{
    enum { AWAIT_TIMEOUT = 3 };
    struct stream_arguments streams;
    if (waiter->command->flags & CMD_INTERNAL)
        return AWAIT_TIMEOUT;
    switch (waiter->command->timeout) {
    case TIMEOUT_SECONDS_LAST:
    case TIMEOUT_MS_LAST:
        break;
    case TIMEOUT_SECONDS_AT_1:
        return 1;
    case TIMEOUT_MS_BLOCK:
        (void)stream_arguments_find(waiter->argv, waiter->argc, &streams);
        return streams.block_at;
    }
    return waiter->argc - 1;
}

void waiter_shorten_timeout(struct waiter *waiter, uint64_t now_ms, char text[WAITER_TIMEOUT_MAX])
{
    uint32_t at = timeout_argument(waiter);
    if (!at || !waiter->deadline_ms)
        return;
    uint64_t rest_ms = waiter->deadline_ms > now_ms ? waiter->deadline_ms - now_ms : 1;
    bool is_ms = waiter->command->flags & CMD_INTERNAL ||
                 waiter->command->timeout == TIMEOUT_MS_LAST ||
                 waiter->command->timeout == TIMEOUT_MS_BLOCK;
    int len = is_ms ? snprintf(text, WAITER_TIMEOUT_MAX, "%" PRIu64, rest_ms)
                    : snprintf(text, WAITER_TIMEOUT_MAX, "%" PRIu64 ".%03u", rest_ms / 1000,
                               (unsigned)(rest_ms % 1000));
    waiter->argv[at] = (struct bytes){text, (size_t)len};
}

struct bytes awaited_key(const struct awaited *awaited)
{
    return (struct bytes){awaited->key, awaited->key_len};
}

struct awaited *awaited_get(struct blocking_set *set, const struct space *space, struct bytes key)
{
    char *buffer;
    struct awaited *awaited = table_get(set->keys, waiter_key(space, key, &buffer));
    free(buffer);
    return awaited;
}

void awaited_index(struct blocking_set *set, struct awaited *awaited)
{
    char *buffer;
    table_put(set->keys, waiter_key(awaited->space, awaited_key(awaited), &buffer), awaited);
    free(buffer);
}

struct awaited *awaited_add(struct blocking_set *set, struct space *space, struct bytes key)
{
    struct awaited *awaited = calloc(1, sizeof *awaited + key.len);
    CHECK(awaited);
    awaited->space = space;
    awaited->key_len = key.len;
    if (key.len)
        memcpy(awaited->key, key.data, key.len);
    list_init(&awaited->waits);
    list_init(&awaited->ready);
    awaited_index(set, awaited);
    return awaited;
}

void awaited_free_if_unused(struct blocking_set *set, struct awaited *awaited)
{
    if (!list_empty(&awaited->waits) || awaited->is_serving)
        return;
    char *buffer;
    table_remove(set->keys, waiter_key(awaited->space, awaited_key(awaited), &buffer));
    free(buffer);
    list_remove(&awaited->ready);
    free(awaited);
}

void awaited_make_ready(struct blocking_set *set, struct awaited *awaited)
{
    if (awaited->is_stalled)
        list_remove(&awaited->ready);
    awaited->is_stalled = false;
    if (!awaited->is_serving && list_empty(&awaited->ready))
        list_push(&set->ready, &awaited->ready);
}

bool waiters_concern(struct blocking_set *set, const struct space *space, struct bytes key)
{
    return set->clients > 0 && awaited_get(set, space, key);
}

void waiters_key_written(struct blocking_set *set, const struct space *space, struct bytes key,
                         enum type type)
{
    bool is_waited_for = type_rows[type].blocks != GROUP_GENERIC;
    if (set->clients == 0)
        return;
    struct awaited *awaited = awaited_get(set, space, key);
    if (awaited && (is_waited_for || awaited->groups))
        awaited_make_ready(set, awaited);
}

void waiters_key_deleted(struct blocking_set *set, const struct space *space, struct bytes key)
{
    if (set->clients == 0)
        return;
    struct awaited *awaited = awaited_get(set, space, key);
    if (awaited && awaited->groups)
        awaited_make_ready(set, awaited);
}

void waiters_space_flushed(struct blocking_set *set, const struct space *space)
{
    size_t cursor = 0;
    struct bytes name;
    void *value;
    while (table_next(set->keys, &cursor, &name, &value)) {
        struct awaited *awaited = value;
        if (awaited->space == space && awaited->groups)
            awaited_make_ready(set, awaited);
    }
}

void waiters_resume(struct blocking_set *set)
{
    set->resume(set);
}
