#include "tests/sim/sim_replica.h"

#include "backend/format/effects.h"
#include "backend/store/store.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/net/loop.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_greeting.h"
#include "tests/sim/storage_mem.h"

#include <stdio.h>

enum { WAL_BATCHES = 4096, STOP_US_MAX = 300000 };

static const char *const names[SIM_REPLICAS_MAX] = {"a", "b", "c", "d"};
static const char *const addresses[SIM_REPLICAS_MAX] = {"relay-a:1", "relay-b:1", "relay-c:1",
                                                        "relay-d:1"};

const char *sim_replica_address(unsigned number)
{
    return addresses[number];
}

/* ---- greeting ---------------------------------------------------------------------------------- */

static bool is_open(void *owner)
{
    const struct sim_replica *copy = owner;
    return copy->is_up;
}

static bool admit(void *owner, struct bytes protocol, struct bytes shard, struct bytes identity,
                  struct peer_identity *peer, const char **error)
{
    const struct sim_replica *copy = owner;
    return replica_admit(copy->replica, protocol, shard, identity, peer, error);
}

static size_t write_identity(void *owner, char to[PEER_IDENTITY_MAX])
{
    const struct sim_replica *copy = owner;
    return replica_identity(copy->replica, to);
}

static void adopt(void *owner, struct stream *stream, const struct peer_identity *peer)
{
    const struct sim_replica *copy = owner;
    replica_adopt(copy->replica, stream, peer);
}

static void accepted(void *owner, struct stream *stream)
{
    static const struct sim_greeter greeter = {.word = "REPLICA",
                                               .is_open = is_open,
                                               .admit = admit,
                                               .identity = write_identity,
                                               .adopt = adopt};
    sim_greet(&greeter, stream, owner);
}

/* ---- life -------------------------------------------------------------------------------------- */

void sim_replica_new(struct sim_replica *copy, unsigned number, struct sim_relays *relays)
{
    char address[16];
    *copy = (struct sim_replica){.number = number, .name = names[number]};
    (void)snprintf(copy->dir, sizeof copy->dir, "%s", copy->name);
    (void)snprintf(address, sizeof address, "%s:1", copy->name);
    sim_set_host(copy->name);
    sim_relays_add(relays, addresses[number], address);
}

void sim_replica_open_storage(struct sim_replica *copy, struct store_env *env)
{
    char error[200];
    copy->storage = storage_open(env, &(struct store_options){.path = copy->dir},
                                 (uint64_t)WAL_BATCHES * WAL_MEM_LIMIT, error, sizeof error);
    CHECK(copy->storage);
}

void sim_replica_configure(const struct sim_replica *copy, uint64_t epoch, unsigned map)
{
    struct replica_settings settings = {
        .epoch = epoch,
        .links = {.shard = "s",
                  .address = addresses[copy->number],
                  .secret = "secret",
                  .secret_previous = "",
                  .options = {.output_max = 32 << 20,
                              .requests_max = 64,
                              .connect_timeout_ms = 1000,
                              .timeout_ms = 1000,
                              .ping_ms = 250,
                              .backoff_min_ms = 10,
                              .backoff_max_ms = 200}},
    };
    for (unsigned i = 0; i < SIM_REPLICAS_MAX; i++)
        if (map & 1U << i)
            settings.links.addresses[settings.links.address_count++] = addresses[i];
    replica_configure(copy->replica, &settings);
}

static void listen_at(struct sim_replica *copy)
{
    char address[16], error[64];
    (void)snprintf(address, sizeof address, "%s:1", copy->name);
    const struct listen_options options = {.address = address, .backlog = 16};
    int fd = listen_bind(&options, error, sizeof error);
    CHECK(fd >= 0);
    copy->listener = listener_new(copy->home, fd, &options, accepted, copy);
}

static struct replica_snapshots join_files(struct sim_replica *copy, const char *files)
{
    const struct snapshot_join_options options = {
        .loop = copy->loop, .storage = copy->storage, .dir = files, .free_min = 1 << 20};
    copy->join = snapshot_join_new(&options);
    return snapshot_join_table(copy->join);
}

void sim_replica_start(struct sim_replica *copy, const struct sim_replica_options *options)
{
    char error[200];
    struct replica_snapshots snapshots = options->snapshots;
    sim_set_host(copy->name);
    copy->loop = loop_new();
    copy->home = loop_new();
    if (!copy->storage)
        sim_replica_open_storage(copy, options->env);
    if (options->files)
        snapshots = join_files(copy, options->files);
    const struct replica_options of_replica = {.loop = copy->loop,
                                               .home = copy->home,
                                               .time = options->time,
                                               .storage = copy->storage,
                                               .dir = copy->dir,
                                               .run_id = "run",
                                               .version = "1",
                                               .thread = copy->number,
                                               .metrics = options->metrics,
                                               .labels = options->labels,
                                               .election_us = options->election_us,
                                               .window = options->window,
                                               .state = options->state,
                                               .has_voters = options->has_voters,
                                               .may_join = options->may_join,
                                               .waits_for_voters = options->waits_for_voters,
                                               .has_lost = options->has_lost,
                                               .home_progress = options->home_progress,
                                               .home_owner = options->owner,
                                               .snapshots = snapshots};
    copy->replica = replica_new(&of_replica, &options->events, options->owner, error, sizeof error);
    CHECK(copy->replica);
    if (copy->join)
        snapshot_join_use(copy->join, copy->replica);
    copy->is_up = true;
    sim_replica_configure(copy, 1, (1U << options->count) - 1);
    listen_at(copy);
}

/* ---- records ----------------------------------------------------------------------------------- */

uint64_t sim_replica_commit(struct sim_replica *copy, uint64_t at, uint64_t index,
                            void (*on_record)(void *owner, uint64_t index, struct bytes record),
                            void *owner)
{
    char error[200];
    struct bytes record;
    struct wal_cursor *cursor = wal_cursor_new_weak(storage_wal(copy->storage), at + 1);
    CHECK(cursor);
    while (at < index) {
        CHECK(wal_cursor_next(cursor, &at, &record, error, sizeof error) == OK);
        on_record(owner, at, record);
    }
    wal_cursor_free(cursor);
    storage_commit(copy->storage, at);
    replica_applied(copy->replica, at);
    return at;
}

static bool is_of_members(struct bytes record)
{
    struct effects_header header;
    struct effects_reader reader;
    return effects_open(record, &header, &reader) == EFFECTS_READ && header.type == EFFECTS_MEMBERS;
}

void sim_replica_apply_members(struct sim_replica *copy, uint64_t index, struct bytes record)
{
    char error[200];
    if (!is_of_members(record))
        return;
    struct store *store = storage_store(copy->storage);
    struct store_batch *batch = store_batch_new();
    CHECK(store_batch_add_effects(batch, store, record, error, sizeof error));
    CHECK(store_apply(store, batch, error, sizeof error) == OK);
    store_batch_free(batch);
    storage_applied(copy->storage, index);
    CHECK(storage_flush(copy->storage, error, sizeof error) == OK);
}

uint32_t sim_record_hash(struct bytes record)
{
    uint32_t hash = 2166136261U;
    for (size_t i = 0; i < record.len; i++)
        hash = (hash ^ (uint8_t)record.data[i]) * 16777619U;
    return hash | 1;
}

/* ---- ends -------------------------------------------------------------------------------------- */

void sim_replica_crash(struct sim_replica *copy)
{
    copy->is_up = false;
    sim_crash_host(copy->name);
    sim_greet_no_more(copy);
    listener_free(copy->listener);
    replica_free(copy->replica);
    snapshot_join_free(copy->join);
    storage_mem_crash(copy->storage);
    storage_close(copy->storage);
    copy->storage = NULL;
    copy->replica = NULL;
    copy->join = NULL;
    sim_replica_fini(copy);
}

static void on_stopped(void *owner)
{
    struct sim_replica *copy = owner;
    copy->is_up = false;
}

static bool is_down(void *owner)
{
    const struct sim_replica *copy = owner;
    return !copy->is_up;
}

void sim_replica_stop(struct sim_replica *copy)
{
    listener_free(copy->listener);
    sim_greet_no_more(copy); /* what is adopted now would outlive the replica */
    replica_stop(copy->replica, on_stopped, copy);
    CHECK(sim_run_until(is_down, copy, UINT64_MAX));
    sim_run_for(sim_random(STOP_US_MAX)); /* what else its partition has to end */
    replica_free(copy->replica);
    snapshot_join_free(copy->join);
    storage_close(copy->storage);
    copy->storage = NULL;
    copy->replica = NULL;
    copy->join = NULL;
}

void sim_replica_fini(struct sim_replica *copy)
{
    loop_free(copy->loop);
    loop_free(copy->home);
    copy->loop = copy->home = NULL;
}
