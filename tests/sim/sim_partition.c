#include "tests/sim/sim_partition.h"

#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/partition_new.h"
#include "backend/partition_run.h"
#include "shared/check.h"
#include "shared/command/command.h"
#include "shared/log.h"
#include "shared/net/worker.h"
#include "tests/sim/sim.h"
#include "tests/sim/storage_mem.h"

#include <stdio.h>
#include <stdlib.h>

#define ADDRESS "backend:7401"

enum { STEPS_MAX = 200000000 };

/* Not auto: a seed must not depend on the machine. */
enum { SIM_MEMORY_BYTES = 640 << 20 };

/* ---- the process ------------------------------------------------------------------------- */

void sim_partition_init(struct sim_partition *world, uint64_t seed)
{
    *world = (struct sim_partition){0};
    sim_init(seed);
    storage_mem_reset();
    storage_mem_seed(seed);
    list_init(&world->connections);
    config_init_defaults(&world->config.head, &backend_schema);
    world->config.store_wal_limit_bytes = WAL_MEM_LIMIT;
    world->config.store_memory_bytes = SIM_MEMORY_BYTES;
}

static void process_begin(struct sim_partition *world)
{
    char error[256];
    bool is_damaged;
    sim_set_host("backend");
    world->loop = loop_new();
    world->partition =
        partition_new(world->process, 0, world->loop, &is_damaged, error, sizeof error);
    CHECK(world->partition);
    store_mem_expect_order(storage_store(world->partition->storage));
    if (!world->is_listening)
        return;
    const struct listen_options options = {.address = ADDRESS, .backlog = 16};
    int fd = listen_bind(&options, error, sizeof error);
    CHECK(fd >= 0);
    world->partition->listeners.tcp =
        listener_new(world->loop, fd, &options, partition_accept, world->partition);
}

static void process_end(struct sim_partition *world)
{
    partition_free(world->partition);
    loop_free(world->loop);
}

void sim_partition_start(struct sim_partition *world, bool is_listening)
{
    world->is_listening = is_listening;
    world->process = process_new(&world->config, NULL, NULL);
    world->process->env = store_env_new(
        &(struct store_env_options){.block_cache_bytes = 1024 * 1024, .background_threads = 1});
    if (world->reader_threads)
        world->process->readers = worker_pool_new("reader", world->reader_threads);
    process_begin(world);
    if (!is_listening)
        return;
    sim_set_host("clients");
    world->client_loop = loop_new();
}

void sim_partition_crash(struct sim_partition *world)
{
    sim_crash_host("backend");
    storage_mem_crash(world->partition->storage);
    process_end(world);
    process_begin(world);
}

void sim_partition_quiet(struct sim_partition *world)
{
    for (struct list *node = world->connections.next; node != &world->connections;
         node = node->next)
        timer_stop(container_of(node, struct sim_connection, link)->timer);
}

static void on_stopped(void *owner)
{
    struct sim_partition *world = owner;
    world->has_stopped = true;
}

static bool is_over(void *owner)
{
    struct sim_partition *world = owner;
    for (struct list *node = world->connections.next; node != &world->connections;
         node = node->next)
        if (container_of(node, struct sim_connection, link)->stream)
            return false;
    return world->has_stopped;
}

void sim_partition_stop(struct sim_partition *world)
{
    sim_partition_quiet(world);
    partition_stop(world->partition, on_stopped, world);
    CHECK(sim_run_until(is_over, world, STEPS_MAX));
}

void sim_partition_fini(struct sim_partition *world)
{
    for (struct list *node = world->connections.next; node != &world->connections;
         node = node->next)
        timer_free(container_of(node, struct sim_connection, link)->timer);
    process_end(world);
    if (world->client_loop)
        loop_free(world->client_loop);
    worker_pool_free(world->process->readers);
    store_env_free(world->process->env);
    process_free(world->process);
    config_fini(&world->config.head);
    sim_fini();
}

/* ---- connections ------------------------------------------------------------------------- */

static void connection_lost(struct sim_connection *connection)
{
    connection->stream = NULL;
    if (connection->events->on_lost)
        connection->events->on_lost(connection->owner);
}

static void on_end(void *owner, int err)
{
    struct sim_connection *connection = owner;
    (void)err;
    stream_close(connection->stream);
    connection_lost(connection);
}

static void on_open(void *owner, int err)
{
    struct sim_connection *connection = owner;
    if (err)
        on_end(owner, err);
    else
        stream_send(connection->stream);
}

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct sim_connection *connection = owner;
    struct resp_skip *skip = &connection->skip;
    size_t used = 0;
    (void)block;
    while (used < len) {
        enum resp_result result = resp_skip(skip, data + used, len - used);
        CHECK(result != RESP_BAD);
        if (result == RESP_MORE) {
            *need = skip->need;
            break;
        }
        size_t size = skip->size;
        connection->events->on_frame(connection->owner, (struct bytes){data + used, size});
        used += size;
    }
    return used;
}

static void connect_to_partition(struct sim_connection *connection)
{
    static const struct stream_events events = {.on_data = on_data, .on_end = on_end};
    connection->skip = (struct resp_skip){0};
    connection->stream =
        stream_connect(connection->world->client_loop, ADDRESS, 1000, &events, on_open, connection);
    if (connection->events->on_connect)
        connection->events->on_connect(connection->owner);
}

static void on_timer(void *owner)
{
    struct sim_connection *connection = owner;
    if (!connection->stream) {
        connect_to_partition(connection);
        return;
    }
    connection->events->on_turn(connection->owner);
    if (connection->stream)
        stream_send(connection->stream);
}

void sim_connection_begin(struct sim_connection *connection, struct sim_partition *world,
                          const struct sim_connection_events *events, void *owner)
{
    *connection = (struct sim_connection){.world = world, .events = events, .owner = owner};
    list_push(&world->connections, &connection->link);
    connection->timer = timer_new(world->client_loop, on_timer, connection);
    timer_start(connection->timer, 1 + sim_random(5), 1 + sim_random(10));
    connect_to_partition(connection);
}

void sim_connection_drop(struct sim_connection *connection)
{
    stream_abort(connection->stream);
    connection_lost(connection);
}

/* ---- seeds ------------------------------------------------------------------------------- */

int sim_run_seeds(int argc, char **argv, uint64_t seeds, void (*run)(uint64_t seed))
{
    command_init();
    log_set_level(LOG_ERROR + 1);
    if (argc > 1) {
        run(strtoull(argv[1], NULL, 0));
        return 0;
    }
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        fprintf(stderr, "\rseed %llu ", (unsigned long long)seed);
        run(seed);
    }
    fprintf(stderr, "\rall seeds hold\n");
    return 0;
}
