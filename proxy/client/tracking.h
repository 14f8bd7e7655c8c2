/*
 * tracking.h - CLIENT TRACKING through the proxy: a client that tracks has a connection of its own to every shard.
 *
 *   client ──GET k──► dedicated connection of k's shard ──►  the backend remembers: this connection has k
 *      ◄─[invalidate k]── dedicated connection ◄────────────  k was changed
 *
 * So the backend itself handles OPTIN, NOLOOP, BCAST and the order of replies and invalidations; for NOLOOP in transactions over
 * shards the client has a name, the same at all shards (tracking_name.h). Dedicated connections
 * count under dedicated-limit. The proxy handles REDIRECT: the target may be a client of any worker. The dedicated
 * connections of a RESP2 client cannot carry pushes; if it tracks with REDIRECT, it also has an invalidation connection
 * to each shard:
 *
 *   client (RESP2) ──GET k──► dedicated connection ──► CLIENT TRACKING ON REDIRECT id of the invalidation connection
 *      ◄─[invalidate k]── invalidation connection ◄──────────  k was changed
 *
 * The reply of `GET k` may have to wait for replies of other shards, and the invalidation of k must not overtake it. So
 * invalidations that arrive while requests are in flight are sent after all their replies.
 *
 * When a dedicated connection is lost, invalidations may be lost: the client gets an invalidation of all keys, and the
 * next command for that shard (with BCAST: the next second) opens a new connection. A client with invalidation
 * connections is closed instead. After a new map clients get an invalidation of all keys, too. When slots have moved
 * without a new map, their old owner has sent invalidations of their keys (backend/session/tracking.h).
 */
#pragma once

#include "proxy/core/client.h"
#include "shared/namespace.h"
#include "shared/out.h"
#include "shared/tracking_name.h"

enum caching_wish { CACHING_UNSAID, CACHING_YES, CACHING_NO };

/* Invalidations that are sent once the client's pipeline has passed this count. */
struct held_pushes {
    struct out frames;
    uint64_t until;
};

/* A client's tracking state; made by its first CLIENT TRACKING. */
struct client_tracking {
    struct client *client;
    /* struct upstream, by links.kept; invalidation connections too */
    struct list dedicated_connections;
    bool is_on;
    bool is_bcast;
    bool is_optin;
    bool is_optout;
    bool is_noloop;
    bool is_broken;         /* an invalidation came after the REDIRECT client had left */
    uint8_t caching;        /* enum caching_wish: CLIENT CACHING for the next command */
    uint64_t redirect_id;   /* 0: none */
    struct bytes *prefixes; /* prefixes of BCAST; heap, sorted */
    uint32_t prefix_count;
    struct held_pushes held[2]; /* [1]: invalidations that arrived while [0] was not empty */
};

static inline bool client_tracks(const struct client *client)
{
    return client->tracking && client->tracking->is_on;
}
/* The client's tracking state; if there is none, makes one with tracking off. */
struct client_tracking *tracking_of(struct client *client);
/* The dedicated connection (or invalidation connection) for a shard. If there is none, makes one and sends nothing on it.
 * NULL: dedicated-limit is reached (never for a client that already tracks). */
struct upstream *tracking_dedicated(struct client *client, uint32_t shard, bool is_invalidation);
/* Writes the name by which shards find out that a change is the client's own (NOLOOP). Empty: they need none, because the client gets
 * invalidations of its own changes too, or because there are no transactions over shards, which need upstream-secret. */
struct bytes client_tracking_name(const struct client *client, bool is_noloop,
                                  char to[TRACKING_NAME_MAX]);
/* The client's connection to the shard; opened again if it was lost. */
struct upstream *tracking_connection(struct client *client, uint32_t shard);
/* The connection for the next request to the shard. A pending CLIENT CACHING is sent before it. */
struct upstream *tracking_upstream(struct client *client, uint32_t shard);
/* A command was dispatched: a pending CLIENT CACHING is used up. */
void tracking_step(struct client *client);
/* The target of REDIRECT: a client of the same namespace. Copied between threads. */
struct tracking_target {
    uint64_t id;
    uint32_t space_len;
    char space[NAMESPACE_NAME_MAX];
};
struct tracking_target tracking_target_of(const struct client *client, uint64_t id);
/* NULL: this worker has no such client, or it is in another namespace. Callers must not distinguish the two. */
struct client *tracking_target_find(struct proxy_worker *worker,
                                    const struct tracking_target *target);
/* Must the client get invalidation connections before it changes to this protocol? So it is when it redirects since RESP3. */
bool tracking_needs_redirect(const struct client *client, uint8_t resp);
/* Sends CLIENT TRACKING ON with the client's options as the part: from now on the shard redirects invalidations to this connection. With BCAST some
 * may be lost, because tracking is turned off and on again: then client_tracking_forget_all must follow. */
void tracking_send_redirect(struct client *client, struct part *part, struct upstream *dedicated,
                            const struct upstream *invalidation);
/* Invalidates all keys. */
void client_tracking_forget_all(struct client *client);
/* Replies of the client have left: sends the invalidations that waited for these replies. */
void tracking_advance(struct client *client);
/* Bytes of prefixes and of invalidations that wait. */
size_t tracking_bytes(const struct client *client);
/* Ends tracking without a message to the client. */
void tracking_clear(struct client *client);
/* After a new map: closes connections to removed shards and invalidates all keys. */
void tracking_reloaded(struct proxy_worker *worker);
/* Once a second: opens the dedicated connections that BCAST needs. */
void tracking_slow(struct proxy_worker *worker);
