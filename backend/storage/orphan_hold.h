/*
 * orphan_hold.h - the compaction of a copy drops no orphans while the leader receives keys whose metadata row comes last (key_arrival.h).
 *
 *   start ─► held ◄─────────────── a record with rows that other shards have sent
 *              └─► HOLD_MS later, by the clock here and by the newest record that the tables have ─► not held
 *
 * The copy sees rows, but not how a transfer goes on. The leader gives up one that is silent for ten minutes, and its longest row may take
 * longer to come than that. Both clocks count: a copy that was away hears of rows long after they were written.
 */
#pragma once

#include "backend/store/store.h"

enum { ORPHAN_HOLD_MS = 30 * 60 * 1000 };

struct orphan_hold {
    struct store *store;
    uint64_t origin_ms; /* the leader's wall clock in that record; 0: none yet */
    uint64_t heard_ms;  /* monotonic: when it was heard */
    bool is_on;
};

/* is_on: the store has held orphans since it was opened (store_set_keeps_orphans). */
void orphan_hold_begin(struct orphan_hold *hold, struct store *store, bool is_on, uint64_t now_ms);
/* A record was added; has_moved: it has rows that other shards have sent. To be called before they are in tables. */
void orphan_hold_hear(struct orphan_hold *hold, uint64_t origin_ms, bool has_moved,
                      uint64_t now_ms);
/* To be called from time to time. */
void orphan_hold_tick(struct orphan_hold *hold, uint64_t now_ms);
