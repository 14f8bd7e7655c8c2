/*
 * test_key_grants.c - shards that share max-keys never have more keys together, whatever happens to the messages.
 *
 * A seed is a schedule: proxies send orders, of which some are lost, late or repeated; shards create keys as far as they may, and
 * delete some. After each step the keys of all shards are added up. In odd seeds shards and proxies restart and messages are slow; in
 * even ones shards hand keys to each other, and messages take some 20 ms.
 */
#include "shared/key_grants.h"

#include "shared/check.h"
#include "tests/sized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHARDS = 4,
    PROXIES = 3,
    FLIGHTS = 24,
    STEPS = 3000,
    SEEDS = 2000, /* rarely is a namespace full and a client refused */
    SLOW_STEP_MS = 20,
    QUICK_STEP_MS = 2,
};

struct shard {
    struct key_grant grant;
    uint64_t keys;
    uint64_t fewest; /* since the last order that was accepted */
    bool is_down;
    uint64_t proof; /* a command waits for this order; 0: none does */
    uint64_t most;  /* keys of all shards since it began to wait */
};

static struct grant_report carry_out_order(struct shard *shard, const struct grant_order *order,
                                           uint64_t now_ms)
{
    const struct grant_keys here = {shard->keys, shard->fewest};
    struct grant_report report = key_grant_order(&shard->grant, order, &here, now_ms);
    if (report.version)
        shard->fewest = shard->keys;
    return report;
}

static void lose_keys(struct shard *shard, uint64_t keys)
{
    shard->keys -= keys;
    shard->fewest = shard->keys < shard->fewest ? shard->keys : shard->fewest;
}

/* A message from a proxy to a shard, then its answer. */
struct flight {
    bool is_used;
    bool is_answer;
    bool is_asked; /* the proxy waits for its answer; else it has given it up */
    int proxy;
    int shard;
    uint32_t tenure;
    struct grant_order order;
    struct grant_report report;
};

struct proxy {
    uint64_t id;
    struct grant_share shares[SHARDS];
    struct grant_ledger ledger;
    bool is_asked[SHARDS];
};

/* Keys on their way between two shards. */
struct handover {
    uint64_t keys;
    int to;
    uint64_t at_ms;
};

struct world {
    uint64_t random;
    bool moves_keys;
    uint64_t now_ms;
    uint64_t max_keys;
    uint64_t version;
    struct shard shards[SHARDS];
    struct proxy proxies[PROXIES];
    struct flight flights[FLIGHTS];
    struct handover handover;
};

static uint64_t random_below(struct world *world, uint64_t limit)
{
    world->random ^= world->random << 13;
    world->random ^= world->random >> 7;
    world->random ^= world->random << 17;
    return world->random % limit;
}

static uint64_t all_keys(const struct world *world)
{
    uint64_t keys = world->handover.keys;
    for (int i = 0; i < SHARDS; i++)
        keys += world->shards[i].keys;
    return keys;
}

static void start_shard(struct world *world, struct shard *shard)
{
    world->version += 1000000;
    key_grant_init(&shard->grant, world->version);
    shard->fewest = shard->proof = 0;
    shard->is_down = false;
}

static void send_order(struct world *world, int from, int to)
{
    struct proxy *proxy = &world->proxies[from];
    struct flight *flight = NULL;
    for (int i = 0; i < FLIGHTS && !flight; i++)
        flight = world->flights[i].is_used ? NULL : &world->flights[i];
    if (!flight || proxy->is_asked[to])
        return;
    *flight = (struct flight){.is_used = true, .is_asked = true, .proxy = from, .shard = to};
    flight->order =
        (struct grant_order){.coordinator = proxy->id,
                             .epoch = 1,
                             .keys = grant_next(&proxy->ledger, (size_t)to, world->max_keys),
                             .fewest_elsewhere = grant_fewest_elsewhere(&proxy->ledger, (size_t)to),
                             .version = proxy->shares[to].version};
    flight->tenure = proxy->ledger.tenure;
    proxy->is_asked[to] = true;
}

static void give_up(struct world *world, struct flight *flight)
{
    if (flight->is_asked)
        world->proxies[flight->proxy].is_asked[flight->shard] = false;
    flight->is_asked = false;
}

static void carry_out(struct world *world, struct flight *flight)
{
    struct shard *shard = &world->shards[flight->shard];
    if (shard->is_down)
        return;
    flight->report = carry_out_order(shard, &flight->order, world->now_ms);
}

/* Delivers a message; some are lost, some given up and delivered later, some delivered twice. */
static void move_flight(struct world *world, struct flight *flight)
{
    uint64_t luck = random_below(world, 20);
    if (!flight->is_used)
        return;
    if (luck == 0) {
        give_up(world, flight);
        flight->is_used = false;
    } else if (luck == 1) {
        give_up(world, flight);
    } else if (!flight->is_answer) {
        carry_out(world, flight);
        flight->is_answer = luck != 2 && !world->shards[flight->shard].is_down;
    } else {
        if (flight->is_asked)
            grant_reported(&world->proxies[flight->proxy].ledger, (size_t)flight->shard,
                           flight->tenure, &flight->report);
        give_up(world, flight);
        flight->is_used = false;
    }
}

static void create_keys(struct world *world, struct shard *shard)
{
    uint64_t room = key_grant_room(&shard->grant, shard->keys);
    uint64_t wanted = random_below(world, 200);
    if (shard->is_down)
        return;
    shard->grant.wants = shard->grant.wants || wanted > room;
    shard->keys += wanted < room ? wanted : room;
}

/* A slot moves: its keys are at no shard for a moment. */
static void hand_over(struct world *world, struct shard *from)
{
    struct handover *handover = &world->handover;
    if (handover->keys || from->is_down || !from->keys)
        return;
    *handover =
        (struct handover){.keys = 1 + random_below(world, from->keys),
                          .to = (int)random_below(world, SHARDS),
                          .at_ms = world->now_ms + random_below(world, KEY_GRANT_LEAVE_MS / 5)};
    lose_keys(from, handover->keys);
    key_grant_leave(&from->grant, handover->keys);
}

static void arrive(struct world *world)
{
    if (!world->handover.keys || world->now_ms < world->handover.at_ms)
        return;
    world->shards[world->handover.to].keys += world->handover.keys;
    world->handover.keys = 0;
}

static void restart_proxy(struct world *world, int index)
{
    struct proxy *proxy = &world->proxies[index];
    for (int i = 0; i < FLIGHTS; i++)
        if (world->flights[i].proxy == index)
            world->flights[i].is_asked = false;
    memset(proxy, 0, sizeof *proxy);
    proxy->id = 1 + random_below(world, 1000000);
    proxy->ledger = (struct grant_ledger){.shares = proxy->shares, .count = SHARDS};
}

/* A command wants a key that the shard has no room for. */
static void begin_to_wait(struct shard *shard)
{
    if (shard->is_down || shard->proof || key_grant_room(&shard->grant, shard->keys))
        return;
    shard->proof = key_grant_proof(&shard->grant);
    shard->most = 0;
}

/* True: each shard that would refuse a command has reason to: there were max_keys since the command came. */
static bool refusals_are_right(struct world *world, uint64_t *refused)
{
    uint64_t keys = all_keys(world);
    for (int i = 0; i < SHARDS; i++) {
        struct shard *shard = &world->shards[i];
        shard->most = keys > shard->most ? keys : shard->most;
        if (!shard->proof || !key_grant_is_full(&shard->grant, shard->proof, 1, world->max_keys))
            continue;
        if (shard->most < world->max_keys)
            return false;
        shard->proof = 0;
        ++*refused;
    }
    return true;
}

static void step(struct world *world)
{
    struct shard *shard = &world->shards[random_below(world, SHARDS)];
    world->now_ms += random_below(world, world->moves_keys ? QUICK_STEP_MS : SLOW_STEP_MS);
    arrive(world);
    for (int i = 0; i < SHARDS; i++)
        key_grant_tick(&world->shards[i].grant, world->now_ms);
    uint64_t luck = random_below(world, 400);
    if (world->moves_keys && luck < 4)
        hand_over(world, shard);
    else if (luck == 0)
        shard->is_down = true;
    else if (luck == 1)
        restart_proxy(world, (int)random_below(world, PROXIES));
    else if (luck == 2)
        world->now_ms += KEY_GRANT_LEASE_MS; /* coordinators are silent */
    if (shard->is_down && random_below(world, 20) == 0)
        start_shard(world, shard);
    if (random_below(world, 4) == 0)
        create_keys(world, shard);
    begin_to_wait(shard);
    if (random_below(world, 16) == 0 && !shard->is_down)
        lose_keys(shard, random_below(world, shard->keys + 1));
    send_order(world, (int)random_below(world, PROXIES), (int)random_below(world, SHARDS));
    for (int i = 0; i < 4; i++)
        move_flight(world, &world->flights[random_below(world, FLIGHTS)]);
}

static void world_init(struct world *world, uint64_t seed)
{
    *world = (struct world){.random = seed * 0x9E3779B97F4A7C15 + 1, .now_ms = 1000};
    world->max_keys = 1 + random_below(world, 3000);
    world->moves_keys = seed % 2 == 0;
    for (int i = 0; i < SHARDS; i++)
        start_shard(world, &world->shards[i]);
    for (int i = 0; i < PROXIES; i++)
        restart_proxy(world, i);
}

static void test_the_sum_never_exceeds_max_keys_and_no_key_is_refused_while_there_is_room(void)
{
    uint64_t full = 0;
    uint64_t refused = 0;
    for (uint64_t seed = 1; seed <= (uint64_t)sized(SEEDS); seed++) {
        struct world world;
        world_init(&world, seed);
        for (int i = 0; i < STEPS; i++) {
            step(&world);
            if (all_keys(&world) > world.max_keys) {
                (void)fprintf(stderr, "seed %llu, step %d: %llu keys, max %llu\n",
                              (unsigned long long)seed, i, (unsigned long long)all_keys(&world),
                              (unsigned long long)world.max_keys);
                abort();
            }
            full += all_keys(&world) == world.max_keys;
            if (!refusals_are_right(&world, &refused)) {
                (void)fprintf(stderr, "seed %llu, step %d: refused while there was room\n",
                              (unsigned long long)seed, i);
                abort();
            }
        }
    }
    CHECK(full > 0 && refused > 0);
}

/* Two or three shards with one coordinator. */
struct group {
    struct shard shards[3];
    struct grant_share shares[3];
    struct grant_ledger ledger;
};

static void group_init(struct group *group, size_t count)
{
    *group = (struct group){.ledger = {.shares = group->shares, .count = count}};
    for (size_t i = 0; i < count; i++)
        key_grant_init(&group->shards[i].grant, 100);
}

static struct grant_order order_for(struct group *group, size_t shard, uint64_t max_keys)
{
    return (struct grant_order){.coordinator = 1,
                                .keys = grant_next(&group->ledger, shard, max_keys),
                                .fewest_elsewhere = grant_fewest_elsewhere(&group->ledger, shard),
                                .version = group->shares[shard].version};
}

static void deliver(struct group *group, size_t shard, const struct grant_order *order)
{
    struct grant_report report = carry_out_order(&group->shards[shard], order, 1);
    CHECK(report.version);
    grant_reported(&group->ledger, shard, group->ledger.tenure, &report);
}

/* Exchanges some messages. */
static void rounds(struct group *group, uint64_t max_keys)
{
    for (int round = 0; round < 5; round++)
        for (size_t i = 0; i < group->ledger.count; i++) {
            struct grant_order order = order_for(group, i, max_keys);
            deliver(group, i, &order);
        }
}

static uint64_t room(const struct group *group, int shard)
{
    return key_grant_room(&group->shards[shard].grant, group->shards[shard].keys);
}

static void test_one_shard_that_wants_gets_all_that_is_left(void)
{
    struct group group;
    group_init(&group, 3);
    rounds(&group, 1000);
    CHECK(room(&group, 0) + room(&group, 1) + room(&group, 2) == 1000);
    for (int i = 0; i < 3; i++)
        CHECK(room(&group, i) >= 333);
    int waits = 0;
    while (group.shards[1].keys < 1000) {
        group.shards[1].keys += room(&group, 1);
        group.shards[1].grant.wants = true;
        rounds(&group, 1000);
        CHECK(++waits < 10);
    }
    CHECK(!grant_is_wanted(&group.ledger));
}

static void test_a_lower_limit_takes_back_what_is_not_used(void)
{
    struct group group;
    group_init(&group, 2);
    rounds(&group, 1000);
    group.shards[0].keys = 300;
    rounds(&group, 200);
    CHECK(room(&group, 0) == 0 && room(&group, 1) == 0);
    group.shards[0].keys = 150;
    rounds(&group, 200);
    CHECK(room(&group, 0) + room(&group, 1) == 50);
}

static void test_keys_above_a_lower_limit_are_not_created_again_when_they_are_deleted(void)
{
    struct group group;
    group_init(&group, 2);
    rounds(&group, 1000);
    group.shards[0].keys = 300;
    group.shards[1].keys = 200;
    rounds(&group, 100);
    group.shards[0].keys = 20;
    group.shards[1].keys = 10;
    CHECK(room(&group, 0) + room(&group, 1) <= 70);
    rounds(&group, 100);
    CHECK(room(&group, 0) + room(&group, 1) == 70);
}

static void test_while_a_shard_is_down_the_others_share_the_rest(void)
{
    struct group group;
    group_init(&group, 2);
    rounds(&group, 1000);
    uint64_t bound = group.shares[1].bound;
    group.shares[0].wants = true;
    for (int round = 0; round < 5; round++)
        (void)grant_next(&group.ledger, 0, 1000);
    CHECK(bound > 0 && group.shares[1].bound == bound);
    CHECK(group.shares[0].bound + bound == 1000);
}

/* Two shards that have all of max_keys; the messages to both are sent at the same time. */
static void one_round(struct group *group, uint64_t max_keys)
{
    struct grant_order first = order_for(group, 0, max_keys);
    struct grant_order second = order_for(group, 1, max_keys);
    deliver(group, 0, &first);
    deliver(group, 1, &second);
}

static void test_figures_of_before_a_command_came_do_not_refuse_it(void)
{
    enum { FULL = 10 };
    struct group group;
    group_init(&group, 2);
    rounds(&group, FULL);
    group.shards[0].keys = group.shards[1].keys = FULL / 2;
    rounds(&group, FULL);
    const struct key_grant *grant = &group.shards[0].grant;
    struct grant_order late = order_for(&group, 0, FULL);
    CHECK(key_grant_is_full(grant, grant->orders, 1, FULL));
    lose_keys(&group.shards[1], 1);
    uint64_t proof = key_grant_proof(grant);
    deliver(&group, 0, &late);
    for (int round = 0; round < 6; round++) {
        CHECK(!key_grant_is_full(grant, proof, 1, FULL));
        one_round(&group, FULL);
    }
}

static void test_a_command_that_no_shard_has_room_for_is_refused_by_the_third_order(void)
{
    enum { FULL = 10 };
    struct group group;
    group_init(&group, 2);
    rounds(&group, FULL);
    group.shards[0].keys = group.shards[1].keys = FULL / 2;
    rounds(&group, FULL);
    const struct key_grant *grant = &group.shards[0].grant;
    uint64_t proof = key_grant_proof(grant);
    for (int round = 0; round < 3; round++) {
        CHECK(!key_grant_is_full(grant, proof, 1, FULL));
        one_round(&group, FULL);
    }
    CHECK(key_grant_is_full(grant, proof, 1, FULL) && !key_grant_is_full(grant, proof, 0, FULL));
}

static void test_a_new_coordinator_raises_nothing_before_all_shards_have_accepted_it(void)
{
    struct grant_share shares[2] = {0};
    struct grant_ledger ledger = {.shares = shares, .count = 2};
    struct grant_report first = {
        .keys = 10, .claim = 20, .version = 7, .is_new = true, .wants = true};
    struct grant_report second = {.keys = 10, .claim = 500, .version = 3, .is_new = true};
    grant_reported(&ledger, 0, 0, &first);
    CHECK(grant_next(&ledger, 0, 1000) == 20);
    grant_reported(&ledger, 1, 0, &second);
    CHECK(shares[1].bound == 0); /* of the order before the first shard accepted */
    grant_reported(&ledger, 1, ledger.tenure, &second);
    CHECK(grant_next(&ledger, 0, 1000) == 20);
    first.is_new = false;
    grant_reported(&ledger, 0, ledger.tenure, &first);
    CHECK(grant_next(&ledger, 0, 1000) == 500);
}

static bool accepts(struct key_grant *grant, uint64_t id, uint64_t epoch, uint64_t now_ms)
{
    struct grant_order order = {.coordinator = id, .epoch = epoch};
    return key_grant_order(grant, &order, &(struct grant_keys){0}, now_ms).version > 0;
}

static void test_of_two_coordinators_the_newer_map_wins_then_the_lower_id(void)
{
    struct key_grant grant;
    key_grant_init(&grant, 100);
    CHECK(accepts(&grant, 5, 3, 1000));
    CHECK(!accepts(&grant, 6, 3, 1001));
    CHECK(accepts(&grant, 4, 3, 1002));
    CHECK(!accepts(&grant, 5, 3, 1003));
    CHECK(accepts(&grant, 9, 4, 1004));
    CHECK(!accepts(&grant, 4, 3, 1005));
    CHECK(accepts(&grant, 4, 3, 1004 + KEY_GRANT_LEASE_MS));
}

int main(void)
{
    test_the_sum_never_exceeds_max_keys_and_no_key_is_refused_while_there_is_room();
    test_figures_of_before_a_command_came_do_not_refuse_it();
    test_a_command_that_no_shard_has_room_for_is_refused_by_the_third_order();
    test_one_shard_that_wants_gets_all_that_is_left();
    test_a_lower_limit_takes_back_what_is_not_used();
    test_keys_above_a_lower_limit_are_not_created_again_when_they_are_deleted();
    test_while_a_shard_is_down_the_others_share_the_rest();
    test_a_new_coordinator_raises_nothing_before_all_shards_have_accepted_it();
    test_of_two_coordinators_the_newer_map_wins_then_the_lower_id();
    return 0;
}
