/*
 * test_voters.c - a group of copies that elect their leader (replica.h), from its founding on, over links that fail.
 *
 *   a founds ─► b, c are learners, fetch files, become voters ─► records ─► leaders die, others lead ─► maps change, disks are lost or go back
 *
 *   home: batches, members ─► replica_append ─► core ─► log, saves ─► links ══ relays ══► the other copies     each copy on a host of its own,
 *     ▲──────── role, committed ◄─────┘                                                                      with a clock of its own rate
 *
 * There are four hosts, and a map names three of them. Processes end at any time, disks refuse records. When all copies are equal, one of
 * these happens, and the next one when they are again: the map names another host instead of one; a disk is replaced by an empty one; a disk
 * goes back to an older state. Then the copy must notice it, and gets an empty disk. Or the leader stands still, its disk or its home: then
 * another copy must lead soon. Or disks are full: then a copy serves all the same, soon one with room if most have some, and no record waits.
 *
 * In some worlds the home of one copy then applies nothing for more than a thousand records, and the leader dies: the copy that has applied
 * all must lead.
 *
 * In some worlds the map changes while a copy is down, and one leads that the map of before did not name. The copy that was down, which still has
 * that map, must follow it.
 *
 * In some worlds two copies are left: one that has all, its newest records in files only, and one that lacks these. The first one must give the
 * files before it serves.
 *
 * When faults end, a copy must serve within 20 election timeouts, whatever its members, logs and disks have become. A run with few --steps looks
 * at states early in the life of a group.
 *
 * At the end of each world two of the three copies are lost at once. SCREE REPLICAS FORCE makes a group of the third one alone, whose
 * generation is higher.
 *
 * What one home has heard as committed, no other one hears otherwise, and each home that begins to serve has it all: so a record that a
 * client was told of is never lost. Two copies may never serve at once, and none before two of three vote.
 *
 * The clocks of the hosts differ by up to a minute. The time that a copy which serves shows to clients goes back by no more than a
 * message takes, whichever copy served before, and whichever processes have ended since.
 *
 * Controls: an older disk is not noticed; the first copy serves alone; a leader that stands still leads on; a copy that is behind stands
 * as early as others; a new leader expires keys by its own clock; full disks are not heard of; a full disk takes nothing; only addresses that
 * a copy knows are heard.
 *
 *   test_voters [--seed N] …      sim_seeds.h
 */
#include "backend/consensus/consensus.h"
#include "backend/context/backend_metrics.h"
#include "backend/context/group_clock.h"
#include "backend/format/effects.h"
#include "backend/format/members_row.h"
#include "backend/replica/replica_figures.h"
#include "backend/replica/replica_known.h"
#include "backend/replica/replica_log.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/clock.h"
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
    SEEDS = 60,
    STEPS = 3000,
    HOSTS = SIM_REPLICAS_MAX,
    COPIES = 3, /* of a map */
    E_US = 500000,
    SECOND_US = 1000000,
    SKEW_US = 25 * SECOND_US,
    DELAY_US = 25000,          /* more than that of any message, when nothing is wrong */
    SERVED_US = 20 * E_US,     /* after the last fault */
    CALM_US = 600 * SECOND_US, /* a copy that could not fetch waits, and so does its leader */
    GONE_BACK_US = 30 * SECOND_US,
    HANGS_US = 40 * SECOND_US,
    HANGS_MOST_US = 25 * SECOND_US, /* before another copy leads */
    FULL_US = 60 * SECOND_US,
    FULL_MOST_US = 25 * SECOND_US, /* before a copy serves, and what it has appended is committed */
    FULL_ROOM = 4000,              /* bytes that are left at most */
    BATCHES_MAX = 100,
    RECORDS_END = 800,
    BEHIND = 1100, /* records that one copy does not apply */
    RECORDS_MAX = RECORDS_END + 200 + BEHIND,
    BEHIND_WORLDS = 4, /* one of so many */
    UNNAMED_WORLDS = 3,
    FILES_WORLDS = 4,
    TRIMMED = 20, /* records that one copy lacks, and no log has */
    FOLLOWED_US = 60 * SECOND_US,
    DROPPED_WORLDS = 3,
    DROPPED_US = 4 * SECOND_US,    /* less than a dropped leader waits for home, by any clock … */
    SERVES_US = 7 * SECOND_US / 2, /* … and so is this, but both are more */
    LEAVES_US = 30 * SECOND_US,
    DISK_NAME_BYTES = 32,
};

struct copy {
    struct sim_replica of;
    unsigned rate;   /* of its clock */
    int64_t skew_us; /* of its clock's time */
    struct group_clock time;
    bool must_end, must_install, must_leave;
    uint64_t home_us; /* home does nothing until then */
    bool is_behind;   /* home applies nothing */
    bool is_full;     /* its disk */
    uint64_t start_us;
    unsigned old_map; /* bits of hosts, with old_epoch; 0: it has the map of the world */
    uint64_t old_epoch;
    /* home */
    struct replica_role role;
    uint64_t committed, next, served_term;
    uint64_t heard; /* the last one that was told as committed */
    char new_dir[SIM_CUT_NAME_BYTES + 1];
    struct replica_record new_record;
};

/* A state of a disk, to which it may go back. */
struct saved_disk {
    struct copy *copy; /* NULL: there is none */
    char dir[DISK_NAME_BYTES], own_dir[DISK_NAME_BYTES];
    struct replica_record record;
    uint64_t last; /* of its log */
};

static struct {
    struct copy copies[HOSTS];
    struct sim_relays relays;
    struct store_env *env;
    struct labels *labels;
    uint64_t epoch;
    unsigned map; /* bits of hosts */
    unsigned batches, disks;
    bool has_founded, is_forced;
    uint64_t committed_last;         /* the last one that any home has heard of */
    uint32_t committed[RECORDS_MAX]; /* hashes of records */
    uint64_t terms[RECORDS_MAX];     /* of committed records */
    struct saved_disk saved;
    struct copy *gone_back; /* its disk is an older one, and it has not noticed; no other faults */
    uint64_t gone_back_us;
    struct copy *hung; /* it stands still, and has led; no other faults */
    uint64_t hung_us, hung_term;
    uint64_t shown_us;      /* the latest time that a copy which served has shown */
    uint64_t full_until_us; /* disks are full until then; 0: none are. No other faults */
    uint64_t well_us;       /* … and all was as it should be at this time */
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

static uint64_t local_us(const struct copy *copy)
{
    return sim_now_us() + sim_now_us() / 1000 * copy->rate;
}

static bool is_in_map(const struct copy *copy)
{
    return world.map & 1U << copy->of.number;
}

/* ---- controls ---------------------------------------------------------------------------------- */

bool __real_replica_known_is_newer(const struct replica_known_copy *known, uint64_t starts,
                                   uint64_t run, uint64_t last);
bool __wrap_replica_known_is_newer(const struct replica_known_copy *known, uint64_t starts,
                                   uint64_t run, uint64_t last);

bool __wrap_replica_known_is_newer(const struct replica_known_copy *known, uint64_t starts,
                                   uint64_t run, uint64_t last)
{
    return sim_broken != BREAK_WENT_BACK && __real_replica_known_is_newer(known, starts, run, last);
}

bool __real_replica_waits_for_voters(struct replica *replica);
bool __wrap_replica_waits_for_voters(struct replica *replica);

bool __wrap_replica_waits_for_voters(struct replica *replica)
{
    return sim_broken != BREAK_SERVES_ALONE && __real_replica_waits_for_voters(replica);
}

void __real_replica_stall_tick(struct replica *replica);
void __wrap_replica_stall_tick(struct replica *replica);

void __wrap_replica_stall_tick(struct replica *replica)
{
    if (sim_broken != BREAK_LEADS_HUNG)
        __real_replica_stall_tick(replica);
}

void __real_group_clock_hear(struct group_clock *clock, uint64_t time_us);
void __wrap_group_clock_hear(struct group_clock *clock, uint64_t time_us);

void __wrap_group_clock_hear(struct group_clock *clock, uint64_t time_us)
{
    __real_group_clock_hear(clock, time_us);
    if (sim_broken == BREAK_TIME_FORGOTTEN)
        atomic_store(&clock->shift_us, 0);
}

void __real_replica_behind_tick(struct replica *replica);
void __wrap_replica_behind_tick(struct replica *replica);

void __wrap_replica_behind_tick(struct replica *replica)
{
    if (sim_broken != BREAK_LEADS_BEHIND)
        __real_replica_behind_tick(replica);
}

void __real_replica_room_tick(struct replica *replica);
void __wrap_replica_room_tick(struct replica *replica);

void __wrap_replica_room_tick(struct replica *replica)
{
    if (sim_broken != BREAK_ROOM_UNHEARD)
        __real_replica_room_tick(replica);
}

void __real_replica_log_keep_spare(struct replica_log *log);
void __wrap_replica_log_keep_spare(struct replica_log *log);

void __wrap_replica_log_keep_spare(struct replica_log *log)
{
    if (sim_broken != BREAK_NO_SPARE)
        __real_replica_log_keep_spare(log);
}

bool __real_replica_change_welcomes(const struct replica *replica,
                                    const struct replica_hello *hello);
bool __wrap_replica_change_welcomes(const struct replica *replica,
                                    const struct replica_hello *hello);

bool __wrap_replica_change_welcomes(const struct replica *replica,
                                    const struct replica_hello *hello)
{
    return sim_broken != BREAK_UNNAMED_UNHEARD && __real_replica_change_welcomes(replica, hello);
}

/* ---- records ----------------------------------------------------------------------------------- */

static void see_committed(const struct copy *copy, uint64_t index, struct bytes record)
{
    CHECK(index < RECORDS_MAX);
    struct effects_header header;
    struct effects_reader reader;
    uint32_t hash = sim_record_hash(record), *truth = &world.committed[index];
    if (!*truth)
        *truth = hash;
    if (*truth != hash)
        fail("home of %s has another record %" PRIu64, copy->of.name, index);
    if (effects_open(record, &header, &reader) == EFFECTS_READ)
        world.terms[index] = header.term;
    if (index > world.committed_last)
        world.committed_last = index;
}

/* ---- home -------------------------------------------------------------------------------------- */

/* It has all records of earlier terms that were committed. Later ones may be there already: this home hears late. */
static void check_log(const struct copy *copy, const struct replica_role *role)
{
    for (uint64_t i = role->committed + 1; i <= world.committed_last; i++)
        if (world.terms[i] && world.terms[i] < role->term)
            fail("%s leads term %" PRIu64 " with records up to %" PRIu64 ", and %" PRIu64
                 " was committed",
                 copy->of.name, role->term, role->committed, i);
}

static void serve_when_applied(struct copy *copy)
{
    const struct replica_role *role = &copy->role;
    if (role->phase != REPLICA_PHASE_SERVING || copy->served_term == role->term ||
        copy->committed < role->committed)
        return;
    check_log(copy, role);
    copy->served_term = role->term;
    copy->next = role->committed + 1;
    (void)group_clock_lead(&copy->time);
    replica_serves(copy->of.replica, role->term);
}

static bool are_all_full(void)
{
    for (unsigned i = 0; i < HOSTS; i++)
        if (!world.copies[i].is_full)
            return false;
    return true;
}

/* A leader does not take its followers for better than they are: it would hand over to one of them, and that one again. Copies have had the time
 * to say that they are full. */
static void check_known_room(const struct copy *copy)
{
    bool is_known = world.full_until_us && sim_now_us() + FULL_US > world.full_until_us + E_US;
    if (copy->role.phase == REPLICA_PHASE_SERVING && is_known && are_all_full() &&
        replica_room_of_most(copy->of.replica) != REPLICA_ROOM_NONE && sim_broken == BREAK_NONE)
        fail("copy %s leads, and believes that others have room", copy->of.name);
}

static void on_role(void *owner, const struct replica_role *role)
{
    struct copy *copy = owner;
    copy->role = *role;
    check_known_room(copy);
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
    copy->heard = index;
    if (copy->is_behind)
        return;
    copy->committed = sim_replica_commit(&copy->of, copy->committed, index, on_record, copy);
    serve_when_applied(copy);
}

static void append(struct copy *copy, struct effects *effects)
{
    effects_set_numbers(effects, copy->next++, copy->role.term, copy->committed);
    replica_append(copy->of.replica, effects_bytes(effects));
}

/* The founding record is written by home itself. A disk that refuses it ends the process. */
static void write_founding(struct copy *copy, struct effects *effects, uint64_t term,
                           const struct members *members)
{
    char error[200];
    uint64_t index = storage_written(copy->of.storage) + 1, written;
    effects_set_numbers(effects, index, term, index);
    copy->must_end = storage_append(copy->of.storage, effects_bytes(effects), &written, error,
                                    sizeof error) != OK ||
                     storage_sync(copy->of.storage, error, sizeof error) != OK;
    if (copy->must_end)
        return;
    CHECK(written == index);
    storage_commit(copy->of.storage, index);
    see_committed(copy, index, effects_bytes(effects));
    copy->committed = index;
    world.has_founded = true;
    sim_replica_apply_members(&copy->of, index, effects_bytes(effects));
    replica_logged(copy->of.replica, index, term, members);
}

static bool leads_in(const struct copy *copy, uint64_t term)
{
    return copy->role.phase == REPLICA_PHASE_SERVING && copy->role.term == term &&
           copy->served_term == term;
}

static void on_propose(void *owner, uint64_t term, const struct members *members)
{
    struct copy *copy = owner;
    struct effects *effects = effects_new();
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_MEMBERS});
    effects_put(effects, CF_SYSTEM, BYTES(SYSTEM_MEMBERS), members_row_write(&arena, members));
    storage_join_group(copy->of.storage);
    if (copy->role.phase == REPLICA_PHASE_NONE)
        write_founding(copy, effects, term, members);
    else if (leads_in(copy, term))
        append(copy, effects);
    effects_free(effects);
}

static void on_failed(void *owner, const char *reason)
{
    struct copy *copy = owner;
    fail("copy %s fails: %s", copy->of.name, reason);
    copy->must_end = true;
}

static void on_install(void *owner, const char *dir, const struct replica_record *record)
{
    struct copy *copy = owner;
    copy->must_install = true;
    copy->new_record = *record;
    CHECK(sim_cut_name(dir, copy->new_dir));
}

static void on_lost(void *owner)
{
    struct copy *copy = owner;
    if (copy != world.gone_back && !world.is_forced)
        fail("copy %s is lost", copy->of.name);
    copy->must_leave = true;
}

static unsigned voters_of(const struct copy *copy)
{
    const struct consensus *core = replica_core(copy->of.replica);
    unsigned count = 0;
    for (unsigned i = 0; core && i < core->members.count; i++)
        count += core->members.list[i].kind == CONSENSUS_VOTER;
    return count;
}

static bool may_serve(const struct copy *copy)
{
    return copy->of.is_up && replica_may_serve(copy->of.replica, local_us(copy));
}

static void append_row(struct copy *copy, struct bytes value)
{
    struct effects *effects = effects_new();
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_BATCH});
    effects_put(effects, CF_DATA, BYTES("x"), value);
    append(copy, effects);
    effects_free(effects);
}

/* A batch, or some trimmed records: the core has not heard of the newest ones that the log does not have any more. */
static void write_batch(struct copy *copy)
{
    char value[300], error[200];
    size_t len = 1 + sim_random(sizeof value);
    if (!may_serve(copy) || !leads_in(copy, copy->role.term) || world.batches >= BATCHES_MAX ||
        copy->next >= RECORDS_END || copy->is_full ||
        replica_room_of_most(copy->of.replica) == REPLICA_ROOM_NONE)
        return;
    if (sim_random(10) == 0) {
        storage_applied(copy->of.storage, copy->committed);
        CHECK(storage_flush(copy->of.storage, error, sizeof error) == OK);
    }
    memset(value, (int)sim_random(256), len);
    append_row(copy, (struct bytes){value, len});
    world.batches++;
}

/* ---- life of a copy ---------------------------------------------------------------------------- */

static void fail_disk(const struct copy *copy)
{
    storage_mem_fail_next(copy->of.storage, 1 + sim_random(4),
                          sim_random(2) ? ERR_STORE : ERR_DISK_FULL);
    if (sim_random(2))
        storage_mem_fail_recover(copy->of.storage, 1 + sim_random(2));
}

/* Some bytes are left when home says it; or none any more. */
static void set_full(struct copy *copy, bool is_full)
{
    copy->is_full = is_full;
    if (copy->of.is_up)
        replica_note_room(copy->of.replica, is_full ? REPLICA_ROOM_NONE : REPLICA_ROOM);
}

/* sim_replica_options.home_progress */
static uint64_t progress(void *owner)
{
    struct copy *copy = owner;
    if (leads_in(copy, copy->role.term))
        group_clock_tick(&copy->time);
    return sim_now_us() < copy->home_us ? 1 : sim_now_us() + 2;
}

static void show_map_to(const struct copy *copy)
{
    sim_replica_configure(&copy->of, copy->old_map ? copy->old_epoch : world.epoch,
                          copy->old_map ? copy->old_map : world.map);
}

static void start_copy(struct copy *copy)
{
    char files[PATH_MAX];
    (void)snprintf(files, sizeof files, "%s/%s", sim_cuts_root(), copy->of.name);
    const struct sim_replica_options options = {.env = world.env,
                                                .metrics = metrics,
                                                .labels = world.labels,
                                                .count = COPIES,
                                                .has_voters = true,
                                                .may_join = true,
                                                .waits_for_voters = true,
                                                .election_us = E_US,
                                                .window = 1 + (uint32_t)sim_random(16),
                                                .state = copy->of.number ? REPLICA_STATE_EMPTY
                                                                         : REPLICA_STATE_NONE,
                                                .files = files,
                                                .events = {.on_role = on_role,
                                                           .on_committed = on_committed,
                                                           .on_propose = on_propose,
                                                           .on_install = on_install,
                                                           .on_failed = on_failed,
                                                           .on_lost = on_lost},
                                                .home_progress = progress,
                                                .owner = copy,
                                                .time = &copy->time};
    sim_replica_open_storage(&copy->of, world.env);
    copy->committed = copy->heard = storage_committed(copy->of.storage);
    copy->role = (struct replica_role){0};
    copy->served_term = 0;
    copy->time = (struct group_clock){0};
    sim_replica_start(&copy->of, &options);
    set_full(copy, copy->is_full);
    show_map_to(copy);
}

static void crash_copy(struct copy *copy)
{
    sim_replica_crash(&copy->of);
    sim_hang_disk(copy->of.name, 0);
    copy->home_us = 0;
    copy->is_behind = false;
    copy->must_end = copy->must_install = copy->must_leave = false;
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
    *copy = (struct copy){.rate = (unsigned)sim_random(190),
                          .skew_us = (int64_t)sim_random(2 * SKEW_US) - SKEW_US};
    sim_replica_new(&copy->of, at, &world.relays);
    sim_clock_rate(copy->of.name, copy->rate);
    sim_clock_skew(copy->of.name, copy->skew_us);
    make_store(copy);
    start_copy(copy);
}

static void give_empty_disk(struct copy *copy)
{
    if (copy->of.is_up)
        crash_copy(copy);
    (void)snprintf(copy->of.dir, sizeof copy->of.dir, "%s.%u", copy->of.name, ++world.disks);
    make_store(copy);
}

/* The process ends; the next one begins with the new directory. */
static void install(struct copy *copy)
{
    char error[200];
    struct replica_record record = copy->new_record;
    crash_copy(copy);
    (void)snprintf(copy->of.dir, sizeof copy->of.dir, "%s", copy->new_dir);
    replica_file_close(replica_file_make(copy->of.dir, &record, error, sizeof error));
    start_copy(copy);
}

/* A copy that has noticed that its disk is an older one, or that others are a group without it. */
static void leave(struct copy *copy)
{
    if (copy == world.gone_back)
        world.gone_back = NULL;
    give_empty_disk(copy);
}

static struct copy *leader(void)
{
    for (unsigned i = 0; i < HOSTS; i++)
        if (may_serve(&world.copies[i]))
            return &world.copies[i];
    return NULL;
}

/* ---- turns ------------------------------------------------------------------------------------- */

static void tend(struct copy *copy)
{
    if (!copy->of.is_up) {
        if (sim_now_us() >= copy->start_us)
            start_copy(copy);
        return;
    }
    if (copy->must_end)
        crash_copy(copy);
    else if (copy->must_install)
        install(copy);
    else if (copy->must_leave)
        leave(copy);
    else if (sim_random(2) && sim_now_us() >= copy->home_us)
        write_batch(copy);
}

/* All others are empty, as the home of the first address has heard. */
static void found_when_alone(void)
{
    struct copy *a = &world.copies[0];
    if (!world.has_founded && a->of.is_up && a->role.phase == REPLICA_PHASE_NONE &&
        !replica_file_mem_record(a->of.dir))
        (void)replica_make_group(a->of.replica, false);
}

/* What clients are shown as the time. */
static void check_time(const struct copy *copy)
{
    uint64_t time_us =
        clock_wall_us() + (uint64_t)copy->skew_us + (uint64_t)atomic_load(&copy->time.shift_us);
    if (time_us + DELAY_US < world.shown_us)
        fail("%s serves at a time that is %" PRIu64 " us earlier than what was shown",
             copy->of.name, world.shown_us - time_us);
    if (time_us > world.shown_us)
        world.shown_us = time_us;
}

static void check_leases(void)
{
    const struct copy *holder = NULL;
    for (unsigned i = 0; i < HOSTS; i++) {
        const struct copy *copy = &world.copies[i];
        if (!may_serve(copy))
            continue;
        if (voters_of(copy) == 1 && !world.is_forced)
            fail("%s serves, and no other copy votes", copy->of.name);
        if (holder)
            fail("%s and %s serve at the same time", holder->of.name, copy->of.name);
        holder = copy;
        check_time(copy);
    }
}

static void check_gone_back(void)
{
    if (world.gone_back && sim_now_us() > world.gone_back_us + GONE_BACK_US)
        fail("copy %s does not notice that its disk is an older one", world.gone_back->of.name);
}

/* The other copies have all, so it gives its lead up. */
static void check_hung(void)
{
    const struct copy *copy = world.hung;
    if (!copy)
        return;
    if (!leads_in(copy, world.hung_term))
        world.hung = NULL;
    else if (sim_now_us() > world.hung_us + HANGS_MOST_US)
        fail("copy %s stands still%s, and leads", copy->of.name, copy->home_us ? " at home" : "");
}

/* A leader without room, when most copies have some, hands over; one that has room waits for nothing. */
static bool is_well_when_full(struct copy *copy)
{
    bool is_alone = copy->is_full && replica_room_of_most(copy->of.replica) != REPLICA_ROOM_NONE;
    if (is_alone && sim_random(20) == 0)
        replica_hand_over(copy->of.replica, "");
    return !is_alone && leads_in(copy, copy->role.term) && copy->committed + 1 == copy->next;
}

static void check_full(void)
{
    struct copy *copy = leader();
    if (!world.full_until_us)
        return;
    if (copy && is_well_when_full(copy))
        world.well_us = sim_now_us();
    else if (sim_now_us() > world.well_us + FULL_MOST_US)
        fail("disks are full, and %s", !copy           ? "no copy serves"
                                       : copy->is_full ? "a full copy leads"
                                                       : "records are not committed");
    if (sim_now_us() < world.full_until_us)
        return;
    world.full_until_us = 0;
    for (unsigned i = 0; i < HOSTS; i++) {
        wal_mem_set_room(world.copies[i].of.dir, UINT64_MAX);
        set_full(&world.copies[i], false);
    }
}

static void turn(void)
{
    sim_run_for(sim_random(E_US / 10));
    check_leases();
    check_gone_back();
    check_hung();
    check_full();
    found_when_alone();
    for (unsigned i = 0; i < HOSTS; i++)
        tend(&world.copies[i]);
}

/* ---- faults ------------------------------------------------------------------------------------ */

static void make_fault(void)
{
    struct copy *copy = leader();
    if (!copy || sim_random(2))
        copy = &world.copies[sim_random(HOSTS)];
    if (!copy->of.is_up || world.gone_back || world.hung || world.full_until_us)
        return;
    switch (sim_random(9)) {
    case 0:
        sim_cut(copy->of.name);
        break;
    case 1:
        sim_freeze(copy->of.name, sim_random(3 * SECOND_US));
        break;
    case 2:
        sim_host_down(copy->of.name);
        sim_run_for(sim_random(2 * SECOND_US));
        sim_host_up(copy->of.name);
        break;
    case 3:
        fail_disk(copy);
        break;
    case 4:
        sim_relays_mute(&world.relays);
        break;
    case 5:
        replica_hand_over(copy->of.replica, "");
        break;
    default:
        crash_copy(copy);
        break;
    }
}

/* ---- changes, when all copies are equal -------------------------------------------------------- */

static bool has_all(const struct copy *copy, uint64_t last)
{
    return copy->of.is_up && copy->committed == last && storage_logged(copy->of.storage) == last;
}

/* The leader's members are the copies of the map, all vote, and all have the whole log. */
static bool is_level(void)
{
    const struct copy *first = leader();
    struct replica_figures figures;
    if (!first || world.gone_back || world.hung || world.full_until_us)
        return false;
    replica_figures(first->of.replica, &figures);
    unsigned whole = 0;
    for (unsigned i = 0; i < figures.count; i++)
        whole +=
            figures.of[i].is_up && figures.of[i].is_voter && figures.of[i].match == figures.last;
    if (figures.count != COPIES || whole != COPIES || figures.committed != figures.last)
        return false;
    for (unsigned i = 0; i < HOSTS; i++)
        if (is_in_map(&world.copies[i]) && !has_all(&world.copies[i], figures.last))
            return false;
    return is_in_map(first);
}

static void show_map(void)
{
    for (unsigned i = 0; i < HOSTS; i++)
        if (world.copies[i].of.is_up)
            show_map_to(&world.copies[i]);
}

/* Another host instead of this one. The copy there has an empty disk, since what it had before is not needed. */
static struct copy *replace_host(unsigned gone)
{
    unsigned next = 0;
    while (world.map & 1U << next)
        next++;
    give_empty_disk(&world.copies[next]);
    world.map = (world.map | 1U << next) & ~(1U << gone);
    world.epoch++;
    world.saved.copy = NULL;
    show_map();
    return &world.copies[next];
}

static void change_map(void)
{
    unsigned gone;
    do {
        gone = (unsigned)sim_random(HOSTS);
    } while (!(world.map & 1U << gone));
    (void)replace_host(gone);
}

static void save_disk(struct copy *copy)
{
    struct saved_disk *saved = &world.saved;
    *saved = (struct saved_disk){
        .copy = copy, .record = *replica_file_mem_record(copy->of.dir), .last = copy->committed};
    (void)snprintf(saved->own_dir, sizeof saved->own_dir, "%s", copy->of.dir);
    (void)snprintf(saved->dir, sizeof saved->dir, "%s.old%u", copy->of.name, ++world.disks);
    sim_cut_storage(copy->of.storage, saved->dir);
}

/* Only if it lacks what it had acknowledged: else nothing is lost. */
static void go_back(void)
{
    struct saved_disk *saved = &world.saved;
    struct copy *copy = saved->copy;
    char error[200];
    if (!copy || strcmp(copy->of.dir, saved->own_dir) != 0 || copy->committed <= saved->last)
        return;
    crash_copy(copy);
    (void)snprintf(copy->of.dir, sizeof copy->of.dir, "%s", saved->dir);
    replica_file_close(replica_file_make(copy->of.dir, &saved->record, error, sizeof error));
    world.gone_back = copy;
    world.gone_back_us = sim_now_us();
    saved->copy = NULL;
}

/* A disk that hangs is noticed when something is written. */
static void hang(struct copy *copy)
{
    world.hung = copy;
    world.hung_us = sim_now_us();
    world.hung_term = copy->role.term;
    world.batches -= world.batches == BATCHES_MAX;
    if (sim_random(2))
        copy->home_us = sim_now_us() + HANGS_US;
    else
        sim_hang_disk(copy->of.name, HANGS_US);
}

/* The leader's disk, or those of several copies; a process may end then. */
static void fill_disks(void)
{
    unsigned number = leader()->of.number;
    unsigned full = sim_random(3) ? (unsigned)sim_random(1U << HOSTS) : 1U << number;
    world.full_until_us = sim_now_us() + FULL_US;
    world.well_us = sim_now_us();
    world.batches -= world.batches == BATCHES_MAX;
    for (unsigned i = 0; i < HOSTS; i++) {
        if (!(full & 1U << i))
            continue;
        wal_mem_set_room(world.copies[i].of.dir, sim_random(2) ? sim_random(FULL_ROOM) : 0);
        set_full(&world.copies[i], true);
    }
    if (sim_random(2))
        crash_copy(leader());
}

static void change_something(void)
{
    struct copy *copy = &world.copies[sim_random(HOSTS)];
    if (!is_in_map(copy))
        return;
    switch (sim_random(8)) {
    case 0:
        change_map();
        break;
    case 1:
        give_empty_disk(copy);
        break;
    case 2:
    case 3:
        hang(leader());
        break;
    case 4:
    case 5:
        fill_disks();
        break;
    default:
        if (world.saved.copy)
            go_back();
        else
            save_disk(copy);
        break;
    }
}

/* ---- worlds ------------------------------------------------------------------------------------ */

static void start_world(uint64_t seed)
{
    memset(&world, 0, sizeof world);
    world.epoch = 1;
    world.map = (1U << COPIES) - 1;
    sim_cuts_reset();
    sim_init(seed);
    sim_knobs_shuffle();
    sim_knobs()->delay_us_max = 1000 + sim_random(20000);
    sim_knobs()->pipe_bytes = 256 << 10;
    storage_mem_reset();
    storage_mem_seed(seed);
    replica_file_mem_reset();
    metrics = metrics ? metrics : metrics_new();
    world.labels = labels_new(LINK_WORDS, HOSTS);
    world.env = store_env_new(&(struct store_env_options){0});
    sim_relays_init(&world.relays);
    sim_run_for(1000); /* clocks do not begin with 0 */
    for (unsigned i = 0; i < HOSTS; i++)
        new_copy(i);
}

/* With -v: what each copy has. */
static void show(void)
{
    for (unsigned i = 0; i < HOSTS && sim_options.is_verbose; i++) {
        const struct copy *copy = &world.copies[i];
        printf("%9" PRIu64 " %s %s %s phase %d term %" PRIu64 " home %" PRIu64 " logged %" PRIu64
               " voters %u\n",
               sim_now_us(), copy->of.name, is_in_map(copy) ? "in the map" : "spare",
               copy->of.is_up ? "up" : "down", copy->role.phase, copy->role.term, copy->committed,
               copy->of.is_up ? storage_logged(copy->of.storage) : 0,
               copy->of.is_up ? voters_of(copy) : 0);
    }
}

static void run_until_level(void)
{
    uint64_t end_us = sim_now_us() + CALM_US;
    while (!world.why[0] && !is_level()) {
        turn();
        if (sim_now_us() > end_us) {
            show();
            fail("the copies do not become equal");
        }
    }
}

/* All copies are up or start soon, and all links work: no group is stuck, whatever its copies have and lack. */
static void run_until_served(void)
{
    uint64_t end_us = sim_now_us() + SERVED_US;
    while (!world.why[0] && world.has_founded && !leader()) {
        turn();
        if (sim_now_us() > end_us) {
            show();
            fail("no copy serves, %u timeouts after the last fault", SERVED_US / E_US);
        }
    }
}

static void end_world(void)
{
    for (unsigned i = 0; i < HOSTS; i++)
        if (world.copies[i].of.is_up)
            sim_replica_stop(&world.copies[i].of);
    sim_relays_stop(&world.relays);
    sim_run_for(SECOND_US);
    for (unsigned i = 0; i < HOSTS; i++)
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

static void step(void)
{
    turn();
    if (is_level() && sim_random(4) == 0)
        change_something();
    if (sim_random(12) == 0 && world.committed_last < RECORDS_END)
        make_fault();
}

static void heal(void)
{
    world.relays.is_faulty = false;
    world.hung = NULL;
    for (unsigned i = 0; i < HOSTS; i++) {
        world.copies[i].home_us = 0;
        sim_hang_disk(world.copies[i].of.name, 0);
    }
    while (!world.why[0] && world.full_until_us)
        turn();
    sim_knobs()->slow_ppm = 0;
    world.batches = BATCHES_MAX;
    run_until_served();
    run_until_level();
}

/* ---- a copy that is behind --------------------------------------------------------------------- */

/* Another copy of the map than these two; NULL is none. */
static struct copy *another(const struct copy *one, const struct copy *two)
{
    for (unsigned i = 0; i < HOSTS; i++) {
        struct copy *copy = &world.copies[i];
        if (is_in_map(copy) && copy != one && copy != two)
            return copy;
    }
    return NULL;
}

/* False: the leader is lost. */
static bool write_many(struct copy *first, const struct copy *behind, const struct copy *well)
{
    uint64_t end = first->next + BEHIND, term = first->role.term;
    while (leads_in(first, term) &&
           (first->committed < end - 1 || well->committed < end - 1 || behind->heard < end - 1)) {
        for (unsigned i = 0; i < 50 && first->next < end; i++)
            append_row(first, BYTES("y"));
        turn();
    }
    return leads_in(first, term);
}

/* The copy whose home has applied nothing may stand only after the other one. */
static void lead_not_behind(void)
{
    struct copy *first = leader(), *well = another(first, NULL), *behind = another(first, well);
    if (world.why[0])
        return;
    behind->is_behind = true;
    bool is_written = write_many(first, behind, well);
    uint64_t end_us = sim_now_us() + E_US; /* until its leader has heard so */
    while (sim_now_us() < end_us)
        turn();
    if (is_written && leader() == first) {
        crash_copy(first);
        first->start_us = sim_now_us() + 10 * SECOND_US;
        while (!leader() && behind->role.phase < REPLICA_PHASE_LEADING &&
               sim_now_us() < first->start_us)
            turn();
        if (leader() != well)
            fail("%s, which is behind, leads instead of %s", behind->of.name, well->of.name);
    }
    behind->is_behind = false;
    if (behind->of.is_up)
        on_committed(behind, behind->heard);
    run_until_level();
}

/* ---- a copy whose map is old ------------------------------------------------------------------- */

static bool leads(const struct copy *copy)
{
    return may_serve(copy) && leads_in(copy, copy->role.term);
}

static void run_until_leads(const struct copy *copy)
{
    uint64_t end_us = sim_now_us() + CALM_US;
    while (!world.why[0] && !leads(copy)) {
        const struct copy *first = leader();
        if (first && sim_random(20) == 0)
            replica_hand_over(first->of.replica, sim_replica_address(copy->of.number));
        turn();
        if (sim_now_us() > end_us)
            fail("copy %s does not lead", copy->of.name);
    }
}

static void run_until_follows(const struct copy *copy)
{
    uint64_t end_us = sim_now_us() + FOLLOWED_US;
    while (!world.why[0] && !has_all(copy, world.committed_last)) {
        turn();
        if (sim_now_us() > end_us)
            fail("copy %s does not follow", copy->of.name);
    }
}

static void follow_unnamed(void)
{
    const struct copy *first = leader();
    struct copy *sleeper = another(first, NULL);
    if (world.why[0])
        return;
    crash_copy(sleeper);
    sleeper->start_us = UINT64_MAX;
    sleeper->old_map = world.map;
    sleeper->old_epoch = world.epoch;
    struct copy *unnamed = replace_host(another(first, sleeper)->of.number);
    run_until_leads(unnamed);
    world.batches -= world.batches == BATCHES_MAX;
    sleeper->start_us = 0;
    run_until_follows(sleeper);
    sleeper->old_map = 0;
    if (sleeper->of.is_up)
        show_map_to(sleeper);
    run_until_level();
}

/* ---- a copy that lacks what no log has --------------------------------------------------------- */

/* What is applied is not in the log of the next process. */
static void trim_log(const struct copy *copy)
{
    char error[200];
    storage_applied(copy->of.storage, copy->committed);
    CHECK(storage_flush(copy->of.storage, error, sizeof error) == OK);
}

static void run_until_committed(struct copy *first, const struct copy *other)
{
    uint64_t end = first->next + TRIMMED, term = first->role.term;
    while (leads_in(first, term) && (first->committed < end - 1 || other->committed < end - 1)) {
        if (first->next < end)
            append_row(first, BYTES("z"));
        turn();
    }
}

/* Of the two copies that are left, only one has the newest records, and these in files only. It is elected, and its first record needs the other
 * copy, which needs the files first. */
static void give_before_serving(void)
{
    struct copy *first = leader(), *gone = another(first, NULL), *lacks = another(first, gone);
    if (world.why[0])
        return;
    crash_copy(lacks);
    lacks->start_us = UINT64_MAX;
    run_until_committed(first, gone);
    trim_log(first);
    crash_copy(first);
    crash_copy(gone);
    gone->start_us = UINT64_MAX;
    lacks->start_us = 0;
    run_until_served();
    gone->start_us = 0;
    run_until_level();
}

/* ---- a leader that the map has dropped --------------------------------------------------------- */

static void run_while_leads(const struct copy *copy, uint64_t us)
{
    uint64_t end_us = sim_now_us() + us;
    while (!world.why[0] && leads(copy) && sim_now_us() < end_us)
        turn();
}

/* Home hands nothing over. The leader does by itself, some seconds after it began to serve, whatever was before. */
static void leave_late(void)
{
    struct copy *first = leader(), *other = another(first, NULL);
    if (world.why[0])
        return;
    struct copy *next = replace_host(first->of.number);
    if (next->of.is_up)
        crash_copy(next);
    next->start_us = UINT64_MAX; /* so that the first one stays a member */
    run_while_leads(first, DROPPED_US);
    run_until_leads(other);
    run_until_leads(first);
    run_while_leads(first, SERVES_US);
    if (!world.why[0] && !leads(first))
        fail("%s gives its lead up for the time before it led", first->of.name);
    run_while_leads(first, LEAVES_US);
    if (!world.why[0] && leads(first))
        fail("%s, which the map has dropped, leads for ever", first->of.name);
    next->start_us = 0;
    run_until_level();
}

/* ---- the end ----------------------------------------------------------------------------------- */

/* Two of three are gone. The third one goes on alone, and they join it with empty disks when they are back. */
static void force(void)
{
    struct copy *survivor = NULL;
    if (world.why[0])
        return;
    world.is_forced = true;
    for (unsigned i = 0; i < HOSTS; i++) {
        struct copy *copy = &world.copies[i];
        if (!survivor && is_in_map(copy) && !may_serve(copy)) {
            survivor = copy;
        } else if (copy->of.is_up) {
            crash_copy(copy);
            copy->start_us += 10 * SECOND_US;
        }
    }
    CHECK(survivor && !replica_make_group(survivor->of.replica, true));
    run_until_level();
    if (!world.why[0] && leader() != survivor)
        fail("another copy than the survivor serves");
}

static void run_world(struct sim_result *result)
{
    start_world(result->seed);
    world.relays.is_faulty = true;
    for (uint64_t i = 0; i < sim_options.steps && !world.why[0]; i++)
        step();
    show();
    heal();
    show();
    if (sim_random(BEHIND_WORLDS) == 0)
        lead_not_behind();
    show();
    if (sim_random(UNNAMED_WORLDS) == 0)
        follow_unnamed();
    show();
    if (sim_random(FILES_WORLDS) == 0)
        give_before_serving();
    show();
    if (sim_random(DROPPED_WORLDS) == 0)
        leave_late();
    show();
    force();
    show();
    result->hash = sim_hash();
    result->has_passed = !world.why[0];
    (void)snprintf(result->why, sizeof result->why, "%s", world.why);
    if (result->has_passed)
        end_world();
}

int main(int argc, char **argv)
{
    /* 146: a full copy took full ones for better; others: a copy that had heard the time was started again, and elected one that had not */
    static const uint64_t known[] = {146, 1041, 1047, 1049, 1153, 1162};
    static const struct sim_simulation simulation = {
        .run = run_world,
        .known = known,
        .known_count = sizeof known / sizeof *known,
        .seeds = SEEDS,
        .steps = STEPS,
        .first_break = BREAK_WENT_BACK,
        .end_break = BREAK_VOTERS_END,
        .break_seed = 1,
    };
    log_set_level(LOG_ERROR + 1);
    arena_init(&arena);
    sim_cuts_begin();
    int code = sim_seeds_main(argc, argv, &simulation);
    sim_cuts_end();
    return code;
}
