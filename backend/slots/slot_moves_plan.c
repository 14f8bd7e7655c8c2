/*
 * slot_moves_plan.c - which slots begin to move, and which moves the map no longer wishes.
 *
 *   slots:   0 … 99 ours │ 100 101 102 ─► b │ 103 104 ─► c │ 105 … ours         ─► the shard that the map wishes
 *                          └─── chunk ───┘    └─ chunk ─┘                        neighbours of one target, few keys together
 *
 * Nothing begins while there is a reason to wait (moves_reason_to_wait). Slots with a damaged row are left out for a minute.
 */
#include "backend/slots/slot_moves.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/keyspace/space.h"
#include "backend/peer/peer_set.h"
#include "backend/slots/slot_moves_inner.h"
#include "backend/slots/slot_owners.h"
#include "backend/slots/slot_table.h"

#include <stdlib.h>

enum {
    PLAN_MS = 500, /* between two looks for slots to move */
    KEYS_A_MOVE = 65536,
};

static const uint32_t NOT_BEGUN = STATE_BIT(SOURCE_STARTING) | STATE_BIT(SOURCE_BEGINNING);
/* The slots belong to the target, or soon will; what is left to do does not count as a move of migration-moves. */
static const uint32_t GIVEN_AWAY =
    STATE_BIT(SOURCE_ACTIVATING) | STATE_BIT(SOURCE_PURGING) | STATE_BIT(SOURCE_FINISHING);

/* May the slot begin to move? Until the record of a new move is durable, the table still has the one before. */
static bool can_move(const struct slot_moves *moves, unsigned slot)
{
    return !slot_set_has(&moves->taken, (uint16_t)slot) &&
           (!moves->damaged_ms || !slot_set_has(&moves->damaged, (uint16_t)slot));
}

static void note_taken_slots(struct slot_moves *moves)
{
    memset(&moves->taken, 0, sizeof moves->taken);
    for (struct list *at = moves->sources.next; at != &moves->sources; at = at->next)
        move_slots_add(&moves->taken, &source_at(at)->slots);
}

/* Slots to be moved together. */
struct chunk {
    uint16_t first, last;
    const char *target;
    uint64_t wish;
};

/* space_slot_fn */
static void add_slot_keys(void *owner, uint16_t slot, uint64_t keys)
{
    uint64_t *counts = owner;
    counts[slot] += keys;
}

/* The number of keys of each slot, on the heap. */
static uint64_t *keys_by_slot(const struct slot_moves *moves)
{
    uint64_t *counts = calloc(SLOT_COUNT, sizeof *counts);
    CHECK(counts);
    size_t cursor = 0;
    const struct space *space;
    while ((space = space_next(moves->host.partition->spaces, &cursor)))
        space_each_slot(space, add_slot_keys, counts);
    return counts;
}

/* Finds slots, from *slot on, that the map gives to another shard. False: there are none. */
static bool find_chunk(const struct slot_moves *moves, const uint64_t *counts, unsigned *slot,
                       struct chunk *chunk)
{
    const struct partition *partition = moves->host.partition;
    const struct slot_table *table = partition->shards.slots;
    const struct slot_owners *owners = partition->shards.owners;
    while (*slot < SLOT_COUNT &&
           (!can_move(moves, *slot) ||
            !(chunk->target = slot_owners_wish(owners, (uint16_t)*slot, &chunk->wish))))
        ++*slot;
    if (*slot == SLOT_COUNT)
        return false;
    const struct slot_record *record = slot_table_get(table, (uint16_t)*slot);
    uint64_t keys = counts[*slot];
    uint64_t wish;
    chunk->first = (uint16_t)*slot;
    do {
        chunk->last = (uint16_t)*slot;
        if (++*slot == SLOT_COUNT || *slot - chunk->first == MOVE_SLOTS_MAX)
            break;
        keys += counts[*slot];
    } while (keys <= KEYS_A_MOVE && can_move(moves, *slot) &&
             slot_record_equal(record, slot_table_get(table, (uint16_t)*slot)) &&
             slot_owners_wish(owners, (uint16_t)*slot, &wish) == chunk->target);
    return true;
}

static uint32_t count_sources(const struct slot_moves *moves)
{
    uint32_t count = 0;
    for (struct list *at = moves->sources.next; at != &moves->sources; at = at->next)
        count += !state_is_in(source_at(at)->state, GIVEN_AWAY);
    return count;
}

const char *moves_reason_to_wait(const struct slot_moves *moves)
{
    const struct partition *partition = moves->host.partition;
    if (moves->host.is_paused)
        return "paused by SCREE MOVES PAUSE";
    if (moves->is_held)
        return "a backup is being made";
    if (commit_is_failed(partition->commit, NULL))
        return "writes are refused at present";
    return slot_owners_wait(partition->shards.owners);
}

/* Does the map give any slot of this partition to another shard? */
static bool has_wishes(const struct slot_moves *moves)
{
    const struct slot_owners *owners = moves->host.partition->shards.owners;
    uint64_t wish;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        if (slot_owners_wish(owners, (uint16_t)slot, &wish))
            return true;
    return false;
}

void moves_plan(struct slot_moves *moves)
{
    struct chunk chunk;
    uint32_t room = moves->host.partition->snapshot->config.migration_moves;
    const struct shard_map *map = peer_set_map(moves->host.partition->shards.peers);
    uint32_t running = count_sources(moves);
    bool must_plan = moves_now_ms(moves) >= moves->plan_ms || running < moves->planned ||
                     (map && map->epoch != moves->planned_by);
    if (!must_plan || moves_reason_to_wait(moves))
        return;
    moves->plan_ms = moves_now_ms(moves) + PLAN_MS;
    moves->planned_by = map ? map->epoch : 0;
    moves->planned = running;
    if (!has_wishes(moves))
        return;
    note_taken_slots(moves);
    uint64_t *counts = running < room ? keys_by_slot(moves) : NULL;
    for (unsigned slot = 0; running < room && find_chunk(moves, counts, &slot, &chunk); running++) {
        struct move_source *move =
            move_source_new(&moves->host, chunk.first, chunk.last, chunk.target, chunk.wish);
        if (!move)
            break;
        list_push(&moves->sources, &move->link);
    }
    moves->planned = running;
    free(counts);
}

/* Has MOVE_BEGIN been sent, so that the target may have the move and the epoch of its map? */
static bool has_begun(const struct move_source *move)
{
    return !state_is_in(move->state, NOT_BEGUN) || move->kind;
}

/* Does the present map still wish the move?
 *
 * A move that has begun to copy goes on if the present map gives at least half of its slots to the target. If each new map ended it,
 * maps that come faster than slots are copied would make it begin again for ever. This is safe whatever the map says: two shards
 * never own a slot, because the owner releases it before the target owns it, with a higher epoch (move_source.h). Some slots may
 * arrive at the target although the present map gives them to another shard. The target's record has the epoch of the older map, by
 * which the move began, so the target moves them on by the present map.
 *
 * A move that has not begun gets the epoch of the present map. So the target would never move its slots on by this map, and the map
 * must give all of them to the target. */
static bool is_wished(const struct slot_moves *moves, const struct move_source *move)
{
    const struct slot_owners *owners = moves->host.partition->shards.owners;
    unsigned count = move->slots.last - move->slots.first + 1u;
    unsigned wished = slot_owners_wishes(owners, move->slots.first, move->slots.last, move->target);
    return has_begun(move) ? 2 * wished >= count : wished == count;
}

void moves_check_wishes(struct slot_moves *moves)
{
    const struct shard_map *map = peer_set_map(moves->host.partition->shards.peers);
    for (struct list *at = moves->sources.next; at != &moves->sources; at = at->next) {
        struct move_source *move = source_at(at);
        if (move_source_may_abort(move) && !is_wished(moves, move))
            move_source_abort(move, "the shard map has changed");
        else if (map && !has_begun(move))
            move->wish = map->epoch;
    }
}
