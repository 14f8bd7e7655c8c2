/*
 * sim_peer.h - a host with links to and from others, for tests of what travels over them (peer_set.h). Its greeting is answered here; in
 * the program a session does it.
 *
 *   link of a ──► relay-b:1 ──► b:1          each peer is behind a relay (sim_relay.h), which has the address that the map names
 *
 * A peer may be one of several copies of its shard; if it does not lead, it has no links, and says which copy does.
 */
#pragma once

#include "backend/context/hybrid_clock.h"
#include "backend/peer/peer_set.h"
#include "tests/sim/sim_relay.h"

struct sim_peer {
    struct loop *loop;
    struct listener *listener;
    struct metrics *metrics;
    struct hybrid_clock hybrid;
    struct peer_set *set;
    char address[16];
    const char *
        leader; /* the address of the copy that leads, empty: not known; NULL: this one does, or has no others */
    const char *shard;
    char redirect[PEER_REDIRECTION_MAX];
};

struct sim_peer_options {
    const char *name; /* one letter: of the host */
    uint32_t index;
    const struct shard_map *map; /* has a shard at relay-NAME:1, with a name of one letter */
    struct labels *links;        /* metrics by shard, of all peers */
    struct sim_relays *relays;
    struct peer_options options; /* limits; timeouts are set here */
    struct peer_requests requests;
    void *owner;  /* of these functions */
    bool is_copy; /* it does not lead, until sim_peer_lead */
};

void sim_peer_start(struct sim_peer *peer, const struct sim_peer_options *options);
/* The copy leads from now on, with the options of its start. */
void sim_peer_lead(struct sim_peer *peer, const struct sim_peer_options *options,
                   const struct peer_leadership *leadership);
/* The copy does not lead: the one at this address does, which stays valid; empty: not known. */
void sim_peer_follow(struct sim_peer *peer, const char *leader);
/* Closes all connections. */
void sim_peer_stop(struct sim_peer *peer);
/* After sim_peer_stop, and when its greetings have ended. */
void sim_peer_fini(struct sim_peer *peer);
