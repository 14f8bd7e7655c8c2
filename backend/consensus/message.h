/*
 * message.h - the messages between members of a group, and their bytes. The records of an APPEND and the files of a SNAPSHOT follow
 * the message: they are no part of these bytes.
 *
 *     VOTE ──► VOTE_REPLY      APPEND (no records: heartbeat) ──► APPEND_REPLY      SNAPSHOT      HAND_OVER
 *
 *     u8 kind | u8 flags | u8 state | u64 from | u64 to | u64 term | fields of the kind, in the order below      little-endian
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

enum consensus_message_kind {
    CONSENSUS_VOTE = 1,
    CONSENSUS_VOTE_REPLY,
    CONSENSUS_APPEND,
    CONSENSUS_APPEND_REPLY,
    CONSENSUS_SNAPSHOT,
    CONSENSUS_HAND_OVER,
};

enum {
    CONSENSUS_RECORDS_MAX = 1 << 20, /* of one APPEND */
    CONSENSUS_MESSAGE_BYTES_MAX = 3 + 8 * 3 + 8 * 5 + 4,
};

/* Fields that a kind does not have are 0. */
struct consensus_message {
    enum consensus_message_kind kind;
    uint64_t from, to;
    /* the sender's term; of a VOTE, and of a VOTE_REPLY that grants it: the term that the candidate stands for */
    uint64_t term;
    bool is_pre;    /* VOTE and its reply: the candidate only asks whether it would get the vote */
    bool is_marked; /* VOTE: the leader of the term before has given up its lease for it */
    bool is_good;   /* replies: the vote is granted, or the logs match */
    uint8_t state;  /* APPEND_REPLY: enum consensus_state */
    /* VOTE: the candidate's last record; APPEND: the record before the first; SNAPSHOT: its last record.
     * APPEND_REPLY: durable and equal up to here, or the record before the first that did not match; 0: the APPEND was of
     * an older term than the reply */
    uint64_t index;
    uint64_t index_term; /* VOTE, APPEND, SNAPSHOT: term of the record `index` */
    uint64_t commit;     /* APPEND: the sender's commit index */
    /* APPEND: when it was sent, by the sender's clock. APPEND_REPLY: sent_us of the newest APPEND that matched; 0: none */
    uint64_t sent_us;
    uint64_t records_term; /* APPEND: of all its records */
    uint32_t count;        /* APPEND: records */
    uint64_t hint;         /* APPEND_REPLY that is not good: no record behind this one can match */
    uint64_t promise_us;   /* APPEND_REPLY that is good: it grants no vote for so long: its E */
    /* VOTE_REPLY that is not good: a leader was heard, so ask again after this time */
    uint64_t wait_us;
};

/* Writes the message; returns its length. */
unsigned consensus_message_write(const struct consensus_message *message,
                                 char to[CONSENSUS_MESSAGE_BYTES_MAX]);
/* Reads a message from the front of *bytes. False: it is incomplete, or has values that no member sends. */
bool consensus_message_read(struct bytes *bytes, struct consensus_message *message);
