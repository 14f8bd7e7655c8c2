/*
 * sim_relay.h - relays in front of partitions, which make the links between backends fail.
 *
 *   link of a ──► relay in front of b ──► b           the greeting passes as it is; after it, whole frames (frame.h)
 *
 * While relays are faulty, frames are doubled and exchanged with the next one of their direction. A connection may lose one
 * direction: what was sent is lost, as if a router dropped it, until its ends close it because of the silence. Requests come
 * late instead: after the end of their connection at the sender, and so perhaps after those of the next connection.
 */
#pragma once

#include "shared/list.h"

#include <stdbool.h>

struct loop;

enum { SIM_RELAYS_MAX = 8 };

/* A listener and the address behind it. */
struct sim_relay {
    struct sim_relays *relays;
    struct listener *listener;
    char to[64];
};

struct sim_relays {
    struct loop *loop; /* on the host "relays" */
    struct list connections;
    struct sim_relay all[SIM_RELAYS_MAX];
    unsigned count;
    bool is_faulty; /* may be changed at any time */
};

void sim_relays_init(struct sim_relays *relays);
/* Connections to `address` are relayed to the address `to`. */
void sim_relays_add(struct sim_relays *relays, const char *address, const char *to);
/* A connection loses one direction from now on, if its greeting is over. */
void sim_relays_mute(struct sim_relays *relays);
/* Ends all connections; no further ones are accepted. */
void sim_relays_stop(struct sim_relays *relays);
/* Frees the loop, after sim_relays_stop. */
void sim_relays_fini(struct sim_relays *relays);
