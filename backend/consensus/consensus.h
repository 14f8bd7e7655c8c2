/*
 * consensus.h - one copy of a group's log and its part in agreeing on it: Raft without I/O, clock, threads and memory of its own.
 *
 *                     events: TICK · MESSAGE · APPENDED · SYNCED · SAVED · MEMBERS · TRANSFER · RESIGN … (enum consensus_event_kind)
 *                                                │ event
 *                                                ▼
 *     rules.c      each promise: may it …?   consensus ── election.c  votes, terms, transfer
 *     members.c    whose copies count            │        append.c    records, commit index, lease
 *     term_runs.c  term of each record           ▼ update
 *                     save {term, vote} · truncate after · append · messages · committed · role · lease until
 *
 *     EMPTY ─► LEARNER ─► FOLLOWER ─timer─► PRE_CANDIDATE ─majority─► CANDIDATE ─majority─► LEADING ─own PROBE committed─► SERVING
 *                            ▲───── higher term · a leader is heard · no majority for E · transfer · resign ─────────────────┘
 *
 * The core has no records, only their indexes and terms: the caller has the log. It carries out an update in this order: role and
 * lease, save, truncate, append, messages. One rule is the caller's alone: *the messages of an update leave when its save and
 * all saves before are durable.* The caller may lose, double, delay and reorder messages, and its process may end between any two of
 * these steps; then it starts anew from what is durable.
 *
 * Records of a log have indexes from 1. A record is named by its index and the term of the leader that appended it: two logs with
 * a record of the same name are equal up to it. The first record of each leader is a PROBE, without content: when it is committed, all
 * records of earlier terms are committed too. Times are microseconds of a clock that never goes back; the clocks of two members may
 * differ by any time, their rates by 20 %. E is the election timeout. The struct has no pointers: it can be copied.
 */
#pragma once

#include "backend/consensus/message.h"
#include "backend/consensus/term_runs.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    CONSENSUS_MEMBERS_MAX = 8,
    CONSENSUS_MESSAGES_MAX = 2 * CONSENSUS_MEMBERS_MAX, /* of one update */
};

enum consensus_kind {
    CONSENSUS_VOTER = 1,
    CONSENSUS_LEARNER,
    CONSENSUS_WITNESS, /* has a number in the record, and is refused: no release has witnesses */
};

struct consensus_member {
    uint64_t id; /* random, never 0; a data directory has its own, so a new disk is a new member */
    enum consensus_kind kind;
};

/* A record of the members. The newest one in the log is in force, whether it is committed or not. */
struct consensus_members {
    uint64_t index; /* of the record */
    uint64_t epoch; /* of the shard map that asked for these members */
    unsigned count;
    struct consensus_member list[CONSENSUS_MEMBERS_MAX];
};

enum consensus_role {
    CONSENSUS_LEARNER_ROLE, /* not a voter by its own record: never a candidate, but it answers */
    CONSENSUS_FOLLOWER,
    CONSENSUS_PRE_CANDIDATE, /* asks whether it would be elected; its term stays */
    CONSENSUS_CANDIDATE,
    CONSENSUS_LEADING, /* elected; records of earlier terms may not be committed yet, so nothing is served */
    CONSENSUS_SERVING,
};

/* What a member reports of itself in its replies: any of these bits. */
enum consensus_state {
    CONSENSUS_FULL = 1, /* its disk has no space for records */
    /* many records are not applied yet: leadership is not transferred to it, and it begins elections later */
    CONSENSUS_BEHIND = 2,
    CONSENSUS_LOW = 4, /* its disk has space for records that make room, and for no others */
    CONSENSUS_DECLINES =
        8, /* it has given up its lead for a reason, and is not given it back unasked */
};

enum consensus_event_kind {
    CONSENSUS_TICK, /* time has passed: at least when consensus_next_us() says so */
    CONSENSUS_MESSAGE,
    CONSENSUS_HEARD,        /* a part of a long record came from the leader `id` of `term` */
    CONSENSUS_DISCONNECTED, /* the connection to `id` broke */
    CONSENSUS_APPENDED, /* a leader's batch of `term` becomes the records up to `index`; or is refused */
    CONSENSUS_MEMBERS, /* as APPENDED, with one record of the `members`; the core sets its index */
    CONSENSUS_NOT_WRITTEN, /* the records behind `index`, which came since the start, could not be written */
    /* All records up to `index` are durable. `cuts`: that of the last update before the sync began. A sync that began before the log
     * was cut does not count, so the caller syncs again after NOT_WRITTEN. */
    CONSENSUS_SYNCED,
    CONSENSUS_SAVED,  /* the oldest save that was not durable is durable now */
    CONSENSUS_SERVES, /* the owner of the data serves in `term`: leases may be given */
    /* the leader of `term` has said outside of the log that the records up to `index` are committed */
    CONSENSUS_COMMITTED,
    CONSENSUS_TRIMMED,       /* the log begins behind `index`, which is committed */
    CONSENSUS_SNAPSHOT_SENT, /* `id` has the state as of `index`; 0: it was not sent */
    CONSENSUS_TRANSFER,      /* of leadership to `id`; 0: ends it. Refused if `id` cannot lead */
    CONSENSUS_RESIGN,
    CONSENSUS_CONFIRM,   /* sends heartbeats at once, whose replies move confirmed_us */
    CONSENSUS_STATE,     /* of this member: `state` */
    CONSENSUS_WENT_BACK, /* the log of the learner `id`, which has started anew, ends at `index` */
};

struct consensus_event {
    enum consensus_event_kind kind;
    /* The clock was read after the event came. A loop's cached time may be older than a message: then the promise that answers it
     * would end before the lease that counts on it. */
    uint64_t now_us;
    uint64_t id;
    uint64_t term;
    uint64_t index;
    uint32_t cuts;
    uint8_t state;
    const struct consensus_message *message;
    /* MEMBERS; or the record of the members in an APPEND, which must be its last record. The caller splits an APPEND with several of
     * these, or with records of several terms, into several events. */
    const struct consensus_members *members;
};

/* A disk or a bug has broken a promise: the process must end, and carry out nothing of the update. */
enum consensus_fault {
    CONSENSUS_WELL,
    CONSENSUS_CUTS_COMMITTED, /* a leader has another record where one is committed */
    CONSENSUS_TWO_LEADERS,    /* of one term */
    CONSENSUS_UNKNOWN_KIND,   /* members of a kind that this release does not have */
};

enum consensus_append { CONSENSUS_APPEND_NONE, CONSENSUS_APPEND_PROBE, CONSENSUS_APPEND_RECORDS };

struct consensus_update {
    enum consensus_fault fault;
    bool is_refused; /* APPENDED, MEMBERS or TRANSFER: nothing has changed */
    bool has_save;
    uint64_t save_term, save_vote;
    bool has_truncate;
    uint64_t truncate_after;
    /* A PROBE of `term`; or those records of the message that have these indexes. */
    enum consensus_append append;
    uint64_t append_first, append_last;
    uint32_t cuts; /* for SYNCED */
    unsigned message_count;
    struct consensus_message messages[CONSENSUS_MESSAGES_MAX];
    /* The present state, also if it has not changed: */
    enum consensus_role role;
    uint64_t leader; /* 0: unknown */
    uint64_t term;
    uint64_t committed;
    uint64_t lease_until_us; /* commands may be served until then; 0: not at all */
    /* This copy still led at this time; 0: it does not lead. A read that came before it may be answered, if the role is SERVING. */
    uint64_t confirmed_us;
};

/* What a leader has recorded of another member. */
struct consensus_progress {
    uint64_t match;     /* its log is durable and equal up to here */
    uint64_t next;      /* the first record to send; more than `match` */
    uint64_t sent_us;   /* of the newest message of this term that it has answered */
    uint64_t leased_us; /* it grants no vote until then */
    uint64_t heard_us;
    /* its log went back then: replies to older messages are of the log before; 0: never */
    uint64_t back_us;
    enum { CONSENSUS_PROBING, CONSENSUS_STREAMING, CONSENSUS_INSTALLING } way;
    bool is_waiting;   /* probing: no further APPEND before the reply, or the next heartbeat */
    bool has_answered; /* in this term */
    uint8_t state;     /* by its last answer */
};

/* What a follower has heard in this term. */
struct consensus_following {
    uint64_t matched;      /* its log equals the leader's up to here */
    uint64_t heard_commit; /* the leader's commit index */
    uint64_t echo_us;      /* sent_us of the newest message that matched */
};

/* State that only a leader uses. */
struct consensus_leading {
    uint64_t probe;        /* index of this term's PROBE */
    uint64_t heartbeat_us; /* of the next one */
    uint64_t transfer_to, transfer_until_us;
    /* the commit index of E to 2 E ago; at early_us the next one takes its place (consensus_is_caught_up) */
    uint64_t early_commit, next_early_commit;
    uint64_t early_us;
};

/* What is durable when a process starts, and options. */
struct consensus_start {
    uint64_t id;
    uint64_t random; /* any number, another one for each start */
    /* E. If it is shorter than that of the last process of this copy, the caller lets the difference pass first: that one may have
     * promised a leader to grant nothing for so long. */
    uint64_t election_us;
    bool has_promised_nothing; /* the group was founded just now: its only voter stands at once */
    uint32_t window;           /* records that are sent before they are acknowledged */
    uint64_t term, vote;
    uint64_t base, base_term; /* the log begins behind this record */
    /* Terms of its records, after base_term: run[0].first > base. At most TERM_RUNS_MAX - 1 may begin behind `committed`, and a
     * copy with so many stands no more: so the caller stores a commit index whenever the copy begins to serve. */
    const struct term_run *run;
    unsigned run_count;
    uint64_t last;
    /* durable up to here, by a sync of this process: what an earlier process only wrote may be in the page cache only */
    uint64_t synced;
    uint64_t committed; /* as far as it is known; at least `base` */
    /* The newest record of the members, and the one before it, which is in force again if the newest is cut with the log's tail. */
    struct consensus_members members, members_before;
};

struct consensus {
    uint64_t id;
    uint64_t random;
    uint64_t election_us;
    uint32_t window;
    uint8_t state;

    uint64_t term, vote;
    unsigned saving; /* saves that are not durable yet */
    enum consensus_role role;
    uint64_t leader;
    uint64_t promised_us; /* grants no vote before */
    uint64_t deadline_us; /* begins an election, or asks the voters again, at this time */
    /* this copy has handed leadership over in this term, so its VOTE for the next term has the mark (rules.h) */
    bool may_mark;
    /* of the voters, to this candidate */
    enum {
        CONSENSUS_UNANSWERED,
        CONSENSUS_GRANTED,
        CONSENSUS_REFUSED,
        CONSENSUS_SILENT, /* it has not granted the pre-vote either: it may be gone */
    } votes[CONSENSUS_MEMBERS_MAX];

    struct term_runs runs;
    uint64_t last, synced, committed;
    uint32_t cuts;
    struct consensus_members members, members_before;

    struct consensus_following following;
    struct consensus_leading leading;
    struct consensus_progress progress[CONSENSUS_MEMBERS_MAX]; /* a leader's, of members.list */
    uint64_t serves_term;
};

void consensus_init(struct consensus *core, const struct consensus_start *start, uint64_t now_us);
/* Handles one event and fills *update. An update with is_refused has no reason: the conditions are those of rules.h. */
void consensus_step(struct consensus *core, const struct consensus_event *event,
                    struct consensus_update *update);
/* When the next TICK is due at the latest. */
uint64_t consensus_next_us(const struct consensus *core);
/* The term of the record; 0 before the log begins and behind its end. */
uint64_t consensus_term_at(const struct consensus *core, uint64_t index);
/* A snapshot as of the record `index` of `index_term`, announced in `term`, was received whole: may it take the place of this log? If
 * so, the caller stops this core, and starts one from the snapshot with the term and the vote that this core has at that moment. */
bool consensus_may_install(const struct consensus *core, uint64_t term, uint64_t index,
                           uint64_t index_term);
/* Is it known to have reached, with all its records, the commit index of one E ago, and was it heard since? False unless this copy
 * leads. */
bool consensus_is_caught_up(const struct consensus *core, uint64_t id);
