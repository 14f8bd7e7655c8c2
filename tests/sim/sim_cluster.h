/*
 * sim_cluster.h - the programs of a simulated world: backend hosts with partitions, proxies, the shard map.
 *
 *   client ──► proxy host ──► backend host: partition, partition      (sim.h's world, real program code)
 *      └──────────────────────────►┘ some clients come directly
 *
 *   DOWN ──start──► UP ──stop──► STOPPING ──stopped──► DOWN       a crash leads from anywhere to DOWN
 *
 * Every partition listens on two addresses, so that a new map may name it differently while it owns the
 * same slots. All functions are called between two steps of the world.
 */
#pragma once

#include "config/config.h"
#include "shared/slot.h"
#include "tests/sim/sim.h"

enum {
    SIM_BACKENDS_MAX = 3,
    SIM_PARTITIONS_MAX = 2, /* of a backend */
    SIM_SHARDS_MAX = SIM_BACKENDS_MAX * SIM_PARTITIONS_MAX,
    SIM_PROXIES_MAX = 3,
    SIM_PLACES_MAX = 3,
    SIM_RANGES = 16, /* slots are given to shards by sixteenths */
    SIM_NAMES_MAX = 40,
};

struct loop;
struct partition;
struct proxy;
struct process;
struct sim_cluster;
struct store_env;

enum sim_state { SIM_DOWN, SIM_UP, SIM_STOPPING };

/* What the world is made of. */
struct sim_plan {
    unsigned backends;
    unsigned partitions; /* of each backend */
    unsigned proxies;    /* 0: clients talk to partitions */
    unsigned workers;    /* of each proxy */
    unsigned places;     /* namespaces or databases that clients are in */
    bool has_secret;     /* and so namespaces */
    bool active_expire;
    bool has_idle_timeout; /* backends close silent connections */
    enum durability durability;
    uint64_t upstream_timeout_ms;
    unsigned output_limit_mb; /* of a proxy's client; 0: the default */
};

/* Where a client's keys are. */
struct sim_place {
    char name[SIM_NAMES_MAX]; /* namespace, and its token; empty: none */
    unsigned db;
};

struct sim_shard {
    unsigned backend;
    unsigned partition;
    char addresses[2][SIM_NAMES_MAX];
};

struct sim_seat {
    struct loop *loop;
    struct partition *partition;
    bool has_stopped;
};

struct sim_backend {
    struct sim_cluster *cluster;
    char name[SIM_NAMES_MAX]; /* of the host */
    enum sim_state state;
    struct process *process;
    struct sim_seat seats[SIM_PARTITIONS_MAX];
    uint64_t back_us; /* DOWN: when it is to be started */
    bool was_crashed; /* ever */
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
    uint8_t owners[SIM_RANGES]; /* shard of each range of slots */
    uint64_t epoch;             /* of the newest map */
    char why[512];              /* first thing that was wrong; empty: nothing */
};

/* Everything is up afterwards. */
void sim_cluster_start(struct sim_cluster *cluster, const struct sim_plan *plan);
/* Everything must be DOWN. */
void sim_cluster_fini(struct sim_cluster *cluster);
unsigned sim_cluster_shard(const struct sim_cluster *cluster, uint16_t slot);

/* Starts on what the store holds, which is audited. */
void sim_backend_start(struct sim_backend *backend);
/* Begins to stop cleanly. */
void sim_backend_stop(struct sim_backend *backend);
/* The process is killed, and what the disks had not is lost. */
void sim_backend_crash(struct sim_backend *backend);

void sim_proxy_start(struct sim_proxy *proxy);
void sim_proxy_stop(struct sim_proxy *proxy);
/* Another map, with other names, addresses and order but the same owners, is put in force; other options too. */
void sim_proxy_reload(struct sim_proxy *proxy);

/* Buries what has stopped; between steps, often. */
void sim_cluster_tend(struct sim_cluster *cluster);
/* Starts what is due to come back. */
void sim_cluster_revive(struct sim_cluster *cluster, bool at_once);
bool sim_cluster_is_up(const struct sim_cluster *cluster);
/* Every proxy has noticed that its clients have left, and what they had sent is done: one that was frozen may find
 * their requests only when it thaws. */
bool sim_cluster_is_quiet(const struct sim_cluster *cluster);
bool sim_cluster_is_down(const struct sim_cluster *cluster);
