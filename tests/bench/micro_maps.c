/*
 * micro_maps.c - one rebalance of a big cluster: a map of 1000 shards gets 24 more, and 100 proxies follow.
 *
 *   micro_maps [shards added proxies seed]         prints a table; docs/benchmarks/moves.md has it
 *
 *   rebalance() ──► the moves ──► each shard two at a time: owner and epoch of a slot change
 *                                      │
 *   proxies: requests for random slots ─┼─► at the old shard: a bounce ──► routes_learn ──► routes_merge
 *   shards ask each other every 2 s ────┴─► they know the new owner
 *
 * The maps, the rebalancing and the routes are those of the programs; network, disks, keys, shards and the clock are simulated.
 * A slot takes the time to copy its bytes, which source and target share with their other moves, and the time of the
 * syncs and round trips by which it is handed over (move_source.h). Latencies and sizes are the constants below; periods and limits are
 * those of the programs. A shard that bounces names the run of slots around the slot that have the same owner and epoch, as
 * slot_owners.c does. Then the messages by which shards tell each other what they own are counted, with the sizes of slot_owners.c.
 */
#include "proxy/core/routes.h"
#include "proxy/tool/rebalance.h"
#include "shared/check.h"
#include "shared/clock.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    /* assumed */
    SLOT_KB = 16 * 1024, /* of keys and values in a slot */
    RATE_KB_S = 50000,   /* migration-rate, and what a target takes in from all sources */
    SYNC_US = 5000,      /* of a disk */
    ROUND_TRIP_US = 500, /* between two shards */
    RELOAD_MS = 1000,    /* shards get the new map at random times within it */
    REQUESTS_S = 2000,   /* of each proxy, for random slots */
    /* of the programs */
    MOVES_AT_ONCE = 2,             /* migration-moves */
    TICK_MS = 50,                  /* a shard looks for slots to move */
    SYNCS_OF_MOVE = 5,             /* records EXPORTING, IMPORTING, STAGED, RELEASED, OWNED */
    TRIPS_OF_MOVE = 4,             /* BEGIN, the last rows, END, ACTIVATE */
    RUN_MAX = 1024,                /* slots on each side in a bounce */
    RUN_BYTES = 4 + 4 + 8 + 4 + 5, /* of an answer to SLOTS: first, last, epoch, name */
    ASK_S = 2,
    WHOLE_ASKS = 30, /* every so many questions the whole answer is sent */
    /* of the simulation */
    STEP_MS = 10,
    TIME_MAX_S = 3600,
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
static uint32_t list_moved_slots(const struct shard_map *before, const struct shard_map *after,
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

/* ---- moves ---- */

enum move_phase { MOVE_WAITS, MOVE_COPIES, MOVE_HANDS_OVER, MOVE_ENDED };

struct move {
    uint16_t slot, source, target;
    enum move_phase phase;
    double left_kb;
    uint32_t handed_ms; /* when the target owns the slot */
};

struct moves {
    struct move items[SLOT_COUNT];
    uint32_t count, ended;
    uint32_t map_ms[SHARD_COUNT_MAX];  /* when a shard gets the map */
    uint32_t sending[SHARD_COUNT_MAX]; /* moves that copy */
    uint32_t getting[SHARD_COUNT_MAX];
};

static void list_moves(struct moves *moves, const struct shard_map *before,
                       const struct shard_map *after)
{
    uint16_t slots[SLOT_COUNT];
    moves->count = list_moved_slots(before, after, slots);
    for (uint32_t i = 0; i < moves->count; i++)
        moves->items[i] = (struct move){.slot = slots[i],
                                        .source = before->slot_shard[slots[i]],
                                        .target = after->slot_shard[slots[i]],
                                        .left_kb = SLOT_KB};
    for (size_t i = 0; i < after->shard_count; i++)
        moves->map_ms[i] = draw(RELOAD_MS);
}

/* May the move begin? A shard looks for slots at its ticks. */
static bool may_begin(const struct moves *moves, const struct move *move, uint32_t now_ms)
{
    return now_ms >= moves->map_ms[move->source] && now_ms >= moves->map_ms[move->target] &&
           (now_ms - moves->map_ms[move->source]) % TICK_MS < STEP_MS &&
           moves->sending[move->source] < MOVES_AT_ONCE;
}

static void copy_step(struct moves *moves, struct move *move, uint32_t now_ms)
{
    double out = (double)RATE_KB_S / moves->sending[move->source];
    double in = (double)RATE_KB_S / moves->getting[move->target];
    move->left_kb -= (out < in ? out : in) * STEP_MS / 1000;
    if (move->left_kb > 0)
        return;
    move->phase = MOVE_HANDS_OVER;
    move->handed_ms = now_ms + (SYNCS_OF_MOVE * SYNC_US + TRIPS_OF_MOVE * ROUND_TRIP_US) / 1000;
}

static void hand_over(struct moves *moves, struct move *move, struct truth *truth)
{
    move->phase = MOVE_ENDED;
    moves->ended++;
    moves->sending[move->source]--;
    moves->getting[move->target]--;
    truth->owner[move->slot] = move->target;
    truth->epoch[move->slot]++;
}

static void step_moves(struct moves *moves, struct truth *truth, uint32_t now_ms)
{
    for (uint32_t i = 0; i < moves->count; i++) {
        struct move *move = &moves->items[i];
        if (move->phase == MOVE_WAITS && may_begin(moves, move, now_ms)) {
            move->phase = MOVE_COPIES;
            moves->sending[move->source]++;
            moves->getting[move->target]++;
        }
        if (move->phase == MOVE_COPIES)
            copy_step(moves, move, now_ms);
        else if (move->phase == MOVE_HANDS_OVER && now_ms >= move->handed_ms)
            hand_over(moves, move, truth);
    }
}

/* When the last shard knows the last new owner: each asks each other one every ASK_S, at a time of its own. */
static double all_shards_know_s(const struct moves *moves, size_t shards)
{
    uint32_t last_ms = 0;
    for (uint32_t i = 0; i < moves->count; i++)
        for (size_t shard = 0; shard < shards; shard++) {
            uint32_t handed_ms = moves->items[i].handed_ms;
            uint32_t known_ms = handed_ms + draw(ASK_S * 1000) + ROUND_TRIP_US / 1000;
            last_ms = known_ms > last_ms ? known_ms : last_ms;
        }
    return last_ms / 1e3;
}

/* ---- proxies ---- */

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
    struct shard_map *map;  /* by which it routes */
    struct shard_map *wish; /* its file */
    uint32_t right_ms;      /* since when all its routes are right; 0: they are not */
    uint64_t bounces;
    uint64_t merges;
    uint64_t merge_us;
};

static void learn(struct watcher *proxy, const struct bounce *bounce)
{
    uint64_t version;
    const struct route_source source = {.map = proxy->map,
                                        .shard = shard_map_find(proxy->map, bounce->slot)};
    proxy->bounces++;
    if (!routes_learn(proxy->routes, &source, bounce, &version))
        return;
    uint64_t begun = clock_mono_us();
    struct shard_map *map = routes_merge(proxy->routes, proxy->wish, &version);
    proxy->merge_us += clock_mono_us() - begun;
    proxy->merges++;
    shard_map_unref(proxy->map);
    proxy->map = map;
}

/* Requests of one step, for random slots. */
static void play_requests(struct watcher *proxy, const struct truth *truth,
                          const struct shard_map *names)
{
    for (int i = 0; i < REQUESTS_S * STEP_MS / 1000; i++) {
        uint16_t slot = (uint16_t)draw(SLOT_COUNT);
        const char *asked = proxy->map->shards[shard_map_find(proxy->map, slot)].name;
        if (strcmp(asked, names->shards[truth->owner[slot]].name) == 0)
            continue;
        const struct bounce bounce = bounce_of(truth, names, slot);
        learn(proxy, &bounce);
    }
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

struct world {
    struct truth truth;
    struct moves moves;
    struct shard_map *before, *after;
    struct watcher *proxies;
    size_t proxy_count;
    uint32_t now_ms;
    uint64_t shown
        [2]; /* bounces at the last line of the table, of proxies with the new and the old map */
    uint32_t shown_ms;
};

static void make_world(struct world *world, size_t shards, size_t added)
{
    static uint64_t nothing[SLOT_COUNT];
    static uint64_t weight[SLOT_COUNT];
    bool *may_own = calloc(shards + added, sizeof *may_own);
    CHECK(may_own);
    memset(may_own, 1, shards + added);
    world->before = new_map(shards + added, 1);
    world->after = new_map(shards + added, 2);
    spread_slots(world->before, shards);
    rebalance_weights(nothing, weight);
    uint64_t begun = clock_mono_us();
    rebalance(world->before, world->after, may_own, weight);
    double rebalance_ms = (double)(clock_mono_us() - begun) / 1e3;
    free(may_own);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        world->truth.owner[slot] = world->before->slot_shard[slot];
        world->truth.epoch[slot] = 1;
    }
    list_moves(&world->moves, world->before, world->after);
    printf("%zu shards, %zu more: %u slots of %d MB move; rebalance() took %.0f ms\n", shards,
           added, world->moves.count, SLOT_KB / 1024, rebalance_ms);
}

/* Every second proxy keeps the map of before. */
static void make_proxies(struct world *world, size_t count)
{
    world->proxies = calloc(count, sizeof *world->proxies);
    world->proxy_count = count;
    CHECK(world->proxies);
    for (size_t i = 0; i < count; i++) {
        struct watcher *proxy = &world->proxies[i];
        proxy->routes = routes_new();
        proxy->wish = i % 2 ? world->before : world->after;
        proxy->map = shard_map_ref(proxy->wish);
    }
}

static void show_progress(struct world *world)
{
    uint64_t sums[2] = {0};
    for (size_t i = 0; i < world->proxy_count; i++)
        sums[i % 2] += world->proxies[i].bounces;
    double requests = (double)(world->now_ms - world->shown_ms) / 1e3 * REQUESTS_S *
                      (double)world->proxy_count / 2 / 1e6;
    printf("%6.0f s %10u %14.0f a million %14.0f a million\n", world->now_ms / 1e3,
           world->moves.count - world->moves.ended, (double)(sums[0] - world->shown[0]) / requests,
           (double)(sums[1] - world->shown[1]) / requests);
    memcpy(world->shown, sums, sizeof sums);
    world->shown_ms = world->now_ms;
}

/* Are the routes of all proxies right? Notes since when. */
static bool are_routes_right(struct world *world)
{
    bool is_right = world->moves.ended == world->moves.count;
    for (size_t i = 0; is_right && i < world->proxy_count; i++) {
        struct watcher *proxy = &world->proxies[i];
        if (!proxy->right_ms && !wrong_routes(proxy, &world->truth, world->after))
            proxy->right_ms = world->now_ms;
    }
    for (size_t i = 0; i < world->proxy_count; i++)
        is_right = is_right && world->proxies[i].right_ms;
    return is_right;
}

static void play(struct world *world)
{
    bool is_right = false;
    printf("%8s %10s %22s %22s\n", "time", "moves left", "bounces, new map", "bounces, old map");
    while (!is_right && world->now_ms < TIME_MAX_S * 1000) {
        world->now_ms += STEP_MS;
        step_moves(&world->moves, &world->truth, world->now_ms);
        for (size_t i = 0; i < world->proxy_count; i++)
            play_requests(&world->proxies[i], &world->truth, world->after);
        if (world->now_ms % 1000)
            continue;
        is_right = are_routes_right(world);
        uint32_t second = world->now_ms / 1000;
        if (second <= 3 || second % 10 == 0 || is_right)
            show_progress(world);
    }
}

/* The time at which the proxies with the new (0) or the old map (1) had all routes right. */
static double right_s(const struct world *world, size_t which)
{
    uint32_t last_ms = 0;
    for (size_t i = which; i < world->proxy_count; i += 2)
        if (world->proxies[i].right_ms > last_ms)
            last_ms = world->proxies[i].right_ms;
    return last_ms / 1e3;
}

static void print_times(const struct world *world)
{
    uint32_t last_ms = 0;
    for (uint32_t i = 0; i < world->moves.count; i++)
        if (world->moves.items[i].handed_ms > last_ms)
            last_ms = world->moves.items[i].handed_ms;
    printf("the last slot is handed over after      %12.1f s\n", last_ms / 1e3);
    printf("all shards know all owners after        %12.1f s\n",
           all_shards_know_s(&world->moves, world->after->shard_count));
    printf("proxies with the new map are right after%12.1f s\n", right_s(world, 0));
    printf("proxies with the old map are right after%12.1f s   (%d requests a second each)\n",
           right_s(world, 1), REQUESTS_S);
}

static void print_proxies(const struct world *world, size_t heap)
{
    uint64_t bounces[2] = {0};
    uint64_t merges = 0;
    uint64_t merge_us = 0;
    for (size_t i = 0; i < world->proxy_count; i++) {
        bounces[i % 2] += world->proxies[i].bounces;
        merges += world->proxies[i].merges;
        merge_us += world->proxies[i].merge_us;
    }
    double half = (double)world->proxy_count / 2;
    printf("bounces of a proxy, new map, old map    %12.1f   %.1f   (%u slots moved)\n",
           (double)bounces[0] / half, (double)bounces[1] / half, world->moves.count);
    printf("a new map from a bounce                 %12.0f µs, %.0f times a proxy\n",
           merges ? (double)merge_us / (double)merges : 0,
           (double)merges / (double)world->proxy_count);
    printf("memory of a proxy for routes and map    %12.0f KiB\n",
           (double)(mallinfo2().uordblks - heap) / (double)world->proxy_count / 1024);
}

static void free_world(struct world *world)
{
    for (size_t i = 0; i < world->proxy_count; i++) {
        routes_free(world->proxies[i].routes);
        shard_map_unref(world->proxies[i].map);
    }
    shard_map_unref(world->before);
    shard_map_unref(world->after);
    free(world->proxies);
}

int main(int argc, char **argv)
{
    static struct world world;
    size_t shards = argc > 1 ? (size_t)atoi(argv[1]) : 1000;
    size_t added = argc > 2 ? (size_t)atoi(argv[2]) : 24;
    size_t proxies = argc > 3 ? (size_t)atoi(argv[3]) : 100;
    random_state = argc > 4 ? (uint64_t)atoi(argv[4]) : 1;
    CHECK(shards > 0 && shards + added <= SHARD_COUNT_MAX && proxies >= 2 && proxies % 2 == 0);
    make_world(&world, shards, added);
    size_t heap = mallinfo2().uordblks;
    make_proxies(&world, proxies);
    play(&world);
    print_times(&world);
    print_proxies(&world, heap);
    print_exchange(&world.truth, shards + added);
    free_world(&world);
    return 0;
}
