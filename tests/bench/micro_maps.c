/*
 * micro_maps.c - one rebalance of a big cluster: a map of 1000 shards gets 24 more, and 100 proxies follow.
 *
 *   micro_maps [shards added proxies seed]         prints a table; docs/scaling.md has it
 *
 *   rebalance() ──► the moves ──► in random order, each shard two at a time: owner and epoch of a slot change
 *                                      │
 *   proxies: requests for random slots ─┴─► at the old shard: a bounce ──► routes_learn ──► routes_merge
 *
 * The maps, the rebalancing and the routes are those of the programs; network, keys and shards are simulated. A shard that bounces
 * names the run of slots around the slot that have the same owner and epoch, as slot_owners.c does. A time is a number of moves at
 * once, not seconds: how long a move takes depends on keys and migration-rate. Then the messages by which shards tell each other
 * what they own are counted, with the sizes of slot_owners.c.
 */
#include "proxy/rebalance.h"
#include "proxy/routes.h"
#include "shared/check.h"
#include "shared/clock.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MOVES_AT_ONCE = 2,             /* migration-moves */
    REQUESTS_A_STEP = 2000,        /* of each proxy, while one round of moves takes place */
    RUN_MAX = 1024,                /* slots on each side in a bounce */
    RUN_BYTES = 4 + 4 + 8 + 4 + 5, /* of an answer to SLOTS: first, last, epoch, name */
    ASK_S = 2,
    WHOLE_ASKS = 30, /* every so many questions the whole answer is sent */
    NAME_SIZE = 16,
};

struct truth {
    uint16_t owner[SLOT_COUNT];
    uint64_t epoch[SLOT_COUNT];
};

static uint64_t random_state = 1;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)((random_state >> 33) % below);
}

static struct shard_map *new_map(size_t shards, uint64_t epoch)
{
    struct shard_map *map = shard_map_new(epoch);
    for (size_t i = 0; i < shards; i++) {
        char text[NAME_SIZE * 2];
        (void)snprintf(text, sizeof text, "s%04zu", i);
        int index = shard_map_add(map, bytes_of(text));
        CHECK(index == (int)i);
        (void)snprintf(text, sizeof text, "10.0.%zu.%zu:7401", i / 250, i % 250 + 1);
        shard_map_add_address(map, index, bytes_of(text));
    }
    return map;
}

static void spread_slots(struct shard_map *map, size_t shards)
{
    unsigned taken;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        CHECK(shard_map_claim(map, (int)(slot * shards / SLOT_COUNT), slot, slot, &taken));
}

/* Slots that move, in a random order. */
static uint32_t list_moves(const struct shard_map *before, const struct shard_map *after,
                           uint16_t slots[SLOT_COUNT])
{
    uint32_t count = 0;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        if (before->slot_shard[slot] != after->slot_shard[slot])
            slots[count++] = (uint16_t)slot;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = draw(i);
        uint16_t slot = slots[i - 1];
        slots[i - 1] = slots[other];
        slots[other] = slot;
    }
    return count;
}

/* One round: each shard that has slots to give hands over up to MOVES_AT_ONCE of them. Returns how many are left. */
static uint32_t move_round(struct truth *truth, const struct shard_map *after, uint16_t *slots,
                           uint32_t count, uint32_t *busy)
{
    uint32_t left = 0;
    memset(busy, 0, after->shard_count * sizeof *busy);
    for (uint32_t i = 0; i < count; i++) {
        uint16_t slot = slots[i];
        if (busy[truth->owner[slot]]++ < MOVES_AT_ONCE) {
            truth->owner[slot] = after->slot_shard[slot];
            truth->epoch[slot]++;
        } else {
            slots[left++] = slot;
        }
    }
    return left;
}

static struct bounce bounce_of(const struct truth *truth, const struct shard_map *map,
                               uint16_t slot)
{
    const struct shard *owner = &map->shards[truth->owner[slot]];
    unsigned first = slot;
    unsigned last = slot;
    while (first > 0 && slot - first < RUN_MAX && truth->owner[first - 1] == truth->owner[slot] &&
           truth->epoch[first - 1] == truth->epoch[slot])
        first--;
    while (last + 1 < SLOT_COUNT && last - slot < RUN_MAX &&
           truth->owner[last + 1] == truth->owner[slot] &&
           truth->epoch[last + 1] == truth->epoch[slot])
        last++;
    return (struct bounce){.slot = slot,
                           .first = (uint16_t)first,
                           .last = (uint16_t)last,
                           .epoch = truth->epoch[slot],
                           .shard = bytes_of(owner->name),
                           .address = bytes_of(owner->addresses[0])};
}

struct watcher {
    struct routes *routes;
    struct shard_map *map; /* by which it routes */
    uint64_t bounces;
    uint64_t merges;
    uint64_t merge_us;
};

static void learn(struct watcher *proxy, struct shard_map *wish, const struct bounce *bounce)
{
    uint64_t version;
    proxy->bounces++;
    if (!routes_learn(proxy->routes, bounce, &version))
        return;
    uint64_t begun = clock_mono_us();
    struct shard_map *map = routes_merge(proxy->routes, wish, &version);
    proxy->merge_us += clock_mono_us() - begun;
    proxy->merges++;
    shard_map_unref(proxy->map);
    proxy->map = map;
}

/* Requests for random slots. Returns how many bounced. */
static uint64_t play_requests(struct watcher *proxy, const struct truth *truth,
                              struct shard_map *wish)
{
    uint64_t before = proxy->bounces;
    for (int i = 0; i < REQUESTS_A_STEP; i++) {
        uint16_t slot = (uint16_t)draw(SLOT_COUNT);
        const char *asked = proxy->map->shards[shard_map_find(proxy->map, slot)].name;
        if (strcmp(asked, wish->shards[truth->owner[slot]].name) == 0)
            continue;
        const struct bounce bounce = bounce_of(truth, wish, slot);
        learn(proxy, wish, &bounce);
    }
    return proxy->bounces - before;
}

static uint32_t wrong_routes(const struct watcher *proxy, const struct truth *truth,
                             const struct shard_map *wish)
{
    uint32_t count = 0;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        count += strcmp(proxy->map->shards[proxy->map->slot_shard[slot]].name,
                        wish->shards[truth->owner[slot]].name) != 0;
    return count;
}

static uint32_t count_runs(const struct truth *truth)
{
    uint32_t runs = 1;
    for (unsigned slot = 1; slot < SLOT_COUNT; slot++)
        runs += truth->owner[slot] != truth->owner[slot - 1] ||
                truth->epoch[slot] != truth->epoch[slot - 1];
    return runs;
}

static void print_exchange(const struct truth *truth, size_t shards)
{
    double answer = 10 + (double)count_runs(truth) * RUN_BYTES;
    double pairs = (double)shards * (double)(shards - 1);
    double whole = answer * (double)(shards - 1) / ASK_S;
    printf("links between shards                    %12.0f   (%zu of each shard)\n", pairs,
           shards - 1);
    printf("questions about owners, each second     %12.0f   (%.0f of each shard)\n", pairs / ASK_S,
           (double)(shards - 1) / ASK_S);
    printf("an answer with all runs of slots        %12.0f bytes\n", answer);
    printf("answers that a shard gets               %12.1f MB/s if all were whole\n", whole / 1e6);
    printf("  … one byte if it has not changed      %12.3f MB/s\n",
           (whole / WHOLE_ASKS + (double)(shards - 1) / ASK_S) / 1e6);
}

int main(int argc, char **argv)
{
    static struct truth truth;
    static uint64_t nothing[SLOT_COUNT];
    static uint64_t weight[SLOT_COUNT];
    static uint16_t slots[SLOT_COUNT];
    size_t shards = argc > 1 ? (size_t)atoi(argv[1]) : 1000;
    size_t added = argc > 2 ? (size_t)atoi(argv[2]) : 24;
    size_t proxies = argc > 3 ? (size_t)atoi(argv[3]) : 100;
    random_state = argc > 4 ? (uint64_t)atoi(argv[4]) : 1;
    CHECK(shards > 0 && shards + added <= SHARD_COUNT_MAX);
    struct shard_map *before = new_map(shards + added, 1);
    struct shard_map *after = new_map(shards + added, 2);
    bool *may_own = calloc(shards + added, sizeof *may_own);
    uint32_t *busy = calloc(shards + added, sizeof *busy);
    struct watcher *watchers = calloc(proxies, sizeof *watchers);
    CHECK(may_own && busy && watchers);
    memset(may_own, 1, shards + added);
    spread_slots(before, shards);
    rebalance_weights(nothing, weight);
    uint64_t begun = clock_mono_us();
    rebalance(before, after, may_own, weight);
    double rebalance_ms = (double)(clock_mono_us() - begun) / 1e3;
    uint32_t count = list_moves(before, after, slots);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        truth.owner[slot] = before->slot_shard[slot];
        truth.epoch[slot] = 1;
    }
    size_t heap = mallinfo2().uordblks;
    for (size_t i = 0; i < proxies; i++) {
        watchers[i].routes = routes_new();
        /* every second proxy keeps the map of before until the end */
        watchers[i].map = shard_map_ref(i % 2 ? before : after);
    }
    printf("%zu shards, %zu more, %zu proxies: %u slots move; rebalance() took %.0f ms\n", shards,
           added, proxies, count, rebalance_ms);
    printf("%8s %10s %22s %22s\n", "round", "moves left", "bounces, new map", "bounces, old map");
    uint32_t round = 0;
    uint32_t left = count;
    bool is_right = false;
    while (!is_right && round < 100) {
        uint64_t sums[2] = {0};
        left = move_round(&truth, after, slots, left, busy);
        is_right = !left;
        for (size_t i = 0; i < proxies; i++) {
            sums[i % 2] += play_requests(&watchers[i], &truth, i % 2 ? before : after);
            is_right = is_right && !wrong_routes(&watchers[i], &truth, after);
        }
        round++;
        double requests = (double)REQUESTS_A_STEP * (double)(proxies / 2 ? proxies / 2 : 1) / 1e6;
        if (round <= 6 || round % 5 == 0 || is_right)
            printf("%8u %10u %14.0f a million %14.0f a million\n", round, left,
                   (double)sums[0] / requests, (double)sums[1] / requests);
    }
    uint64_t bounces = 0;
    uint64_t merges = 0;
    uint64_t merge_us = 0;
    for (size_t i = 0; i < proxies; i++) {
        bounces += watchers[i].bounces;
        merges += watchers[i].merges;
        merge_us += watchers[i].merge_us;
    }
    printf("all routes are right after round        %12u   (%d requests of each proxy a round)\n",
           round, REQUESTS_A_STEP);
    printf("bounces of a proxy                      %12.1f   (%u slots moved)\n",
           (double)bounces / (double)proxies, count);
    printf("a new map from a bounce                 %12.0f µs, %.0f times a proxy\n",
           merges ? (double)merge_us / (double)merges : 0, (double)merges / (double)proxies);
    printf("memory of a proxy for routes and map    %12.0f KiB\n",
           (double)(mallinfo2().uordblks - heap) / (double)proxies / 1024);
    print_exchange(&truth, shards + added);
    for (size_t i = 0; i < proxies; i++) {
        routes_free(watchers[i].routes);
        shard_map_unref(watchers[i].map);
    }
    shard_map_unref(before);
    shard_map_unref(after);
    free(may_own);
    free(busy);
    free(watchers);
    return 0;
}
