/*
 * replica_send.h - sends the messages of a copy's core to one other copy, the records of an APPEND from memory or from the log's files.
 *
 *   index        1 … 40 │ 41 … 57 │ 58 … 60 │ 61 …
 *                begin ─┘ written ┘   upto ──┘ offered by the core and not sent yet
 *
 *   core ── APPEND 57 + 3 ──► upto = 60 ── turn ──► REPLICA_CORE with 58, 59, while the connection has little to send
 *                                              └──► 60 is long: REPLICA_PART … REPLICA_PART, then REPLICA_CORE
 *
 * The core offers records as fast as they are appended. This leader's newest ones leave from memory (own_records.h) while they are written
 * here, others when they are durable here; both when the connection has room, so a slow copy costs no memory. What was not sent yet has the
 * newest commit index and time of the core.
 *
 * An APPEND without records that overtakes offered ones has the record `written` before it, not the last one that was offered: the
 * other copy cannot have that one yet, would refuse, and the core would send everything again.
 *
 * The core offers records a second time when the other copy does not answer, or has refused. Only after a refusal
 * (replica_send_refused) are they sent again: on one connection nothing is lost.
 */
#pragma once

#include "backend/consensus/consensus.h"
#include "backend/replica/replica_message.h"

struct own_records;
struct peer_link;
struct replica_send;
struct wal;

struct replica_send_options {
    struct wal *wal;               /* of this copy */
    const struct consensus *core;  /* likewise */
    const struct own_records *own; /* NULL: records are read from the log only */
    struct peer_link *link;        /* to the other copy */
    struct replica_group group;
    const struct group_clock *time; /* NULL: messages have none */
    /* This copy's data have all records up to it; NULL: 0 is said. */
    const _Atomic uint64_t *applied;
    /* The log has no record before `first` any more, and the other copy needs one: for CONSENSUS_TRIMMED with first - 1, later. Called
     * inside replica_send_turn and replica_send_message; `send` may not be freed. */
    void (*on_gone)(void *owner, uint64_t first);
    void *owner;
};

struct replica_send *replica_send_new(const struct replica_send_options *options);
/* NULL is allowed. */
void replica_send_free(struct replica_send *send);
/* Sends a message of the core to the other copy; its save is durable. Messages that the connection does not take are lost. */
void replica_send_message(struct replica_send *send, const struct consensus_message *message);
/* Sends what may be sent now: to be called when records have become durable, and when the connection has sent something. */
void replica_send_turn(struct replica_send *send);
/* The other copy has refused an APPEND, and the core was given the reply. */
void replica_send_refused(struct replica_send *send);
/* The connection has ended, or this copy leads no more: forgets what was offered. */
void replica_send_drop(struct replica_send *send);
/* Is a record that was offered in a segment that cannot be read? It is in the log, and tried again. */
bool replica_send_has_failed(const struct replica_send *send);
