/*
 * test_cluster_clock.c - the time that shards agree on (cluster_clock.h), in random clusters with wrong clocks.
 *
 *   test_cluster_clock [seed]      one world, or SEEDS of them
 *
 * Each host reads the clocks of the others with random delays, as STATUS requests do. More than half of the clocks are right to
 * GOOD_US in most worlds; the others are up to a day ahead or behind. While it runs, clocks of the wrong hosts are set.
 *
 *   (1) All hosts have the same time, to the error of reading clocks.
 *   (2) If more than half of the clocks are right, so is the time.
 *   (3) Once a host has read all clocks, its time does not jump, whatever a minority of clocks does.
 *   (4) The time is known as soon as the clocks of all shards were read.
 */
#include "backend/context/cluster_clock.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/net/loop.h"
#include "shared/shard_map.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_partition.h"
#include "tests/sized.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SEEDS = 1000,
    HOSTS_MAX = 9,
    TICK_MS = 50,
    TICKS_A_READING = 20,
    HEARD_TICKS = 200, /* by then each host has read all clocks */
    DELAY_MAX_US = 40000,
    GOOD_US = 20000,
    RUN_US = 30000000,
    JUMP_US =
        5000, /* the most by which a time may leave its course between two ticks, besides 1 % */
};

static const int64_t day_us = (int64_t)24 * 3600 * 1000000;

struct host {
    char name[16];
    struct loop *loop;
    struct timer *timer;
    struct cluster_clock *clock;
    int64_t skew_us;
    unsigned ticks;
    bool is_wrong;
    int64_t error_us; /* of its time to the true time, at its last tick */
    uint64_t ticked_us;
};

static struct {
    struct host hosts[HOSTS_MAX];
    unsigned count;
    struct shard_map *map;
    bool has_good_majority;
} world;

static int64_t either_way(int64_t most_us)
{
    return (int64_t)sim_random((uint64_t)(2 * most_us + 1)) - most_us;
}

/* Reads the clock of another host: there and back take different times. */
static void read_clock(struct host *host, const struct host *other)
{
    uint64_t there_us = sim_random(DELAY_MAX_US);
    uint64_t back_us = sim_random(DELAY_MAX_US);
    uint64_t now_us = clock_mono_us();
    uint64_t true_us = clock_system_us() - (uint64_t)host->skew_us;
    uint64_t half_us = (there_us + back_us) / 2;
    cluster_clock_heard(host->clock, bytes_of(other->name),
                        true_us - back_us + (uint64_t)other->skew_us, now_us - half_us, half_us);
}

static void check_course(const struct host *host, int64_t error_us)
{
    int64_t most_us = (int64_t)(clock_mono_us() - host->ticked_us) / 100 + JUMP_US;
    int64_t moved_us = error_us - host->error_us;
    bool has_heard_all = host->ticks > HEARD_TICKS;
    CHECK(!has_heard_all || !world.has_good_majority ||
          (moved_us <= most_us && moved_us >= -most_us));
}

static void on_tick(void *owner)
{
    struct host *host = owner;
    for (unsigned i = 0; host->ticks % TICKS_A_READING == 0 && i < world.count; i++)
        if (&world.hosts[i] != host && !sim_chance(100000))
            read_clock(host, &world.hosts[i]);
    host->ticks++;
    cluster_clock_tick(host->clock, world.map, bytes_of(host->name));
    if (!cluster_clock_is_known(host->clock))
        return;
    uint64_t true_us = clock_system_us() - (uint64_t)host->skew_us;
    int64_t error_us = (int64_t)(clock_wall_us() - true_us);
    check_course(host, error_us);
    host->error_us = error_us;
    host->ticked_us = clock_mono_us();
}

static void set_clock(struct host *host)
{
    host->skew_us =
        host->is_wrong ? either_way(sim_random(2) ? day_us : 100000) : either_way(GOOD_US);
    sim_clock_skew(host->name, host->skew_us);
}

static void add_host(unsigned wrong)
{
    struct host *host = &world.hosts[world.count];
    *host = (struct host){.is_wrong = world.count < wrong};
    (void)snprintf(host->name, sizeof host->name, "h%u", world.count);
    sim_set_host(host->name);
    CHECK(shard_map_add(world.map, bytes_of(host->name)) == (int)world.count);
    world.count++;
    set_clock(host);
    host->loop = loop_new();
    host->clock = cluster_clock_new();
    host->timer = timer_new(host->loop, on_tick, host);
    timer_start(host->timer, sim_random(TICK_MS), TICK_MS);
}

static void world_begin(uint64_t seed)
{
    sim_init(seed);
    world.count = 0;
    world.map = shard_map_new(1);
    unsigned hosts = 1 + (unsigned)sim_random(HOSTS_MAX);
    world.has_good_majority = sim_random(4) != 0;
    unsigned wrong = (unsigned)sim_random(world.has_good_majority ? (hosts + 1) / 2 : hosts + 1);
    while (world.count < hosts)
        add_host(wrong);
}

static void world_end(void)
{
    for (unsigned i = 0; i < world.count; i++) {
        timer_free(world.hosts[i].timer);
        loop_free(world.hosts[i].loop);
        cluster_clock_free(world.hosts[i].clock);
    }
    shard_map_unref(world.map);
    sim_fini();
}

static void check_times(void)
{
    int64_t least_us = INT64_MAX;
    int64_t most_us = INT64_MIN;
    for (unsigned i = 0; i < world.count; i++) {
        CHECK(world.hosts[i].ticked_us);
        least_us = world.hosts[i].error_us < least_us ? world.hosts[i].error_us : least_us;
        most_us = world.hosts[i].error_us > most_us ? world.hosts[i].error_us : most_us;
    }
    CHECK(most_us - least_us <= 2 * (DELAY_MAX_US + GOOD_US));
    CHECK(!world.has_good_majority ||
          (least_us >= -DELAY_MAX_US - GOOD_US && most_us <= DELAY_MAX_US + GOOD_US));
}

/* (4): clients wait for the time after a start, so a tick that has heard enough does not wait for the next one. */
static void check_known_at_once(uint64_t seed)
{
    static const char *const names[] = {"a", "b", "c"};
    struct shard_map *map = shard_map_new(1);
    sim_init(seed);
    sim_set_host("a");
    struct loop *loop = loop_new();
    struct cluster_clock *clock = cluster_clock_new();
    unsigned shards = 1 + (unsigned)sim_random(3);
    for (unsigned i = 0; i < shards; i++)
        CHECK(shard_map_add(map, bytes_of(names[i])) == (int)i);
    cluster_clock_tick(clock, map, BYTES("a"));
    CHECK(cluster_clock_is_known(clock) == (shards == 1));
    for (unsigned i = 1; i < shards; i++)
        cluster_clock_heard(clock, bytes_of(names[i]), clock_system_us(), clock_mono_us(), 0);
    cluster_clock_tick(clock, map, BYTES("a"));
    CHECK(cluster_clock_is_known(clock));
    cluster_clock_free(clock);
    loop_free(loop);
    shard_map_unref(map);
    sim_fini();
}

static void run_seed(uint64_t seed)
{
    check_known_at_once(seed);
    world_begin(seed);
    for (int i = 0; i < 4; i++) {
        sim_run_for(RUN_US / 4);
        struct host *host = &world.hosts[sim_random(world.count)];
        if (world.has_good_majority && host->is_wrong)
            set_clock(host);
    }
    sim_run_for(RUN_US / 4);
    check_times();
    world_end();
}

int main(int argc, char **argv)
{
    return sim_run_seeds(argc, argv, sized(SEEDS), run_seed);
}
