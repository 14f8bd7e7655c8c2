/*
 * replica_peers.h - what a running core has of the other copies: a sender for each one that is connected, and a receiver for each
 * connection from one.
 *
 *   core ── message to 3 ──► sender of 3 ══ replica_links_to(3) ══►        made when it is needed, freed when the link breaks
 *   core ◄── events ──────── receiver ◄══ incoming connection ═════        likewise
 *
 * Replica thread only.
 */
#pragma once

#include "backend/replica/replica_links.h"
#include "backend/replica/replica_receive.h"

struct own_records;
struct replica_peers;
struct wal;

struct replica_peers_options {
    struct replica_links *links;
    struct wal *wal;               /* of this copy */
    const struct consensus *core;  /* likewise */
    const struct own_records *own; /* likewise */
    struct replica_group group;
    const struct group_clock *time;  /* replica_send_options */
    const _Atomic uint64_t *applied; /* likewise */
    uint64_t id;                     /* of this copy */
    void (*on_heard)(void *owner, const struct replica_heard *heard);
    void (*on_part)(void *owner, uint64_t from, uint64_t term);
    /* replica_send_options.on_gone: not to be handled at once */
    void (*on_gone)(void *owner, uint64_t first);
    void *owner;
};

struct replica_peers *replica_peers_new(const struct replica_peers_options *options);
/* Not inside its events. NULL is allowed. */
void replica_peers_free(struct replica_peers *peers);
/* Sends a message of the core, whose save is durable. False: the copy is not connected, so it is lost. */
bool replica_peers_send(struct replica_peers *peers, const struct consensus_message *message);
/* Sends the records that may be sent now (replica_send_turn). */
void replica_peers_turn(struct replica_peers *peers);
/* The copy has refused an APPEND (replica_send_refused). */
void replica_peers_refused(struct replica_peers *peers, uint64_t id);
/* Does the copy lack a record that cannot be read here (replica_send_has_failed)? */
bool replica_peers_has_failed(struct replica_peers *peers, uint64_t id);
/* This copy leads no more: what was offered is forgotten. */
void replica_peers_drop(struct replica_peers *peers);
/* The link to the copy broke. */
void replica_peers_down(struct replica_peers *peers, uint64_t id);
/* Takes a REPLICA_CORE or REPLICA_PART from the copy `from`; 0: it has not said which one it is, so the frame is dropped. */
enum replica_received replica_peers_take(struct replica_peers *peers,
                                         const struct peer_incoming *incoming,
                                         const struct peer_frame *frame, uint64_t from);
/* The connection has ended. */
void replica_peers_closed(struct replica_peers *peers, const struct peer_incoming *incoming);
