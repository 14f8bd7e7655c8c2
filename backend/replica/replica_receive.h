/*
 * replica_receive.h - from the frames of another copy (replica_message.h) to events of this copy's core.
 *
 *   REPLICA_CORE: APPEND, records of term 4    57   58 MEMBERS │ 59   60        two events: a record of the members ends its event
 *   REPLICA_PART: joined to one record, which the next REPLICA_CORE brings; each one is a sign of life of the leader
 *
 * Each record is compared with its message: it has its index and its term. Frames of other groups and for other copies are dropped.
 */
#pragma once

#include "backend/consensus/consensus.h"
#include "backend/replica/replica_message.h"

struct members;
struct replica_receive;

/* One event for the core. All that it has is borrowed for the call. */
struct replica_heard {
    const struct consensus_message *message;
    /* of the last record; NULL: it is not of the members */
    const struct consensus_members *members;
    struct bytes records; /* of the message: count × (u32 length, bytes); replica_record_next */
    uint64_t time_us, applied; /* of the sender */
};

struct replica_receive_options {
    struct replica_group group;
    uint64_t id; /* of this copy */
    void (*on_heard)(void *owner, const struct replica_heard *heard);
    void (*on_part)(void *owner, uint64_t from, uint64_t term); /* CONSENSUS_HEARD */
    void *owner;
};

/* Receives the frames of one connection. */
struct replica_receive *replica_receive_new(const struct replica_receive_options *options);
/* Not to be called inside on_heard and on_part. NULL is allowed. */
void replica_receive_free(struct replica_receive *receive);
enum replica_received {
    REPLICA_RECEIVED,
    REPLICA_NONSENSE,   /* no copy sends this, so the connection is to be closed */
    REPLICA_NEWER_DATA, /* a record is of a data format that this release does not have */
};

/* Takes the payload of a REPLICA_CORE or REPLICA_PART. */
enum replica_received replica_receive_core(struct replica_receive *receive, struct bytes payload);
enum replica_received replica_receive_part(struct replica_receive *receive, struct bytes payload);
/* The members of the row as the core has them, of the record `index`. */
struct consensus_members replica_core_members(const struct members *members, uint64_t index);
