/*
 * watch.h - which session watches which key, and the marks a change leaves.
 *
 * One thread per partition, so there are no key locks: a change of a watched key marks its watchers dirty,
 * and EXEC asks.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/list.h"

#include <stdint.h>

struct call;
struct space;
struct watch_set; /* all of a partition */

/* One session's watches. Zero bytes are not a valid state: watcher_init. */
struct watcher {
    struct list watches; /* of struct watch */
    size_t bytes;        /* watch_cost of each */
    bool dirty;
    bool is_over; /* its EXEC runs: changes are nothing to it any more */
};

struct watch_set *watch_set_new(void);
void watch_set_free(struct watch_set *set);
void watcher_init(struct watcher *watcher);
/* Bytes that a watch of the key takes. */
size_t watch_cost(struct bytes key);
/* Adds the key (of the storage namespace); watching twice is harmless. Open the key first, so that one whose
 * time has come is deleted before it is watched. */
void watch_add(struct watch_set *set, struct watcher *watcher, struct space *space,
               struct bytes key);
/* Forgets all watches and marks. */
void watch_clear(struct watch_set *set, struct watcher *watcher);
/* The key changed: marks its watchers. Cheap when nobody watches anything. */
void watch_touch(struct watch_set *set, const struct space *space, struct bytes key);
/* Would watch_touch mark somebody? */
bool watch_concerns(struct watch_set *set, const struct space *space, struct bytes key);
/* Calls visit for each watched key of the storage namespace; it may not watch or clear anything. */
typedef void watch_key_fn(void *owner, struct bytes key);
void watch_each_of(struct watch_set *set, const struct space *space, watch_key_fn *visit,
                   void *owner);
/* SWAPDB: what was watched in `a` is watched in `b` from now on, and the other way round. */
void watch_swap(struct watch_set *set, struct space *a, struct space *b);
/* Calls visit for each key of the watcher, e.g. to let expired keys be noticed before EXEC asks for `dirty`. */
void watch_each(struct watcher *watcher,
                void (*visit)(void *owner, struct space *space, struct bytes key), void *owner);
