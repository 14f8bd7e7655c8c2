/*
 * test_expiry.c - active expiry: which keys are deleted although no command touches them.
 *
 *   test_expiry [seed]      one seed of each case, or SEEDS
 *
 * No client is connected: keys are written by calls without a session, as transactions over shards write them.
 */
#include "backend/context/partition.h"
#include "backend/keyspace/expiry.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/lock.h"
#include "backend/keyspace/space.h"
#include "backend/session/internal_call.h"
#include "shared/check.h"
#include "shared/namespace.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_partition.h"
#include "tests/sim/store_mem.h"
#include "tests/sized.h"

#include <stdio.h>

enum { SEEDS = 20, KEYS = 3000, LATE = 5, STEPS_MAX = 2000000, SECOND_US = 1000 * 1000 };
enum { SMALL_BUFFER = 256 << 10 };

static struct sim_partition world;
static uint64_t keys_wanted;

static struct space *database(void)
{
    return space_open(world.partition->spaces, BYTES(""), 0);
}

/* Writes a string with this expiry time, as if by a transaction over shards, which does not look at the clock. */
static void put_key(char kind, unsigned number, uint64_t due_ms)
{
    char name[16];
    struct call call;
    struct entry entry;
    int len = snprintf(name, sizeof name, "%c%05u", kind, number);
    internal_call_begin(world.partition, &call);
    call.space = database();
    CHECK(keyspace_open(&call, (struct bytes){name, (size_t)len}, OPEN_QUIET, &entry));
    entry_set_payload(&call, &entry, TYPE_STRING, BYTES("value"), due_ms);
    internal_call_end(world.partition, &call);
}

static uint64_t keys_here(void)
{
    return space_keys_total(world.partition->spaces);
}

static bool has_few_keys(void *owner)
{
    (void)owner;
    return keys_here() <= keys_wanted;
}

/* Waits until there are this number of keys, or fewer. */
static void wait_for_keys(uint64_t keys)
{
    keys_wanted = keys;
    CHECK(sim_run_until(has_few_keys, NULL, STEPS_MAX));
}

/* All keys are due at the same time, in a second. Returns this time. */
static uint64_t world_begin(uint64_t seed)
{
    sim_partition_init(&world, seed);
    world.reader_threads = (unsigned)sim_random(3);
    sim_partition_start(&world, false);
    if (world.reader_threads)
        store_mem_be_uncached(storage_store(world.partition->storage), 1 + sim_random(3));
    uint64_t due_ms = loop_wall_ms(world.loop) + 1000;
    for (unsigned i = 0; i < KEYS; i++)
        put_key('m', i, due_ms);
    return due_ms;
}

static bool is_up_to_date(void *owner)
{
    (void)owner;
    return expiry_figures(world.partition->expiry.keys, loop_wall_ms(world.loop)).lag_ms == 0;
}

static void world_end(void)
{
    CHECK(sim_run_until(is_up_to_date, NULL, STEPS_MAX));
    sim_partition_stop(&world);
    sim_partition_fini(&world);
}

/* Keys with the same time and smaller names arrive when some keys were deleted, and some were not. */
static void late_keys_expire(uint64_t seed)
{
    uint64_t due_ms = world_begin(seed);
    for (unsigned late = 0; late < LATE && keys_here(); late++) {
        wait_for_keys(keys_here() - 1);
        put_key('a', LATE - late, due_ms);
    }
    wait_for_keys(0);
    world_end();
}

/* One key that is due is locked: the others are deleted, and this one when it is released. */
static void a_locked_key_delays_no_other(uint64_t seed)
{
    struct lock_set *locks;
    struct lock_owner owner;
    char name[16];
    struct arena arena;
    world_begin(seed);
    locks = world.partition->shards.locks;
    (void)snprintf(name, sizeof name, "m%05u", (unsigned)sim_random(KEYS));
    arena_init(&arena);
    lock_owner_init(&owner);
    CHECK(lock_take(locks, &owner,
                    encode_metadata_key(&arena, database()->name,
                                        slot_rule_slot(NULL, bytes_of(name)), bytes_of(name)),
                    LOCK_WRITE));
    wait_for_keys(1);
    sim_run_for(SECOND_US);
    CHECK(keys_here() == 1);
    CHECK(expiry_figures(world.partition->expiry.keys, loop_wall_ms(world.loop)).lag_ms >= 1000);
    lock_release(locks, &owner);
    wait_for_keys(0);
    arena_fini(&arena);
    world_end();
}

/* More keys are locked than are set aside. */
static void all_keys_are_locked(uint64_t seed)
{
    struct lock_owner owner;
    struct arena arena;
    world_begin(seed);
    arena_init(&arena);
    lock_owner_init(&owner);
    struct bytes all = encode_space_prefix(&arena, database()->name);
    CHECK(lock_take(world.partition->shards.locks, &owner, all, LOCK_WRITE));
    sim_run_for(3 * SECOND_US);
    CHECK(keys_here() == KEYS);
    lock_release(world.partition->shards.locks, &owner);
    wait_for_keys(0);
    arena_fini(&arena);
    world_end();
}

static bool has_no_keys_and_room(void *owner)
{
    (void)owner;
    CHECK(!partition_is_full(world.partition));
    return keys_here() == 0;
}

/* The tables take rows slower than keys are deleted: no client has to wait for room because of that. */
static void expiry_leaves_room_for_clients(uint64_t seed)
{
    world_begin(seed);
    overlay_use_buffers(world.partition->overlay, SMALL_BUFFER);
    CHECK(sim_run_until(has_no_keys_and_room, NULL, STEPS_MAX));
    world_end();
}

static void run_world(uint64_t seed)
{
    expiry_leaves_room_for_clients(seed);
    late_keys_expire(seed);
    a_locked_key_delays_no_other(seed);
    all_keys_are_locked(seed);
}

int main(int argc, char **argv)
{
    return sim_run_seeds(argc, argv, sized(SEEDS), run_world);
}
