#include "backend/tool/moment_slots.h"

#include "backend/format/slot_record.h"
#include "backend/storage/storage.h"
#include "shared/check.h"

#include <stdio.h>
#include <stdlib.h>

/* A shard that owns the slot as soon as another one has released it by the same move. */
struct staged_slot {
    uint64_t migration;
    size_t shard;
    unsigned slot;
};

struct moment_slots {
    bool has_records;
    uint8_t owners[SLOT_COUNT]; /* shards that own the slot */
    size_t owner[SLOT_COUNT];   /* the last one */
    /* by which move it was released last, and its epoch since then; 0: never */
    uint64_t released[SLOT_COUNT], epoch[SLOT_COUNT];
    struct staged_slot *staged; /* heap */
    size_t staged_count, staged_room;
};

struct moment_slots *moment_slots_new(void)
{
    struct moment_slots *slots = calloc(1, sizeof *slots);
    CHECK(slots);
    return slots;
}

void moment_slots_free(struct moment_slots *slots)
{
    if (slots)
        free(slots->staged);
    free(slots);
}

static void add_staged(struct moment_slots *slots, const struct staged_slot *staged)
{
    if (slots->staged_count == slots->staged_room) {
        slots->staged_room = slots->staged_room ? 2 * slots->staged_room : 256;
        slots->staged = realloc(slots->staged, slots->staged_room * sizeof *slots->staged);
        CHECK(slots->staged);
    }
    slots->staged[slots->staged_count++] = *staged;
}

void moment_slots_note(struct moment_slots *slots, size_t shard, unsigned slot,
                       const struct slot_record *record)
{
    bool owns = record->state == SLOT_OWNED || record->state == SLOT_EXPORTING;
    slots->has_records |= record->state != SLOT_NONE;
    slots->owners[slot] = (uint8_t)(slots->owners[slot] + owns);
    if (owns)
        slots->owner[slot] = shard;
    if (record->state == SLOT_STAGED)
        add_staged(slots, &(struct staged_slot){record->migration, shard, slot});
    if (record->state == SLOT_RELEASED && record->epoch > slots->epoch[slot]) {
        slots->released[slot] = record->migration;
        slots->epoch[slot] = record->epoch;
    }
}

/* The shard to which a slot without an owner was released; -1: none. Another one may be staged by a move that was given up. */
static int find_receiver(const struct moment_slots *slots, unsigned slot)
{
    for (size_t i = 0; i < slots->staged_count; i++) {
        const struct staged_slot *staged = &slots->staged[i];
        if (staged->slot == slot && staged->migration == slots->released[slot])
            return (int)staged->shard;
    }
    return -1;
}

static bool count_page(struct moment_slots *slots, size_t shard, struct bytes key,
                       struct bytes value)
{
    struct slot_record records[SLOT_PAGE_SLOTS];
    unsigned page;
    if (!decode_slot_page_key(key, &page) || !decode_slot_page(value, records))
        return false;
    for (unsigned i = 0; i < SLOT_PAGE_SLOTS; i++)
        moment_slots_note(slots, shard, page * SLOT_PAGE_SLOTS + i, &records[i]);
    return true;
}

bool moment_slots_add(struct moment_slots *slots, size_t shard, struct storage *storage,
                      char *error, size_t size)
{
    struct store_iter *iter =
        store_iter_new(storage_store(storage), CF_SYSTEM, slot_pages_from(), slot_pages_to());
    bool good = true;
    for (store_iter_seek_first(iter); good && store_iter_valid(iter); store_iter_next(iter))
        good = count_page(slots, shard, store_iter_key(iter), store_iter_value(iter));
    good = good && !store_iter_failed(iter);
    store_iter_free(iter);
    if (!good)
        (void)snprintf(error, size, "the records of slots cannot be read");
    return good;
}

int moment_slots_owner(const struct moment_slots *slots, unsigned slot)
{
    if (!slots->has_records)
        return -1;
    return slots->owners[slot] ? (int)slots->owner[slot] : find_receiver(slots, slot);
}

bool moment_slots_check(const struct moment_slots *slots, char *error, size_t size)
{
    for (unsigned slot = 0; slots->has_records && slot < SLOT_COUNT; slot++) {
        bool is_one =
            slots->owners[slot] == 1 || (!slots->owners[slot] && find_receiver(slots, slot) >= 0);
        if (is_one)
            continue;
        (void)snprintf(
            error, size,
            "slot %u has %u owners at this moment, because shards joined or left since the "
            "backup: take a later backup",
            slot, slots->owners[slot]);
        return false;
    }
    return true;
}
