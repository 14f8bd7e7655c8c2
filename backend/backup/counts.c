#include "backend/backup/counts.h"

#include "backend/format/effects.h"
#include "backend/format/encoding.h"
#include "shared/check.h"
#include "shared/table.h"

#include <stdlib.h>

struct counts *counts_open(struct table *table, struct bytes space)
{
    struct counts *counts = table_get(table, space);
    if (counts)
        return counts;
    counts = calloc(1, sizeof *counts);
    CHECK(counts);
    table_put(table, space, counts);
    return counts;
}

static void write_slot_counts(const struct counts *counts, struct bytes space, struct arena *arena,
                              struct effects *effects)
{
    for (unsigned first = 0; first < SLOT_COUNT; first += COUNTER_SLOTS) {
        char *row = arena_alloc(arena, (size_t)COUNTER_SLOTS * SLOT_COUNT_BYTES_MAX);
        char *end = row;
        for (unsigned slot = first; slot < first + COUNTER_SLOTS; slot++) {
            const struct slot_count count = {(uint16_t)slot, counts->keys[slot],
                                             counts->expires[slot]};
            if (count.keys)
                end = write_slot_count(end, &count);
        }
        if (end > row)
            effects_put(effects, CF_SYSTEM, encode_counter_key(arena, space, (uint16_t)first),
                        (struct bytes){row, (size_t)(end - row)});
        arena_reset(arena);
    }
}

void counts_write(const struct table *table, struct effects *effects)
{
    struct arena arena;
    struct bytes space;
    void *counts;
    size_t cursor = 0;
    arena_init(&arena);
    while (table_next(table, &cursor, &space, &counts))
        write_slot_counts(counts, space, &arena, effects);
    arena_fini(&arena);
}
