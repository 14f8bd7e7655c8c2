#include "proxy/tool/rebalance.h"

#include "shared/check.h"

#include <stdlib.h>

enum { EMPTY_PART = 4, HOT_TIMES = 4 };

static const uint64_t WEIGHT_SUM = UINT64_C(1) << 48;

void rebalance_weights(const uint64_t measured[SLOT_COUNT], uint64_t weight[SLOT_COUNT])
{
    double total = 0;
    uint64_t sum = 0;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        total += (double)measured[slot];
    double scale = total > 0 ? (double)WEIGHT_SUM / total : 0;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        weight[slot] = (uint64_t)((double)measured[slot] * scale);
        sum += weight[slot];
    }
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        weight[slot] += sum / SLOT_COUNT / EMPTY_PART + 1;
}

struct balance {
    const uint64_t *weight;
    const bool *may_own;
    size_t shards;
    size_t owners;              /* number of shards that may own slots */
    uint64_t total;             /* sum of all weights */
    uint64_t mean;              /* weight of the average slot, at least 1 */
    uint64_t *load;             /* [shards]: sum of its slots' weights */
    uint16_t owner[SLOT_COUNT]; /* SHARD_NONE: the slot is to be given to a shard */
    bool has_moved[SLOT_COUNT]; /* its shard is not the one of before */
};

static bool is_above_average(const struct balance *balance, uint64_t load)
{
    return load * balance->owners >= balance->total;
}

/* Is this load above the average by more than half an average slot? */
static bool is_far_above_average(const struct balance *balance, uint64_t load)
{
    uint64_t share = load * balance->owners;
    return share > balance->total && share - balance->total > balance->mean * balance->owners / 2;
}

static void take_slot(struct balance *balance, unsigned slot)
{
    balance->load[balance->owner[slot]] -= balance->weight[slot];
    balance->owner[slot] = SHARD_NONE;
    balance->has_moved[slot] = true;
}

static void give_slot(struct balance *balance, unsigned slot, size_t shard)
{
    CHECK(balance->may_own[shard]);
    balance->owner[slot] = (uint16_t)shard;
    balance->load[shard] += balance->weight[slot];
}

/* Leaves every slot at its shard, if that still exists. */
static void keep_slots(struct balance *balance, const struct shard_map *before,
                       const struct shard_map *after)
{
    int *same = calloc(before->shard_count + 1, sizeof *same);
    CHECK(same);
    for (size_t i = 0; i < before->shard_count; i++)
        same[i] = shard_map_named(after, bytes_of(before->shards[i].name));
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        CHECK(balance->weight[slot] > 0);
        CHECK(before->slot_shard[slot] != SHARD_NONE);
        int shard = same[before->slot_shard[slot]];
        balance->total += balance->weight[slot];
        balance->owner[slot] = SHARD_NONE;
        balance->has_moved[slot] = true;
        if (shard < 0 || !balance->may_own[shard])
            continue;
        give_slot(balance, slot, (size_t)shard);
        balance->has_moved[slot] = false;
    }
    balance->mean = balance->total / SLOT_COUNT;
    free(same);
}

/* (1) Takes the slots that have at least this weight. */
static void take_from_rich(struct balance *balance, uint64_t least)
{
    for (unsigned slot = SLOT_COUNT; slot-- > 0;) {
        uint16_t owner = balance->owner[slot];
        if (owner == SHARD_NONE || balance->weight[slot] < least)
            continue;
        if (is_far_above_average(balance, balance->load[owner]) &&
            is_above_average(balance, balance->load[owner] - balance->weight[slot]))
            take_slot(balance, slot);
    }
}

/* (2) The next shard, from `shard` on, that stays at or below the average with this slot; `shards`: none. */
static size_t find_room(const struct balance *balance, size_t shard, unsigned slot)
{
    while (shard < balance->shards &&
           (!balance->may_own[shard] ||
            (balance->load[shard] + balance->weight[slot]) * balance->owners > balance->total))
        shard++;
    return shard;
}

static void give_to_poor(struct balance *balance)
{
    size_t shard = 0;
    for (unsigned slot = 0; slot < SLOT_COUNT && shard < balance->shards; slot++) {
        if (balance->owner[slot] != SHARD_NONE)
            continue;
        size_t next = find_room(balance, shard, slot);
        if (next == balance->shards)
            continue; /* a heavy slot: a lighter one may have room */
        shard = next;
        give_slot(balance, slot, shard);
    }
}

static size_t find_extreme(const struct balance *balance, bool is_most)
{
    size_t found = balance->shards;
    for (size_t i = 0; i < balance->shards; i++) {
        if (!balance->may_own[i])
            continue;
        if (found == balance->shards || (is_most ? balance->load[i] > balance->load[found]
                                                 : balance->load[i] < balance->load[found]))
            found = i;
    }
    CHECK(found < balance->shards);
    return found;
}

/* The slot of shard `most` that evens it best with `least`, if possible one that has moved already; SLOT_COUNT: no slot
 * makes their difference smaller. */
static unsigned find_evening(const struct balance *balance, size_t most, size_t least)
{
    uint64_t gap = balance->load[most] - balance->load[least];
    uint64_t best = gap;
    unsigned found = SLOT_COUNT;
    for (unsigned slot = SLOT_COUNT; slot-- > 0;) {
        uint64_t weight = balance->weight[slot];
        if (balance->owner[slot] != most || weight >= gap)
            continue;
        uint64_t left = 2 * weight > gap ? 2 * weight - gap : gap - 2 * weight;
        bool is_freer = found < SLOT_COUNT && left == best && balance->has_moved[slot] &&
                        !balance->has_moved[found];
        if (left < best || is_freer) {
            best = left;
            found = slot;
        }
    }
    return found;
}

/* (3) Gives each slot that has no shard yet to the shard with the least; then moves slots from the shard with the most to that with the
 * least, until they differ by less than an average slot, or no slot is light enough. */
static void even_out(struct balance *balance)
{
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        if (balance->owner[slot] == SHARD_NONE)
            give_slot(balance, slot, find_extreme(balance, false));
    for (;;) { /* ends: the sum of the loads' squares decreases with every move */
        size_t most = find_extreme(balance, true);
        size_t least = find_extreme(balance, false);
        if (balance->load[most] - balance->load[least] <= balance->mean)
            return;
        unsigned slot = find_evening(balance, most, least);
        if (slot == SLOT_COUNT)
            return;
        take_slot(balance, slot);
        give_slot(balance, slot, least);
    }
}

void rebalance(const struct shard_map *before, struct shard_map *after, const bool *may_own,
               const uint64_t weight[SLOT_COUNT])
{
    struct balance *balance = calloc(1, sizeof *balance);
    unsigned taken;
    CHECK(balance);
    balance->weight = weight;
    balance->may_own = may_own;
    balance->shards = after->shard_count;
    balance->load = calloc(after->shard_count + 1, sizeof *balance->load);
    CHECK(balance->load);
    for (size_t i = 0; i < balance->shards; i++)
        balance->owners += may_own[i];
    CHECK(balance->owners > 0);
    keep_slots(balance, before, after);
    take_from_rich(balance, balance->mean * HOT_TIMES + 1);
    take_from_rich(balance, 0);
    give_to_poor(balance);
    even_out(balance);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        CHECK(shard_map_claim(after, balance->owner[slot], slot, slot, &taken));
    free(balance->load);
    free(balance);
}
