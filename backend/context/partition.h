/*
 * partition.h - one partition: a thread with its loop, its store, and the state that commands share.
 *
 *   sessions ──dispatch──► handlers ──keyspace──► overlay ──commit──► store
 *        ▲                                                   │
 *        └───────────── held replies leave ◄── on_commit ────┘
 *
 * Other threads use only `loop` (loop_post) and read the metrics.
 *
 * A reply that observed or made effects of a batch waits for that batch's ticket. At most two tickets are pending (of the
 * batch in flight and of the open batch), so a session has two held outputs, selected by the ticket's parity.
 */
#pragma once

#include "backend/context/budget.h"
#include "backend/context/group_clock.h"
#include "backend/context/hybrid_clock.h"
#include "backend/storage/commit.h"
#include "backend/store/pace.h"
#include "config/config.h"
#include "shared/acl/acl_log.h"
#include "shared/arena.h"
#include "shared/command/command_cells.h"
#include "shared/command/latency.h"
#include "shared/list.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"
#include "shared/net/stream.h"

struct access_times;
struct archive;
struct feed;
struct held_stats;
struct backup;
struct change_events;
struct blocking_set;
struct call;
struct halt;
struct coordinator;
struct due_rows;
struct expiry;
struct founding;
struct fresh_reads;
struct leadership;
struct lock_set;
struct participant;
struct script_set;
struct cursor_cache;
struct push_messages;
struct range_bounds;
struct rank_cache;
struct rank_rebuild;
struct reader;
struct replica;
struct maintenance;
struct partition;
struct peer_set;
struct process; /* the process: partitions, configuration, start time */
struct config_snapshot;
struct moving_slots;
struct slot_moves;
struct slot_owners;
struct slot_set;
struct slot_table;
struct stray_moves;
struct space_set;
struct watch_set;
struct write_history;
struct session;
struct stats;

/* Listeners; NULL: not configured. */
struct partition_listeners {
    int port; /* of tcp, or of tls if there is no tcp */
    struct listener *tcp;
    struct listener *tls;
    struct listener *unix_socket;
    /* takes connections of other partitions of this process (peer_set.h) */
    void (*on_accept)(void *partition, struct stream *stream);
};

struct partition_clients {
    struct list all;        /* sessions */
    struct list waiting[2]; /* sessions with replies held for a ticket, by ticket parity */
    struct list overdue;    /* sessions to be closed at the end of the turn */
    struct list monitors;   /* sessions that sent MONITOR */
    struct list slot_sets;  /* slot sets of sessions; slot_set.h */
    struct list quiet;      /* slow calls wait until no reply is held; slow_call.h */
    struct line *line;      /* requests that wait on connections that clients share; line.h */
    uint32_t count;         /* in `all` */
    uint64_t last_id;
};

/* Replies that are produced in steps; reply_stream.h */
struct partition_streamed {
    struct list all;
    struct list ready; /* reply streams whose next step may run */
    struct task task;  /* runs reply_stream_run */
    bool is_posted;
};

/* States of math.random (nrand48), for scripts and for functions. */
struct script_chance {
    unsigned short states[2][3];
};

/* Functions of scripts that lower rooms call. */
struct script_hooks {
    /* the states of math.random in scripts of the session's namespace (attempt.h) */
    struct script_chance *(*chance)(const struct session *session);
    /* a script that has halted (halt.h) goes on, if its state is still there, or is dropped */
    void (*go_on)(struct call *call);
    bool (*may_go_on)(const struct halt *halt);
    void (*drop_halt)(struct halt *halt);
    /* writes the text of a cached script; false: it is not cached */
    bool (*source)(const struct session *session, struct bytes sha, struct out *out);
    /* flags (script_flags.h) of the cached script, or of the function; 0: it is unknown */
    uint32_t (*script_flags)(const struct session *session, struct bytes sha);
    uint32_t (*function_flags)(const struct session *session, struct bytes name);
};

/* State of the running command. keyspace_end releases `pins` and `blocks`. */
enum { LOAD_SLOT_NONE = -1 };

struct partition_running {
    struct arena arena; /* reset after the command */
    struct call_budget budget;
    uint64_t long_calls; /* number of calls that were not short, since the start */
    /* Serves other sessions while the call is slow (slow_call.h). NULL: none are served. */
    void (*on_slow)(struct partition *partition);
    /* The limits of the call's namespace. NULL: there are none. */
    struct budget_limits (*limits_of)(const struct call *call);
    struct call_budget *aside; /* of a slow call, while other sessions are served; NULL: none */
    struct overlay_written *written; /* of the call; the overlay counts it */
    struct slice *pins;              /* borrowed values */
    size_t pins_count;
    size_t pins_cap;
    struct block *blocks; /* borrowed values that replies may still use; linked by `next` */
    struct bytes *argv;
    uint32_t argv_cap;
    uint64_t started_us; /* when the command began; monotonic µs */
    /* key number so many from now on is in the sample (slot_load.h); 0 is never reached */
    uint32_t load_countdown;
    int32_t load_slot;    /* of the running command, if it is in the sample; else LOAD_SLOT_NONE */
    struct out discarded; /* output that is discarded (CLIENT REPLY OFF) */
    uint64_t random_state[4]; /* of call_random */
    const struct script_hooks *script_hooks;
    /* error for commands that may not run while a script runs; NULL: no slow script runs */
    const char *busy_error;
    const struct session *next; /* other sessions write nothing before its slow call; NULL: none */
    bool was_slow; /* the call was rolled back because it is slow, and runs again (slow_call.h) */
};

/* The open batch of writes, and the one in flight before it. */
struct partition_batch {
    uint64_t index;     /* of the last closed batch */
    uint64_t version;   /* newest collection version */
    uint64_t origin_ms; /* time of the last batch when the header was read */
    uint64_t commands;  /* commands that wrote into the open batch */
    uint64_t closed_us; /* when the batch in flight was closed; monotonic */
    struct hybrid_clock hybrid;
    uint64_t log_id; /* partition_store_log_id */
    struct pace_latency latency;
};

/* CLIENT PAUSE, and what a backup of the cluster holds until all shards have made their cuts. */
struct partition_pause {
    uint64_t until_ms; /* 0: none */
    bool writes_only;
    bool is_new;       /* CLIENT PAUSE ran inside the current EXEC: the pause begins after it */
    bool is_quiescing; /* for a backup: no transaction over shards begins here (coordinator.h) */
    bool is_held;      /* for a backup, later: writes wait, too */
    bool has_waiting;  /* sessions may wait for the end of a pause or of a full batch */
    uint32_t clients;  /* sessions whose request waits for the end of the pause */
};

/* Backups, LASTSAVE and the persistence section of INFO, and what else is done with files. `changes` are space_changes(). */
struct partition_saves {
    struct maintenance *maintenance;
    struct backup *backup;
    struct archive *archive; /* NULL: there is no archive-dir */
    struct feed *feed;
    uint64_t last_s;         /* wall clock */
    uint64_t changes;        /* at the last save */
    uint64_t bgsave_changes; /* when the running BGSAVE began */
    uint64_t count;          /* successful BGSAVEs */
    bool failed;             /* the last save failed */
};

/* Recipients of changes and messages. */
struct partition_watchers {
    const struct change_events *changes;
    struct watch_set *watches;
    struct blocking_set *blocking;
    struct pubsub *pubsub;
    struct tracking *tracking;
    struct push_messages *messages; /* of the running command */
};

struct partition_metrics {
    struct metrics *process;       /* metrics.def: this thread's counters, which /metrics sums */
    struct stats *stats;           /* of commands and clients, for INFO */
    struct metric_cell *cell;      /* of the partition in process->labelled */
    struct command_cells commands; /* of commands, in process->labelled */
    struct held_stats *held_stats;
    struct latency *latency;
    struct acl_log acl_log;
    struct slot_load *slot_load;
    uint64_t turn_us; /* when this turn's first request began; monotonic, 0: no request ran */
    uint64_t full_us; /* since when the open batch is full; monotonic, 0: not full */
};

/* Caches in memory, empty after each start. */
struct partition_caches {
    struct cursor_cache *cursors;      /* positions of SCANs */
    struct range_bounds *range_bounds; /* bounds of sorted sets */
    struct rank_cache *ranks;          /* blocks of big collections */
    struct rank_rebuild *rebuild;      /* of rank trees that older programs wrote */
    struct access_times *accesses;     /* of keys, for OBJECT IDLETIME */
    struct write_history *written;     /* bytes of namespaces that are in no file */
    uint64_t empty_bytes;   /* the least memory of write buffers and memtables that was seen */
    uint64_t unfiled_bytes; /* of all rows in memory that are in no file; set once a second */
    struct config_snapshot *snapshot; /* snapshot whose sizes are applied (config_apply.h) */
};

/* Active expiry; expiry_timer.h */
struct partition_expiry {
    bool is_active; /* DEBUG SET-ACTIVE-EXPIRE */
    struct expiry *keys;
    struct due_rows *index; /* hears of rows that are written to the expiry index */
    struct timer *timer;    /* for the next step */
    bool is_under_way;      /* the timer runs, or rows are being fetched */
    uint64_t rest_us;       /* how long the thread still serves others before the next step */
    uint64_t ended_us;      /* when the last step ended; monotonic */
    uint64_t kept_until_ms; /* wall clock; SCREE KEEP-EXPIRED hides expired keys until then */
};

struct partition;

/* Who owns a slot, and the slots around it that have the same owner and epoch. */
struct slot_owner_found {
    const char *shard;
    const char *address; /* NULL: not known */
    uint64_t epoch;
    uint16_t first, last;
};

/* Keys that are brought to the owners of their slots. */
struct partition_strays {
    struct stray_moves *moves;     /* from here */
    struct key_arrivals *arrivals; /* to here */
};

/* What waits here for other shards. */
struct shard_waits {
    struct list slots; /* what waits for slots in transition */
    uint64_t slots_ms; /* since when the first of them waits; monotonic */
    struct list locks; /* commands that take locks by age (lock_waiter.h) */
};

/* How much of a large transaction over shards is done at a time, and for how long requests wait in a line. The simulation sets less. */
struct transaction_steps {
    uint32_t portion_bytes;           /* longer payloads are sent in portions (portion.h) */
    uint32_t apply_effects;           /* or locks in a turn (participant_slice.c, lock_ahead.c) */
    uint32_t line_ms, line_across_ms; /* line.h */
};

struct partition_shards {
    struct peer_set *peers;   /* NULL after the partition has stopped */
    struct slot_table *slots; /* which slots the partition owns, durably */
    struct slot_owners *owners;
    bool is_gated; /* only keys of slots that the partition owns are served */
    bool is_held;  /* commands for data wait: for the first slots, or for the time of the cluster */
    const struct slot_set *here;       /* if it is gated: the owned slots; NULL: all */
    const struct moving_slots *moving; /* slots in transition (slot_gate.h); NULL: none */
    struct shard_waits waits;
    struct slot_moves *moves;
    struct partition_strays strays;
    /* Rows of function libraries and stored options have come from another shard. */
    void (*libraries_changed)(struct partition *partition);
    uint64_t here_version; /* counts changes of `here`; not 0 */
    uint64_t here_sum;     /* of `here`: slot_set_sum */
    /* monotonic: until then requests wait for a slot whose owner is not known; 0: none has waited since owners changed */
    uint64_t unknown_until_ms;
    /* `here` has changed: blocked clients may wait for keys that are no longer here */
    bool has_changed;
    /* Why a key of this slot is not served here, an error text in call->arena, NULL: the request bounces (bounce.h); and
     * the shard that owns the slot, NULL: not known (slot_owners.h). */
    const char *(*slot_refusal)(struct call *call, uint16_t slot, struct bytes key);
    const char *(*slot_owner)(const struct partition *partition, uint16_t slot);
    /* False: the owner is not known, or this shard is about to own the slot. Also of slot_owners.h. */
    bool (*find_owner)(const struct partition *partition, uint16_t slot,
                       struct slot_owner_found *found);
    /* The error if it does not bounce. */
    const char *(*plain_refusal)(struct call *call, uint16_t slot, struct bytes key);
    struct lock_set *locks; /* of transactions over shards */
    struct transaction_steps steps;
    struct coordinator *coordinator;
    struct participant *participant;
    struct list ticket_waits; /* ticket_wait.h */
    struct timer *tick;       /* of locks and transactions */
};

/* Of the data of a copy that follows: backend/partition/copy_age.h. */
struct partition_age {
    uint64_t fresh_until_us;     /* by clock_boot_us: then they are older than replica-reads-lag */
    struct replica_age *of_data; /* NULL: not looked at yet */
    /* copy_age_tick, for reads between two ticks; NULL: there was no tick yet */
    void (*look)(struct partition *partition);
    struct fresh_reads *fresh; /* reads that wait for newer data (backend/dispatch/fresh_reads.h) */
};

/* The partition's part in a group of copies (backend/partition/leadership.h). Without other copies of its data all is zero. */
struct partition_copies {
    struct replica *replica; /* NULL: there are no other copies */
    struct leadership *leadership;
    struct founding *founding;
    /* It does not serve as the leader: commands for data are refused, and nothing is changed that no client has asked for. */
    bool is_closed;
    /* Closed, and it adds the records that its group has committed; nothing else is written. */
    bool is_following;
    /* What it takes for committed is committed by its group: it leads it or follows, and is not being made a group of its own. */
    bool is_in_group;
    /* It follows, and is a copy of all data: clients that allow old data may read. */
    bool may_read;
    struct partition_age age; /* of what they read then */
    uint32_t generation;      /* of its group; 0: it is of none */
    /* How long it may serve without a majority that confirms it (replica.h); clock_boot_us. NULL: for ever. */
    const _Atomic uint64_t *lease_us;
    /* It leads, and its lease has been over for so long that commands are refused. */
    bool is_powerless;
    /* It leads, and gives its role to another copy (backend/partition/hand_over.h): proxies and other shards begin nothing new here … */
    bool is_leaving;
    bool is_held;                /* … and then all commands wait, as if its lease were over */
    struct hand_over *hand_over; /* NULL: none is under way */
    int room;         /* enum replica_room, of this disk (backend/partition/copies_room.h) */
    uint64_t room_ms; /* monotonic: a hand-over for want of room is tried again then */
    /* monotonic: until then commands wait: for a leader, while none is known; or for the lease */
    uint64_t waits_ms;
    struct group_clock time;     /* by which keys expire */
    uint64_t term;               /* of the batches that it writes */
    const char *leader;          /* the address of the copy that leads; empty: not known */
    struct leader_line *line;    /* to that copy (backend/partition/leader_line.h) */
    struct cluster_heard *heard; /* what it has said of all shards; NULL: nothing */
    uint64_t paused_until_ms; /* monotonic; 0: it adds records (backend/partition/copy_pause.h) */
    struct compare *compare;  /* of rows with those of the other copies; NULL: none yet */
    /* Reads again all that is cached from the store. False: it cannot be read. Set also without copies. */
    bool (*read_anew)(void *partition);
};

struct partition_thread {
    struct timer *tick;        /* 10 times a second: active expiry, idle clients, cache decay */
    struct turn_hook hook;     /* partition_end_turn */
    uint64_t ticks;            /* number of ticks */
    _Atomic int cpu_clock;     /* clockid_t of the thread's CPU time; 0: it has not begun */
    _Atomic uint64_t alive_ms; /* last tick, read by the admin port; monotonic */
    bool is_undrained;         /* counted in process->undrained */
    bool is_draining;          /* proxies finish what is in flight (stopping.h); stays set */
    uint64_t drain_until_ms;   /* monotonic */
    bool is_stopping;          /* nothing is read any more */
    void (*on_stopped)(void *owner);
    void *stop_owner;
};

struct partition {
    uint32_t index;
    char name[32]; /* "partition-0" */
    struct process *process;
    struct loop *loop;
    struct config_snapshot *snapshot; /* in force; see partition_refresh */
    struct storage *storage;
    struct overlay *overlay;
    struct reader *reader; /* NULL: reads go to the disk on this thread */
    struct commit *commit;
    struct space_set *spaces;
    struct script_set *scripts;
    struct partition_shards shards;
    struct partition_copies copies;
    struct partition_batch batch;
    struct partition_running running;
    struct partition_clients clients;
    struct partition_streamed streamed;
    struct partition_watchers watchers;
    struct partition_pause pause;
    struct partition_expiry expiry;
    struct partition_saves saves;
    struct partition_caches caches;
    struct partition_metrics metrics;
    struct partition_listeners listeners;
    struct partition_thread thread;
};

/* Returns a new collection version: the time in µs << 11, or the previous version + 1 if that is greater. */
uint64_t partition_version(struct partition *partition, uint64_t now_us);
/* Another shard has given this version to a collection: those that this one gives are greater. False: the version's time is too far
 * ahead (HYBRID_AHEAD_US), so that the versions would soon begin again at 0. It was not taken over. */
bool partition_hear_version(struct partition *partition, uint64_t version);
/* It serves, and no majority has confirmed for so long that it leads that another copy may serve by now: nothing may be read, answered
 * or sent. To be asked each time that a request runs: it compares a clock. */
bool partition_lease_is_over(const struct partition *partition);
/* It stops, or hands its lead over: what begins here now would have to end before. */
static inline bool partition_takes_no_more(const struct partition *partition)
{
    return partition->thread.is_draining || partition->copies.is_leaving;
}

/* Is the open batch bigger than commit-batch-limit? Then nothing is read from clients. */
bool partition_is_full(const struct partition *partition);
/* With half of that, work for which no client waits writes nothing more: else clients would have to wait for it. */
bool partition_is_half_full(const struct partition *partition);
/* May a request of so many bytes run? A big one waits while big values in the write buffers exceed commit-batch-limit. */
bool partition_takes(const struct partition *partition, size_t frame_bytes);
/* Is CLIENT PAUSE in force, here or at a proxy, or is the partition a copy that does not lead? Then expired keys are hidden and not
 * deleted. */
bool partition_keeps_expired(const struct partition *partition);
/* Records for LASTSAVE and INFO that a BGSAVE or backup has ended. `changes`: space_changes() at its begin. */
void partition_saved(struct partition *partition, bool good, uint64_t changes);
/* Records an event for LATENCY if it took at least latency-monitor-threshold. */
void partition_note_latency(struct partition *partition, enum latency_kind kind, uint64_t usec);
/* The option [store] latency-target, in microseconds. */
uint64_t partition_latency_target_us(const struct partition *partition);
