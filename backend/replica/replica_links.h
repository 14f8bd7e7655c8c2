/*
 * replica_links.h - the connections of a copy to and from the other copies of its shard (backend/peer/link.h, incoming.h).
 *
 *            a:1                     b:1                      each copy has a link to each other one, for all that it sends: messages of
 *        link to b ───────────────► incoming                  the core have no replies, their answers come as messages of their own.
 *         incoming ◄─────────────── link to a                 A snapshot has a second link, so that its files hold back no message.
 *        bulk to b ───────────────► incoming
 *
 *   link up ─► REPLICA_HELLO ─► DONE, the other's hello: from now on it is known by its id
 *
 * Copies have addresses in the shard map and ids in the log. Which id is at which address is what a copy says of itself in its hello, each
 * time it has something new to say. A frame counts as sent by the id that its connection's address had said. An id is at one address: what
 * says the id of a copy that is connected, or of this one, is a copied disk, and is not believed.
 *
 * All functions are called on the thread of the loop, the events too.
 */
#pragma once

#include "backend/peer/incoming.h"
#include "backend/replica/replica_message.h"

enum { REPLICA_ADDRESSES_MAX = 8 };

struct replica_links;

struct replica_known;

struct replica_links_events {
    /* A copy says this, at an address that is none of those to which there are links. True: there is a link to it from now on; it is a
     * visitor, as long as it is connected, or until an address of replica_links_also needs its place. NULL: none is welcome. */
    bool (*is_welcome)(void *owner, const struct replica_hello *hello);
    /* The copy at hello->address has said what it is, on its link or on ours. */
    void (*on_hello)(void *owner, const struct replica_hello *hello);
    /* The link to the copy broke, or another copy is at its address. */
    void (*on_down)(void *owner, uint64_t id);
    /* The link to the copy has little to send again. */
    void (*on_drain)(void *owner, uint64_t id);
    /* A second link is about to be freed, though replica_links_end_bulk was not called. NULL is allowed. */
    void (*on_bulk_end)(void *owner);
    /* Another request than REPLICA_HELLO. `from`: id of the sender; 0: it has not said it yet. */
    struct refusal (*handle)(void *owner, struct peer_incoming *incoming,
                             const struct peer_frame *frame, uint64_t from);
    void (*on_closed)(void *owner, struct peer_incoming *incoming);
};

struct replica_links_options {
    struct loop *loop;
    struct metrics *metrics;
    struct labels *labels; /* metrics by link */
    uint32_t thread;       /* index of the partition, for `labels` */
    const char *run_id, *version;
    const struct replica_known *known; /* a hello has what is known of its receiver */
    struct replica_links_events events;
    void *owner;
};

/* What may change while the links exist; everything is copied or referenced. */
struct replica_links_config {
    const char *shard;
    const char *address;    /* of this copy, in the map */
    unsigned address_count; /* of the shard, this copy's among them */
    const char *addresses[REPLICA_ADDRESSES_MAX];
    const char *secret;
    const char *secret_previous; /* is shown too; empty: none */
    struct tls_context *tls;     /* NULL: plain connections */
    struct peer_options options;
};

struct replica_links *replica_links_new(const struct replica_links_options *options);
/* Calls no events but on_closed and on_bulk_end. NULL is allowed. */
void replica_links_free(struct replica_links *links);
/* Keeps the links to addresses that stay, unless the shard, the own address or the credentials are new. */
void replica_links_configure(struct replica_links *links,
                             const struct replica_links_config *config);
/* Links to these addresses too, which members have and the map may not name; until the next call. To be called
 * again soon after each configure. */
void replica_links_also(struct replica_links *links, const struct bytes *addresses, unsigned count);
/* What this copy says of itself from now on. The hello is copied; its address is replaced by the configured one. Until the first call
 * this copy says nothing, and refuses the hello of others. */
void replica_links_say(struct replica_links *links, const struct replica_hello *hello);
/* Takes ownership of the stream of another copy that peer_admit_copy has admitted. */
void replica_links_adopt(struct replica_links *links, struct stream *stream,
                         const struct peer_identity *peer);
/* What the copy at the address has said last; NULL: nothing yet. Valid until the next event. */
const struct replica_hello *replica_links_hello(const struct replica_links *links,
                                                const char *address);
/* Has the copy at the address said its hello on the present connection? If not, what it said may be old. */
bool replica_links_is_heard(const struct replica_links *links, const char *address);
/* The link to the copy; NULL: it is not up, or no copy that is connected has this id. */
struct peer_link *replica_links_to(const struct replica_links *links, uint64_t id);
/* The second link to the copy, made if there is none: it may not be up yet. NULL: no address has said this id. */
struct peer_link *replica_links_bulk(struct replica_links *links, uint64_t id);
/* The second link to the copy is not needed any more; requests on it must have ended. */
void replica_links_end_bulk(struct replica_links *links, uint64_t id);
