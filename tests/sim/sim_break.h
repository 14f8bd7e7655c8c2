/*
 * sim_break.h - parts that break a promise on purpose, to prove that the simulations detect it.
 *
 * Each control breaks one promise; a simulation that still passes does not test that promise.
 */
#pragma once

#include <stdbool.h>

enum sim_break {
    BREAK_NONE,
    BREAK_LOST_SYNC,     /* log: a crash loses a synced write */
    BREAK_TORN_BATCH,    /* log: after a crash, half of the batch being written is there */
    BREAK_EARLY_ACK,     /* worker: done() runs before work() */
    BREAK_LOST_DONE,     /* worker: a job's done() is never called */
    BREAK_SWAPPED_REPLY, /* network: two replies are exchanged */
    BREAK_LOST_REPLY,    /* network: a reply is lost, the connection stays */
    BREAK_DOUBLE_SEND,   /* network: a request arrives twice, and its second reply is dropped */
    BREAK_WRONG_BACKEND, /* network: a connection reaches another listener */
    BREAK_INTERFACES_END,
    /* of transactions over shards (tests/controls/transactions.c): */
    BREAK_LOCKS_NOT_REBUILT =
        BREAK_INTERFACES_END, /* a start does not lock the keys of prepared transactions */
    BREAK_EARLY_REPLY,        /* the reply leaves before the decision is durable */
    BREAK_UNSYNCED_DECISION,  /* with durability everysec, records and decisions are not synced */
    BREAK_TOLD_AT_PREPARE,    /* changes are reported at PREPARE already */
    BREAK_EARLY_PREPARED,     /* PREPARE is answered before its record is durable */
    BREAK_UNKNOWN_APPLIED,    /* a transaction without a decision counts as committed */
    BREAK_EARLY_APPLIED,      /* APPLY is answered before the effects are durable */
    BREAK_NO_READ_LOCKS,      /* keys that are only read are not locked until the last attempt */
    /* of slots that move: */
    BREAK_TAIL_DROPPED, /* what is written while rows are copied does not follow */
    BREAK_NOT_FROZEN,   /* writes go on while slots are handed over */
    BREAK_EARLY_OWNED,  /* the target owns slots before the source has released them */
    BREAK_LONG_FROZEN,  /* transactions go on when the slots of their keys are frozen */
    BREAK_NO_ASK,       /* a target that hears nothing does not ask the source */
    BREAK_ASK_ENDED,    /* … and is always told that the move has ended */
    BREAK_LATE_BEGIN,   /* a MOVE_BEGIN that comes late ends its move, or one that began after it */
    BREAK_OLD_MAP,      /* moves obey maps of any age: no epochs of maps are compared */
    BREAK_RANGE_REFUSED,     /* deleted ranges that follow rows are not limited to the slots … */
    BREAK_RANGE_NOT_CLIPPED, /* … and the target deletes what it has in the other slots */
    /* of strays, which are brought to the owners of their slots while these move: */
    BREAK_PUT_FROZEN, /* they are written into slots that are being handed over */
    BREAK_EARLY_PUT,  /* their owner replies before they are durable … */
    BREAK_NO_RECEIPT, /* … or forgets what it has taken */
    /* of transactions over shards again: */
    BREAK_NO_OUTCOME,     /* a participant that hears nothing does not ask for the outcome */
    BREAK_NO_ALL_LOCKS,   /* a transaction that uses all keys of a database locks none */
    BREAK_ALL_ANYWHERE,   /* a shard says what keys it has, whatever slots it is expected to own */
    BREAK_FORCED_UNASKED, /* nothing compares a forced decision with that of the deciding shard */
    /* of what is cached of a collection (backend/storage/stamps.h): it stays as it is, when … */
    BREAK_APPLIED_KEPT, /* … a participant applies effects */
    BREAK_OWN_KEPT, /* … a coordinator applies its own effects, or rows are borrowed or arrive */
    BREAK_ROLLBACK_KEPT, /* … effects are rolled back */
    /* of payloads in portions: */
    BREAK_FIRST_PORTION, /* a shard that has the first one counts as prepared */
    /* of commands of one shard that take locks by age (lock_waiter.h): */
    BREAK_WOUNDED_KEPT, /* one that an older transaction waits for keeps its locks */
    /* of transactions that borrow much (coordinator_grants.c): */
    BREAK_GRANT_KEPT, /* one that has ended keeps its grant */
    /* of APPLY in slices (participant_apply.c): */
    BREAK_HALF_SHOWN, /* the first slice releases the locks */
    /* … in shards whose leaders change: */
    BREAK_PEERS_NOT_CUT, /* a leader that is replaced keeps its links to other shards */
    /* of scripts that halt (backend/script/halt.h): */
    BREAK_HALT_UNLOCKED, /* while one waits, others change what it has read */
    BREAK_HALT_UNCOUNTED, /* keys that were made or deleted before one waited do not count after it */
    BREAK_TRANSACTIONS_END,
    /* of copies that agree on a log (tests/controls/consensus.c), in their disks: */
    BREAK_VOTE_UNSAVED = BREAK_TRANSACTIONS_END, /* term and vote are not saved */
    BREAK_MESSAGE_BEFORE_SAVE, /* messages leave before the save of their update is durable */
    BREAK_CACHE_COUNTS,        /* at a start, what is in the page cache counts as synced */
    BREAK_LOG_TAIL_DROPPED,    /* a start drops what it does not see committed */
    BREAK_EMPTY_KEEPS_ID,      /* an empty disk keeps its id … */
    BREAK_OLD_DISK_KEEPS_ID,   /* … and so does an old copy of a disk */
    /* … in the core: */
    BREAK_OLD_TERM_COUNTS,  /* records of earlier terms are committed by counting copies */
    BREAK_ACK_UNSYNCED,     /* a follower acknowledges before it has synced */
    BREAK_OWN_UNSYNCED,     /* the leader's own copy counts before it is synced */
    BREAK_ONE_COPY,         /* one copy counts as most of them */
    BREAK_UNMATCHED_COMMIT, /* a heartbeat commits a tail that does not match */
    BREAK_TWO_VOTES,        /* a voter grants to each candidate of a term */
    BREAK_SHORT_LOG,        /* … and to one whose log lacks records */
    BREAK_LEASE_OF_REPLY,   /* the lease begins when the reply comes … */
    BREAK_LONG_LEASE,       /* … and lasts for E of the leader, not of those who promise it */
    BREAK_START_FORGETS,    /* a voter may vote at once after its start */
    BREAK_NO_PROMISE,       /* … and when it hears a leader */
    BREAK_LEADER_VOTES,     /* a leader votes within its lease */
    BREAK_EARLY_SERVING,    /* served before the PROBE is committed */
    BREAK_LEASE_UNSERVED,   /* a lease before the owner of the data serves in the term */
    BREAK_OLD_BATCH,        /* a batch that was closed in another term is appended */
    BREAK_TWO_CHANGES,      /* members are changed before the last change is committed */
    BREAK_BIG_CHANGE,       /* several members at once */
    BREAK_OLD_MAP_MEMBERS,  /* by an older map */
    BREAK_PROMOTED_SILENT,  /* a voter does not vote before it has the record of its promotion */
    BREAK_REFUSAL_NO_TERM,  /* a refusal has no term */
    BREAK_CONSENSUS_END,
    /* … which costs time only (test_stuck_voters.c): */
    BREAK_SPLIT_WAITS =
        BREAK_CONSENSUS_END, /* votes that were split are not asked for again soon */
    BREAK_STUCK_END,
    /* … in what is around it (test_voters.c): */
    BREAK_WENT_BACK = BREAK_STUCK_END, /* a disk that was set back is not noticed */
    BREAK_SERVES_ALONE,    /* a group without keys is served before most of its copies vote */
    BREAK_LEADS_HUNG,      /* a leader whose disk hangs goes on */
    BREAK_LEADS_BEHIND,    /* a copy that has much to apply stands as early as others */
    BREAK_TIME_FORGOTTEN,  /* a new leader expires keys by its own clock */
    BREAK_ROOM_UNHEARD,    /* no copy hears that disks of others are full */
    BREAK_NO_SPARE,        /* a full disk takes no record */
    BREAK_UNNAMED_UNHEARD, /* a copy hears only those that its map or its members name */
    BREAK_VOTERS_END,
    /* … and in partitions that lead in turn (tests/controls/leaders.c): */
    BREAK_LEASE_ENDLESS = BREAK_VOTERS_END, /* the lease of a leader never ends */
    BREAK_BATCH_KEPT,    /* a leader that is replaced keeps the batch that was not committed … */
    BREAK_BATCH_REPLIED, /* … or acknowledges it */
    BREAK_TAIL_APPLIED,  /* a copy adds records that are not committed */
    BREAK_BEHIND_SERVES, /* a copy leads before it has added all that was committed */
    BREAK_LOG_TIME_FORGOTTEN, /* its time may be behind that of its log */
    /* … of reads at copies that must be fresh: */
    BREAK_INDEX_UNLEASED,  /* a copy answers that leads no more, and its term is not compared */
    BREAK_INDEX_OLD,       /* … with what it had committed when it was asked before */
    BREAK_INDEX_EARLY,     /* its answer counts for reads that came after the question */
    BREAK_INDEX_UNAPPLIED, /* a copy reads before its data have the record */
    BREAK_LEADERS_END,
    /* of requests that leave the connection that clients share (test_line.c): */
    BREAK_BEHIND_RUNS = BREAK_LEADERS_END, /* those behind one that has left run */
    BREAK_SLOTS_END_LINE,                  /* … when the proxy sends its slots */
    BREAK_OVERTAKEN,      /* a client whose request may be behind one sends further ones */
    BREAK_REFUSED_UNSEEN, /* a shard does not hear that its proxy has seen a bounce and not taken it */
    BREAK_BEHIND_UNSEEN, /* … that it has seen one of those behind, after the first was replaced by an error */
    BREAK_LINE_END,
    BREAK_COUNT = BREAK_LINE_END,
};

extern enum sim_break sim_broken;

/* The name on the command line; NULL at the end. */
const char *sim_break_name(enum sim_break broken);
/* False: no control has this name. */
bool sim_break_find(const char *name, enum sim_break *broken);
