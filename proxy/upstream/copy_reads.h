/*
 * copy_reads.h - reads that a copy of a shard answers instead of its leader: for clients that have sent READONLY, with replica-reads = stale.
 *
 *   node of shard a, at its leader ──copies──► node at another address of the map ──shared[lane][resp]──► connection, in READONLY
 *
 *   GET ──► a copy whose connection is up ──┬─ a reply ──────────────────────────────────────► client
 *                                           └─ an error, a bounce, silence, a lost connection ──► the leader ──► client
 *
 * (1) Only a connection that is up gets reads, so a copy that is down costs no waiting. Until one is up the leader gets them.
 * (2) A connection keeps the bytes of its reads in flight. So each read that a copy does not answer is sent to the leader, and its client
 *     sees neither that nor an error of a copy: an error of the command itself is the leader's. Reads change nothing, so they may run twice.
 * (3) A copy that has refused a read gets no others for REFUSED_MS: it does not follow, lacks too much, or does not serve reads. One that is
 *     silent while a read waits gets none for AWAY_MS, and a connection none while it keeps more than queue-limit.
 * (4) A client's reads go to one copy as long as that one serves: the data that it reads there never get older.
 * (5) Copies of the proxy's zone get the reads as long as one of them serves (near_copies.h); if none does, the leader if it is of that zone,
 *     else the copies of other zones. With fresh reads the leader is one of the copies.
 * (6) No request of a client overtakes another one: those at copies have LABEL_COPY, and those at leaders have not (client.h).
 */
#pragma once

#include <stdint.h>

struct client;
struct frame;
struct keyspace;
struct part;
struct upstream;

enum { COPY_READ_BYTES_MAX = 64 * 1024 }; /* the frame of a longer read goes to the leader */

/* The connection for a client's read from this shard. NULL: the shard's leader must serve it. */
struct upstream *copy_reads_pick(const struct client *client, uint32_t shard, unsigned lane);
/* Sends the frame of a read on that connection, as the part. */
void copy_reads_send(struct upstream *upstream, struct part *part, struct keyspace *keyspace,
                     const struct frame *frame);
