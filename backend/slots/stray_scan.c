#include "backend/slots/stray_scan.h"

#include "backend/context/partition.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/slots/slot_table.h"

bool stray_is_slot(const struct partition *partition, uint16_t slot)
{
    const struct slot_record *record = slot_table_get(partition->shards.slots, slot);
    bool is_moving = record->state == SLOT_IMPORTING || record->state == SLOT_STAGED ||
                     (record->state == SLOT_RELEASED && record->migration);
    return partition->shards.is_gated && !slot_is_served(partition, slot) && !is_moving;
}

void stray_scan_init(struct stray_scan *scan, struct partition *partition,
                     void (*on_rows)(void *owner), void *owner)
{
    *scan = (struct stray_scan){.partition = partition};
    range_rows_init(&scan->keys, partition, on_rows, owner);
}

void stray_scan_fini(struct stray_scan *scan)
{
    range_rows_fini(&scan->keys);
}

void stray_scan_rewind(struct stray_scan *scan)
{
    range_rows_close(&scan->keys);
    scan->slot = 0;
    scan->cursor = 0;
}

static void open_slot(struct stray_scan *scan)
{
    struct arena arena;
    arena_init(&arena);
    struct bytes from = encode_slot_prefix(&arena, scan->space->name, (uint16_t)scan->slot);
    range_rows_open(&scan->keys, CF_METADATA, from, encode_prefix_end(&arena, from));
    arena_fini(&arena);
}

/* Opens the next slot of a namespace that has strays. False: there is none. */
static bool open_next_slot(struct stray_scan *scan)
{
    const struct space_set *spaces = scan->partition->spaces;
    for (; scan->slot < SLOT_COUNT; scan->slot++, scan->cursor = 0) {
        if (!stray_is_slot(scan->partition, (uint16_t)scan->slot))
            continue;
        while ((scan->space = space_next(scan->partition->spaces, &scan->cursor))) {
            if (!space_slot_keys(spaces, scan->space, (uint16_t)scan->slot))
                continue;
            open_slot(scan);
            return true;
        }
    }
    return false;
}

enum rows_step stray_scan_next(struct stray_scan *scan, struct bytes *key, struct bytes *value)
{
    for (;;) {
        if (!range_rows_is_open(&scan->keys) && !open_next_slot(scan))
            return ROWS_END;
        enum rows_step step = range_rows_next(&scan->keys, key, value);
        if (step != ROWS_END)
            return step;
        range_rows_close(&scan->keys);
    }
}
