/*
 * test_rebalance.c - rebalance() returns a map without gaps, with equal load, and moves as few slots as possible.
 */
#include "proxy/tool/rebalance.h"

#include "shared/check.h"
#include "shared/map_change.h"

#include <stdlib.h>

static uint64_t ones[SLOT_COUNT];
static bool all[SHARD_COUNT_MAX];

/* Shards s0, s1 …; the first `owners` of them own equal ranges. */
static struct shard_map *map_of(size_t shards, size_t owners)
{
    struct shard_map *map = shard_map_new(1);
    unsigned taken;
    for (size_t i = 0; i < shards; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "s%zu", i);
        int shard = shard_map_add(map, bytes_of(name));
        shard_map_add_address(map, shard, bytes_of(name));
        if (i < owners)
            CHECK(shard_map_claim(map, shard, (unsigned)(SLOT_COUNT * i / owners),
                                  (unsigned)(SLOT_COUNT * (i + 1) / owners - 1), &taken));
    }
    return map;
}

static unsigned moved(const struct shard_map *before, const struct shard_map *after)
{
    struct map_change change = map_change_find(before, after);
    unsigned slots = change.slots;
    map_change_free(&change);
    return slots;
}

static unsigned ranges(const struct shard_map *map)
{
    unsigned count = 0;
    for (int i = 0; i < (int)map->shard_count; i++)
        for (unsigned slot = 0, first, last; shard_map_next_range(map, i, &slot, &first, &last);)
            count++;
    return count;
}

/* Every slot has an owner that may own it, and no two shards differ by more than one slot's weight. */
static void check_even(const struct shard_map *map, const bool *may_own, const uint64_t *weight)
{
    uint64_t load[SHARD_COUNT_MAX] = {0};
    uint64_t most = 0, least = UINT64_MAX, heaviest = 0;
    unsigned missing;
    CHECK(shard_map_complete(map, &missing));
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        load[map->slot_shard[slot]] += weight[slot];
        heaviest = weight[slot] > heaviest ? weight[slot] : heaviest;
    }
    for (size_t i = 0; i < map->shard_count; i++) {
        CHECK(may_own[i] || !load[i]);
        if (!may_own[i])
            continue;
        most = load[i] > most ? load[i] : most;
        least = load[i] < least ? load[i] : least;
    }
    CHECK(most - least <= heaviest);
}

static void test_three_shards_grow_to_five_with_the_fewest_moves(void)
{
    struct shard_map *before = map_of(3, 3);
    struct shard_map *after = map_of(5, 0);
    rebalance(before, after, all, ones);
    check_even(after, all, ones);
    CHECK(moved(before, after) == SLOT_COUNT - 3 * 3277);
    CHECK(ranges(after) <= 8);
    shard_map_unref(before);
    shard_map_unref(after);
}

static void test_five_shards_shrink_to_two_and_only_their_slots_move(void)
{
    static const bool first_two[] = {true, true, false, false, false};
    struct shard_map *before = map_of(5, 5);
    struct shard_map *after = map_of(5, 0);
    rebalance(before, after, first_two, ones);
    check_even(after, first_two, ones);
    CHECK(moved(before, after) == before->shards[2].slot_count + before->shards[3].slot_count +
                                      before->shards[4].slot_count);
    CHECK(after->shards[0].slot_count == SLOT_COUNT / 2);
    shard_map_unref(before);
    shard_map_unref(after);
}

static void test_a_shard_that_is_not_in_the_new_map_gives_all_its_slots(void)
{
    struct shard_map *before = map_of(5, 5);
    struct shard_map *after = map_of(4, 0);
    rebalance(before, after, all, ones);
    check_even(after, all, ones);
    CHECK(moved(before, after) == before->shards[4].slot_count);
    shard_map_unref(before);
    shard_map_unref(after);
}

static void test_even_shards_stay_as_they_are(void)
{
    for (size_t n = 1; n <= 40; n++) {
        struct shard_map *before = map_of(n, n);
        struct shard_map *after = map_of(n, 0);
        rebalance(before, after, all, ones);
        CHECK(moved(before, after) == 0);
        shard_map_unref(before);
        shard_map_unref(after);
    }
}

static void test_a_hot_range_is_split(void)
{
    static uint64_t measured[SLOT_COUNT], weight[SLOT_COUNT];
    struct shard_map *before = map_of(4, 4);
    struct shard_map *after = map_of(4, 0);
    for (unsigned slot = 100; slot < 200; slot++)
        measured[slot] = 1000000;
    rebalance_weights(measured, weight);
    rebalance(before, after, all, weight);
    check_even(after, all, weight);
    for (size_t i = 0; i < 4; i++) {
        unsigned hot = 0;
        for (unsigned slot = 100; slot < 200; slot++)
            hot += after->slot_shard[slot] == i;
        CHECK(hot >= 24 && hot <= 26);
    }
    CHECK(moved(before, after) < 1000);
    shard_map_unref(before);
    shard_map_unref(after);
}

static void test_a_slot_heavier_than_the_average_is_alone(void)
{
    static uint64_t weight[SLOT_COUNT];
    struct shard_map *before = map_of(2, 2);
    struct shard_map *after = map_of(2, 0);
    memcpy(weight, ones, sizeof weight);
    weight[5] = 10 * SLOT_COUNT;
    rebalance(before, after, all, weight);
    check_even(after, all, weight);
    CHECK(after->shards[0].slot_count == 1 && after->slot_shard[5] == 0);
    shard_map_unref(before);
    shard_map_unref(after);
}

static void test_empty_slots_have_a_quarter_of_the_average_weight(void)
{
    static uint64_t measured[SLOT_COUNT], weight[SLOT_COUNT];
    rebalance_weights(measured, weight);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        CHECK(weight[slot] == 1);
    measured[9] = 4 * SLOT_COUNT * 100;
    rebalance_weights(measured, weight);
    CHECK(weight[9] / weight[0] >= 4 * SLOT_COUNT && weight[9] / weight[0] <= 4 * SLOT_COUNT + 4);
    CHECK(weight[0] == weight[16383]);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        measured[slot] = UINT64_MAX;
    rebalance_weights(measured, weight);
    uint64_t total = 0;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        total += weight[slot];
    CHECK(total > 1ULL << 48 && total < 1ULL << 50);
}

/* Random weights and numbers of shards: the map is always complete and even, and the same twice. */
static void test_any_weights_give_an_even_map_and_always_the_same(void)
{
    static uint64_t measured[SLOT_COUNT], weight[SLOT_COUNT];
    srandom(7);
    for (int round = 0; round < 40; round++) {
        size_t old = 1 + (size_t)random() % 20, now = 1 + (size_t)random() % 20;
        bool may_own[32] = {false};
        struct shard_map *before = map_of(old, old);
        struct shard_map *after = map_of(now, 0), *again = map_of(now, 0);
        for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
            measured[slot] = random() % 50 ? (uint64_t)random() % 100 : (uint64_t)random() % 100000;
        for (size_t i = 0; i < now; i++)
            may_own[i] = i == 0 || random() % 4;
        rebalance_weights(measured, weight);
        rebalance(before, after, may_own, weight);
        rebalance(before, again, may_own, weight);
        check_even(after, may_own, weight);
        CHECK(shard_map_equal(after, again));
        shard_map_unref(before);
        shard_map_unref(after);
        shard_map_unref(again);
    }
}

int main(void)
{
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        ones[slot] = 1;
    memset(all, 1, sizeof all);
    test_three_shards_grow_to_five_with_the_fewest_moves();
    test_five_shards_shrink_to_two_and_only_their_slots_move();
    test_a_shard_that_is_not_in_the_new_map_gives_all_its_slots();
    test_even_shards_stay_as_they_are();
    test_a_hot_range_is_split();
    test_a_slot_heavier_than_the_average_is_alone();
    test_empty_slots_have_a_quarter_of_the_average_weight();
    test_any_weights_give_an_even_map_and_always_the_same();
    return 0;
}
