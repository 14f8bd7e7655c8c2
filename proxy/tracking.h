/*
 * tracking.h - CLIENT TRACKING through the proxy: a client that tracks has a connection of its own to every shard.
 *
 *   client ──GET k──► dedicated connection of k's shard ──►  the backend remembers: this connection has k
 *      ◄─[invalidate k]── dedicated connection ◄────────────  somebody changed k
 *
 * So OPTIN, NOLOOP, BCAST and the order of replies and invalidations are the backend's own, and exact. Dedicated
 * connections count under dedicated-limit. REDIRECT is done here: the other client may be on any worker. A RESP2
 * client's own dedicated connections cannot carry pushes; with REDIRECT it has a second one for each shard, its
 * invalidation connection:
 *
 *   client (RESP2) ──GET k──► dedicated connection ──► CLIENT TRACKING ON REDIRECT id-of-the-other                        ──[invalidate k]──► other
 *
 * Replies of other shards may make the reply of `GET k` wait for its turn, and the invalidation of k must not overtake
 * it: what comes while requests are under way leaves behind all of them.
 *
 * A dedicated connection that is lost may have missed something: the client is told to forget all it has, and the next
 * command for that shard (BCAST: the next second) makes a new one. One that is lost with its invalidation connection
 * costs the client its connection. A new map has clients forget all, too.
 */
#pragma once

#include "proxy/client.h"
#include "shared/namespace.h"
#include "shared/out.h"

enum caching_wish { CACHING_UNSAID, CACHING_YES, CACHING_NO };

/* Invalidations that leave once so many requests have left the client's pipeline. */
struct held_pushes {
    struct out frames;
    uint64_t until;
};

/* One client's part; made by its first CLIENT TRACKING. */
struct client_tracking {
    struct client *client;
    struct list
        dedicated_connections; /* of struct upstream, by kept_link; invalidation connections too */
    bool is_on;
    bool is_bcast;
    bool is_optin;
    bool is_optout;
    bool is_noloop;
    bool is_broken;         /* the REDIRECT had gone when there was something to tell */
    uint8_t caching;        /* enum caching_wish: of the next command */
    uint64_t redirect_id;   /* 0: none */
    struct bytes *prefixes; /* BCAST; heap, in order */
    uint32_t prefix_count;
    struct held_pushes held[2]; /* new ones go to the second when there are older ones */
};

static inline bool client_tracks(const struct client *client)
{
    return client->tracking && client->tracking->is_on;
}
/* Made, off, when it is new. */
struct client_tracking *tracking_of(struct client *client);
/* The dedicated connection for a shard, or the invalidation connection; made when it is new, and then nothing was said
 * on it. NULL: dedicated-limit (never for a client that tracks already). */
struct upstream *tracking_dedicated(struct client *client, uint32_t shard, bool is_invalidation);
/* The connection for the next request to the shard; a wish of CLIENT CACHING goes before it. */
struct upstream *tracking_upstream(struct client *client, uint32_t shard);
/* A request was taken: the wish was for it. */
void tracking_step(struct client *client);
/* Where invalidations are to be redirected: a client of the same namespace. Travels by value. */
struct tracking_target {
    uint64_t id;
    uint32_t space_len;
    char space[NAMESPACE_NAME_MAX];
};
struct tracking_target tracking_target_of(const struct client *client, uint64_t id);
/* NULL: this worker has no such client, or it is in another namespace: callers must not see the difference. */
struct client *tracking_target_find(struct proxy_worker *worker,
                                    const struct tracking_target *target);
/* May the client change to this protocol? False for RESP2 if it redirects but has no invalidation connections: only
 * CLIENT TRACKING opens these. */
bool tracking_may_speak(const struct client *client, uint8_t resp);
/* Replies have left: so may what was held behind them. */
void tracking_advance(struct client *client);
/* Bytes of its prefixes and of invalidations that are held back. */
size_t tracking_bytes(const struct client *client);
/* Ends it, without a word. */
void tracking_clear(struct client *client);
/* After a new map. */
void tracking_reloaded(struct proxy_worker *worker);
/* Once a second: dedicated connections that BCAST needs. */
void tracking_slow(struct proxy_worker *worker);
