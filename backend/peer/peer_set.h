/*
 * peer_set.h - a partition's connections to and from the other partitions of the shard map.
 *
 *   shard map ── our address ─► our shard a          links (link.h)        ───► b, c, …  our requests
 *             └─ all others  ─► b, c, …              incoming (incoming.h) ◄─── b, c, …  their requests
 *
 * A partition finds itself in the map by its advertised address, ignoring case. If no shard has this address, it keeps the
 * name that it had before: it leaves, and still needs links to give its slots away. The others keep or make a link to a shard
 * that is not in their map while it is connected to them. A partition that never had a name makes and accepts no links, and
 * serves its clients as without a map.
 *
 * If the map has a partition's name at another address, the partition is elsewhere: its data was copied, or it was moved and this map is
 * older. It makes and accepts no links, and must serve no key, because the backend at the other address does. Only a copy that leads the
 * shard and hands over to the copies of the map stays in its place until then.
 *
 * Shards of one process need no network between them: a partition also accepts connections to its address within the process, and
 * a link to such an address goes through memory (stream.h). Greeting, frames, limits and timeouts are the same.
 *
 * A shard with several copies has a link to the one that leads, wherever in its list of addresses it is (leaders.h). A partition whose own
 * copy does not lead has no links (peer_set_close): its session replies to SCREE PEER where the leader is.
 *
 * A new map keeps the links to shards whose name stays, and which still have the link's address. A shard that moved gets a new link. When
 * the secret, TLS or our own name changes, all links are made anew and incoming connections are closed; their peers connect again.
 */
#pragma once

#include "backend/peer/incoming.h"
#include "backend/peer/leaders.h"

enum { PEER_ECHOES_KEPT = 64 };

struct out;
struct peer_set;

struct peer_config {
    const struct shard_map *map; /* NULL: the partition works alone */
    /* name that the partition has if the map does not have it; empty: none */
    const char *old_shard;
    /* it leads this shard, whose other copies are at addresses of the map: it is the shard until one of these leads, also at an address
     * that the map does not have */
    bool is_leaving_group;
    const char *address;     /* advertised */
    uint16_t port, tls_port; /* for clients; 0: none */
    struct peer_leadership leadership;
    const char *secret;
    const char *secret_previous; /* is shown too; empty: none */
    struct tls_context *tls;     /* for connections to others; NULL: plain */
    bool accepts_here;           /* partitions of this process connect through memory */
    struct peer_options options;
};

/* Stays valid until peer_set_free. */
struct peer_host {
    struct loop *loop;
    struct metrics *metrics;
    struct labels *links;        /* metrics by shard (backend_metrics.h) */
    uint32_t thread;             /* index of the partition, for `links` */
    struct cluster_clock *clock; /* of the process; NULL: the partition uses the system's clock */
    struct hybrid_clock *hybrid; /* of the partition; hears the times of others */
    const uint64_t *log_id;      /* the name of the partition's log; NULL: it is not told */
    const char *run_id;
    const char *version;
    uint64_t (*current_index)(void *owner); /* returns the index of the last batch */
    /* Writes what is known of the other copies of the shard. NULL: there are none. */
    void (*copies)(void *owner, struct peer_copies *to);
    struct peer_requests requests;
    /* A newer leader of the shard was heard; the connections of the one before are closed. NULL is allowed. */
    void (*on_new_leader)(void *owner, const char *shard);
    /* takes a connection within the process, as one of a port; NULL: there are none */
    void (*on_accept)(void *owner, struct stream *stream);
    void *owner; /* of these functions */
};

/* Makes a set without a map, until peer_set_configure. */
struct peer_set *peer_set_new(const struct peer_host *host);
/* NULL is allowed. */
void peer_set_free(struct peer_set *peers);
/* Closes all connections, without a message: nothing is sent, heard or connected any more. Requests to other shards stay outstanding until
 * they are cancelled, or end with peer_set_close or peer_set_free, which comes next; theirs are abandoned. */
void peer_set_cut(struct peer_set *peers);
/* Puts a map and options into force; everything is copied or referenced. */
void peer_set_configure(struct peer_set *peers, const struct peer_config *config);
/* The partition does not lead its shard any more: ends all links, which loses their requests, and connections, and accepts no more, until
 * peer_set_configure. What was heard of other leaders is kept. */
void peer_set_close(struct peer_set *peers);
/* Accepts no more connections within the process: the partition stops. */
void peer_set_stop_accepting(struct peer_set *peers);
/* The shard of the map that has this address, ignoring case; NULL: none. */
const struct shard *peer_shard_at(const struct shard_map *map, const char *address);

/* Checks the words of SCREE PEER and reads the identity into *peer. False: refused, and *error is an error reply without
 * its '-'. */
bool peer_set_admit(struct peer_set *peers, struct bytes protocol, struct bytes shard,
                    struct bytes identity, struct peer_identity *peer, const char **error);
/* As peer_set_admit, for a partition whose own copy of the shard `own` does not lead: an error reply without its '-', for the peer to go
 * elsewhere. `leader`: address, may be empty. */
const char *peer_refuse_at_copy(struct bytes protocol, struct bytes shard, const char *own,
                                const char *leader, char to[PEER_REDIRECTION_MAX]);
/* Checks the words of SCREE REPLICA, with which another copy of the shard `self` connects, as peer_set_admit does. */
bool peer_admit_copy(const struct peer_identity *self, struct bytes protocol, struct bytes shard,
                     struct bytes identity, struct peer_identity *peer, const char **error);
/* The reply to an admitted peer. */
size_t peer_set_identity(const struct peer_set *peers, char to[PEER_IDENTITY_MAX]);
/* Takes ownership of the stream of an admitted peer. */
void peer_set_adopt_stream(struct peer_set *peers, struct stream *stream,
                           const struct peer_identity *peer);

/* Name of our shard, of the map or before it left the map; empty: it never had one, or there is no map. */
const char *peer_set_shard(const struct peer_set *peers);
/* Does the map have this partition's shard at another address? */
bool peer_set_is_elsewhere(const struct peer_set *peers);
/* The map in force; NULL: none. Borrowed until peer_set_configure. */
const struct shard_map *peer_set_map(const struct peer_set *peers);
/* The address of the copy of a shard that leads, as far as is known: one of the shard's. `peers` NULL: the first. */
const char *peer_set_leader(const struct peer_set *peers, const struct shard *shard);
/* The link to a shard; NULL: there is none. */
struct peer_link *peer_set_find(const struct peer_set *peers, struct bytes shard);
/* Sets in the identity whether this partition wants PUBLISH. Returns false if that does not change it. */
bool peer_set_listen(struct peer_set *peers, bool listens);
/* peer_link_note_listener for the link to the shard, if there is one. */
void peer_set_note_listener(struct peer_set *peers, struct bytes shard, bool listens,
                            uint64_t order);
/* Number of shards that want PUBLISH. */
uint32_t peer_set_listeners(const struct peer_set *peers);
/* Sends a request without reply to these shards. Returns the number of shards to which it was sent: others are not connected, or the
 * limits of their links are reached. */
uint32_t peer_set_post(struct peer_set *peers, uint8_t kind, struct bytes payload);
/* Number of links, connected or not. */
uint32_t peer_set_links(const struct peer_set *peers);
/* Calls the function for each link, connected or not. */
typedef void peer_each_link_fn(void *owner, struct peer_link *link);
void peer_set_each_link(struct peer_set *peers, peer_each_link_fn *fn, void *owner);
/* Sends an ECHO request: the shard returns the text after delay_ms (0 .. 60000). NULL: the request was sent; else the
 * text of an error reply. The result is kept for peer_set_echoes. Used by tests of the links. */
const char *peer_set_echo(struct peer_set *peers, struct bytes shard, int64_t delay_ms,
                          struct bytes text);
/* Lists the last results of peer_set_echo, oldest first: "ok TEXT", "refused REASON" or "lost"; borrowed. Returns their
 * number. */
int peer_set_echoes(const struct peer_set *peers, const char *ends[PEER_ECHOES_KEPT]);
/* Calls the functions for each connection that is open, to and from other shards. */
typedef void peer_link_fn(void *owner, const struct peer_link *link);
typedef void peer_incoming_fn(void *owner, const struct peer_incoming *incoming);
void peer_set_each(const struct peer_set *peers, peer_link_fn *on_link,
                   peer_incoming_fn *on_incoming, void *owner);
/* Writes the section of INFO. */
void peer_set_print(const struct peer_set *peers, struct out *out);
