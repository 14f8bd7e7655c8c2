/*
 * test_space.c - key counters compared with a model: changes, rollbacks, flushes; closed, failed and durable batches.
 * After every reload the counters are exactly those of the last durable batch.
 */
#include "backend/format/effects.h"
#include "backend/keyspace/space.h"

#include "backend/storage/write_buffer.h"
#include "shared/check.h"
#include "shared/error.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <stdio.h>

enum {
    SPACES = 3,
    SLOTS = 6,
    SEEDS = 200,
    STEPS = 300,
    STEPS_LONG = 4000, /* for some seeds: the rows of the journal are reused many times */
    CROWD = 1200,      /* and counters in so many slots */
};

struct counts {
    uint64_t keys[SPACES][SLOTS];
    uint64_t expires[SPACES][SLOTS];
};

struct world {
    struct storage *storage;
    struct overlay *overlay;
    struct space_set *set;
    struct effects *batch;
    struct counts now;
    struct counts durable;
    uint64_t random;
};

static const char *const NAMES[SPACES] = {"", "shop", "test_1"};

static uint32_t chance(struct world *world, uint32_t below)
{
    world->random = world->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(world->random >> 33) % below;
}

/* Slots whose counters are in several rows. */
static uint16_t slot_at(int index)
{
    return (uint16_t)(index * 2999);
}

static struct space *space_at(struct world *world, int index)
{
    return space_open(world->set, bytes_of(NAMES[index]), 0);
}

static void change_once(struct world *world)
{
    int space = (int)chance(world, SPACES);
    int slot = (int)chance(world, SLOTS);
    bool add = world->now.keys[space][slot] == 0 || chance(world, 2);
    bool expires = add ? chance(world, 3) == 0
                       : world->now.expires[space][slot] == world->now.keys[space][slot];
    int64_t sign = add ? 1 : -1;
    space_count(world->set, space_at(world, space), slot_at(slot), sign, expires ? sign : 0);
    world->now.keys[space][slot] += (uint64_t)sign;
    world->now.expires[space][slot] += expires ? (uint64_t)sign : 0;
}

static void step_command(struct world *world)
{
    struct counts before = world->now;
    overlay_savepoint(world->overlay);
    space_savepoint(world->set);
    for (uint32_t i = 0, n = 1 + chance(world, 4); i < n; i++)
        change_once(world);
    if (chance(world, 4) == 0) {
        overlay_rollback(world->overlay);
        space_rollback(world->set);
        world->now = before;
    }
}

static void step_flush(struct world *world)
{
    int space = (int)chance(world, SPACES);
    space_clear(world->set, space_at(world, space));
    memset(world->now.keys[space], 0, sizeof world->now.keys[space]);
    memset(world->now.expires[space], 0, sizeof world->now.expires[space]);
}

static void step_commit(struct world *world)
{
    char error[128];
    space_put_counters(world->set);
    if (!overlay_dirty(world->overlay))
        return;
    const struct batch *batch = overlay_close_batch(world->overlay);
    batch_write(batch, world->batch);
    if (chance(world, 5) == 0) {
        overlay_discard(world->overlay);
        CHECK(space_reload(world->set));
        world->now = world->durable;
        return;
    }
    CHECK(storage_write(world->storage, world->batch, true, error, sizeof error) == OK);
    overlay_batch_committed(world->overlay);
    world->durable = world->now;
}

/* Every number of a key, 0 … keys - 1, must select a slot with a key. */
static void check_choice(struct world *world, int index)
{
    uint64_t seen[SLOTS] = {0};
    const struct space *space = space_at(world, index);
    for (uint64_t i = 0; i < space->keys; i++) {
        uint64_t place = i;
        int slot = space_slot_at(world->set, space, &place) / slot_at(1);
        CHECK(place < world->now.keys[index][slot]);
        seen[slot]++;
    }
    for (int slot = 0; slot < SLOTS; slot++)
        CHECK(seen[slot] == world->now.keys[index][slot]);
}

static void check_all(struct world *world)
{
    uint64_t all = 0;
    for (int i = 0; i < SPACES; i++) {
        const struct space *space = space_at(world, i);
        uint64_t keys = 0;
        uint64_t expires = 0;
        for (int slot = 0; slot < SLOTS; slot++) {
            CHECK(space_slot_keys(world->set, space, slot_at(slot)) == world->now.keys[i][slot]);
            keys += world->now.keys[i][slot];
            expires += world->now.expires[i][slot];
        }
        CHECK(space->keys == keys);
        CHECK(space->expires == expires);
        check_choice(world, i);
        all += keys;
    }
    CHECK(space_keys_total(world->set) == all);
}

/* Adds a key in many slots, and removes it again. */
static void crowd(struct world *world)
{
    for (uint16_t slot = 0; slot < CROWD; slot++)
        for (int i = 0; i < SPACES; i++) {
            space_count(world->set, space_at(world, i), slot, 1, 1);
            space_count(world->set, space_at(world, i), slot, -1, -1);
        }
}

static void run_seed(uint64_t seed)
{
    static const struct store_options OPTIONS = {.path = "space"};
    char error[128];
    struct world world = {.random = seed};
    storage_mem_reset();
    storage_mem_seed(seed);
    struct store_env *env = store_env_new(&(struct store_env_options){0});
    world.storage = storage_open(env, &OPTIONS, WAL_MEM_LIMIT, error, sizeof error);
    CHECK(world.storage);
    world.overlay = overlay_new(storage_store(world.storage));
    world.set = space_set_new(world.overlay);
    world.batch = effects_new();
    bool is_long = seed % 20 == 0;
    if (is_long)
        crowd(&world);
    for (int i = 0; i < (is_long ? STEPS_LONG : STEPS); i++) {
        uint32_t kind = chance(&world, 20);
        if (kind < 14)
            step_command(&world);
        else if (kind < 15)
            step_flush(&world);
        else
            step_commit(&world);
        check_all(&world);
    }
    effects_free(world.batch);
    space_set_free(world.set);
    overlay_free(world.overlay);
    storage_close(world.storage);
    store_env_free(env);
}

int main(void)
{
    for (uint64_t seed = 1; seed <= sized(SEEDS); seed++)
        run_seed(seed);
    printf("%u passed, 0 failed\n", sized(SEEDS));
    return 0;
}
