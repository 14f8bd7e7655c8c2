/*
 * test_ttl_hashes.c - counts of hashes whose fields have TTLs, compared with a model: while the walk goes on, changes on both sides of
 * it, rollbacks, flushes, and batches that fail, after which it begins anew. When it has ended, the counts are exact.
 */
#include "backend/format/effects.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/keyspace/ttl_hashes.h"
#include "backend/storage/write_buffer.h"
#include "shared/check.h"
#include "shared/error.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <stdio.h>

enum {
    SPACES = 2,
    SLOTS = 3,
    HASHES = 6, /* of a slot */
    SEEDS = 200,
    STEPS = 400,
};

enum hash { ABSENT, PLAIN, HAS_TTLS, HASH_STATES };

struct model {
    enum hash hashes[SPACES][SLOTS][HASHES];
};

struct world {
    struct storage *storage;
    struct overlay *overlay;
    struct space_set *set;
    struct effects *batch;
    struct arena arena;
    struct model now;
    struct model durable;
    uint64_t random;
    uint64_t walks; /* that have ended */
};

static const char *const NAMES[SPACES] = {"", "shop"};
static const char *const KEYS[HASHES] = {"a", "b", "\xff", "aa", "long name", "\xff\xff\xff"};

static uint32_t chance(struct world *world, uint32_t below)
{
    world->random = world->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(world->random >> 33) % below;
}

static uint16_t slot_at(int index)
{
    return (uint16_t)(index * 8191);
}

static struct space *space_at(struct world *world, int index)
{
    return space_open(world->set, bytes_of(NAMES[index]), 0);
}

/* Writes the rows of a hash, of which the walk reads the metadata row and finds the other one. */
static void put_rows(struct world *world, struct space *space, uint16_t slot, struct bytes key,
                     enum hash after)
{
    struct metadata meta = {.type = TYPE_HASH, .version = 7, .size = 1};
    struct bytes row_key = encode_metadata_key(&world->arena, space->name, slot, key);
    struct bytes prefix = encode_collection_prefix(&world->arena, space->name, slot, key, 7);
    struct bytes ttl = encode_sub_key(&world->arena, prefix, BYTES("field"));
    if (after == HAS_TTLS) {
        meta.field_ttls = meta.field_expire_ms = 1;
        overlay_put(world->overlay, CF_RANK, ttl, BYTES("12345678"));
    } else if (chance(world, 2)) { /* else the row is an orphan */
        overlay_delete(world->overlay, CF_RANK, ttl);
    }
    if (after == ABSENT)
        overlay_delete(world->overlay, CF_METADATA, row_key);
    else
        overlay_put(world->overlay, CF_METADATA, row_key, encode_metadata(&world->arena, &meta));
}

static void change_once(struct world *world)
{
    int space = (int)chance(world, SPACES);
    int slot = (int)chance(world, SLOTS);
    int hash = (int)chance(world, HASHES);
    enum hash *state = &world->now.hashes[space][slot][hash];
    enum hash after = (enum hash)chance(world, HASH_STATES);
    struct space *at = space_at(world, space);
    struct bytes key = bytes_of(KEYS[hash]);
    int keys = (after != ABSENT) - (*state != ABSENT);
    int ttl_hashes = (after == HAS_TTLS) - (*state == HAS_TTLS);
    put_rows(world, at, slot_at(slot), key, after);
    if (keys)
        space_count(world->set, at, slot_at(slot), keys, 0);
    if (ttl_hashes)
        space_count_ttl_hash(world->set, at,
                             encode_metadata_key(&world->arena, at->name, slot_at(slot), key),
                             ttl_hashes);
    *state = after;
}

static void flush(struct world *world)
{
    int space = (int)chance(world, SPACES);
    struct space *at = space_at(world, space);
    struct bytes from = encode_space_prefix(&world->arena, at->name);
    overlay_delete_range(world->overlay, CF_METADATA, from, encode_prefix_end(&world->arena, from));
    space_clear(world->set, at);
    memset(world->now.hashes[space], 0, sizeof world->now.hashes[space]);
}

static void step_command(struct world *world)
{
    struct model before = world->now;
    overlay_savepoint(world->overlay);
    space_savepoint(world->set);
    for (uint32_t i = 0, n = 1 + chance(world, 4); i < n; i++)
        change_once(world);
    if (chance(world, 40) == 0)
        flush(world);
    if (chance(world, 4) == 0) {
        overlay_rollback(world->overlay);
        space_rollback(world->set);
        world->now = before;
    }
}

static void step_commit(struct world *world)
{
    char error[128];
    space_put_counters(world->set);
    if (!overlay_dirty(world->overlay))
        return;
    batch_write(overlay_close_batch(world->overlay), world->batch);
    if (chance(world, 8) == 0) {
        overlay_discard(world->overlay);
        CHECK(space_reload(world->set) && !ttl_hashes_are_counted(world->set));
        world->now = world->durable;
        return;
    }
    CHECK(storage_write(world->storage, world->batch, true, error, sizeof error) == OK);
    overlay_batch_committed(world->overlay);
    world->durable = world->now;
}

static void step_walk(struct world *world)
{
    bool was_counted = ttl_hashes_are_counted(world->set);
    if (!was_counted)
        ttl_hashes_step(world->set, 1 + chance(world, 6));
    world->walks += !was_counted && ttl_hashes_are_counted(world->set);
}

/* Compares the counts of slots that are served. */
static void check_served(struct world *world, const struct slot_set *served)
{
    space_serve(world->set, served);
    for (int i = 0; i < SPACES; i++) {
        uint64_t wanted = 0;
        for (int slot = 0; slot < SLOTS; slot++)
            for (int hash = 0; hash < HASHES && slot_set_has(served, slot_at(slot)); hash++)
                wanted += world->now.hashes[i][slot][hash] == HAS_TTLS;
        CHECK(space_at(world, i)->ttl_hashes == wanted);
    }
}

static void check_counts(struct world *world)
{
    struct slot_set served = {0};
    if (!ttl_hashes_are_counted(world->set))
        return;
    slot_set_add(&served, slot_at((int)chance(world, SLOTS)));
    check_served(world, &served);
    check_served(world, NULL);
}

static void run_steps(struct world *world)
{
    for (int i = 0; i < STEPS; i++) {
        uint32_t kind = chance(world, 20);
        if (kind < 10)
            step_command(world);
        else if (kind < 17)
            step_walk(world);
        else
            step_commit(world);
        check_counts(world);
        arena_reset(&world->arena);
    }
}

static uint64_t run_seed(uint64_t seed)
{
    static const struct store_options OPTIONS = {.path = "ttl_hashes"};
    char error[128];
    struct world world = {.random = seed};
    storage_mem_reset();
    storage_mem_seed(seed);
    arena_init(&world.arena);
    struct store_env *env = store_env_new(&(struct store_env_options){0});
    world.storage = storage_open(env, &OPTIONS, WAL_MEM_LIMIT, error, sizeof error);
    CHECK(world.storage);
    world.overlay = overlay_new(storage_store(world.storage));
    world.set = space_set_new(world.overlay);
    world.batch = effects_new();
    run_steps(&world);
    effects_free(world.batch);
    space_set_free(world.set);
    overlay_free(world.overlay);
    storage_close(world.storage);
    store_env_free(env);
    arena_fini(&world.arena);
    return world.walks;
}

int main(void)
{
    uint64_t walks = 0;
    for (uint64_t seed = 1; seed <= sized(SEEDS); seed++)
        walks += run_seed(seed);
    CHECK(walks > sized(SEEDS));
    printf("%u passed, 0 failed\n", sized(SEEDS));
    return 0;
}
