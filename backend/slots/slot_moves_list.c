/*
 * slot_moves_list.c - what SCREE MOVES prints: a line for the partition, then one for each move.
 */
#include "backend/slots/slot_moves.h"

#include "backend/context/partition.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/peer/peer_set.h"
#include "backend/session/space_bytes.h"
#include "backend/slots/slot_moves_inner.h"
#include "backend/slots/slot_table.h"
#include "config/shards_file.h"

#include <inttypes.h>
#include <stdio.h>

/* What is left to do, by slots. */
struct difference {
    uint32_t wanted, to_send, to_get;
};

static struct difference count_difference(const struct slot_moves *moves)
{
    const struct partition *partition = moves->host.partition;
    const struct shard_map *map = peer_set_map(partition->shards.peers);
    const char *own = peer_set_shard(partition->shards.peers);
    struct difference difference = {0};
    int index = map ? shard_map_named(map, bytes_of(own)) : -1;
    for (unsigned slot = 0; map && slot < SLOT_COUNT; slot++) {
        bool is_wanted = shard_map_find(map, (uint16_t)slot) == index;
        bool is_here = slot_is_served(partition, (uint16_t)slot);
        difference.wanted += is_wanted;
        difference.to_send += is_here && !is_wanted;
        difference.to_get += is_wanted && !is_here;
    }
    return difference;
}

static uint32_t count_owned(const struct slot_moves *moves)
{
    const struct slot_table *table = moves->host.partition->shards.slots;
    return slot_table_count(table, SLOT_OWNED) + slot_table_count(table, SLOT_EXPORTING);
}

static void print_partition(struct slot_moves *moves, void (*on_line)(void *, const char *),
                            void *owner)
{
    char line[1024];
    char damaged[64];
    const struct partition *partition = moves->host.partition;
    const struct shard_map *map = peer_set_map(partition->shards.peers);
    const struct difference difference = count_difference(moves);
    uint32_t running = count_moves(&moves->sources) + count_moves(&moves->targets);
    bool is_settled = !running && !difference.to_send && !difference.to_get;
    const char *reason = difference.to_send ? moves_reason_to_wait(moves) : NULL;
    uint16_t first;
    uint16_t last;
    unsigned from = 0;
    if (!reason && moves->damaged_ms && slot_set_next_run(&moves->damaged, &from, &first, &last)) {
        (void)snprintf(damaged, sizeof damaged, "slot %u has a damaged metadata row, see the log",
                       first);
        reason = damaged;
    }
    (void)snprintf(line, sizeof line,
                   "partition=%u shard=%s map_epoch=%" PRIu64 " map_hash=%016" PRIx64
                   " owned=%u wanted=%u to_send=%u to_get=%u moves=%u paused=%s settled=%s "
                   "reason=%s",
                   partition->index, peer_set_shard(partition->shards.peers), map ? map->epoch : 0,
                   map ? shard_map_slots_hash(map) : 0, count_owned(moves), difference.wanted,
                   difference.to_send, difference.to_get, running,
                   moves->host.is_paused ? "yes" : "no", is_settled ? "yes" : "no",
                   reason ? reason : "");
    on_line(owner, line);
}

/* What SCREE MOVES shows of a move, at the source and at the target. */
struct shown_move {
    const struct move_slots *slots;
    const struct move_figures *figures;
    const char *role, *peer, *state, *reason;
    uint64_t tail_bytes;
};

static void print_moving_slots(struct slot_moves *moves, const struct shown_move *move,
                               void (*on_line)(void *, const char *), void *owner)
{
    char line[1024];
    uint64_t keys = 0;
    uint64_t expires = 0;
    uint64_t since_ms = moves_now_ms(moves) - move->figures->begun_ms;
    space_count_slots(moves->host.partition->spaces, move->slots->first, move->slots->last, &keys,
                      &expires);
    (void)snprintf(
        line, sizeof line,
        "move=%" PRIu64 " role=%s peer=%s slots=%u-%u state=%s keys=%" PRIu64 " bytes=%" PRIu64
        " done_bytes=%" PRIu64 " tail_bytes=%" PRIu64 " rate=%" PRIu64 " since_ms=%" PRIu64
        " still_ms=%" PRIu64 " reason=%s",
        move->slots->id, move->role, move->peer, move->slots->first, move->slots->last, move->state,
        keys, slot_bytes_estimate(moves->host.partition, move->slots->first, move->slots->last),
        move->figures->bytes, move->tail_bytes,
        since_ms ? move->figures->bytes * 1000 / since_ms : 0, since_ms,
        moves_now_ms(moves) - move->figures->moved_ms, move->reason);
    on_line(owner, line);
}

uint32_t slot_moves_list(struct slot_moves *moves, void (*on_line)(void *owner, const char *line),
                         void *owner)
{
    print_partition(moves, on_line, owner);
    for (struct list *at = moves->sources.next; at != &moves->sources; at = at->next) {
        const struct move_source *move = source_at(at);
        const struct shown_move shown = {&move->slots,
                                         &move->figures,
                                         "source",
                                         move->target,
                                         move_source_states[move->state].word,
                                         move->reason,
                                         move_source_tail(move)};
        print_moving_slots(moves, &shown, on_line, owner);
    }
    for (struct list *at = moves->targets.next; at != &moves->targets; at = at->next) {
        const struct move_target *move = target_at(at);
        const struct shown_move shown = {&move->slots,
                                         &move->figures,
                                         "target",
                                         move->source,
                                         move_target_states[move->state].word,
                                         "",
                                         0};
        print_moving_slots(moves, &shown, on_line, owner);
    }
    return 1 + count_moves(&moves->sources) + count_moves(&moves->targets);
}
