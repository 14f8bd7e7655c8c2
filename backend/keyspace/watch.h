/*
 * watch.h - WATCH: watched keys, and watchers that were marked dirty.
 *
 * A partition has one thread, so keys need no locks: a change of a watched key marks its watchers dirty, and EXEC checks
 * the mark.
 */
#pragma once

#include "backend/keyspace/lock.h"

#include <stdint.h>

struct call;
struct space;
struct watch_set; /* all of a partition */

/* The watches of one session. Initialised by watcher_init. */
struct watcher {
    struct list watches;           /* of struct watch */
    size_t bytes;                  /* sum of watch_cost */
    struct lock_reserver reserver; /* of watched keys that transactions over shards lock (lock.h) */
    bool dirty;
    uint64_t ticket; /* to be observed by whoever learns that it is dirty; 0: none */
    bool is_over;    /* EXEC is running: changes are ignored */
};

struct watch_set *watch_set_new(void);
void watch_set_free(struct watch_set *set);
void watcher_init(struct watcher *watcher);
/* Memory of a watch of this key. */
size_t watch_cost(struct bytes key);
/* Watches the key of the storage namespace; does nothing if the watcher already has it. The caller must open the key
 * before, so that an expired key is deleted first. */
void watch_add(struct watch_set *set, struct watcher *watcher, struct space *space, uint16_t slot,
               struct bytes key);
/* Removes all watches and marks. */
void watch_clear(struct watch_set *set, struct watcher *watcher);
/* The key changed: marks its watchers. `ticket`: overlay_change_ticket. Cheap when no key is watched. True: there are watchers, and
 * *slot is the key's. */
bool watch_touch(struct watch_set *set, const struct space *space, struct bytes key,
                 uint64_t ticket, uint16_t *slot);
/* The keys of these slots belong to another partition now: marks their watchers. Visits every watched key. */
void watch_touch_slots(struct watch_set *set, uint16_t first, uint16_t last);
/* True when watch_touch would mark a watcher. */
bool watch_concerns(struct watch_set *set, const struct space *space, struct bytes key);
/* Calls `visit` for each watched key of the storage namespace. `visit` may not add or remove watches. */
typedef void watch_key_fn(void *owner, uint16_t slot, struct bytes key);
void watch_each_of(struct watch_set *set, const struct space *space, watch_key_fn *visit,
                   void *owner);
/* SWAPDB: watches of keys in `a` become watches in `b`, and the reverse. */
void watch_swap(struct watch_set *set, struct space *a, struct space *b);
/* Calls visit for each key of the watcher, e.g. so that expired keys are detected before EXEC checks `dirty`. */
void watch_each(struct watcher *watcher,
                void (*visit)(void *owner, struct space *space, struct bytes key), void *owner);
