/*
 * sim_replica.h - a copy of a shard with a host of its own: its loops, its storage in memory, its replica, and a listener behind a relay.
 *
 *   links of the others ──► relay-b:1 ──► b:1  home: the test ──► loop: replica
 *
 * All copies are of the shard "s", which has some of the addresses relay-a:1 to relay-d:1: at first the first `count` of them.
 */
#pragma once

#include "backend/replica/snapshot_join.h"
#include "backend/storage/storage.h"
#include "tests/sim/sim_relay.h"

enum { SIM_REPLICAS_MAX = 4 };

struct sim_replica_options {
    struct store_env *env;
    struct metrics *metrics;
    struct labels *labels;
    unsigned count;                                        /* of copies in the map of epoch 1 */
    bool has_voters, may_join, waits_for_voters, has_lost; /* replica_options */
    uint64_t election_us;
    uint32_t window;
    enum replica_state state;
    struct replica_snapshots snapshots;
    /* If it is set, files are fetched and given beside this path (snapshot_join.h), and `snapshots` does not count. */
    const char *files;
    struct replica_events events;
    uint64_t (*home_progress)(void *owner); /* NULL: home is not watched */
    void *owner;                            /* of the events and of home_progress */
    struct group_clock *time;               /* replica_options */
};

struct sim_replica {
    unsigned number;  /* from 0 */
    const char *name; /* of its host */
    char dir[32]; /* of its storage and its file; the test may change it while the copy is down */
    bool is_up;
    struct loop *loop, *home;
    struct listener *listener;
    struct storage *storage;
    struct replica *replica;
    struct snapshot_join *join; /* NULL: without files */
};

/* The address of a copy in the map. */
const char *sim_replica_address(unsigned number);
/* A host and its relay; nothing runs yet. */
void sim_replica_new(struct sim_replica *copy, unsigned number, struct sim_relays *relays);
void sim_replica_open_storage(struct sim_replica *copy, struct store_env *env);
/* Starts a process. Its storage is opened, if the test has not done it. */
void sim_replica_start(struct sim_replica *copy, const struct sim_replica_options *options);
/* A shard map with the addresses of the copies whose bits are set. */
void sim_replica_configure(const struct sim_replica *copy, uint64_t epoch, unsigned map);
/* Its home hears that the records behind `at` are committed, up to `index`: on_record gets each from the log, then the replica hears of it.
 * Returns the newest index that it has now: `at`, if it had more already. */
uint64_t sim_replica_commit(struct sim_replica *copy, uint64_t at, uint64_t index,
                            void (*on_record)(void *owner, uint64_t index, struct bytes record),
                            void *owner);
/* Applies a record of members, and nothing of others. Its row is in a file before anything else can happen, so that each start finds it,
 * whatever was trimmed. */
void sim_replica_apply_members(struct sim_replica *copy, uint64_t index, struct bytes record);
/* The process ends without warning, and its loops are freed. */
void sim_replica_crash(struct sim_replica *copy);
/* It ends as it should, and its storage is closed; sim_replica_fini frees the loops, when time has passed. */
void sim_replica_stop(struct sim_replica *copy);
void sim_replica_fini(struct sim_replica *copy);

/* A record in short, to tell whether two are equal; never 0. */
uint32_t sim_record_hash(struct bytes record);
