#include "tests/sim/sim_cluster.h"

#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/partition_new.h"
#include "backend/partition_run.h"
#include "backend/slots/peering.h"
#include "backend/store/store.h"
#include "config/reload.h"
#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "proxy/run/proxy_run.h"
#include "shared/check.h"
#include "shared/net/worker.h"
#include "tests/sim/sim_audit.h"
#include "tests/sim/sim_world.h"
#include "tests/sim/storage_mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TEXT_MAX = 2000,
    ERROR_MAX = 300,
    SIM_PORT = 7401,
    PORTION_MIN = 64, /* of partition->shards.steps.portion_bytes */
    PORTION_MORE = 1000,
};

#define RELAY "relay-b%u" /* host of the relays in front of a backend */

static void note_wrong(struct sim_cluster *cluster, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void note_wrong(struct sim_cluster *cluster, const char *format, ...)
{
    va_list args;
    if (cluster->why[0])
        return;
    va_start(args, format);
    (void)vsnprintf(cluster->why, sizeof(cluster->why), format, args);
    va_end(args);
}

/* ---- configuration ---------------------------------------------------------------------------- */

static void parse(struct config *config, const struct config_schema *schema, const char *text)
{
    char error[ERROR_MAX];
    config_init_defaults(config, schema);
    if (!config_parse(config, "sim.ini", bytes_of(text), error, sizeof(error))) {
        (void)fprintf(stderr, "%s\n", error);
        CHECK(!"the simulation's configuration is accepted");
    }
}

static void configure_backend(const struct sim_backend *backend, struct backend_config *config)
{
    static const char *const durabilities[] = {"always", "everysec", "os"};
    static const char *const row_caches[] = {"0", "4kb", "1mb"};
    /* sizes of the rank cache, and of the range cache */
    static const char *const caches[] = {"0", "1kb", "1mb"};
    static const char *const buffers[] = {"4kb", "16kb", "4mb"};
    const struct sim_plan *plan = &backend->cluster->plan;
    const char *row_cache = row_caches[sim_random(3)];
    const char *cache = caches[sim_random(3)];
    char text[TEXT_MAX];
    char links[TEXT_MAX / 2] = "";
    if (plan->is_linked)
        (void)snprintf(links, sizeof links,
                       "advertise-host = " RELAY "\nadvertise-port = %d\npeer-timeout = 1s\n"
                       "lock-timeout = %llums\ntransaction-timeout = %llums\n"
                       "migration-freeze = %llums\nmigration-rate = %llu\n%s%s",
                       (unsigned)(backend - backend->cluster->backends), SIM_PORT,
                       (unsigned long long)plan->lock_timeout_ms,
                       (unsigned long long)plan->transaction_timeout_ms,
                       (unsigned long long)plan->migration_freeze_ms,
                       (unsigned long long)plan->migration_rate,
                       plan->has_one_grant ? "borrow-limit = 256kb\nborrow-memory = 256kb\n" : "",
                       plan->has_short_output ? "peer-output-limit = 256kb\n" : "");
    (void)snprintf(text, sizeof(text),
                   "[backend]\ndata = /sim/%s\npartitions = %u\nsecret = %s\ndurability = %s\n"
                   "active-expire = %s\nidle-timeout = %s\nlog-level = error\n%s[store]\nmemory = "
                   "640mb\nrow-cache = %s\n"
                   "rank-cache = %s\nrange-cache = %s\nwrite-buffer = %s\nwal-limit = %d\n",
                   backend->name, plan->partitions, plan->has_secret ? "secret" : "",
                   durabilities[plan->durability], plan->active_expire ? "yes" : "no",
                   plan->has_idle_timeout ? "2s" : "0", links, row_cache, cache, cache,
                   buffers[sim_random(3)], WAL_MEM_LIMIT);
    parse(&config->head, &backend_schema, text);
}

static void configure_proxy(const struct sim_proxy *proxy, struct proxy_config *config)
{
    const struct sim_cluster *cluster = proxy->cluster;
    const struct sim_plan *plan = &cluster->plan;
    char text[TEXT_MAX];
    char limit[SIM_NAMES_MAX * 2] = "";
    char across[SIM_NAMES_MAX] = "";
    if (plan->output_limit_mb)
        (void)snprintf(limit, sizeof(limit), "client-output-limit = %umb\n", plan->output_limit_mb);
    if (plan->across_limit)
        (void)snprintf(across, sizeof(across), "across-limit = %u\n", plan->across_limit);
    int len = snprintf(
        text, sizeof(text),
        "[proxy]\nlisten = %s\nadmin =\nworkers = %u\nlog-level = error\n"
        "protected-mode = no\n"
        "client-pipeline-limit = %u\ndrain-timeout = %ums\n%s%s[upstream]\nsecret = %s\n"
        "timeout = %llums\nbackoff-max = 300ms\nkeepalive = 2s\n%s",
        proxy->address, plan->workers, sim_random(4) ? 4096 : 1 + (unsigned)sim_random(8),
        (unsigned)sim_random(300), limit, plan->has_secret ? "requirepass = default\n" : "",
        plan->has_secret ? "secret" : "", (unsigned long long)plan->upstream_timeout_ms, across);
    for (unsigned i = 0; plan->has_secret && i < plan->places; i++) {
        if (cluster->places[i].name[0])
            len += snprintf(text + len, sizeof(text) - (size_t)len, "[namespace %s]\ntoken = %s\n",
                            cluster->places[i].name, cluster->places[i].name);
    }
    parse(&config->head, &proxy_schema, text);
}

/* ---- the map ---------------------------------------------------------------------------------- */

unsigned sim_cluster_shard(const struct sim_cluster *cluster, uint16_t slot)
{
    return cluster->owners[slot / (SLOT_COUNT / SIM_RANGES)];
}

static void add_shard(const struct sim_cluster *cluster, struct shard_map *map, unsigned shard,
                      const char *name, const char *address)
{
    const unsigned slots = SLOT_COUNT / SIM_RANGES;
    unsigned taken;
    int index = shard_map_add(map, bytes_of(name));
    CHECK(index >= 0);
    shard_map_add_address(map, index, bytes_of(address));
    for (unsigned range = 0; range < SIM_RANGES; range++)
        if (cluster->owners[range] == shard)
            CHECK(shard_map_claim(map, index, range * slots, range * slots + slots - 1, &taken));
}

/* The map of the backends, whose links lead through relays. */
static struct shard_map *make_map_of_links(const struct sim_cluster *cluster)
{
    struct shard_map *map = shard_map_new(cluster->map ? cluster->map->epoch + 1 : 1);
    for (unsigned shard = 0; shard < cluster->shard_count; shard++) {
        char name[SIM_NAMES_MAX];
        if (cluster->absent == (int)shard)
            continue;
        (void)snprintf(name, sizeof(name), "s%u", shard);
        add_shard(cluster, map, shard, name, cluster->shards[shard].relay);
    }
    return map;
}

/* The shards in random order, with random addresses, and with random names unless backends know their own. */
static struct shard_map *make_map(struct sim_cluster *cluster)
{
    struct shard_map *map = shard_map_new(++cluster->epoch);
    unsigned first = (unsigned)sim_random(cluster->shard_count);
    bool is_renamed = sim_random(2);
    for (unsigned i = 0; i < cluster->shard_count; i++) {
        unsigned shard = (first + i) % cluster->shard_count;
        char name[SIM_NAMES_MAX];
        (void)snprintf(name, sizeof(name), cluster->map ? "s%u" : "s%u-%u", shard,
                       is_renamed ? (unsigned)map->epoch : 0);
        add_shard(cluster, map, shard, name, cluster->shards[shard].addresses[sim_random(2)]);
    }
    return map;
}

static void move_some(struct sim_cluster *cluster)
{
    unsigned count = 1 + (unsigned)sim_random(4);
    while (count--)
        cluster->owners[sim_random(SIM_RANGES)] = (uint8_t)sim_random(cluster->shard_count);
}

/* Gives most ranges of a shard to another one, so that neighbouring ranges move one after the other. */
static void move_most(struct sim_cluster *cluster)
{
    unsigned from = (unsigned)sim_random(cluster->shard_count);
    unsigned to = (unsigned)sim_random(cluster->shard_count);
    for (unsigned range = 0; range < SIM_RANGES; range++)
        if (cluster->owners[range] == from && sim_random(4))
            cluster->owners[range] = (uint8_t)to;
}

static void draw_absent(struct sim_cluster *cluster)
{
    bool is_leaving = sim_random(4) == 0;
    cluster->absent = is_leaving ? (int)sim_random(cluster->shard_count) : -1;
    for (unsigned range = 0; range < SIM_RANGES; range++)
        if (cluster->owners[range] == cluster->absent)
            cluster->owners[range] =
                (uint8_t)((cluster->absent + 1 + sim_random(cluster->shard_count - 1)) %
                          cluster->shard_count);
}

void sim_cluster_move(struct sim_cluster *cluster)
{
    struct shard_map *old = cluster->map;
    if (sim_random(4)) { /* otherwise only the epoch is another one: moves must go on */
        if (sim_random(2))
            move_some(cluster);
        else
            move_most(cluster);
        draw_absent(cluster);
    }
    cluster->map = make_map_of_links(cluster);
    shard_map_unref(old);
}

static struct proxy_snapshot *make_snapshot(struct sim_proxy *proxy)
{
    struct proxy_config config;
    char error[ERROR_MAX];
    configure_proxy(proxy, &config);
    struct proxy_snapshot *snapshot =
        snapshot_make(&config, make_map(proxy->cluster), error, sizeof(error));
    CHECK(snapshot);
    config_fini(&config.head);
    return snapshot;
}

/* ---- backends --------------------------------------------------------------------------------- */

static struct listener *listen_on(struct sim_seat *seat, const char *address)
{
    const struct listen_options options = {.address = address};
    char error[ERROR_MAX];
    int fd = listen_bind(&options, error, sizeof(error));
    CHECK(fd >= 0);
    return listener_new(seat->loop, fd, &options, partition_accept, seat->partition);
}

/* Before the partition leads, the tables of a copy may have a part of a batch, which it has not added from the log yet; and an open batch
 * has no counters yet. */
static void audit_start(struct sim_backend *backend, unsigned index)
{
    struct sim_seat *seat = &backend->seats[index];
    const struct partition *partition = seat->partition;
    char error[ERROR_MAX];
    if (seat->is_audited || partition->copies.is_closed || overlay_dirty(partition->overlay))
        return;
    seat->is_audited = true;
    if (!sim_audit_rows(partition->overlay, error, sizeof(error)))
        note_wrong(backend->cluster, "%s partition %u starts with %s", backend->name, index, error);
}

static void seat_start(struct sim_backend *backend, unsigned index)
{
    struct sim_cluster *cluster = backend->cluster;
    struct sim_seat *seat = &backend->seats[index];
    struct sim_shard *shard =
        &cluster
             ->shards[(unsigned)(backend - cluster->backends) * cluster->plan.partitions + index];
    char error[ERROR_MAX];
    bool is_damaged;
    *seat = (struct sim_seat){.loop = loop_new()};
    seat->partition =
        partition_new(backend->process, index, seat->loop, &is_damaged, error, sizeof(error));
    CHECK(seat->partition);
    if (!cluster->plan.has_leaders)
        audit_start(backend, index);
    store_mem_expect_order(storage_store(seat->partition->storage));
    store_mem_be_uncached(storage_store(seat->partition->storage),
                          sim_random(3) ? 2 + sim_random(20) : 0);
    seat->partition->listeners.tcp = listen_on(seat, shard->addresses[0]);
    seat->partition->listeners.unix_socket = listen_on(seat, shard->addresses[1]);
    seat->partition->listeners.port = SIM_PORT + (int)index;
    if (cluster->plan.has_leaders)
        seat->leader = sim_leader_new(seat->partition, &backend->groups[index]);
    if (cluster->map)
        peering_configure(seat->partition);
    if (!cluster->plan.has_portions)
        return;
    seat->partition->shards.steps.portion_bytes = PORTION_MIN + (uint32_t)sim_random(PORTION_MORE);
    seat->partition->shards.steps.apply_effects = 1 + (uint32_t)(backend - cluster->backends);
    seat->partition->shards.steps.line_ms = (uint32_t)(backend - cluster->backends);
    seat->partition->shards.steps.line_across_ms = 3 * (uint32_t)(backend - cluster->backends);
}

void sim_backend_start(struct sim_backend *backend)
{
    struct backend_config config;
    CHECK(backend->state == SIM_DOWN);
    sim_set_host(backend->name);
    sim_note("start", sim_now_us());
    configure_backend(backend, &config);
    const struct store_env_options options = {.block_cache_bytes = 1 << 20};
    backend->process = process_new(&config, NULL, NULL);
    if (backend->cluster->map)
        backend->process->snapshot->map = shard_map_ref(backend->cluster->map);
    backend->process->env = store_env_new(&options);
    if (sim_random(4))
        backend->process->readers =
            worker_pool_new("reader", sim_random(4) ? 1 + (unsigned)sim_random(4) : 16);
    for (unsigned i = 0; i < backend->cluster->plan.partitions; i++)
        seat_start(backend, i);
    config_fini(&config.head);
    backend->state = SIM_UP;
    backend->back_us = 0;
}

void sim_backend_reload(struct sim_backend *backend)
{
    if (backend->state != SIM_UP)
        return;
    struct config_snapshot *snapshot = process_config_edit(backend->process);
    shard_map_unref(snapshot->map);
    snapshot->map = shard_map_ref(backend->cluster->map);
    process_config_publish(backend->process, snapshot);
}

static void backend_bury(struct sim_backend *backend)
{
    for (unsigned i = 0; i < backend->cluster->plan.partitions; i++) {
        sim_leader_free(backend->seats[i].leader);
        partition_free(backend->seats[i].partition);
        loop_free(backend->seats[i].loop);
    }
    if (backend->process->clients != 0)
        note_wrong(backend->cluster, "%s: %u clients are counted after the end", backend->name,
                   backend->process->clients);
    worker_pool_free(backend->process->readers);
    store_env_free(backend->process->env);
    process_free(backend->process);
    backend->state = SIM_DOWN;
}

static void on_stopped(void *owner)
{
    ((struct sim_seat *)owner)->has_stopped = true;
}

struct stop_order {
    struct task task;
    struct sim_seat *seat;
};

static void run_stop(struct task *task)
{
    struct stop_order *order = container_of(task, struct stop_order, task);
    partition_stop(order->seat->partition, on_stopped, order->seat);
    free(order);
}

void sim_backend_stop(struct sim_backend *backend)
{
    CHECK(backend->state == SIM_UP);
    backend->state = SIM_STOPPING;
    for (unsigned i = 0; i < backend->cluster->plan.partitions; i++) {
        struct stop_order *order = calloc(1, sizeof(*order));
        CHECK(order);
        order->task.run = run_stop;
        order->seat = &backend->seats[i];
        loop_post(order->seat->loop, &order->task);
    }
}

void sim_backend_crash(struct sim_backend *backend)
{
    CHECK(backend->state == SIM_UP);
    backend->was_crashed = true;
    sim_crash_host(backend->name);
    for (unsigned i = 0; i < backend->cluster->plan.partitions; i++)
        storage_mem_crash(backend->seats[i].partition->storage);
    backend_bury(backend);
}

/* All acknowledged writes are in the store now, so the audit of its rows must pass. */
static void tend_stopping(struct sim_backend *backend)
{
    char error[ERROR_MAX];
    for (unsigned i = 0; i < backend->cluster->plan.partitions; i++) {
        if (!backend->seats[i].has_stopped)
            return;
    }
    for (unsigned i = 0; i < backend->cluster->plan.partitions; i++) {
        struct partition *partition = backend->seats[i].partition;
        struct store *store = storage_store(partition->storage);
        store_mem_fail_read(store, 0);
        if (backend->cluster->plan.has_leaders && store_state(store) == STORE_CLOSED)
            continue; /* a copy that could not open it again, after it had failed */
        if (!sim_audit_rows(partition->overlay, error, sizeof(error)))
            note_wrong(backend->cluster, "%s partition %u ends with %s", backend->name, i, error);
    }
    backend_bury(backend);
}

static void backend_tend(struct sim_backend *backend)
{
    for (unsigned i = 0; backend->state == SIM_UP && i < backend->cluster->plan.partitions; i++)
        audit_start(backend, i);
    if (backend->state == SIM_STOPPING)
        tend_stopping(backend);
}

/* ---- proxies ---------------------------------------------------------------------------------- */

void sim_proxy_start(struct sim_proxy *proxy)
{
    char error[ERROR_MAX];
    CHECK(proxy->state == SIM_DOWN);
    sim_set_host(proxy->name);
    proxy->loop = loop_new();
    proxy->proxy = proxy_new(proxy->loop, make_snapshot(proxy));
    if (!proxy_start(proxy->proxy, error, sizeof(error))) {
        (void)fprintf(stderr, "%s\n", error);
        CHECK(!"the proxy starts");
    }
    proxy->state = SIM_UP;
    proxy->back_us = 0;
}

void sim_proxy_reload(struct sim_proxy *proxy)
{
    CHECK(proxy->state == SIM_UP);
    proxy_publish(proxy->proxy, make_snapshot(proxy));
}

void sim_proxy_stop(struct sim_proxy *proxy)
{
    CHECK(proxy->state == SIM_UP);
    proxy->state = SIM_STOPPING;
    proxy_stop(proxy->proxy);
}

static void proxy_tend(struct sim_proxy *proxy)
{
    if (proxy->state != SIM_STOPPING || !proxy->loop->is_stopped)
        return;
    proxy_join(proxy->proxy);
    if (proxy->proxy->clients != 0)
        note_wrong(proxy->cluster, "%s: %lld clients are counted after the end", proxy->name,
                   (long long)proxy->proxy->clients);
    proxy_free(proxy->proxy);
    loop_free(proxy->loop);
    proxy->state = SIM_DOWN;
}

/* ---- the cluster ------------------------------------------------------------------------------ */

static void name_places(struct sim_cluster *cluster)
{
    for (unsigned i = 0; i < cluster->plan.places; i++) {
        struct sim_place *place = &cluster->places[i];
        if (cluster->plan.has_secret && sim_random(3))
            (void)snprintf(place->name, sizeof(place->name), "tenant%u", i);
        place->db = i;
    }
}

static void name_shards(struct sim_cluster *cluster)
{
    cluster->shard_count = cluster->plan.backends * cluster->plan.partitions;
    for (unsigned i = 0; i < cluster->shard_count; i++) {
        struct sim_shard *shard = &cluster->shards[i];
        shard->backend = i / cluster->plan.partitions;
        shard->partition = i % cluster->plan.partitions;
        for (unsigned j = 0; j < 2; j++)
            (void)snprintf(shard->addresses[j], sizeof(shard->addresses[j]), "b%u%s:%u",
                           shard->backend, j ? "-alias" : "", SIM_PORT + shard->partition);
        (void)snprintf(shard->relay, sizeof(shard->relay), RELAY ":%u", shard->backend,
                       SIM_PORT + shard->partition);
    }
    for (unsigned i = 0; i < SIM_RANGES; i++)
        cluster->owners[i] =
            (uint8_t)(i < cluster->shard_count ? i : sim_random(cluster->shard_count));
}

static void make_links(struct sim_cluster *cluster)
{
    cluster->map = make_map_of_links(cluster);
    sim_relays_init(&cluster->relays);
    for (unsigned i = 0; i < cluster->shard_count; i++)
        sim_relays_add(&cluster->relays, cluster->shards[i].relay, cluster->shards[i].addresses[0]);
}

void sim_cluster_start(struct sim_cluster *cluster, const struct sim_plan *plan)
{
    *cluster = (struct sim_cluster){.plan = *plan, .absent = -1};
    name_places(cluster);
    name_shards(cluster);
    if (plan->is_linked)
        make_links(cluster);
    for (unsigned i = 0; i < plan->backends; i++) {
        struct sim_backend *backend = &cluster->backends[i];
        backend->cluster = cluster;
        (void)snprintf(backend->name, sizeof(backend->name), "backend-%u", i);
        sim_backend_start(backend);
    }
    for (unsigned i = 0; i < plan->proxies; i++) {
        struct sim_proxy *proxy = &cluster->proxies[i];
        proxy->cluster = cluster;
        (void)snprintf(proxy->name, sizeof(proxy->name), "proxy-%u", i);
        (void)snprintf(proxy->address, sizeof(proxy->address), "proxy-%u:7379", i);
        sim_proxy_start(proxy);
    }
}

void sim_cluster_fini(struct sim_cluster *cluster)
{
    CHECK(sim_cluster_is_down(cluster));
    if (!cluster->map)
        return;
    sim_relays_stop(&cluster->relays);
    sim_relays_fini(&cluster->relays);
    shard_map_unref(cluster->map);
}

void sim_cluster_tend(struct sim_cluster *cluster)
{
    for (unsigned i = 0; i < cluster->plan.backends; i++)
        backend_tend(&cluster->backends[i]);
    for (unsigned i = 0; i < cluster->plan.proxies; i++)
        proxy_tend(&cluster->proxies[i]);
}

void sim_cluster_revive(struct sim_cluster *cluster, bool at_once)
{
    uint64_t now_us = sim_now_us();
    for (unsigned i = 0; i < cluster->plan.backends; i++) {
        struct sim_backend *backend = &cluster->backends[i];
        if (backend->state == SIM_DOWN && (at_once || backend->back_us <= now_us))
            sim_backend_start(backend);
    }
    for (unsigned i = 0; i < cluster->plan.proxies; i++) {
        struct sim_proxy *proxy = &cluster->proxies[i];
        if (proxy->state == SIM_DOWN && (at_once || proxy->back_us <= now_us))
            sim_proxy_start(proxy);
    }
}

static bool all_are(const struct sim_cluster *cluster, enum sim_state state)
{
    for (unsigned i = 0; i < cluster->plan.backends; i++) {
        if (cluster->backends[i].state != state)
            return false;
    }
    for (unsigned i = 0; i < cluster->plan.proxies; i++) {
        if (cluster->proxies[i].state != state)
            return false;
    }
    return true;
}

bool sim_cluster_is_up(const struct sim_cluster *cluster)
{
    return all_are(cluster, SIM_UP);
}

bool sim_cluster_is_quiet(const struct sim_cluster *cluster)
{
    for (unsigned i = 0; i < cluster->plan.proxies; i++) {
        const struct proxy *proxy = cluster->proxies[i].proxy;
        for (uint32_t j = 0; j < proxy->worker_count; j++) {
            const struct proxy_worker *worker = proxy->workers[j];
            if (worker->clients.count > 0 || worker->requests.count > worker->requests.free_count)
                return false;
        }
    }
    return true;
}

bool sim_cluster_is_down(const struct sim_cluster *cluster)
{
    return all_are(cluster, SIM_DOWN);
}
