/*
 * map_truth.h - the state of the slots as the shards report it: their owners, and the moves that are under way.
 *
 *   wish    the shard map of this proxy                    ┐
 *   truth   replies of all shards to SCREE OWNERS ─► owner  ├─► difference: slots that the shards still have to move
 *           replies of all shards to SCREE MOVES ─► moves  ┘
 *
 * A shard's report about its own slots takes precedence over what other shards report about them. So if others name a shard as
 * the owner of a slot, and its own report does not have the slot, the slot has no known owner. Owners that are not in the wish are
 * shards that were removed from the map.
 */
#pragma once

#include "shared/out.h"
#include "shared/shard_map.h"

struct request;

enum { MAP_REASON_MAX = 160 };

/* A shard of the wish. */
struct map_shard {
    bool has_owners;    /* it has replied to OWNERS */
    bool has_moves;     /* it has replied to MOVES: the fields below are valid */
    uint64_t map_epoch; /* of its map */
    uint64_t map_hash;  /* shard_map_slots_hash of its map */
    uint64_t to_send, to_get;
    bool is_paused;
    bool is_settled;
    uint32_t owned;              /* slots that it owns */
    char reason[MAP_REASON_MAX]; /* why it has not replied, or why it moves nothing */
};

enum map_role { MAP_SOURCE, MAP_TARGET };

struct map_move {
    uint64_t id;
    enum map_role role; /* of the shard that has replied this */
    uint32_t shard;     /* index in the wish */
    char peer[SHARD_NAME_MAX + 1];
    unsigned first, last;
    char state[24];
    uint64_t keys, bytes, done_bytes, tail_bytes, rate, since_ms;
    char reason[MAP_REASON_MAX];
};

struct map_truth {
    struct shard_map *wish;
    /* without addresses; slots may be SHARD_NONE: the owner is not known */
    struct shard_map *owners;
    uint64_t epoch[SLOT_COUNT]; /* of the owner */
    bool is_told[SLOT_COUNT];   /* the owner itself has reported that it owns the slot */
    struct map_shard *shards;   /* [wish->shard_count] */
    struct map_move *moves;     /* those that sources report, and those that only targets report */
    size_t moves_count;
    unsigned twice; /* slots that two shards report as their own */
};

/* Adds a reference to the wish. */
struct map_truth *map_truth_new(struct shard_map *wish);
/* NULL is allowed. */
void map_truth_free(struct map_truth *truth);
/* The reply of a shard of the wish, one frame; or the reason, if it has not replied. */
void map_truth_add_owners(struct map_truth *truth, uint32_t shard, struct bytes frame);
void map_truth_add_moves(struct map_truth *truth, uint32_t shard, struct bytes frame);
/* All replies to a request that sent OWNERS, then MOVES, to all shards (request_fan_out_each), then map_truth_complete. The
 * map may have changed since: shards are found by name. */
void map_truth_add_all(struct map_truth *truth, const struct request *request);
/* To be called when all replies were added: removes moves that both sides report, and owners that have lost the slot. */
void map_truth_complete(struct map_truth *truth);

/* Shards that have not replied. */
unsigned map_truth_silent(const struct map_truth *truth);
/* Does the shard use the same map as the wish? */
bool map_truth_same_map(const struct map_truth *truth, uint32_t shard);
/* All shards have replied, use this map, own what it gives them, and move nothing. If not, the first reason is in
 * reason[MAP_REASON_MAX]. */
bool map_truth_settled(const struct map_truth *truth, char reason[MAP_REASON_MAX]);
/* It owns no slots, the wish and its own map give it none, and all its moves have ended: its process may stop. */
bool map_truth_drained(const struct map_truth *truth, uint32_t shard);
/* Seconds that a move still takes at its present rate; -1: not known. */
int64_t map_move_eta_s(const struct map_move *move);
/* The lines of SCREE MAP STATUS, "name:value\r\n". `map` has the shards of the wish as its first ones, and the addresses that are
 * shown. */
void map_truth_print(const struct map_truth *truth, const struct shard_map *map, struct out *out);
