/*
 * sim_peer.h - a host with links to and from others, for tests of what travels over them (peer_set.h). Its greeting is answered here; in
 * the program a session does it.
 *
 *   link of a ──► relay-b:1 ──► b:1          each peer is behind a relay (sim_relay.h), which has the address that the map names
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
};

struct sim_peer_options {
    const char *name; /* one letter: of the host and the shard */
    uint32_t index;
    const struct shard_map *map; /* has the shard at relay-NAME:1 */
    struct labels *links;        /* metrics by shard, of all peers */
    struct sim_relays *relays;
    struct peer_options options; /* limits; timeouts are set here */
    struct peer_requests requests;
    void *owner; /* of these functions */
};

void sim_peer_start(struct sim_peer *peer, const struct sim_peer_options *options);
/* Closes all connections. */
void sim_peer_stop(struct sim_peer *peer);
/* After sim_peer_stop, and when its greetings have ended. */
void sim_peer_fini(struct sim_peer *peer);
