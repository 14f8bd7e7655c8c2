/*
 * bounced.h - follows bounces: a request that a shard sent back is sent to the shard that owns its keys (shared/bounce.h).
 *
 *   shard a ── BOUNCE slot 5, owner b, SET k 1 ──► learned (routes.h) ──► the worker gets the new map
 *                                                        │
 *   client's waiting: [SET k 1] [GET k] … ◄──────────────┘
 *                        └─ routed by the new map, oldest first ──► shard b
 *
 * (1) A request keeps its place in its client's pipeline, and a part its place in its request, so replies stay in order and are
 *     merged as before. Keys that are on several shards now are sent with SCREE ACROSS if the command may have such keys.
 * (2) Order. A client whose request has bounced sends nothing new until all its requests are answered (LABEL_BOUNCED). The shard
 *     gives back the requests behind the first one, too, because they may be of the same client. So when the first bounce comes, all
 *     clients with requests in flight on that connection send nothing new. SCREE BOUNCES SEEN precedes what other clients send: the shard
 *     runs that again (upstream_note_bounce). Bounced requests are sent again in their order, and at any time all that are in flight are on one connection:
 *     the next shard's turn comes when they are answered. When a bounce comes on that connection, the client sends nothing again until
 *     they are answered or have bounced (client->bounced.drains). Parts that bounce again go before those that were not sent again since.
 * (3) A request follows BOUNCE_HOPS_MAX bounces, then its client gets TRYAGAIN. It may be sent again, as nothing was executed.
 *     One that bounces because it must wait (backend/dispatch/line.h) is sent on a connection of its own; one that was behind such a
 *     request on the same connection again.
 * (4) A blocking command waits on at the new shard for the rest of its time. If its keys are on several shards now, it begins
 *     again as such a command (blocked_parts.c).
 * (5) WATCH moves its dedicated connection to the new shard, if it watches nothing else.
 *
 * A client that has left loses its bounced requests, as it does not wait for their replies. So do requests of the proxy itself.
 */
#pragma once

#include "proxy/core/client.h"
#include "shared/bounce.h"

struct upstream;

enum { BOUNCE_HOPS_MAX = 5 };

/* client_events.bounced; `block` holds the texts of the bounce. */
void bounced_take(struct upstream *upstream, struct part *part, struct block *block,
                  const struct bounce *bounce);
/* client_events.followed */
void bounced_followed(struct client *client);
/* To be called when the worker has a new map: sends the clients' bounced requests again. */
void bounced_updated(struct proxy_worker *worker);
/* To be called when the client was closed: drops its bounced requests. */
void bounced_leave(struct client *client);
/* Once a second: forgets routes to shards that have not been reachable for some time. */
void bounced_slow(struct proxy_worker *worker);
