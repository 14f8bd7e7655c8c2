/*
 * test_replica_join.c - a copy founds a group with one voter, and two empty ones join it as learners (replica.h), over links that fail.
 *
 *   a: no group ─found─► SERVING ─┬─ proposal: b is a learner ─► record ─► snapshot ─► installed ─► follows
 *                                 └─ … c                                          b: EMPTY ─► JOINING ─► FOLLOWING
 *
 * The home of the leader writes its records itself, and says so (replica_logged). Processes end at any time: while the group is founded,
 * between a record and the word of it, between the snapshot and its installation. Disks of followers are replaced. In the end all have
 * the same log, byte for byte. Then a is gone, b is made a group of a higher generation, and when a comes back it serves no more. Perhaps c is made one, too, while b is down.
 *
 * Snapshots are real files (sim_cut.h). In some worlds no disk has room for them at first.
 *
 *   test_replica_join [--seed N] …      sim_seeds.h
 */
#include "backend/consensus/consensus.h"
#include "backend/context/backend_metrics.h"
#include "backend/format/effects.h"
#include "backend/format/members_row.h"
#include "backend/replica/replica_figures.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"
#include "tests/sim/replica_file_mem.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_cut.h"
#include "tests/sim/sim_replica.h"
#include "tests/sim/sim_seeds.h"
#include "tests/sim/storage_mem.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    SEEDS = 100,
    STEPS = 300,
    COPIES = 3,
    E_US = 500000,
    SECOND_US = 1000000,
    CALM_US = 600 * SECOND_US, /* a copy that could not fetch waits, and so does its leader */
    NO_ROOM_US = 60 * SECOND_US,
    CUTS_MAX = 8, /* in that time for one copy: their intervals grow from a second on */
    BATCHES_MAX = 60,
    RECORDS_MAX = 400,
};

struct copy {
    struct sim_replica of;
    enum replica_state state; /* before it is of a group */
    bool stays_down, is_stopping;
    uint64_t start_us;
    struct replica_role role;
    uint64_t committed, served_term;
    bool must_install;
    char new_dir[SIM_CUT_NAME_BYTES + 1];
    struct replica_record new_record;
};

static struct {
    struct copy copies[COPIES];
    struct sim_relays relays;
    struct store_env *env;
    struct labels *labels;
    unsigned batches, disks;
    bool is_split;                   /* two copies go on alone: each has its own records */
    uint32_t committed[RECORDS_MAX]; /* hashes of records */
    char why[200];
} world;

static struct metrics *metrics;
static struct arena arena;

static void start_copy(struct copy *copy);

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void fail(const char *format, ...)
{
    va_list arguments;
    if (world.why[0])
        return;
    va_start(arguments, format);
    (void)vsnprintf(world.why, sizeof world.why, format, arguments);
    va_end(arguments);
}

static uint64_t id_of(const struct copy *copy)
{
    const struct replica_record *record = replica_file_mem_record(copy->of.dir);
    return record ? record->id : 0;
}

/* ---- records ----------------------------------------------------------------------------------- */

static void see_committed(const struct copy *copy, uint64_t index, struct bytes record)
{
    uint32_t hash = sim_record_hash(record), *truth = &world.committed[index];
    if (world.is_split)
        return;
    if (!*truth)
        *truth = hash;
    if (*truth != hash)
        fail("home of %s has another record %" PRIu64, copy->of.name, index);
}

/* Writes a record at the end of the log, durably, which commits it; returns its index. */
static uint64_t write_record(struct copy *copy, struct effects *effects, uint64_t term)
{
    char error[200];
    uint64_t index = storage_written(copy->of.storage) + 1, written;
    effects_set_numbers(effects, index, term, index);
    CHECK(index < RECORDS_MAX);
    CHECK(storage_append(copy->of.storage, effects_bytes(effects), &written, error, sizeof error) ==
          OK);
    CHECK(written == index && storage_sync(copy->of.storage, error, sizeof error) == OK);
    storage_commit(copy->of.storage, index);
    see_committed(copy, index, effects_bytes(effects));
    copy->committed = index;
    replica_applied(copy->of.replica, index);
    return index;
}

/* The core has not heard of the newest records that the log does not have any more. */
static void trim(struct copy *copy, uint64_t index)
{
    char error[200];
    storage_applied(copy->of.storage, index);
    CHECK(storage_flush(copy->of.storage, error, sizeof error) == OK);
}

static uint64_t write_value(struct copy *copy, uint64_t term)
{
    char value[300];
    size_t len = 1 + sim_random(sizeof value);
    memset(value, (int)sim_random(256), len);
    struct effects *effects = effects_new();
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_BATCH});
    effects_put(effects, CF_DATA, BYTES("x"), (struct bytes){value, len});
    uint64_t index = write_record(copy, effects, term);
    effects_free(effects);
    world.batches++;
    return index;
}

/* Some records, and then the word of them. */
static void write_batches(struct copy *copy)
{
    uint64_t term = copy->role.term, last = 0, count = 1 + sim_random(3);
    if (copy->role.phase != REPLICA_PHASE_SERVING || copy->served_term != term ||
        world.batches >= BATCHES_MAX || !replica_may_serve(copy->of.replica, sim_now_us()))
        return;
    for (uint64_t i = 0; i < count; i++)
        last = write_value(copy, term);
    if (sim_random(10) == 0)
        trim(copy, last);
    for (uint64_t i = count; i-- > 0;)
        replica_logged(copy->of.replica, last - i, term, NULL);
}

/* ---- home -------------------------------------------------------------------------------------- */

static void serve_when_applied(struct copy *copy)
{
    const struct replica_role *role = &copy->role;
    if (role->phase != REPLICA_PHASE_SERVING || copy->served_term == role->term ||
        copy->committed < role->committed)
        return;
    copy->served_term = role->term;
    replica_serves(copy->of.replica, role->term);
}

static void on_role(void *owner, const struct replica_role *role)
{
    struct copy *copy = owner;
    if (copy->is_stopping)
        return;
    copy->role = *role;
    serve_when_applied(copy);
}

static void on_record(void *owner, uint64_t index, struct bytes record)
{
    struct copy *copy = owner;
    see_committed(copy, index, record);
    sim_replica_apply_members(&copy->of, index, record);
}

static void on_committed(void *owner, uint64_t index)
{
    struct copy *copy = owner;
    if (copy->is_stopping)
        return;
    copy->committed = sim_replica_commit(&copy->of, copy->committed, index, on_record, copy);
    serve_when_applied(copy);
}

static void on_propose(void *owner, uint64_t term, const struct members *members)
{
    struct copy *copy = owner;
    if (copy->is_stopping)
        return;
    struct effects *effects = effects_new();
    storage_join_group(copy->of.storage);
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_MEMBERS});
    effects_put(effects, CF_SYSTEM, BYTES(SYSTEM_MEMBERS), members_row_write(&arena, members));
    uint64_t index = write_record(copy, effects, term);
    sim_replica_apply_members(&copy->of, index, effects_bytes(effects));
    replica_logged(copy->of.replica, index, term, members);
    effects_free(effects);
}

static void on_failed(void *owner, const char *reason)
{
    struct copy *copy = owner;
    fail("copy %s fails: %s", copy->of.name, reason);
}

/* ---- snapshots --------------------------------------------------------------------------------- */

static void on_install(void *owner, const char *dir, const struct replica_record *record)
{
    struct copy *copy = owner;
    copy->must_install = true;
    copy->new_record = *record;
    CHECK(sim_cut_name(dir, copy->new_dir));
}

/* As by a signal, perhaps while it fetches files. */
static void stop_copy(struct copy *copy)
{
    copy->is_stopping = true;
    sim_replica_stop(&copy->of);
    sim_run_for(SECOND_US);
    sim_replica_fini(&copy->of);
    copy->is_stopping = false;
    copy->must_install = false;
    copy->start_us = sim_now_us() + sim_random(3 * E_US);
}

/* The process ends; the next one begins with the new directory. */
static void install(struct copy *copy)
{
    char error[200];
    copy->must_install = false;
    if (sim_random(2)) {
        sim_replica_crash(&copy->of);
    } else {
        stop_copy(copy);
    }
    (void)snprintf(copy->of.dir, sizeof copy->of.dir, "%s", copy->new_dir);
    replica_file_close(replica_file_make(copy->of.dir, &copy->new_record, error, sizeof error));
    start_copy(copy);
}

/* ---- life of a copy ---------------------------------------------------------------------------- */

static void start_copy(struct copy *copy)
{
    char files[PATH_MAX];
    (void)snprintf(files, sizeof files, "%s/%s", sim_cuts_root(), copy->of.name);
    const struct sim_replica_options options = {.env = world.env,
                                                .metrics = metrics,
                                                .labels = world.labels,
                                                .count = COPIES,
                                                .election_us = E_US,
                                                .window = 1 + (uint32_t)sim_random(16),
                                                .state = copy->state,
                                                .files = files,
                                                .events = {.on_role = on_role,
                                                           .on_committed = on_committed,
                                                           .on_propose = on_propose,
                                                           .on_install = on_install,
                                                           .on_failed = on_failed},
                                                .owner = copy};
    sim_replica_open_storage(&copy->of, world.env);
    copy->committed = storage_committed(copy->of.storage);
    copy->role = (struct replica_role){0};
    copy->served_term = 0;
    sim_replica_start(&copy->of, &options);
}

static void crash_copy(struct copy *copy)
{
    sim_replica_crash(&copy->of);
    copy->must_install = false;
    copy->start_us = sim_now_us() + sim_random(3 * E_US);
}

/* A fresh store has a record of its own. */
static void make_store(struct copy *copy)
{
    char error[200];
    sim_replica_open_storage(&copy->of, world.env);
    struct effects *effects = effects_new();
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_BATCH});
    effects_put(effects, CF_SYSTEM, BYTES("f"), BYTES("6"));
    CHECK(storage_write(copy->of.storage, effects, true, error, sizeof error) == OK);
    effects_free(effects);
    storage_close(copy->of.storage);
    copy->of.storage = NULL;
}

static void new_copy(unsigned at)
{
    struct copy *copy = &world.copies[at];
    *copy = (struct copy){.state = at ? REPLICA_STATE_EMPTY : REPLICA_STATE_NONE};
    sim_replica_new(&copy->of, at, &world.relays);
    make_store(copy);
    start_copy(copy);
}

/* Its disk is replaced: it joins under another id. */
static void lose_disk(struct copy *copy)
{
    crash_copy(copy);
    (void)snprintf(copy->of.dir, sizeof copy->of.dir, "%s.%u", copy->of.name, ++world.disks);
    make_store(copy);
}

/* ---- turns ------------------------------------------------------------------------------------- */

static void tend(struct copy *copy)
{
    if (!copy->of.is_up) {
        if (!copy->stays_down && sim_now_us() >= copy->start_us)
            start_copy(copy);
        return;
    }
    if (copy->must_install)
        install(copy);
    if (sim_random(2))
        write_batches(copy);
}

static void found_when_alone(void)
{
    struct copy *a = &world.copies[0];
    if (a->of.is_up && a->role.phase == REPLICA_PHASE_NONE && !replica_file_mem_record(a->of.dir))
        (void)replica_make_group(a->of.replica, false);
}

static void turn(void)
{
    sim_run_for(sim_random(E_US / 10));
    found_when_alone();
    for (unsigned i = 0; i < COPIES; i++)
        tend(&world.copies[i]);
}

static void make_fault(void)
{
    struct copy *copy = &world.copies[sim_random(COPIES)];
    if (!copy->of.is_up)
        return;
    if (copy != &world.copies[0] && sim_random(8) == 0) {
        lose_disk(copy);
        return;
    }
    switch (sim_random(6)) {
    case 0:
        stop_copy(copy);
        break;
    case 1:
        sim_cut(copy->of.name);
        break;
    case 2:
        sim_freeze(copy->of.name, sim_random(3 * SECOND_US));
        break;
    case 3:
        sim_relays_mute(&world.relays);
        break;
    default:
        crash_copy(copy);
        break;
    }
}

/* ---- worlds ------------------------------------------------------------------------------------ */

static void start_world(uint64_t seed)
{
    memset(&world, 0, sizeof world);
    sim_cuts_reset();
    sim_init(seed);
    sim_knobs_shuffle();
    sim_knobs()->delay_us_max = 1000 + sim_random(20000);
    sim_knobs()->pipe_bytes = 256 << 10;
    storage_mem_reset();
    storage_mem_seed(seed);
    replica_file_mem_reset();
    metrics = metrics ? metrics : metrics_new();
    world.labels = labels_new(LINK_WORDS, COPIES);
    world.env = store_env_new(&(struct store_env_options){0});
    sim_relays_init(&world.relays);
    world.relays.is_faulty = true;
    for (unsigned i = 0; i < COPIES; i++)
        new_copy(i);
}

static void show(void)
{
    for (unsigned i = 0; i < COPIES && sim_options.is_verbose; i++) {
        const struct copy *copy = &world.copies[i];
        printf("%9" PRIu64 " %s %s phase %d term %" PRIu64 " home %" PRIu64 " logged %" PRIu64 "\n",
               sim_now_us(), copy->of.name, copy->of.is_up ? "up" : "down", copy->role.phase,
               copy->role.term, copy->committed,
               copy->of.is_up ? storage_logged(copy->of.storage) : 0);
    }
}

static bool is_level(void)
{
    const struct copy *a = &world.copies[0];
    if (!a->of.is_up || !replica_may_serve(a->of.replica, sim_now_us()))
        return false;
    uint64_t last = storage_logged(a->of.storage);
    for (unsigned i = 0; i < COPIES; i++) {
        const struct copy *copy = &world.copies[i];
        if (!copy->of.is_up || copy->committed != last ||
            storage_logged(copy->of.storage) != last ||
            (i && copy->role.phase != REPLICA_PHASE_FOLLOWING))
            return false;
    }
    return true;
}

/* The leader's figures show that all have the whole log, and have applied it. */
static bool has_whole_figures(void)
{
    const struct copy *a = &world.copies[0];
    struct replica_figures figures;
    if (!a->of.is_up)
        return false;
    replica_figures(a->of.replica, &figures);
    unsigned whole = 0;
    for (unsigned i = 0; i < figures.count; i++)
        whole += figures.of[i].is_up && figures.of[i].match == figures.last &&
                 figures.of[i].applied == figures.last &&
                 figures.of[i].is_voter == (figures.of[i].id == id_of(a)) &&
                 figures.of[i].address[0];
    return figures.phase == REPLICA_PHASE_SERVING && whole == COPIES &&
           figures.committed == figures.last;
}

static bool serves(const struct copy *copy)
{
    return copy->of.is_up && replica_may_serve(copy->of.replica, sim_now_us());
}

static bool does_b_serve(void)
{
    return serves(&world.copies[1]);
}

static bool does_c_serve(void)
{
    return serves(&world.copies[2]);
}

static bool does_c_follow(void)
{
    const struct copy *c = &world.copies[2];
    return c->of.is_up && c->role.phase == REPLICA_PHASE_FOLLOWING;
}

static bool is_overtaken(const struct copy *copy)
{
    if (serves(copy))
        fail("a copy that was overtaken serves");
    return copy->of.is_up && copy->role.phase == REPLICA_PHASE_OVERTAKEN;
}

static bool is_a_overtaken(void)
{
    return is_overtaken(&world.copies[0]);
}

static bool is_b_overtaken(void)
{
    return is_overtaken(&world.copies[1]);
}

static void run_until(bool (*is_true)(void), const char *what)
{
    uint64_t end_us = sim_now_us() + CALM_US;
    while (!world.why[0] && !is_true()) {
        turn();
        if (sim_now_us() > end_us)
            fail("%s", what);
    }
}

static void take_down(struct copy *copy)
{
    if (copy->of.is_up)
        crash_copy(copy);
    copy->stays_down = true;
}

/* The survivor goes on alone; the old leader hears of it before it serves. */
static void force(void)
{
    take_down(&world.copies[0]);
    CHECK(!replica_make_group(world.copies[1].of.replica, true));
    run_until(does_b_serve, "the survivor does not serve");
    world.copies[0].stays_down = false;
    run_until(is_a_overtaken, "the old leader is not overtaken");
}

/* Two copies go on alone, and neither hears of the other before it serves: the later one does in the end. */
static void force_two(void)
{
    struct copy *a = &world.copies[0], *b = &world.copies[1], *c = &world.copies[2];
    take_down(a);
    take_down(c);
    CHECK(!replica_make_group(b->of.replica, true));
    run_until(does_b_serve, "the survivor does not serve");
    take_down(b);
    c->stays_down = false;
    run_until(does_c_follow, "the other survivor does not follow");
    sim_run_for(2 * SECOND_US);
    memset(world.committed + c->committed + 1, 0,
           (RECORDS_MAX - 1 - c->committed) * sizeof world.committed[0]);
    CHECK(!replica_make_group(c->of.replica, true));
    run_until(does_c_serve, "the other survivor does not serve");
    a->stays_down = b->stays_down = false;
    run_until(is_a_overtaken, "the old leader is not overtaken");
    run_until(is_b_overtaken, "the earlier one of two survivors is not overtaken");
    if (!does_c_serve())
        fail("the later one of two survivors does not serve any more");
}

static bool is_one_overtaken(void)
{
    const struct copy *b = &world.copies[1], *c = &world.copies[2];
    return (serves(b) && c->role.phase == REPLICA_PHASE_OVERTAKEN) ||
           (serves(c) && b->role.phase == REPLICA_PHASE_OVERTAKEN);
}

/* Two copies go on alone at the same moment: one of them does in the end. */
static void force_at_once(void)
{
    take_down(&world.copies[0]);
    world.is_split = true;
    CHECK(!replica_make_group(world.copies[1].of.replica, true));
    CHECK(!replica_make_group(world.copies[2].of.replica, true));
    run_until(is_one_overtaken, "of two survivors not exactly one serves");
    world.copies[0].stays_down = false;
    run_until(is_a_overtaken, "the old leader is not overtaken");
    if (!is_one_overtaken())
        fail("the survivor does not serve any more");
}

static void end_world(void)
{
    for (unsigned i = 0; i < COPIES; i++)
        if (world.copies[i].of.is_up)
            sim_replica_stop(&world.copies[i].of);
    sim_relays_stop(&world.relays);
    sim_run_for(SECOND_US);
    for (unsigned i = 0; i < COPIES; i++)
        if (world.copies[i].of.loop)
            sim_replica_fini(&world.copies[i].of);
    sim_relays_fini(&world.relays);
    labels_free(world.labels);
    store_env_free(world.env);
    sim_fini();
    storage_mem_reset();
    replica_file_mem_reset();
    arena_reset(&arena);
}

/* Copies that cannot fetch do not keep the leader busy. */
static void run_without_room(void)
{
    uint64_t end_us = sim_now_us() + NO_ROOM_US;
    sim_cuts_set_room(false);
    while (sim_now_us() < end_us && !world.why[0])
        turn();
    sim_cuts_set_room(true);
    if (sim_cuts_count() > CUTS_MAX * (COPIES - 1))
        fail("%u cuts in a minute without room", sim_cuts_count());
}

static void run_world(struct sim_result *result)
{
    start_world(result->seed);
    if (sim_random(4) == 0)
        run_without_room();
    for (uint64_t i = 0; i < sim_options.steps && !world.why[0]; i++) {
        turn();
        if (sim_random(12) == 0)
            make_fault();
    }
    show();
    world.relays.is_faulty = false;
    sim_knobs()->slow_ppm = 0;
    world.batches = BATCHES_MAX;
    run_until(is_level, "the copies do not become equal");
    run_until(has_whole_figures, "the figures are not those of equal copies");
    show();
    void (*const forces[])(void) = {force, force_two, force_at_once};
    if (!world.why[0])
        forces[sim_random(3)]();
    show();
    result->hash = sim_hash();
    result->has_passed = !world.why[0];
    (void)snprintf(result->why, sizeof result->why, "%s", world.why);
    if (result->has_passed)
        end_world();
}

int main(int argc, char **argv)
{
    static const struct sim_simulation simulation = {
        .run = run_world,
        .seeds = SEEDS,
        .steps = STEPS,
        .break_seed = 1,
    };
    log_set_level(LOG_ERROR + 1);
    arena_init(&arena);
    sim_cuts_begin();
    int code = sim_seeds_main(argc, argv, &simulation);
    sim_cuts_end();
    return code;
}
