/*
 * routes.h - the owners of slots that backends have named in bounces, the copies that lead, and the map by which requests are routed.
 *
 *   shards.ini ──► the wish ──┐
 *                             ├─ routes_merge ──► map of the snapshot ──► all workers
 *   bounces ──► learned ──────┤  (a learned owner has precedence)
 *   leaders.h ──► leaders ────┘  (the leader's address is the first of its shard)
 *
 * shards.ini is a wish: a slot's owner is the shard whose records say so (backend/slots/slot_owners.h). A proxy has the
 * wish at first, and learns from bounces where it is not true. Of two owners the one with the higher epoch counts, so what was
 * learned stays in force when shards.ini is reloaded, unless the owner is no longer in it. An owner that shards.ini does not name is
 * added to the map, with the address of the bounce, for as long as it owns a slot. An owner that is not reachable is forgotten after
 * a while, since an operator may have given its slots to others (SCREE OWNERS FORCE); if it still is the owner, it is learned again.
 *
 * A shard is believed about the slots that it was asked for, and about no others: what it says of the slots that the map gives to other
 * shards is left out. So one that is broken, or in other hands, can give away only its own slots.
 *
 * A shard with several addresses has several copies, and requests go to the one that says that it leads. If two copies say so, the one
 * with the higher generation gets them, and with equal generations the one with the higher term (shared/leading.h): so an old leader that
 * has not heard of its successor gets no requests. A copy may correct what it has said itself. Until a copy says that it leads, requests
 * go to the first address in shards.ini.
 *
 * Memory: 10 bytes per slot, and ROUTE_SHARDS_MAX shards.
 */
#pragma once

#include "shared/bounce.h"
#include "shared/shard_map.h"

struct routes; /* of a proxy; any thread */

struct routes *routes_new(void);
void routes_free(struct routes *routes);

/* The shard of a bounce: its place in the map by which requests are routed. */
struct route_source {
    const struct shard_map *map;
    uint32_t shard;
};

/* Learns the owner that a bounce of the source names, of those slots that the map gives to the source. *version: a map merged with at
 * least this version has it. False: nothing was learned, because they are not slots of the source, a newer owner is known, or there are
 * too many shards. */
bool routes_learn(struct routes *routes, const struct route_source *source,
                  const struct bounce *bounce, uint64_t *version);
/* What a copy says of itself: the term in which it leads its shard, or follows. */
struct route_leader {
    const char *shard;
    const char *address;
    uint32_t generation;
    uint64_t term;
};

/* A copy says that it leads. True: requests for the shard go to another address now, in maps that are merged from now on. False: they do
 * already, or a newer leader is known. The address is one of the wish, that of the leader so far, or one that a copy of the wish names. */
bool routes_lead(struct routes *routes, const struct shard_map *wish,
                 const struct route_leader *leader);
/* The copy says that it does not lead; is_lost: it does not answer, and its term is not read. True: requests go to the wish's first address
 * now, because the wish does not have the one of the leader. */
bool routes_end_lead(struct routes *routes, const struct route_leader *copy, bool is_lost);
/* Has a copy of each shard with several addresses said that it leads? */
bool routes_has_leaders(struct routes *routes, const struct shard_map *wish);
/* Forgets what was learned about slots of this shard. True: something was forgotten. */
bool routes_forget(struct routes *routes, struct bytes shard);
/* Drops the routes to shards that `before` names and `now` does not: the operator has removed them, so their processes may be gone. If
 * one of them still owns slots, a bounce adds the route again. Their leaders are forgotten, too. */
void routes_forget_removed(struct routes *routes, const struct shard_map *before,
                           const struct shard_map *now);
/* The map for requests, with a reference: `wish` itself if nothing else is known. */
struct shard_map *routes_merge(struct routes *routes, struct shard_map *wish, uint64_t *version);
uint64_t routes_version(struct routes *routes);
/* Number of slots whose owner in `map` is another than in `wish`. */
uint32_t routes_count(const struct shard_map *map, const struct shard_map *wish);
