/*
 * leaders.h - finds the copy that leads each shard with several addresses, and hears when another one does (shared/leading.h).
 *
 *   main thread, for each address of such a shard:
 *
 *     WAITING ──backoff──► ASKING ◄──LEADER_FRAME, or health-interval is over── KNOWN
 *        ▲                   │ └───────reply to SCREE SELF LEADS──────────────────►│
 *        └── lost, refused, another shard's, no reply within connect-timeout ◄─────┘
 *
 *   the reply says "role leader" ─► found(leader) ─► routes_lead ─► a new map for all workers ─► node_retarget
 *
 * The connections are open all the time, so a proxy hears at once of a copy that takes over, also when the old leader's connections stay
 * open because its machine hangs. The leader may be at an address that shards.ini has dropped, or does not have yet: the one that a copy
 * of the map names is watched, too, whether it answered before or not, for as long as that copy names it. So a leader that a map has
 * dropped is found again after a break, and by a proxy that was started since. A shard with one address is watched when a worker has
 * found a copy there that does not lead.
 *
 * A copy is believed about itself only, and about where to look for its leader, which must say itself that it leads. So one that lies can
 * only take its own shard's requests, which it could also get by its place in the map.
 */
#pragma once

#include "proxy/core/routes.h"

struct leaders;
struct loop;
struct proxy;
struct proxy_snapshot;

/* On the main thread. All may be called with what was said before. */
struct leaders_events {
    /* a copy says that it leads */
    void (*on_found)(void *owner, const struct route_leader *leader);
    /* a copy says that it does not lead; is_lost: it has not answered several times, its term is not known */
    void (*on_ended)(void *owner, const struct route_leader *copy, bool is_lost);
    /* a copy says in which zone it is; "": in none, or it is not watched any more */
    void (*on_zone)(void *owner, const char *address, const char *zone);
};

/* On the main thread, as all functions but leaders_look_for. */
struct leaders *leaders_new(struct loop *loop, const struct leaders_events *events, void *owner);
/* Watches the copies of shards that have several addresses in snapshot->map, and the leaders that they name. Connections to copies that were watched before stay. May be
 * called in the events, if it is with the same wish. */
void leaders_configure(struct leaders *leaders, struct proxy_snapshot *snapshot);
/* A copy that does not lead is at the only address of the shard: it is watched from now on. Any thread. */
void leaders_look_for(const struct proxy *proxy, const char *shard);
/* Closes all connections; later calls of leaders_configure do nothing. Must be called before the loop ends. NULL is allowed. */
void leaders_stop(struct leaders *leaders);
void leaders_free(struct leaders *leaders); /* NULL is allowed */
