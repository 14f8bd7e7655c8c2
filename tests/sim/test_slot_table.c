/*
 * test_slot_table.c - records of slots while commits fail and the process crashes.
 *
 *   test_slot_table [seed]      one world, or SEEDS
 *
 * Every change has an epoch of its own, so a record names the change that made it.
 * (1) A slot has the record of the newest change that ended well, until a failure or a crash.
 * (2) After a failure or a crash it has that record, or that of a later change whose result was unknown or a failure.
 * (3) While no change is under way, the rows of the store are the table.
 * (4) A change with a lower epoch than a newer record's is refused.
 * (5) The row that says from which shards slots came (slot_record.h) tells of all of them, also after a crash.
 */
#include "backend/context/partition.h"
#include "backend/format/slot_record.h"
#include "backend/slots/slot_table.h"
#include "shared/check.h"
#include "shared/error.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_partition.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <string.h>

enum { SEEDS = 100, ROUNDS = 60, CHANGES_MAX = 3 * ROUNDS, ROUND_US = 60 * 1000 };

enum change_result { IS_OPEN, IS_DURABLE, HAS_FAILED };

struct change {
    uint16_t first, last;
    struct slot_record record;
    enum change_result result;
};

static struct sim_partition world;
static struct change changes[1 + CHANGES_MAX]; /* by epoch; [0]: no record */
static uint64_t newest;                        /* epoch of the last change */
static uint64_t known[SLOT_COUNT];             /* epoch of the record that the slot had last */
static bool may_jump;                          /* failed changes may turn out to be durable */

static struct slot_table *table(void)
{
    return world.partition->shards.slots;
}

static void change_ended(void *owner, int err)
{
    struct change *change = owner;
    CHECK(change->result == IS_OPEN);
    change->result = err ? HAS_FAILED : IS_DURABLE;
    may_jump |= err != OK;
    for (unsigned slot = change->first; err == OK && slot <= change->last; slot++)
        known[slot] = change->record.epoch;
}

static void change_slots(void)
{
    static const uint16_t sizes[] = {1, 2, 255, 256, 1000, SLOT_COUNT};
    struct change *change = &changes[newest + 1];
    unsigned size = sizes[sim_random(6)];
    CHECK(newest < CHANGES_MAX);
    *change = (struct change){.first = (uint16_t)sim_random(SLOT_COUNT - size + 1)};
    change->last = (uint16_t)(change->first + size - 1);
    change->record = (struct slot_record){.epoch = newest + 1, .migration = sim_random(3)};
    change->record.state = (uint8_t)(1 + sim_random(SLOT_STATES - 1));
    memset(change->record.peer, 'p', sim_random(SHARD_NAME_MAX + 1));
    if (slot_table_change(table(), change->first, change->last, &change->record, change_ended,
                          change))
        newest++;
    else
        CHECK(may_jump);
    struct slot_record old = {.epoch = newest - 1, .state = SLOT_OWNED};
    if (newest > 1)
        CHECK(!slot_table_change(table(), changes[newest].first, changes[newest].first, &old, NULL,
                                 NULL));
}

/* Is this a record that the slot may have? */
static bool is_allowed(uint16_t slot, uint64_t epoch)
{
    const struct change *change = &changes[epoch];
    if (epoch == known[slot])
        return true;
    return may_jump && epoch > known[slot] && epoch <= newest && change->first <= slot &&
           slot <= change->last && change->result != IS_DURABLE;
}

static bool is_calm(void)
{
    for (uint64_t epoch = 1; epoch <= newest; epoch++)
        if (changes[epoch].result == IS_OPEN)
            return false;
    return true;
}

static void check_rows(void)
{
    struct overlay *overlay = world.partition->overlay;
    struct arena arena;
    arena_init(&arena);
    for (unsigned page = 0; page < SLOT_PAGES; page++) {
        struct slot_record records[SLOT_PAGE_SLOTS] = {0};
        struct slice row;
        int err = overlay_get(overlay, CF_SYSTEM, encode_slot_page_key(&arena, page), &row);
        CHECK(err == OK || err == ERR_NOT_FOUND);
        if (err == OK) {
            CHECK(decode_slot_page(slice_bytes(&row), records));
            slice_release(&row);
        }
        for (unsigned i = 0; i < SLOT_PAGE_SLOTS; i++)
            CHECK(slot_record_equal(slot_table_get(table(), (uint16_t)(page * SLOT_PAGE_SLOTS + i)),
                                    &records[i]));
    }
    arena_fini(&arena);
}

static bool is_owned(uint16_t slot)
{
    uint8_t state = slot_table_state(table(), slot);
    return state == SLOT_OWNED || state == SLOT_EXPORTING || state == SLOT_FROZEN;
}

static void check_origins(void)
{
    const struct slot_origins *origins = slot_table_origins(table());
    bool has_owned = false;
    CHECK(origins && !origins->since_us);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        has_owned |= is_owned((uint16_t)slot);
    CHECK(!has_owned || origins->count);
}

static void check_all(void)
{
    uint32_t counts[SLOT_STATES] = {0};
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        const struct slot_record *record = slot_table_get(table(), (uint16_t)slot);
        CHECK(is_allowed((uint16_t)slot, record->epoch));
        CHECK(slot_record_equal(record, &changes[record->epoch].record));
        CHECK(slot_table_state(table(), (uint16_t)slot) == record->state);
        known[slot] = record->epoch;
        counts[record->state]++;
    }
    for (unsigned state = 0; state < SLOT_STATES; state++)
        CHECK(slot_table_count(table(), (enum slot_state)state) == counts[state]);
    if (is_calm())
        check_rows();
    check_origins();
}

static void crash(void)
{
    sim_partition_crash(&world);
    may_jump = true;
    check_all();
    for (uint64_t epoch = 1; epoch <= newest; epoch++)
        changes[epoch].result = IS_DURABLE; /* those that the crash dropped cannot return */
    may_jump = false;
    check_all();
}

static void run_round(void)
{
    for (uint64_t i = sim_random(4); i; i--)
        change_slots();
    if (sim_chance(100000))
        storage_mem_fail_next(world.partition->storage, 1 + sim_random(3),
                              sim_random(2) ? ERR_STORE : ERR_DISK_FULL);
    if (sim_chance(100000))
        crash();
    sim_run_for(sim_random(ROUND_US));
    check_all();
}

static void run_world(uint64_t seed)
{
    memset(known, 0, sizeof known);
    memset(changes, 0, sizeof changes);
    newest = 0;
    may_jump = false;
    sim_partition_init(&world, seed);
    world.config.durability = (enum durability)sim_random(3);
    sim_partition_start(&world, false);
    for (int round = 0; round < ROUNDS; round++)
        run_round();
    sim_run_for(1000 * 1000);
    check_all();
    crash();
    sim_partition_stop(&world);
    sim_partition_fini(&world);
}

int main(int argc, char **argv)
{
    return sim_run_seeds(argc, argv, sized(SEEDS), run_world);
}
