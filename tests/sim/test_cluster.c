/*
 * test_cluster.c - whole clusters in one thread: real proxies and partitions, simulated network, disks, time.
 *
 *   test_cluster [--seed N] [--seeds COUNT] [--steps N] [--break NAME] [-v]
 *
 *     --seed N      one world, which is always the same; -v prints its events
 *     --seeds N     so many worlds, beginning with that of --seed (default 2000 from 1)
 *     --steps N     events before the faults end (default 4000)
 *     --break NAME  an interface breaks a promise (sim_break.h); success when the checks detect it
 *
 * A seed is a plan (number of programs, network, commands, faults) and a history:
 *
 *   load and faults ─► faults end, all programs start ─► every client is answered ─► audits read all keys
 *                 ─► clean stop ─► checks: do the replies fit together, do the rows on disk?
 *
 * Without arguments it runs the seeds of seeds.txt, which failed in the past, the first 2000 seeds, and every control
 * of sim_break.h until it is detected. Worlds run in child processes, so that an abort ends only one of them.
 */
#include "backend/context/partition.h"
#include "backend/partition/blocking.h"
#include "shared/check.h"
#include "shared/command.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/table.h"
#include "tests/sim/sim_break.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_taker.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SEEDS = 2000,
    STEPS = 4000,
    SEEDS_OF_CHILD = 100,  /* seeds in one child process */
    BREAK_SEEDS_MAX = 400, /* seeds within which a control must be detected */
    CLIENTS_MAX = 8,
    QUOTA_MAX = 160,
    FAULT_EVERY = 20, /* steps between two possible faults */
    HEAL_STEPS = 400000,
    HEAL_US = 60 * 1000 * 1000,
    REST_US = 3 * 1000 * 1000, /* longer than the longest TTL and than any delay of the network */
    AUDITS_MAX = 3,
    SEED_SECONDS_MAX = 60,
    PROGRESS_SEEDS = 500,
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

struct options {
    uint64_t seed;
    uint64_t seeds;
    uint64_t steps;
    bool is_verbose;
    bool is_default; /* no argument was given */
    bool is_breaking;
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
static struct options options = {.seed = 1, .steps = STEPS};

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
    if (options.is_verbose)
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
    world.work.trace = options.is_verbose ? stdout : NULL;
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
    for (uint64_t step = 0; step < options.steps && !has_failed(); step++) {
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
    if (!options.is_breaking && number)
        history_print(&world.work.history, (uint32_t)strtoul(number + 5, NULL, 10), stdout);
}

/* Runs the seed's world. False: world.why has the reason. A failed world is not freed: the process must end. */
static bool run_world(uint64_t seed, uint64_t *hash)
{
    world_start(seed);
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
    *hash = sim_hash();
    if (has_failed())
        return false;
    if (options.is_verbose)
        printf("%zu operations, %" PRIu64 " replies, %" PRIu64 " errors, %zu undecided keys\n",
               world.work.history.count, world.work.answered, world.work.errors,
               world.work.history.undecided);
    sim_workload_fini(&world.work);
    sim_cluster_fini(&world.cluster);
    sim_fini();
    storage_mem_reset();
    return true;
}

/* ---- child processes -------------------------------------------------------------------------- */

/* The result of a seed, sent by the child process. */
struct result {
    uint64_t seed;
    uint64_t hash;
    uint64_t undecided;
    bool has_passed;
    char why[600];
};

struct tally {
    uint64_t passed;
    uint64_t failed;
    uint64_t undecided;
};

/* Runs the seed; every tenth one twice, and both histories must be equal. */
static void run_seed(uint64_t seed, struct result *result)
{
    *result = (struct result){.seed = seed};
    alarm(SEED_SECONDS_MAX);
    result->has_passed = run_world(seed, &result->hash);
    result->undecided = world.work.history.undecided;
    if (result->has_passed && seed % 10 == 0) {
        uint64_t hash;
        result->has_passed = run_world(seed, &hash) && hash == result->hash;
        if (hash != result->hash)
            fail("the same seed took another course");
    }
    memcpy(result->why, world.why, sizeof(result->why));
}

_Noreturn static void be_child(int to, uint64_t first, uint64_t count)
{
    struct result result;
    if (options.is_breaking)
        CHECK(freopen("/dev/null", "w", stderr));
    for (uint64_t seed = first; seed < first + count; seed++) {
        run_seed(seed, &result);
        (void)fflush(stdout);
        if (write(to, &result, sizeof(result)) != sizeof(result) || !result.has_passed)
            _exit(EXIT_FAILURE);
    }
    exit(EXIT_SUCCESS); /* normal end, so that a leak sanitizer can check */
}

static bool read_result(int from, struct result *result)
{
    size_t got = 0;
    while (got < sizeof(*result)) {
        ssize_t more = read(from, (char *)result + got, sizeof(*result) - got);
        if (more <= 0)
            return false;
        got += (size_t)more;
    }
    return true;
}

static void count_result(const struct result *result, struct tally *tally)
{
    tally->undecided += result->undecided;
    if (result->has_passed) {
        tally->passed++;
        return;
    }
    tally->failed++;
    printf("seed %" PRIu64 ": %s\n", result->seed, result->why);
}

/* Runs seeds in one child process until one fails; returns the first seed that was not run. */
static uint64_t run_child(uint64_t first, uint64_t count, struct tally *tally)
{
    int ends[2];
    struct result result;
    uint64_t seed = first;
    int status = 0;
    CHECK(pipe(ends) == 0);
    (void)fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(ends[0]);
        be_child(ends[1], first, count);
    }
    close(ends[1]);
    bool is_good = true;
    while (seed < first + count && is_good && read_result(ends[0], &result)) {
        CHECK(result.seed == seed++);
        count_result(&result, tally);
        is_good = result.has_passed;
    }
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child);
    if (!is_good || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return seed;
    result = (struct result){.seed = seed};
    (void)snprintf(result.why, sizeof(result.why), "the process ended with %s %d%s",
                   WIFSIGNALED(status) ? "signal" : "code",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                   seed == first + count ? ", after the last of its seeds: leaks" : "");
    count_result(&result, tally);
    return seed == first + count ? seed : seed + 1;
}

static void run_seeds(uint64_t first, uint64_t count, struct tally *tally)
{
    for (uint64_t seed = first; seed < first + count;) {
        uint64_t left = first + count - seed;
        seed = run_child(seed, left < SEEDS_OF_CHILD ? left : SEEDS_OF_CHILD, tally);
        if ((seed - first) % PROGRESS_SEEDS == 0)
            printf("%" PRIu64 " seeds, %" PRIu64 " failed\n", seed - first, tally->failed);
    }
}

/* ---- which worlds to run ---------------------------------------------------------------------- */

/* Runs the seeds of seeds.txt. */
static void run_known(struct tally *tally)
{
    char path[1000];
    char line[200];
    (void)snprintf(path, sizeof(path), "%s", __FILE__);
    CHECK(strrchr(path, '/'));
    (void)snprintf(strrchr(path, '/'), 20, "/seeds.txt");
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    while (fgets(line, sizeof(line), file)) {
        if (line[0] >= '0' && line[0] <= '9')
            run_seeds(strtoull(line, NULL, 10), 1, tally);
    }
    (void)fclose(file);
}

/* Runs worlds with a control of sim_break.h until the checks detect it. */
static void run_control(enum sim_break broken, struct tally *tally)
{
    struct tally found = {0};
    sim_broken = broken;
    options.is_breaking = true;
    printf("%s, noticed: ", sim_break_name(broken));
    for (uint64_t seed = 1; seed <= BREAK_SEEDS_MAX && found.failed == 0;)
        seed = run_child(seed, BREAK_SEEDS_MAX + 1 - seed, &found);
    tally->passed += found.failed > 0;
    tally->failed += found.failed == 0;
    if (found.failed == 0)
        printf("never, in %d seeds\n", BREAK_SEEDS_MAX);
    sim_broken = BREAK_NONE;
    options.is_breaking = false;
}

/* Runs the seeds in this process, to watch or debug them. */
static void run_here(struct tally *tally)
{
    struct result result = {.has_passed = true};
    (void)log_set_file(options.is_verbose ? NULL : "/dev/null");
    for (uint64_t i = 0; i < options.seeds && result.has_passed; i++) {
        run_seed(options.seed + i, &result);
        printf("seed %" PRIu64 ": hash %016" PRIx64 "\n", result.seed, result.hash);
        count_result(&result, tally);
    }
}

_Noreturn static void usage(void)
{
    (void)fprintf(stderr,
                  "test_cluster [--seed N] [--seeds COUNT] [--steps N] [--break NAME] [-v]\n");
    exit(2);
}

static uint64_t number_of(const char *text)
{
    char *end = NULL;
    uint64_t number = text ? strtoull(text, &end, 10) : 0;
    if (!text || !*text || *end)
        usage();
    return number;
}

static void parse(int argc, char **argv)
{
    bool has_seeds = false;
    bool has_seed = false;
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "-v") == 0) {
            options.is_verbose = true;
            continue;
        }
        i++;
        if (strcmp(argv[i - 1], "--seed") == 0) {
            options.seed = number_of(next);
            has_seed = true;
        } else if (strcmp(argv[i - 1], "--seeds") == 0) {
            options.seeds = number_of(next);
            has_seeds = true;
        } else if (strcmp(argv[i - 1], "--steps") == 0) {
            options.steps = number_of(next);
        } else if (strcmp(argv[i - 1], "--break") != 0 || !next ||
                   !sim_break_find(next, &sim_broken)) {
            usage();
        }
    }
    if (has_seed && !has_seeds)
        options.seeds = 1;
    options.is_default = argc == 1;
}

/* Makes the process draw the hash seed of its tables before the first world, so that it is not taken from a world's
 * random numbers. */
static void draw_seed_of_tables(void)
{
    sim_init(0);
    struct table *table = table_new();
    (void)table_get(table, BYTES("key"));
    table_free(table);
    sim_fini();
}

int main(int argc, char **argv)
{
    struct tally tally = {0};
    options.seeds = sized(SEEDS);
    parse(argc, argv);
    command_init();
    draw_seed_of_tables();
    (void)log_set_file("/dev/null");
    if (options.is_default)
        run_known(&tally);
    if (options.seeds == 1 || options.is_verbose)
        run_here(&tally);
    else
        run_seeds(options.seed, options.seeds, &tally);
    if (tally.undecided > 0)
        printf("%" PRIu64 " keys undecided\n", tally.undecided);
    for (int i = 1; options.is_default && i < BREAK_COUNT; i++)
        run_control((enum sim_break)i, &tally);
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", tally.passed, tally.failed);
    return tally.failed > 0;
}
