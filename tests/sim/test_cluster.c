/*
 * test_cluster.c - whole clusters in one thread: real proxies and partitions, simulated network, disks, time.
 *
 *   test_cluster [--seed N] …     see sim_seeds.h
 *
 * A seed is a plan (number of programs, network, commands, faults) and a history:
 *
 *   load and faults ─► faults end, all programs start ─► every client is answered ─► audits read all keys
 *                 ─► clean stop ─► checks: do the replies fit together, do the rows on disk?
 */
#include "backend/context/partition.h"
#include "backend/dispatch/blocking.h"
#include "shared/check.h"
#include "shared/error.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_seeds.h"
#include "tests/sim/sim_taker.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    SEEDS = 2000,
    STEPS = 4000,
    CLIENTS_MAX = 8,
    QUOTA_MAX = 160,
    FAULT_EVERY = 20, /* steps between two possible faults */
    HEAL_STEPS = 400000,
    HEAL_US = 60 * 1000 * 1000,
    REST_US = 3 * 1000 * 1000, /* longer than the longest TTL and than any delay of the network */
    AUDITS_MAX = 3,
};

enum fault {
    FAULT_CUT,
    FAULT_DOWN,   /* a host is unreachable for a while */
    FAULT_FREEZE, /* a host does nothing for a while */
    FAULT_CRASH,
    FAULT_RESTART_BACKEND,
    FAULT_DISK, /* writes fail until the store has recovered */
    FAULT_READ,
    FAULT_RELOAD,
    FAULT_RESTART_PROXY,
    FAULT_COMPACT,
    FAULT_KNOBS,
    FAULT_CLOCK,
    FAULT_KINDS,
};

/* The world of a seed. */
struct world {
    struct sim_cluster cluster;
    struct sim_workload work;
    struct sim_client clients[SIM_CLIENTS_MAX];
    unsigned client_count;
    struct sim_lists lists;
    struct sim_taker takers[SIM_TAKERS_MAX];
    unsigned taker_count;
    uint32_t faults;    /* bit set of enum fault: those that may happen */
    unsigned fault_ppm; /* chance of a fault each time, in a million */
    /* when an unreachable host becomes reachable; 0: it is reachable */
    uint64_t up_us[SIM_BACKENDS_MAX];
    char why[600];
};

static struct world world;

static void fail(const char *what)
{
    if (!world.why[0])
        (void)snprintf(world.why, sizeof(world.why), "%s", what);
}

static bool has_failed(void)
{
    if (world.work.why[0])
        fail(world.work.why);
    if (world.cluster.why[0])
        fail(world.cluster.why);
    if (world.lists.why[0])
        fail(world.lists.why);
    return world.why[0] != 0;
}

static void say(const char *what, unsigned number)
{
    sim_note(what, number);
    if (sim_options.is_verbose)
        printf("%10" PRIu64 " ** %s %u\n", sim_now_us() - 1000000000, what, number);
}

/* ---- the plan --------------------------------------------------------------------------------- */

static void draw_faults(void)
{
    static const unsigned rates[] = {0, 5000, 20000, 60000};
    world.fault_ppm = rates[sim_random(4)];
    world.faults = 1u << sim_random(FAULT_KINDS);
    for (unsigned fault = 0; fault < FAULT_KINDS; fault++) {
        if (sim_random(2))
            world.faults |= 1u << fault;
    }
    sim_knobs_shuffle();
    if (sim_random(2))
        sim_knobs()->slow_ppm = 0;
    if (world.fault_ppm && sim_random(3) == 0) {
        sim_knobs()->cut_ppm = (unsigned)sim_random(3000);
        sim_knobs()->refuse_ppm = (unsigned)sim_random(100000);
    }
}

static struct sim_plan draw_plan(void)
{
    struct sim_plan plan = {
        .backends = 1 + (unsigned)sim_random(SIM_BACKENDS_MAX),
        .partitions = 1 + (unsigned)sim_random(SIM_PARTITIONS_MAX),
        .proxies = (unsigned)sim_random(SIM_PROXIES_MAX + 1),
        .workers = 1 + (unsigned)sim_random(2),
        .places = sim_random(2) ? 1 : 1 + (unsigned)sim_random(SIM_PLACES_MAX),
        .has_secret = sim_random(2),
        .active_expire = sim_random(4),
        .has_idle_timeout = sim_random(5) == 0,
        .durability =
            sim_random(4) ? DURABILITY_ALWAYS : (enum durability)sim_random(DURABILITY_OS + 1),
        .upstream_timeout_ms = sim_random(3) ? 5000 : 20 + sim_random(200),
    };
    return plan;
}

static void world_start(uint64_t seed)
{
    static const struct world nothing;
    sim_init(seed);
    storage_mem_seed(sim_random(UINT64_MAX));
    memcpy(world.why, nothing.why, sizeof(world.why));
    memset(world.up_us, 0, sizeof(world.up_us));
    draw_faults();
    struct sim_plan plan = draw_plan();
    sim_cluster_start(&world.cluster, &plan);
    bool has_expiry = sim_random(2);
    sim_workload_init(&world.work, &world.cluster, has_expiry);
    world.work.trace = sim_options.is_verbose ? stdout : NULL;
    /* A short timeout, or a network that cuts connections, is a fault from the beginning. */
    world.work.may_fail = plan.upstream_timeout_ms < 5000 || sim_knobs()->cut_ppm ||
                          sim_knobs()->refuse_ppm || sim_knobs()->slow_ppm;
    world.work.may_fail |= plan.has_idle_timeout;
    world.work.is_calm = !world.work.may_fail && world.fault_ppm == 0;
    world.client_count = 3 + (unsigned)sim_random(CLIENTS_MAX - 2);
    for (unsigned i = 0; i < world.client_count; i++)
        sim_client_start(&world.clients[i], &world.work, i, 1 + (unsigned)sim_random(QUOTA_MAX));
    sim_lists_init(&world.lists, &world.cluster, &world.work.may_fail);
    world.taker_count = sim_random(2) ? 0 : 1 + (unsigned)sim_random(SIM_TAKERS_MAX);
    for (unsigned i = 0; i < world.taker_count; i++)
        sim_taker_start(&world.takers[i], &world.lists, i);
}

/* ---- faults ----------------------------------------------------------------------------------- */

/* A random host of a backend, a proxy, or a client. */
static const char *any_host(void)
{
    unsigned backends = world.cluster.plan.backends;
    unsigned proxies = world.cluster.plan.proxies;
    unsigned which = (unsigned)sim_random(backends + proxies + 1);
    if (which < backends)
        return world.cluster.backends[which].name;
    if (which < backends + proxies)
        return world.cluster.proxies[which - backends].name;
    return world.clients[sim_random(world.client_count)].name;
}

static void cut(void)
{
    world.work.may_fail = true;
    say("cut", 0);
    sim_cut(any_host());
}

static void freeze(void)
{
    uint64_t us = sim_random(sim_random(4) ? 500000 : 12000000);
    world.work.may_fail = true;
    say("freeze", (unsigned)us);
    sim_freeze(any_host(), us);
}

static void take_down(unsigned which)
{
    if (world.up_us[which])
        return;
    world.work.may_fail = true;
    say("unreachable", which);
    sim_host_down(world.cluster.backends[which].name);
    world.up_us[which] = sim_now_us() + sim_random(500000);
}

static void crash(struct sim_backend *backend, unsigned which)
{
    if (backend->state != SIM_UP)
        return;
    world.work.may_fail = true;
    say("crash", which);
    sim_backend_crash(backend);
    backend->back_us = sim_now_us() + sim_random(sim_random(2) ? 1000 : 500000);
}

static void restart_backend(struct sim_backend *backend, unsigned which)
{
    if (backend->state != SIM_UP)
        return;
    world.work.may_fail = true;
    say("restart backend", which);
    sim_backend_stop(backend);
    backend->back_us = sim_now_us() + sim_random(100000);
}

static void break_disk(struct storage *storage, bool is_read)
{
    struct store *store = storage_store(storage);
    world.work.may_fail = true;
    if (is_read) {
        say("read fails", 0);
        store_mem_fail_read(store, 1 + sim_random(20));
        return;
    }
    say("disk fails", 0);
    if (sim_random(3) == 0)
        store_mem_fail_apply(store, 1 + sim_random(4), sim_random(2) ? ERR_DISK_FULL : ERR_STORE);
    else
        storage_mem_fail_next(storage, 1 + sim_random(4),
                              sim_random(2) ? ERR_DISK_FULL : ERR_STORE);
    storage_mem_fail_recover(storage, sim_random(3));
}

static void fault_proxy(enum fault fault)
{
    if (world.cluster.plan.proxies == 0)
        return;
    unsigned which = (unsigned)sim_random(world.cluster.plan.proxies);
    struct sim_proxy *proxy = &world.cluster.proxies[which];
    if (proxy->state != SIM_UP)
        return;
    if (fault == FAULT_RELOAD) {
        say("reload", which);
        world.work.has_reloaded = true;
        sim_proxy_reload(proxy);
        return;
    }
    world.work.may_fail = true;
    say("restart proxy", which);
    sim_proxy_stop(proxy);
    proxy->back_us = sim_now_us() + sim_random(100000);
}

static void fault_store(enum fault fault, struct sim_backend *backend)
{
    static const enum cf families[] = {CF_DATA, CF_ZSET_SCORE, CF_STREAM, CF_RANK, CF_METADATA};
    if (backend->state != SIM_UP)
        return;
    unsigned seat = (unsigned)sim_random(world.cluster.plan.partitions);
    struct storage *storage = backend->seats[seat].partition->storage;
    if (fault == FAULT_COMPACT)
        store_compact(storage_store(storage), families[sim_random(4)], BYTES(""), BYTES(""));
    else
        break_disk(storage, fault == FAULT_READ);
}

static void make_fault(enum fault fault)
{
    unsigned which = (unsigned)sim_random(world.cluster.plan.backends);
    struct sim_backend *backend = &world.cluster.backends[which];
    switch (fault) {
    case FAULT_CUT:
        cut();
        break;
    case FAULT_FREEZE:
        freeze();
        break;
    case FAULT_DOWN:
        take_down(which);
        break;
    case FAULT_CRASH:
        crash(backend, which);
        break;
    case FAULT_RESTART_BACKEND:
        restart_backend(backend, which);
        break;
    case FAULT_DISK:
    case FAULT_READ:
    case FAULT_COMPACT:
        fault_store(fault, backend);
        break;
    case FAULT_RELOAD:
    case FAULT_RESTART_PROXY:
        fault_proxy(fault);
        break;
    case FAULT_KNOBS:
        sim_knobs_shuffle();
        world.work.may_fail |= sim_knobs()->slow_ppm > 0;
        break;
    case FAULT_CLOCK:
        if (!world.work.has_expiry)
            sim_wall_step((int64_t)sim_random(120000000) - 60000000);
        break;
    case FAULT_KINDS:
        break;
    }
}

static void come_back(bool at_once)
{
    for (unsigned i = 0; i < world.cluster.plan.backends; i++) {
        if (!world.up_us[i] || (!at_once && world.up_us[i] > sim_now_us()))
            continue;
        say("reachable", i);
        sim_host_up(world.cluster.backends[i].name);
        world.up_us[i] = 0;
    }
    sim_cluster_tend(&world.cluster);
    sim_cluster_revive(&world.cluster, at_once);
}

static void chance_of_fault(void)
{
    come_back(false);
    if (!sim_chance(world.fault_ppm))
        return;
    unsigned fault = (unsigned)sim_random(FAULT_KINDS);
    while (!(world.faults & 1u << fault))
        fault = (fault + 1) % FAULT_KINDS;
    make_fault((enum fault)fault);
}

/* ---- phases of a world ------------------------------------------------------------------------ */

static bool all_idle(void)
{
    for (unsigned i = 0; i < world.client_count; i++) {
        if (!sim_client_is_idle(&world.clients[i]))
            return false;
    }
    return true;
}

static void run_load(void)
{
    for (uint64_t step = 0; step < sim_options.steps && !has_failed(); step++) {
        if (step % FAULT_EVERY == 0)
            chance_of_fault();
        if (!sim_step() || (step % FAULT_EVERY == 0 && all_idle()))
            break;
    }
}

static void heal_stores(void)
{
    for (unsigned i = 0; i < world.cluster.plan.backends; i++) {
        struct sim_backend *backend = &world.cluster.backends[i];
        if (backend->state == SIM_DOWN)
            continue;
        for (unsigned j = 0; j < world.cluster.plan.partitions; j++) {
            struct storage *storage = backend->seats[j].partition->storage;
            struct store *store = storage_store(storage);
            storage_mem_fail_next(storage, 0, ERR_STORE);
            store_mem_fail_apply(store, 0, ERR_STORE);
            storage_mem_fail_recover(storage, 0);
            store_mem_fail_read(store, 0);
        }
    }
}

/* Ends the faults, and sets options without short timeouts. */
static void heal(void)
{
    say("faults end", 0);
    sim_knobs()->cut_ppm = sim_knobs()->refuse_ppm = sim_knobs()->slow_ppm = 0;
    sim_knobs()->delay_us_min = 20;
    sim_knobs()->delay_us_max = 300;
    sim_knobs()->job_us_max = sim_knobs()->job_us_min + 100;
    heal_stores();
    come_back(true);
    world.cluster.plan.upstream_timeout_ms = 5000;
    world.work.has_reloaded = true;
    for (unsigned i = 0; i < world.cluster.plan.proxies; i++) {
        if (world.cluster.proxies[i].state == SIM_UP)
            sim_proxy_reload(&world.cluster.proxies[i]);
    }
}

/* Runs steps until the condition holds; fails after too many steps or too much virtual time. */
static void run_until(bool (*is_true)(void), const char *what)
{
    uint64_t end_us = sim_now_us() + HEAL_US;
    for (uint64_t step = 0; step < HEAL_STEPS && sim_now_us() < end_us; step++) {
        sim_cluster_tend(&world.cluster);
        if (has_failed() || is_true())
            return;
        if (!sim_step())
            break;
    }
    fail(what);
}

static bool is_up(void)
{
    come_back(true);
    return sim_cluster_is_up(&world.cluster);
}

static bool is_quiet(void)
{
    return sim_cluster_is_quiet(&world.cluster);
}

static bool is_down(void)
{
    return sim_cluster_is_down(&world.cluster);
}

static void end_clients(void)
{
    for (unsigned i = 0; i < world.client_count; i++)
        sim_client_end(&world.clients[i]);
    run_until(is_up, "the cluster does not come back");
    run_until(all_idle, "a client waits for ever");
    for (unsigned i = 0; i < world.client_count; i++)
        sim_client_fini(&world.clients[i]);
    world.client_count = 0;
    for (unsigned i = 0; i < world.taker_count; i++)
        sim_taker_fini(&world.takers[i]);
    run_until(is_quiet, "a proxy does not notice that its clients have left");
}

/* ---- audits ----------------------------------------------------------------------------------- */

static void audit_start(unsigned place, int proxy, unsigned shard)
{
    CHECK(world.client_count < SIM_CLIENTS_MAX);
    unsigned number = world.client_count++;
    sim_client_start_audit(&world.clients[number], &world.work, number, place, proxy, shard);
}

/* Do the results of an audit agree with each other? False: the difference is in why[size]. */
static bool audit_agrees(const struct sim_client *client, char *why, size_t size)
{
    const struct sim_sight *sight = &client->sight;
    if (sight->dbsize != sight->keys) {
        (void)snprintf(why, size, "DBSIZE says %" PRIu64 ", KEYS gives %u (client %u)",
                       sight->dbsize, sight->keys, client->number);
        return false;
    }
    for (unsigned key = 0; key < world.work.key_count && client->proxy < 0; key++) {
        unsigned count = 0;
        const struct sim_key *one = &world.work.keys[key];
        if (one->place != client->place || one->shard != client->shard)
            continue;
        for (unsigned other = 0; other < world.work.key_count; other++)
            count += sight->has_key[other] && world.work.keys[other].slot == one->slot;
        if (count != sight->in_slot[key]) {
            (void)snprintf(why, size, "COUNTKEYSINSLOT %u says %u, there are %u", one->slot,
                           sight->in_slot[key], count);
            return false;
        }
    }
    return true;
}

static bool audits_agree(char *why, size_t size)
{
    const struct sim_plan *plan = &world.cluster.plan;
    bool agree = true;
    for (unsigned place = 0; place < plan->places; place++) {
        for (unsigned shard = 0; shard < world.cluster.shard_count; shard++)
            audit_start(place, -1, shard);
    }
    run_until(all_idle, "an audit does not end");
    for (unsigned place = 0; place < plan->places; place++) {
        for (unsigned proxy = 0; proxy < plan->proxies; proxy++)
            audit_start(place, (int)proxy, 0);
    }
    run_until(all_idle, "an audit through a proxy does not end");
    for (unsigned i = 0; i < world.client_count && agree; i++)
        agree = audit_agrees(&world.clients[i], why, size);
    for (unsigned i = 0; i < world.client_count; i++)
        sim_client_fini(&world.clients[i]);
    world.client_count = 0;
    return agree;
}

/* An audit consists of several requests. A write of a lost client may still run between two of them when one waits
 * for the disk, so only a difference that every audit finds is a failure. */
static void run_audits(void)
{
    char why[200];
    uint64_t end_us = sim_now_us() + REST_US;
    while (sim_now_us() < end_us && sim_step())
        sim_cluster_tend(&world.cluster);
    for (int i = 0; i < AUDITS_MAX && !has_failed(); i++)
        if (audits_agree(why, sizeof why))
            return;
    if (!has_failed())
        fail(why);
}

/* False when the plan does not sync before each reply: then a crash may roll back acknowledged writes. */
static bool is_durable(void)
{
    bool was_crashed = false;
    for (unsigned i = 0; i < world.cluster.plan.backends; i++)
        was_crashed |= world.cluster.backends[i].was_crashed;
    return world.cluster.plan.durability == DURABILITY_ALWAYS || !was_crashed;
}

static bool lists_are_read(void)
{
    for (unsigned i = 0; i < world.cluster.shard_count; i++)
        if (!world.takers[i].is_done)
            return false;
    return true;
}

/* No client may be blocked at a partition: those that were blocked have left. */
static void check_nobody_waits(void)
{
    for (unsigned i = 0; i < world.cluster.shard_count; i++) {
        const struct sim_shard *shard = &world.cluster.shards[i];
        const struct sim_backend *backend = &world.cluster.backends[shard->backend];
        const struct partition *partition = backend->seats[shard->partition].partition;
        if (blocking_clients(partition->watchers.blocking) > 0)
            fail("a client that has left still waits at a partition");
    }
}

static void audit_lists(void)
{
    if (world.taker_count == 0)
        return;
    check_nobody_waits();
    _Static_assert((int)SIM_SHARDS_MAX <= (int)SIM_TAKERS_MAX, "one for each shard");
    for (unsigned i = 0; i < world.cluster.shard_count; i++)
        sim_taker_start_audit(&world.takers[i], &world.lists, SIM_TAKERS_MAX + i, i);
    run_until(lists_are_read, "an audit of a list does not end");
    for (unsigned i = 0; i < world.cluster.shard_count; i++)
        sim_taker_fini(&world.takers[i]);
    if (!has_failed() && is_durable() && !sim_lists_check(&world.lists))
        fail(world.lists.why);
}

/* ---- end of a world --------------------------------------------------------------------------- */

static void stop_all(void)
{
    for (unsigned i = 0; i < world.cluster.plan.proxies; i++)
        sim_proxy_stop(&world.cluster.proxies[i]);
    for (unsigned i = 0; i < world.cluster.plan.backends; i++)
        sim_backend_stop(&world.cluster.backends[i]);
    run_until(is_down, "the cluster does not stop");
}

static void check_history(void)
{
    char why[200];
    if (!is_durable() || history_check(&world.work.history, why, sizeof(why)))
        return;
    fail(why);
    const char *number = strstr(why, "(key ");
    if (!sim_options.is_breaking && number)
        history_print(&world.work.history, (uint32_t)strtoul(number + 5, NULL, 10), stdout);
}

/* sim_simulation.run */
static void run_world(struct sim_result *result)
{
    world_start(result->seed);
    run_load();
    heal();
    if (!has_failed())
        end_clients();
    if (!has_failed())
        run_audits();
    if (!has_failed())
        audit_lists();
    if (!has_failed())
        stop_all();
    if (!has_failed())
        check_history();
    result->hash = sim_hash();
    result->has_passed = !has_failed();
    result->undecided = world.work.history.undecided;
    memcpy(result->why, world.why, sizeof(result->why));
    if (has_failed())
        return;
    if (sim_options.is_verbose)
        printf("%zu operations, %" PRIu64 " replies, %" PRIu64 " errors, %zu undecided keys\n",
               world.work.history.count, world.work.answered, world.work.errors,
               world.work.history.undecided);
    sim_workload_fini(&world.work);
    sim_cluster_fini(&world.cluster);
    sim_fini();
    storage_mem_reset();
}

int main(int argc, char **argv)
{
    static const uint64_t known[] = {7599};
    const struct sim_simulation simulation = {.run = run_world,
                                              .seeds = sized(SEEDS),
                                              .steps = STEPS,
                                              .known = known,
                                              .known_count = sizeof known / sizeof *known,
                                              .first_break = BREAK_LOST_SYNC,
                                              .end_break = BREAK_INTERFACES_END,
                                              .break_seed = 1};
    return sim_seeds_main(argc, argv, &simulation);
}
