/*
 * sim_cluster.h - the programs of a simulated world: backend hosts with partitions, proxies, the shard map.
 *
 *   client ──► proxy host ──► backend host: partition, partition      (sim.h's world, real program code)
 *      └──────────────────────────►┘ some clients connect directly
 *
 *   backend host ──► relay ──► backend host                            links, if the plan has them (sim_relay.h)
 *
 *   DOWN ──start──► UP ──stop──► STOPPING ──stopped──► DOWN       a crash leads from any state to DOWN
 *
 * Every partition listens on two addresses, so that a new map may give it another address while it owns the same slots.
 * All functions are called between two steps of the world.
 */
#pragma once

#include "config/config.h"
#include "shared/slot.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_leader.h"
#include "tests/sim/sim_relay.h"

enum {
    SIM_BACKENDS_MAX = 3,
    SIM_PARTITIONS_MAX = 2, /* in each backend */
    SIM_SHARDS_MAX = SIM_BACKENDS_MAX * SIM_PARTITIONS_MAX,
    SIM_PROXIES_MAX = 3,
    SIM_PLACES_MAX = 3,
    SIM_RANGES = 16, /* shards own slots in units of a sixteenth */
    SIM_NAMES_MAX = 40,
};

struct loop;
struct partition;
struct proxy;
struct process;
struct sim_cluster;
struct store_env;

enum sim_state { SIM_DOWN, SIM_UP, SIM_STOPPING };

/* The shape of a world. */
struct sim_plan {
    unsigned backends;
    unsigned partitions; /* in each backend */
    unsigned proxies;    /* 0: clients connect to partitions */
    unsigned workers;    /* in each proxy */
    unsigned places;     /* namespaces or databases that clients use */
    bool has_secret;     /* with a secret there are namespaces too */
    bool is_linked;      /* backends have a shard map and links to each other; needs a secret */
    bool active_expire;
    bool has_idle_timeout; /* backends close idle connections */
    enum durability durability;
    uint64_t upstream_timeout_ms;
    unsigned output_limit_mb; /* of each client of a proxy; 0: the default */
    unsigned across_limit;    /* of each worker and shard; 0: the default */
    uint64_t lock_timeout_ms; /* if it is linked, as the following */
    uint64_t transaction_timeout_ms;
    uint64_t migration_freeze_ms;
    uint64_t migration_rate; /* bytes a second; 0: no limit */
    bool has_one_grant;      /* one transaction may borrow much at a time */
    bool has_short_output;   /* peer-output-limit is 256kb */
    bool has_leaders;        /* partitions lead, as one of several copies (sim_leader.h) */
    bool has_portions;       /* payloads of transactions are sent in small portions (portion.h) */
};

/* The namespace and database of a client's keys. */
struct sim_place {
    char name[SIM_NAMES_MAX]; /* the namespace, which is also its token; empty: none */
    unsigned db;
};

struct sim_shard {
    unsigned backend;
    unsigned partition;
    char addresses[2][SIM_NAMES_MAX];
    char relay[SIM_NAMES_MAX]; /* address of its relay, if the plan has links */
};

struct sim_seat {
    struct loop *loop;
    struct partition *partition;
    struct sim_leader *leader; /* NULL: the shard has one copy */
    bool is_audited;           /* its rows, since its start */
    bool has_stopped;
};

struct sim_backend {
    struct sim_cluster *cluster;
    char name[SIM_NAMES_MAX]; /* the name of its host */
    enum sim_state state;
    struct process *process;
    struct sim_seat seats[SIM_PARTITIONS_MAX];
    struct sim_leader_kept groups[SIM_PARTITIONS_MAX]; /* of its seats */
    uint64_t back_us;                                  /* when DOWN: time of its next start */
    bool was_crashed;                                  /* it has crashed at least once */
};

struct sim_proxy {
    struct sim_cluster *cluster;
    char name[SIM_NAMES_MAX];
    char address[SIM_NAMES_MAX];
    enum sim_state state;
    struct loop *loop;
    struct proxy *proxy;
    uint64_t back_us;
};

struct sim_cluster {
    struct sim_plan plan;
    struct sim_backend backends[SIM_BACKENDS_MAX];
    struct sim_proxy proxies[SIM_PROXIES_MAX];
    struct sim_shard shards[SIM_SHARDS_MAX];
    struct sim_place places[SIM_PLACES_MAX];
    unsigned shard_count;
    uint8_t owners[SIM_RANGES]; /* the shard that owns each range of slots */
    int absent;                 /* the shard that is not in the map of the backends; -1: all are */
    uint64_t epoch;             /* the newest map's epoch */
    struct shard_map *map;      /* of the backends; NULL: they have no links */
    struct sim_relays relays;
    char why[512]; /* the first failure; empty: none */
};

/* Starts all programs, and returns when all are up. */
void sim_cluster_start(struct sim_cluster *cluster, const struct sim_plan *plan);
/* All programs must be DOWN. */
void sim_cluster_fini(struct sim_cluster *cluster);
unsigned sim_cluster_shard(const struct sim_cluster *cluster, uint16_t slot);

/* Makes a newer map for the backends. In most of them some ranges have other owners, and perhaps a shard is missing. A backend gets it when it starts, or from
 * sim_backend_reload. Proxies keep their maps. */
void sim_cluster_move(struct sim_cluster *cluster);
/* Gives a running backend the newest map. */
void sim_backend_reload(struct sim_backend *backend);

/* Starts on the rows in the store, and audits them. */
void sim_backend_start(struct sim_backend *backend);
/* Begins to stop cleanly. */
void sim_backend_stop(struct sim_backend *backend);
/* Kills the process; unsynced writes are lost. */
void sim_backend_crash(struct sim_backend *backend);

void sim_proxy_start(struct sim_proxy *proxy);
void sim_proxy_stop(struct sim_proxy *proxy);
/* Activates another map, with other names, addresses and order but the same owners, and other options. */
void sim_proxy_reload(struct sim_proxy *proxy);

/* Frees the programs that have stopped; called between steps, often. */
void sim_cluster_tend(struct sim_cluster *cluster);
/* Starts programs whose time has come; with `at_once` all. */
void sim_cluster_revive(struct sim_cluster *cluster, bool at_once);
bool sim_cluster_is_up(const struct sim_cluster *cluster);
/* True when every proxy has noticed that its clients left, and has completed their requests. A proxy that was frozen
 * may read them only afterwards. */
bool sim_cluster_is_quiet(const struct sim_cluster *cluster);
bool sim_cluster_is_down(const struct sim_cluster *cluster);
