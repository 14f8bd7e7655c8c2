/*
 * watch.c - table of watched keys by (storage namespace, key), with their watchers.
 *
 *   table: space | key ─► watched ─► watch ─► watch       (watched->watches)
 *                                      │        │
 *                                   watcher  watcher       (watcher->watches)
 */
#include "backend/keyspace/watch.h"

#include "shared/check.h"
#include "shared/table.h"

#include <stdlib.h>

/* A watched key. */
struct watched {
    struct space *space;
    struct list watches; /* of struct watch, by key_link */
    uint16_t slot;
    size_t key_len;
    char key[];
};

/* One watcher of one key. */
struct watch {
    struct list key_link;
    struct list watcher_link;
    struct watched *watched;
    struct watcher *watcher;
};

struct watch_set {
    struct table *keys;
};

/* Composes a key of the table: address of the namespace, then the key. *buffer becomes heap memory that the caller
 * frees. */
static struct bytes watch_key(const struct space *space, struct bytes key, char **buffer)
{
    *buffer = malloc(sizeof space + key.len);
    CHECK(*buffer);
    memcpy(*buffer, &space, sizeof space);
    if (key.len)
        memcpy(*buffer + sizeof space, key.data, key.len);
    return (struct bytes){*buffer, sizeof space + key.len};
}

struct watch_set *watch_set_new(void)
{
    struct watch_set *set = calloc(1, sizeof *set);
    CHECK(set);
    set->keys = table_new();
    return set;
}

void watch_set_free(struct watch_set *set)
{
    if (!set)
        return;
    CHECK(table_count(set->keys) == 0);
    table_free(set->keys);
    free(set);
}

void watcher_init(struct watcher *watcher)
{
    list_init(&watcher->watches);
    lock_reserver_init(&watcher->reserver);
    watcher->bytes = 0;
    watcher->ticket = 0;
    watcher->dirty = watcher->is_over = false;
}

static struct watched *watched_get(struct watch_set *set, const struct space *space,
                                   struct bytes key)
{
    if (table_count(set->keys) == 0)
        return NULL;
    char *buffer;
    struct watched *watched = table_get(set->keys, watch_key(space, key, &buffer));
    free(buffer);
    return watched;
}

static struct watched *watched_add(struct watch_set *set, struct space *space, uint16_t slot,
                                   struct bytes key)
{
    struct watched *watched = malloc(sizeof *watched + key.len);
    CHECK(watched);
    watched->space = space;
    watched->slot = slot;
    watched->key_len = key.len;
    if (key.len)
        memcpy(watched->key, key.data, key.len);
    list_init(&watched->watches);
    char *buffer;
    table_put(set->keys, watch_key(space, key, &buffer), watched);
    free(buffer);
    return watched;
}

static struct bytes watched_key(const struct watched *watched)
{
    return (struct bytes){watched->key, watched->key_len};
}

static void watched_remove(struct watch_set *set, struct watched *watched)
{
    char *buffer;
    table_remove(set->keys, watch_key(watched->space, watched_key(watched), &buffer));
    free(buffer);
    free(watched);
}

size_t watch_cost(struct bytes key)
{
    enum { TABLE_BYTES = 64 }; /* memory of an entry without its key */
    return sizeof(struct watched) + sizeof(struct watch) + sizeof(struct space *) + 2 * key.len +
           TABLE_BYTES;
}

void watch_add(struct watch_set *set, struct watcher *watcher, struct space *space, uint16_t slot,
               struct bytes key)
{
    struct watched *watched = watched_get(set, space, key);
    if (!watched)
        watched = watched_add(set, space, slot, key);
    for (struct list *node = watched->watches.next; node != &watched->watches; node = node->next)
        if (container_of(node, struct watch, key_link)->watcher == watcher)
            return;
    struct watch *watch = malloc(sizeof *watch);
    CHECK(watch);
    watch->watched = watched;
    watch->watcher = watcher;
    list_push(&watched->watches, &watch->key_link);
    list_push(&watcher->watches, &watch->watcher_link);
    watcher->bytes += watch_cost(key);
}

void watch_clear(struct watch_set *set, struct watcher *watcher)
{
    struct list *node;
    while ((node = list_pop(&watcher->watches))) {
        struct watch *watch = container_of(node, struct watch, watcher_link);
        list_remove(&watch->key_link);
        if (list_empty(&watch->watched->watches))
            watched_remove(set, watch->watched);
        free(watch);
    }
    watcher->bytes = 0;
    watcher->ticket = 0;
    watcher->dirty = watcher->is_over = false;
}

/* Of several changes the one that becomes durable first decides. */
static void mark_watcher(struct watcher *watcher, uint64_t ticket)
{
    if (!watcher->dirty || ticket < watcher->ticket)
        watcher->ticket = ticket;
    watcher->dirty = true;
}

/* Marks the key's watchers as dirty if is_real. True: at least one watcher is (or, without is_real, would be)
 * marked. */
static bool mark_watches(struct watched *watched, bool is_real, uint64_t ticket)
{
    bool found = false;
    for (struct list *node = watched->watches.next; node != &watched->watches; node = node->next) {
        struct watcher *watcher = container_of(node, struct watch, key_link)->watcher;
        if (watcher->is_over)
            continue;
        if (is_real)
            mark_watcher(watcher, ticket);
        found = true;
    }
    return found;
}

bool watch_concerns(struct watch_set *set, const struct space *space, struct bytes key)
{
    struct watched *watched = watched_get(set, space, key);
    return watched && mark_watches(watched, false, 0);
}

bool watch_touch(struct watch_set *set, const struct space *space, struct bytes key,
                 uint64_t ticket, uint16_t *slot)
{
    struct watched *watched = watched_get(set, space, key);
    if (watched)
        *slot = watched->slot;
    return watched && mark_watches(watched, true, ticket);
}

void watch_touch_slots(struct watch_set *set, uint16_t first, uint16_t last)
{
    size_t cursor = 0;
    struct bytes name;
    void *value;
    while (table_next(set->keys, &cursor, &name, &value)) {
        struct watched *watched = value;
        if (first <= watched->slot && watched->slot <= last)
            (void)mark_watches(watched, true, 0);
    }
}

void watch_each_of(struct watch_set *set, const struct space *space, watch_key_fn *visit,
                   void *owner)
{
    size_t cursor = 0;
    struct bytes name;
    void *value;
    while (table_next(set->keys, &cursor, &name, &value)) {
        struct watched *watched = value;
        if (watched->space == space)
            visit(owner, watched->slot, watched_key(watched));
    }
}

void watch_swap(struct watch_set *set, struct space *a, struct space *b)
{
    struct table *old = set->keys;
    set->keys = table_new();
    size_t cursor = 0;
    struct bytes name;
    void *value;
    while (table_next(old, &cursor, &name, &value)) {
        struct watched *watched = value;
        if (watched->space == a || watched->space == b)
            watched->space = watched->space == a ? b : a;
        char *buffer;
        table_put(set->keys, watch_key(watched->space, watched_key(watched), &buffer), watched);
        free(buffer);
    }
    table_free(old);
}

void watch_each(struct watcher *watcher,
                void (*visit)(void *owner, struct space *space, struct bytes key), void *owner)
{
    for (struct list *node = watcher->watches.next; node != &watcher->watches; node = node->next) {
        struct watched *watched = container_of(node, struct watch, watcher_link)->watched;
        visit(owner, watched->space, watched_key(watched));
    }
}
