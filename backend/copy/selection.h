/*
 * selection.h - which keys are copied, into which database and under which name.
 *
 *   db 3, "shop:cart:7"  ── --db 3=5 --match 'shop:*' --strip shop: --add old: ──►  db 5, "old:cart:7"
 */
#pragma once

#include "backend/copy/options.h"
#include "shared/arena.h"

/* The database in the target; -1: this one is not copied. */
int64_t selection_db(const struct copy_options *options, uint64_t db);
/* False: the key is not copied. Else *name is its name in the target: the key itself, or in the arena. */
bool selection_key(const struct copy_options *options, struct arena *arena, struct bytes key,
                   struct bytes *name);
