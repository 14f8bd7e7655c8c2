/*
 * fresh_reads.h - reads at a copy that follows which are never older than an acknowledged write (replica-reads = fresh).
 *
 *   reads of a turn ─► WAITING ─ the turn ends, no question is out ─► ASKING ──────► APPLYING ─► they run, from data as of 7 or later
 *                         ▲                                             │ ▲              ▲
 *                         └─ reads that come now wait for the next      ▼ │ 7, time      └ the data have record 7
 *                                                               the leader: READ_INDEX (backend/partition/leader_line.h)
 *
 * (1) The leader answers with the newest record that it has committed, while its lease holds. What any client had a reply for when the
 *     question was sent is in records up to that one; so the answer counts for requests that had come before, and for no others.
 * (2) A session is stopped at its first read. The requests behind it that had come by then are covered by the same answer: they are counted
 *     in bytes. So a connection with many reads in flight asks once for all of them.
 * (3) If the leader does not answer, has another term or group than the copy has heard of, or the data do not get so far within
 *     FRESH_WAIT_MS, the reads are refused, and so are those when the role changes. Then proxies and clients send them to the leader. Until
 *     the answer or the record has come, further reads are refused at once.
 * (4) The keys of a prepared transaction (prepared_slots.h) are read at the leader, which has their locks.
 * (5) Keys expire by the leader's time as of its answer, or that of the newest record if it is later: not by this machine's clock.
 * (6) Only reads of keys that they name run here. MULTI, scripts, commands that may block, and those that count or list keys are the leader's.
 */
#pragma once

#include "backend/dispatch/prepared_slots.h"
#include "backend/session/session.h"

struct call;

enum { FRESH_WAIT_MS = 250 }; /* less than proxies wait for a copy (copy_reads.c) */

/* The leader's answer, or the last one. */
struct read_index {
    uint32_t generation; /* of its group */
    uint64_t term;       /* in which it serves */
    uint64_t index;      /* everything that was acknowledged is in records up to this one */
    uint64_t time_us;    /* by which keys expire; 0: not known */
};

/* Sends the question to the leader; fresh_reads_answered follows. False: it cannot be sent now. */
typedef bool fresh_reads_ask_fn(struct partition *partition);

struct fresh_reads {
    struct partition *partition;
    struct list waiting, asking, applying; /* sessions, by session->pending.fresh.link */
    bool is_asked;                         /* a question is out */
    uint64_t asked_ms;                     /* since then; monotonic */
    uint64_t missed;           /* reads have waited in vain for this record; 0: for none */
    struct last_step turn_end; /* sends the next one */
    uint64_t newest_us;        /* time of the newest record that was added */
    struct prepared_slots prepared;
    fresh_reads_ask_fn *ask;
};

struct fresh_reads *fresh_reads_new(struct partition *partition, fresh_reads_ask_fn *ask);
/* All that wait are refused. */
void fresh_reads_end(struct partition *partition);

/* ---- of requests ------------------------------------------------------------------------------- */

/* May the request be read here, at a copy that does not lead? False: the leader must serve it. */
bool fresh_reads_may(const struct call *call);
/* Is it refused only because of a prepared transaction? */
bool fresh_reads_is_locked(const struct call *call);
/* Must it wait for an answer of the leader? If so, the session is among those that wait. */
bool fresh_reads_wait(const struct call *call);
/* The time by which the session's next request runs, µs. */
uint64_t fresh_reads_now_us(const struct session *session);
/* The session was stopped at its next request, of `len` bytes with those behind it that have come. */
void fresh_reads_stopped(struct session *session, size_t len);
void fresh_reads_count(struct session *session, size_t size);
/* A request of `size` bytes has ended. */
static inline void fresh_reads_passed(struct session *session, size_t size)
{
    if (session->pending.fresh.is_used)
        fresh_reads_count(session, size);
}

/* ---- of the copy ------------------------------------------------------------------------------- */

/* NULL: the leader did not answer. */
void fresh_reads_answered(struct partition *partition, const struct read_index *answer);
/* Records were added to the data. */
void fresh_reads_applied(struct partition *partition);
/* A record of this time is being added; does it change rows of transactions? */
void fresh_reads_note(struct partition *partition, uint64_t origin_ms, bool has_transactions);
/* The role has changed: nothing that was asked counts any more. */
void fresh_reads_refuse(struct partition *partition);
/* Ten times a second: refuses what has waited for too long. */
void fresh_reads_tick(struct partition *partition);
