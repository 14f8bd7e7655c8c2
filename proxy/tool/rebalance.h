/*
 * rebalance.h - a shard map that gives every shard the same share, with as few moved slots as possible. Pure.
 *
 *   before   a ████████████   b ████████████   c ████████████   d            share: the sum of the slots' weights
 *   after    a █████████      b █████████      c █████████      d █████████  d gets the ends of a, b and c
 *
 * (1) A shard above the average gives slots as long as it stays above the average: first those of more than four times the
 *     average weight, so that few slots move, then its highest ones, so that ranges stay long. A shard that may own no slots
 *     gives all.
 * (2) Shards below the average get these slots in their order, so that they form long ranges.
 * (3) What is left goes to the shard with the least. Then slots move from the shard with the most to that with the least, until
 *     they differ by less than an average slot, or no slot is light enough.
 *
 * So no two shards differ by more than the heaviest slot. A slot that is heavier than the average stays alone,
 * because slots cannot be split. The same arguments give the same map.
 */
#pragma once

#include "shared/shard_map.h"

/* Weights from measured figures such as numbers of keys. An empty slot has a quarter of the average weight, because it will
 * get keys: otherwise one shard could own most slots. All are 1 if nothing was measured. Their sum fits in 50 bits. */
void rebalance_weights(const uint64_t measured[SLOT_COUNT], uint64_t weight[SLOT_COUNT]);

/* Gives every slot a shard of `after`, which has its shards, in any order, but no slots yet. may_own[i]: shard i may own
 * slots; at least one may. `before` is complete. Every weight is at least 1. */
void rebalance(const struct shard_map *before, struct shard_map *after, const bool *may_own,
               const uint64_t weight[SLOT_COUNT]);
