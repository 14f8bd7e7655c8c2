/*
 * partition.h - one partition: a thread with its loop, its store, and everything commands share.
 *
 *   sessions ──dispatch──► handlers ──keyspace──► overlay ──commit──► store
 *        ▲                                                   │
 *        └───────────── held replies leave ◄── on_commit ────┘
 *
 * Nothing here is touched by another thread, except `loop` (loop_post) and the metrics (read only).
 *
 * A reply that observed or made effects of a batch waits for that batch's ticket; at most two tickets are
 * open (in flight and collecting), so a session holds at most two outs, chosen by the ticket's parity.
 */
#pragma once

#include "backend/keyspace/space.h"
#include "backend/keyspace/watch.h"
#include "backend/partition/account.h"
#include "backend/partition/message.h"
#include "backend/storage/commit.h"
#include "backend/store/pace.h"
#include "config/config.h"
#include "shared/acl_log.h"
#include "shared/command_cells.h"
#include "shared/list.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"
#include "shared/net/stream.h"

struct backup;
struct blocking_set;
struct call;
struct script_set;
struct cursor_cache;
struct edges;
struct latency;
struct rank_cache;
struct reader;
struct upkeep;
struct process; /* the process: partitions, configuration, start time */
struct settings;
struct stats;

struct partition {
    uint32_t index;
    char name[32]; /* "partition-0" */
    struct process *process;
    struct loop *loop;
    struct store *store;
    struct overlay *overlay;
    struct reader *reader; /* NULL: reads go to the disk on this thread */
    struct commit *commit;
    struct space_set *spaces;
    struct watch_set *watches;
    struct blocking_set *blocking;
    struct pubsub *pubsub;
    struct tracking *tracking;
    struct list overdue;     /* sessions to be cut at the end of the turn */
    struct list walks;       /* replies that sessions are in the middle of */
    struct list walks_ready; /* those that may step */
    struct task walk_task;   /* walk_run, when */
    bool walk_is_posted;
    struct list monitors;     /* of sessions that gave MONITOR */
    struct list slot_sets;    /* of sessions that belong to a proxy with several shards */
    struct messages messages; /* of the command being run */
    struct upkeep *upkeep;
    struct backup *backup;
    uint64_t expiry_from_ms; /* the expiry index has no rows before this time */
    struct script_set *scripts;
    struct cursor_cache *cursors;  /* where SCANs go on */
    struct edges *edges;           /* where sorted sets begin and end */
    struct rank_cache *rank_cache; /* blocks of big collections */
    struct metrics *metrics;
    struct metric_cell *cell;      /* of the partition in process->measures */
    struct command_cells commands; /* likewise */
    uint64_t batch_commands;       /* of the batch that collects: commands that wrote */
    uint64_t turn_us;              /* monotonic: requests of this turn began to run; 0: none did */
    uint64_t full_us;              /* monotonic: the batch that collects is full since; 0: is not */
    struct arena arena;            /* of the command being run; reset after it */
    struct slice *pins; /* values borrowed by the command being run; keyspace_end releases them */
    size_t pins_count;
    size_t pins_cap;
    struct block *shared;     /* likewise, but replies may hold them longer; linked by next */
    uint64_t random_state[4]; /* of call_random */
    uint64_t version;         /* newest collection version given out */
    uint64_t batch_index;     /* of the last sealed batch */
    bool active_expire;       /* DEBUG SET-ACTIVE-EXPIRE */
    struct timer *tick;       /* 10 times a second: active expiry, idle clients, cache decay */
    struct turn_hook hook;    /* commit_turn */
    int port;                 /* it listens on */
    struct listener *listener;
    struct listener *tls_listener;
    struct listener *unix_listener;
    struct list sessions;   /* all */
    struct list waiting[2]; /* sessions with held replies of a ticket, by ticket parity */
    uint64_t next_client_id;
    uint32_t clients;         /* in `sessions` */
    uint64_t paused_until_ms; /* CLIENT PAUSE; 0 = not */
    bool paused_writes_only;
    bool pause_is_new;       /* it was given inside the EXEC that runs, and begins at its end */
    uint32_t paused_clients; /* sessions whose request waits for the end of the pause */
    bool is_held;            /* writes wait while all shards make the cut of a backup */
    bool has_paused;         /* some session may wait for the end of a pause or of a full batch */
    bool is_stopping;
    struct settings
        *settings;          /* the process' settings in force here; partition_refresh renews them */
    struct settings *tuned; /* those whose sizes are in force (tune.h) */
    struct stats *stats;
    struct accounts accounts;
    struct latency *latency;
    struct acl_log acl_log;
    struct bytes *argv; /* of the request being run */
    uint32_t argv_cap;
    uint64_t started_us; /* monotonic: when the command being run began */
    uint64_t ticks;
    uint64_t saved_s;        /* LASTSAVE, wall clock */
    uint64_t saved_changes;  /* space_changes() that are in what was saved last */
    uint64_t bgsave_changes; /* when the BGSAVE that runs began */
    uint64_t saves;          /* BGSAVEs that ended well */
    bool save_failed;        /* the last one */
    uint64_t sealed_us;      /* monotonic: when the batch in flight was sealed */
    struct pace_latency commit_latency;
    struct out scrap;          /* replies nobody wants (CLIENT REPLY OFF) */
    _Atomic uint64_t alive_ms; /* monotonic: the last tick, read by the admin port */
    void (*on_stopped)(void *owner);
    void *stop_owner;
};

/* Opens the partition's store under `data`/partition-<index> and makes everything but the listeners.
 * Runs on the thread that calls; the loop must exist. NULL and a reason in error[size]. */
struct partition *partition_new(struct process *process, uint32_t index, struct loop *loop,
                                char *error, size_t size);
/* listener_tls_fn: of its tls_listener. */
struct tls_context *partition_tls(void *owner);
/* Accepts streams as clients from now on; takes the listeners. */
void partition_accept(void *owner, struct stream *stream); /* accept_fn; owner is the partition */
/* Stops reading, answers what was read, commits, closes every session; then calls on_stopped. */
void partition_stop(struct partition *partition, void (*on_stopped)(void *owner), void *owner);
/* After it has stopped, or when it never ran. Closes the store. */
void partition_free(struct partition *partition);
/* A version greater than all before (µs << 11, or one more than the last). */
uint64_t partition_version(struct partition *partition, uint64_t now_us);
/* Takes over settings that were changed since; cheap when there are none. */
void partition_refresh(struct partition *partition);
/* The batch that collects is bigger than commit-batch-limit: nothing more is read from clients. */
bool partition_is_full(const struct partition *partition);
/* CLIENT PAUSE and UNPAUSE (until_ms 0), by this turn's wall clock. */
void partition_pause(struct partition *partition, uint64_t until_ms, bool writes_only);
/* CLIENT PAUSE is in force: keys whose time has come are hidden, but stay. */
bool partition_keeps_expired(const struct partition *partition);
/* What waited for the end of a pause, a hold or a full batch is looked at again. */
void partition_resume(struct partition *partition);
/* BGSAVE or a backup has ended: LASTSAVE and INFO tell it. `changes`: space_changes() when it began. */
void partition_saved(struct partition *partition, bool good, uint64_t changes);
/* An internal call (no session) at this turn's time; the caller finishes with partition_call_end. */
void partition_call_begin(struct partition *partition, struct call *call);
void partition_call_end(struct partition *partition, struct call *call);
