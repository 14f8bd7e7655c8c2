/*
 * test_read_ahead.c - read-aheads compared with the rows they read: random steps, skips and seeks in both directions
 * over rows of very different sizes, with jobs that take time, a store that fails, and read-aheads that are freed while
 * they read.
 *
 *   test_read_ahead [seed]      one seed, or SEEDS
 */
#include "backend/format/effects.h"
#include "backend/storage/read_ahead.h"

#include "backend/storage/reader.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"
#include "tests/sim/sim.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <stdio.h>
#include <stdlib.h>

enum { SEEDS = 50, FEEDS = 6, MOVES = 400, PLACES = 2000, VALUE_MAX = 300 * 1000 };

/* Every second place (number of a key) has a row. */
struct world {
    struct store_env *env;
    struct storage *storage;
    struct store *store; /* its tables */
    struct loop *loop;
    struct worker_pool *pool;
    struct reader *reader;
    struct read_ahead *ahead;
    int low, high; /* bounds: numbers of keys */
    int at;        /* number of the key where it should be; outside the bounds: at the end */
    bool is_reverse;
    bool has_failed; /* the iterator */
    int told;        /* number of calls of on_rows */
};

static char filler[VALUE_MAX];

static struct bytes key_of(int place, char text[16])
{
    return (struct bytes){text, (size_t)sprintf(text, "k%05d", place)};
}

static struct bytes value_of(int place)
{
    size_t len = (size_t)place * 7919 % 200;
    if (place % 400 == 0)
        len = VALUE_MAX - (size_t)place;
    return (struct bytes){filler + place % 100, len};
}

static void fill(struct world *world)
{
    char error[128];
    char key[16];
    struct effects *batch = effects_new();
    for (int place = 0; place < PLACES; place += 2)
        effects_put(batch, CF_DATA, key_of(place, key), value_of(place));
    CHECK(storage_write(world->storage, batch, true, error, sizeof error) == OK);
    effects_free(batch);
}

/* The first place with a row from this place on. */
static int row_from(const struct world *world, int place)
{
    int step = world->is_reverse ? -1 : 1;
    if (!world->is_reverse && place < world->low)
        place = world->low;
    if (world->is_reverse && place >= world->high)
        place = world->high - 1;
    return place % 2 ? place + step : place;
}

static bool is_end(const struct world *world)
{
    return world->at < world->low || world->at >= world->high;
}

/* read_ahead_fn */
static void on_rows(void *owner)
{
    struct world *world = owner;
    CHECK(!read_ahead_is_pending(world->ahead));
    world->told++;
}

static bool is_told(void *owner)
{
    return ((struct world *)owner)->told > 0;
}

/* Unless a read failed, the read-ahead must be at the expected row. */
static void check_place(struct world *world)
{
    char key[16];
    if (read_ahead_is_pending(world->ahead)) {
        world->told = 0;
        CHECK(sim_run_until(is_told, world, 100000));
    }
    if (!read_ahead_valid(world->ahead)) {
        CHECK(world->has_failed || is_end(world));
        CHECK(read_ahead_failed(world->ahead) == world->has_failed);
        return;
    }
    CHECK(!is_end(world));
    CHECK(!read_ahead_failed(world->ahead));
    CHECK(bytes_equal(read_ahead_key(world->ahead), key_of(world->at, key)));
    CHECK(bytes_equal(read_ahead_value(world->ahead), value_of(world->at)));
}

static void move_seek(struct world *world)
{
    char key[16];
    int place = (int)sim_random(PLACES);
    world->is_reverse = sim_random(2);
    struct read_ahead_place to = {key_of(place, key), sim_random(8) != 0, sim_random(2) != 0,
                                  world->is_reverse};
    int step = world->is_reverse ? -1 : 1;
    if (!to.has_from)
        place = world->is_reverse ? PLACES : -1;
    world->at = row_from(world, to.has_from && !to.or_equal ? place + step : place);
    read_ahead_seek(world->ahead, &to);
}

/* Skips to a place ahead, or to the current one. */
static void move_skip(struct world *world)
{
    char key[16];
    int step = world->is_reverse ? -1 : 1;
    int place = world->at + step * (int)sim_random(sim_random(4) ? 20 : PLACES);
    if (place < 0 || place >= PLACES)
        return;
    bool or_equal = sim_random(2);
    world->at = row_from(world, or_equal ? place : place + step);
    read_ahead_skip(world->ahead, &(struct read_ahead_place){key_of(place, key), true, or_equal,
                                                             world->is_reverse});
}

static void subscription_connection_begin(struct world *world)
{
    char low[16], high[16], key[16];
    world->low = (int)sim_random(PLACES);
    world->high = world->low + 1 + (int)sim_random((uint64_t)(PLACES - world->low));
    world->has_failed = sim_random(20) == 0;
    if (world->has_failed)
        store_mem_fail_read(world->store, 1);
    struct store_iter *iter =
        store_iter_new(world->store, CF_DATA, key_of(world->low, low), key_of(world->high, high));
    uint64_t rows_wanted = sim_random(2) ? UINT64_MAX : sim_random(1000);
    world->ahead = read_ahead_new(world->reader, iter, rows_wanted, on_rows, world);
    world->is_reverse = sim_random(2);
    world->at = row_from(world, world->low + (int)sim_random((uint64_t)(world->high - world->low)));
    if (is_end(world) || sim_random(3) == 0)
        move_seek(world);
    else
        read_ahead_stand(world->ahead, key_of(world->at, key), value_of(world->at),
                         world->is_reverse);
}

static void subscription_connection_run(struct world *world)
{
    subscription_connection_begin(world);
    for (int i = 0; i < MOVES; i++) {
        if (sim_random(20) == 0)
            sim_run_for(sim_random(3000));
        bool is_on_row = read_ahead_valid(world->ahead);
        uint64_t kind = sim_random(100);
        if (is_on_row && kind < 90) {
            world->at += world->is_reverse ? -2 : 2;
            read_ahead_next(world->ahead);
        } else if (is_on_row && kind < 95) {
            move_skip(world);
        } else {
            move_seek(world);
        }
        if (sim_random(50)) /* else the next move comes before the row has been read */
            check_place(world);
    }
    read_ahead_free(world->ahead);
}

static void run_seed(uint64_t seed)
{
    char error[128];
    struct world world = {0};
    sim_init(seed);
    sim_knobs_shuffle();
    storage_mem_reset();
    storage_mem_seed(seed);
    sim_set_host("backend");
    world.loop = loop_new();
    world.pool = worker_pool_new("reader", 2);
    world.env = store_env_new(&(struct store_env_options){0});
    world.storage = storage_open(world.env, &(struct store_options){.path = "ahead"}, WAL_MEM_LIMIT,
                                 error, sizeof error);
    CHECK(world.storage);
    world.store = storage_store(world.storage);
    world.reader = reader_new(world.loop, world.pool, world.store);
    fill(&world);
    for (int i = 0; i < FEEDS; i++)
        subscription_connection_run(&world);
    if (seed % 3 == 0) {
        sim_run_for(10 * 1000 * 1000);
        CHECK(!reader_has_read_aheads(world.reader));
    } else if (seed % 3 == 1) {
        sim_crash_host("backend");
    }
    reader_free(world.reader);
    storage_close(world.storage);
    store_env_free(world.env);
    worker_pool_free(world.pool);
    loop_free(world.loop);
    sim_fini();
}

int main(int argc, char **argv)
{
    for (int i = 0; i < VALUE_MAX; i++)
        filler[i] = (char)('a' + i % 26);
    if (argc > 1) {
        run_seed(strtoull(argv[1], NULL, 10));
        printf("1 passed, 0 failed\n");
        return 0;
    }
    for (uint64_t seed = 1; seed <= sized(SEEDS); seed++)
        run_seed(seed);
    printf("%u passed, 0 failed\n", sized(SEEDS));
    return 0;
}
