#include "shared/map_change.h"

#include "shared/check.h"

#include <stdlib.h>

/* same[i]: index in `after` of shard i of `before`, or -1. */
static int *match_names(const struct shard_map *before, const struct shard_map *after)
{
    int *same = calloc(before->shard_count + 1, sizeof *same);
    CHECK(same);
    for (size_t i = 0; i < before->shard_count; i++)
        same[i] = shard_map_named(after, bytes_of(before->shards[i].name));
    return same;
}

bool map_change_keeps(const struct shard_map *before, const struct shard_map *after, uint16_t slot)
{
    uint16_t old = before->slot_shard[slot];
    return old != SHARD_NONE &&
           strcmp(before->shards[old].name, after->shards[after->slot_shard[slot]].name) == 0;
}

/* Counts the slots of each pair of shards; the row after those of `before` is for slots without a shard. */
static uint32_t *count_flows(const struct shard_map *before, const struct shard_map *after,
                             const int *same)
{
    uint32_t *pairs = calloc((before->shard_count + 1) * after->shard_count, sizeof *pairs);
    CHECK(pairs);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        uint16_t old = before->slot_shard[slot];
        size_t row = old == SHARD_NONE ? before->shard_count : old;
        if (old == SHARD_NONE || same[old] != after->slot_shard[slot])
            pairs[row * after->shard_count + after->slot_shard[slot]]++;
    }
    return pairs;
}

struct map_change map_change_find(const struct shard_map *before, const struct shard_map *after)
{
    struct map_change change = {0};
    size_t cells = (before->shard_count + 1) * after->shard_count;
    int *same = match_names(before, after);
    uint32_t *pairs = count_flows(before, after, same);
    for (size_t i = 0; i < cells; i++)
        change.count += pairs[i] > 0;
    change.flows = calloc(change.count + 1, sizeof *change.flows);
    CHECK(change.flows);
    change.count = 0;
    for (size_t i = 0; i < cells; i++) {
        if (!pairs[i])
            continue;
        size_t from = i / after->shard_count;
        bool is_known = from < before->shard_count;
        change.flows[change.count++] =
            (struct map_flow){.from = is_known ? before->shards[from].name : NULL,
                              .to = after->shards[i % after->shard_count].name,
                              .slots = pairs[i]};
        change.slots += pairs[i];
        change.unknown += is_known ? 0 : pairs[i];
    }
    free(pairs);
    free(same);
    return change;
}

void map_change_free(struct map_change *change)
{
    free(change->flows);
    *change = (struct map_change){0};
}

void map_change_print(const struct map_change *change, char *text, size_t size)
{
    enum { REST_MAX = 32 }; /* " and 1048576 more" */
    size_t len = 0;
    CHECK(size > REST_MAX);
    if (!change->count)
        (void)snprintf(text, size, "nothing");
    for (size_t i = 0; i < change->count; i++) {
        const struct map_flow *flow = &change->flows[i];
        char item[2 * SHARD_NAME_MAX + 64];
        int item_len = snprintf(item, sizeof item, "%s%u slot%s from %s to %s", i ? ", " : "",
                                flow->slots, flow->slots == 1 ? "" : "s",
                                flow->from ? flow->from : "an unknown owner", flow->to);
        if (len + (size_t)item_len + REST_MAX > size) {
            (void)snprintf(text + len, size - len, " and %zu more", change->count - i);
            return;
        }
        memcpy(text + len, item, (size_t)item_len + 1);
        len += (size_t)item_len;
    }
}
