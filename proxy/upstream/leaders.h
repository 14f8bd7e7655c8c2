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
 * open because its machine hangs. A leader whose address shards.ini has dropped is watched until another copy leads, also if one address is
 * left. A copy is believed about itself only, so one that lies can only take its own shard's requests, which it
 * could also get by its place in the map.
 */
#pragma once

#include "proxy/core/routes.h"

struct leaders;
struct loop;
struct proxy_snapshot;

/* On the main thread. Both may be called with what was said before. */
struct leaders_events {
    /* a copy says that it leads */
    void (*on_found)(void *owner, const struct route_leader *leader);
    /* a copy says that it does not lead; is_lost: it has not answered several times */
    void (*on_ended)(void *owner, const char *shard, const char *address, bool is_lost);
};

/* On the main thread, as all functions. */
struct leaders *leaders_new(struct loop *loop, const struct leaders_events *events, void *owner);
/* Watches the copies of shards that have several addresses in snapshot->map. Connections to copies that were watched before stay. May be
 * called in the events, if it is with the same wish. */
void leaders_configure(struct leaders *leaders, struct proxy_snapshot *snapshot);
/* Closes all connections; later calls of leaders_configure do nothing. Must be called before the loop ends. NULL is allowed. */
void leaders_stop(struct leaders *leaders);
void leaders_free(struct leaders *leaders); /* NULL is allowed */
