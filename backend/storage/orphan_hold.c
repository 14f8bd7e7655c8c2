#include "backend/storage/orphan_hold.h"

static void set_on(struct orphan_hold *hold, bool is_on)
{
    if (hold->is_on != is_on)
        store_set_keeps_orphans(hold->store, is_on);
    hold->is_on = is_on;
}

void orphan_hold_begin(struct orphan_hold *hold, struct store *store, bool is_on, uint64_t now_ms)
{
    *hold = (struct orphan_hold){.store = store, .heard_ms = now_ms, .is_on = is_on};
}

/* The first record after a start may come in the middle of a transfer. */
void orphan_hold_hear(struct orphan_hold *hold, uint64_t origin_ms, bool has_moved, uint64_t now_ms)
{
    if (has_moved)
        set_on(hold, true);
    if (!has_moved && hold->origin_ms)
        return;
    hold->origin_ms = origin_ms;
    hold->heard_ms = now_ms;
}

void orphan_hold_tick(struct orphan_hold *hold, uint64_t now_ms)
{
    uint64_t tables_ms = store_unapplied(hold->store); /* 0: they have all */
    if (hold->is_on && now_ms > hold->heard_ms + ORPHAN_HOLD_MS &&
        (!tables_ms || tables_ms > hold->origin_ms + ORPHAN_HOLD_MS))
        set_on(hold, false);
}
