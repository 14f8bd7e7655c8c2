/*
 * test_transactions.c - commands, scripts and transactions over several shards in one thread: real proxies and partitions,
 * with simulated network, links, disks and time.
 *
 *   test_transactions [--seed N] …     see sim_seeds.h
 *
 *   accounts are filled ─► deals and faults ─► faults end, all programs start ─► no transaction is left ─► everything is
 *   read at every shard and through every proxy ─► clean stop ─► checks (sim_bank.h), and of rows and counters
 *
 * Seeds up to POINTS are the crash points of short runs: each of the runs is repeated with a crash after the k-th persist
 * of each shard, and of all shards at once, for every k. Further seeds are random schedules of deals and faults.
 */
#include "backend/context/partition.h"
#include "backend/format/transaction_record.h"
#include "backend/keyspace/lock.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/session/internal_call.h"
#include "backend/slots/slot_moves.h"
#include "backend/slots/slot_table.h"
#include "backend/slots/stray_moves.h"
#include "backend/storage/commit.h"
#include "backend/transaction/coordinator.h"
#include "backend/transaction/participant.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"
#include "tests/sim/sim_closure.h"
#include "tests/sim/sim_seeds.h"
#include "tests/sim/sim_strays.h"
#include "tests/sim/sim_teller.h"
#include "tests/sim/sim_tracker.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    SHARDS = 3,
    RUNS = 8,             /* short runs */
    MOVE_RUNS = 2,        /* the last of them: slots move */
    PERSISTS_MAX = 40,    /* of one shard in a short run */
    VICTIMS = SHARDS + 1, /* each shard, and all of them */
    POINTS = RUNS * VICTIMS * PERSISTS_MAX,
    POWER_CUT_EVERY = 16, /* replies, on average */
    SEEDS = 1000,         /* random schedules */
    STEPS = 9000,
    FAULT_EVERY = 20, /* steps between two possible faults */
    PHASE_STEPS = 600000,
    PHASE_US = 60 * 1000 * 1000,
    STRAYS_EVERY = 4, /* possible faults for each stray */
    DOWN_US_MAX = 3 * 1000 * 1000,
    REST_US = 1000 * 1000,
    LOOK_US = 100 * 1000,
    FREEZE_MS_MAX = 10000, /* of migration-freeze */
    FREEZE_DELAYS =
        24, /* a freeze takes at most so many delays of the network and jobs of disks … */
    FREEZE_MORE_US =
        500000, /* … and ticks of partitions, and rows of tables before a message; without these, of 3000 worlds one needed 18, and 2995 less than 15 */
    RATE_MIN = 4000, /* of migration-rate */
    RATE_SHIFTS = 5,
    NEVER_MS = 10 * PHASE_US / 1000, /* a deadlock that only a timeout ends is found */
};

enum fault {
    FAULT_CUT,
    FAULT_MUTE,   /* a link loses one direction */
    FAULT_DOWN,   /* a host is unreachable for a while */
    FAULT_FREEZE, /* a host does nothing for a while */
    FAULT_CRASH,
    FAULT_RESTART_BACKEND,
    FAULT_DISK, /* writes fail until the store has recovered */
    FAULT_RESTART_PROXY,
    FAULT_CLOCK,
    FAULT_MOVE,   /* a new map gives slots to other shards, which hear of it at different times */
    FAULT_CANCEL, /* SCREE MOVES CANCEL at a shard; its moves go on later */
    FAULT_FORCE,  /* an operator ends a transaction in doubt, in any way */
    FAULT_KINDS,
};

/* The world of a seed. */
struct world {
    struct sim_cluster cluster;
    struct sim_bank bank;
    struct sim_teller tellers[SIM_TELLERS_MAX];
    unsigned teller_count;
    struct sim_tracker trackers[SHARDS];
    uint32_t faults;            /* bit set of enum fault: those that may happen */
    unsigned fault_ppm;         /* chance of a fault each time, in a million */
    uint64_t up_us[SHARDS];     /* when an unreachable host becomes reachable; 0: it is reachable */
    uint64_t reload_us[SHARDS]; /* when a backend gets the newest map; 0: it has it */
    uint64_t go_on_us[SHARDS];  /* when cancelled moves go on; 0: nothing was cancelled */
    bool was_cancelled[SHARDS];
    uint64_t look_us[SHARDS]; /* when it is looked again whether moves are paused */
    bool has_leaders;         /* shards have several copies, and another one leads at times */
    uint64_t lead_us[SHARDS]; /* when the shard leads again; 0: it does */
    bool was_forced;          /* an operator has ended a transaction */
    bool has_differed;        /* … in another way than its deciding shard */
    bool has_moves;           /* slots move */
    bool has_two_maps;        /* the second comes while the shards claim their first slots */
    bool is_prompt;           /* nothing else happens, and a freeze has no limit */
    bool has_power_cuts;      /* all shards may crash at once, right after a reply */
    unsigned replies;         /* of deals that are done, when they were last looked at */
    bool has_strays;          /* keys lie at shards that do not own their slots */
    struct sim_strays strays;
    uint64_t moved;                      /* number of moves of ranges so far */
    uint64_t epochs[SHARDS][SIM_RANGES]; /* of the shards' records */
    uint64_t wishes[SIM_RANGES];         /* epoch of the map by which a range came to its owner */
    uint64_t frozen_us[SHARDS]
                      [SIM_RANGES]; /* since when a range is frozen at a shard; 0: it is not */
    uint64_t longest_freeze_us;
    uint64_t freeze_us_max; /* limit of longest_freeze_us; 0: there is none */
    unsigned victim;        /* of a short run; VICTIMS: there is none */
    uint64_t persists;      /* the crash comes after so many of the victim's */
    bool has_crashed;
    char why[600];
};

static struct world world;

void __real_log_event(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void __wrap_log_event(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void fail(const char *what)
{
    if (!world.why[0])
        (void)snprintf(world.why, sizeof world.why, "%s", what);
}

static bool has_failed(void)
{
    if (world.cluster.why[0])
        fail(world.cluster.why);
    if (world.bank.why[0] && !world.was_forced)
        fail(world.bank.why);
    if (world.strays.why[0])
        fail(world.strays.why);
    return world.why[0] != 0;
}

static void say(const char *what, unsigned number)
{
    sim_note(what, number);
    if (sim_options.is_verbose)
        printf("%10" PRIu64 " ** %s %u\n", sim_now_us() - 1000000000, what, number);
}

static struct partition *partition_of(unsigned shard)
{
    return world.cluster.backends[shard].seats[0].partition;
}

/* ---- phases ----------------------------------------------------------------------------------- */

/* Runs steps until the condition holds; fails after too many steps or too much virtual time. */
static void let_moves_go_on(bool at_once);

static void run_until(bool (*is_true)(void), const char *what)
{
    uint64_t end_us = sim_now_us() + PHASE_US;
    for (uint64_t step = 0; step < PHASE_STEPS && sim_now_us() < end_us; step++) {
        sim_cluster_tend(&world.cluster);
        if (has_failed() || is_true())
            return;
        if (!sim_step())
            break;
    }
    fail(what);
}

static bool all_idle(void)
{
    for (unsigned i = 0; i < world.teller_count; i++)
        if (!sim_teller_is_idle(&world.tellers[i]))
            return false;
    return true;
}

static void end_tellers(void)
{
    for (unsigned i = 0; i < world.teller_count; i++)
        sim_teller_fini(&world.tellers[i]);
    world.teller_count = 0;
}

/* Every slot is at the shard of the newest map, and no move is under way. */
static bool is_settled(const struct partition *partition, unsigned shard)
{
    const struct partition_shards *shards = &partition->shards;
    if (!world.has_moves)
        return true;
    for (unsigned range = 0; range < SIM_RANGES; range++) {
        uint16_t slot = (uint16_t)(range * (SLOT_COUNT / SIM_RANGES));
        bool is_own = world.cluster.owners[range] == shard;
        const struct slot_record *record = slot_table_get(shards->slots, slot);
        bool is_moving = record->state == SLOT_IMPORTING || record->state == SLOT_STAGED ||
                         (record->state == SLOT_RELEASED && record->migration);
        if (is_own != (record->state == SLOT_OWNED) || is_moving)
            return false;
    }
    return !world.reload_us[shard] && !world.go_on_us[shard];
}

/* on_line of participant_list */
static void see_silent(void *owner, const char *line)
{
    *(bool *)owner |= strstr(line, "role=forced") && strstr(line, "silent");
}

/* Has a forced decision not been compared with that of its deciding shard? */
static bool has_silent_forced(const struct participant *participant)
{
    bool is_silent = false;
    if (world.was_forced)
        participant_list(participant, see_silent, &is_silent);
    return is_silent;
}

/* No transaction is open at any shard, no key is locked, no slot moves, and there are no strays. */
static bool is_calm(void)
{
    for (unsigned i = 0; i < SHARDS; i++) {
        if (world.cluster.backends[i].state != SIM_UP)
            return false;
        const struct partition_shards *shards = &partition_of(i)->shards;
        if (partition_of(i)->copies.is_closed || !is_settled(partition_of(i), i) ||
            lock_set_count(shards->locks) || participant_figures(shards->participant).count ||
            has_silent_forced(shards->participant) ||
            coordinator_figures(shards->coordinator).count)
            return false;
    }
    return sim_strays_are_home(&world.strays);
}

/* on_line of participant_list and coordinator_list */
static void name_transaction(void *owner, const char *line)
{
    (void)owner;
    if (sim_options.is_verbose)
        printf("open: %s\n", line);
    fail(line);
}

/* on_line of slot_moves_list */
static void name_move(void *owner, const char *line)
{
    (void)owner;
    if (sim_options.is_verbose)
        printf("moves: %s\n", line);
    if (strstr(line, "settled=no"))
        fail(line);
}

static void name_moves(unsigned shard)
{
    if (world.has_moves)
        (void)slot_moves_list(partition_of(shard)->shards.moves, name_move, NULL);
}

/* Waits until no transaction is open, no slot moves and no stray is left, else names one. */
static void run_until_calm(void)
{
    uint64_t end_us = sim_now_us() + PHASE_US;
    for (uint64_t step = 0; step < PHASE_STEPS && sim_now_us() < end_us && !has_failed(); step++) {
        let_moves_go_on(true);
        if (step % FAULT_EVERY == 0)
            sim_strays_tend(&world.strays, true);
        if (is_calm() || !sim_step())
            return;
        sim_cluster_tend(&world.cluster);
    }
    for (unsigned i = 0; i < SHARDS; i++) {
        coordinator_list(partition_of(i)->shards.coordinator, name_transaction, NULL);
        participant_list(partition_of(i)->shards.participant, name_transaction, NULL);
        name_moves(i);
        if (world.has_moves)
            (void)stray_moves_list(partition_of(i)->shards.strays.moves, name_move, NULL);
    }
    fail("a lock or a stray stays");
}

static void start_one(enum deal_kind kind, int proxy, unsigned shard)
{
    CHECK(world.teller_count < SIM_TELLERS_MAX);
    unsigned number = world.teller_count++;
    sim_teller_start_one(&world.tellers[number], &world.bank, number, kind, proxy, shard);
}

static bool all_track(void)
{
    for (unsigned i = 0; i < SHARDS; i++)
        if (!world.trackers[i].is_ready)
            return false;
    return true;
}

static bool are_trackers_calm(void)
{
    for (unsigned i = 0; i < SHARDS; i++)
        if (!sim_tracker_is_calm(&world.trackers[i]))
            return false;
    return true;
}

static void set_up(void)
{
    for (unsigned i = 0; i < SHARDS && !world.has_moves; i++)
        sim_tracker_start(&world.trackers[i], &world.bank, i);
    if (!world.has_moves)
        run_until(all_track, "the trackers do not connect");
    start_one(DEAL_SETUP, -1, 0);
    run_until(all_idle, "the accounts are not filled");
    run_until_calm();
    end_tellers();
}

/* ---- owners ----------------------------------------------------------------------------------- */

static bool is_owned(const struct slot_record *record)
{
    return record->state == SLOT_OWNED || record->state == SLOT_EXPORTING;
}

/* The epoch of a shard's record never decreases. */
static void check_epoch(unsigned shard, unsigned range, const struct slot_record *record)
{
    if (record->epoch < world.epochs[shard][range])
        fail("the epoch of a slot decreases");
    world.epochs[shard][range] = record->epoch;
}

/* Slots move by newer and newer maps, however old the maps of some shards are. */
static void check_wish(unsigned range, const struct slot_record *owner)
{
    if (owner->wish < world.wishes[range])
        fail("a slot moves by an older map than before");
    world.wishes[range] = owner->wish;
}

/* At most one shard owns a slot, and no record has a higher epoch than its owner's. Returns the highest epoch. */
static uint64_t check_owner(unsigned range)
{
    uint16_t slot = (uint16_t)(range * (SLOT_COUNT / SIM_RANGES));
    const struct slot_record *owner = NULL;
    uint64_t epoch = 0;
    for (unsigned i = 0; i < SHARDS; i++) {
        if (world.cluster.backends[i].state == SIM_DOWN)
            continue;
        const struct slot_record *record = slot_table_get(partition_of(i)->shards.slots, slot);
        check_epoch(i, range, record);
        if (is_owned(record) && owner)
            fail("two shards own a slot");
        if (is_owned(record))
            owner = record;
        if (record->epoch > epoch && record->state != SLOT_NONE)
            epoch = record->epoch;
    }
    if (owner && owner->epoch < epoch)
        fail("a shard owns a slot that has a newer owner");
    if (owner)
        check_wish(range, owner);
    return epoch;
}

/* Measures for how long the slots of a range are frozen. */
static void watch_freeze(unsigned shard, unsigned range)
{
    uint16_t slot = (uint16_t)(range * (SLOT_COUNT / SIM_RANGES));
    uint64_t *since_us = &world.frozen_us[shard][range];
    bool is_frozen =
        world.cluster.backends[shard].state == SIM_UP && slot_is_frozen(partition_of(shard), slot);
    if (!is_frozen) {
        *since_us = 0;
        return;
    }
    if (!*since_us)
        *since_us = sim_now_us();
    if (sim_now_us() - *since_us > world.longest_freeze_us)
        world.longest_freeze_us = sim_now_us() - *since_us;
}

/* The handing over waits for prepared transactions, messages and disks, and not for locks (move_source.h). */
static void watch_freezes(void)
{
    for (unsigned shard = 0; shard < SHARDS; shard++)
        for (unsigned range = 0; range < SIM_RANGES && world.has_moves; range++)
            watch_freeze(shard, range);
    if (world.is_prompt && world.longest_freeze_us > world.freeze_us_max)
        fail("slots are frozen for too long");
}

static void check_owners(void)
{
    uint64_t moved = 0;
    for (unsigned range = 0; range < SIM_RANGES && world.has_moves; range++) {
        uint64_t epoch = check_owner(range);
        moved += epoch ? epoch - 1 : 0;
    }
    world.moved = moved;
}

/* An event of the log that must not happen. Where nothing fails, a move is given up only because of a newer map. */
static void watch_event(const char *event, const char *text)
{
    bool is_given_up = strcmp(event, "slots_move_aborted") == 0 && world.is_prompt &&
                       !strstr(text, "the shard map has changed");
    if (is_given_up || strcmp(event, "slots_move_miscounted") == 0 ||
        strcmp(event, "slot_owned_twice") == 0)
        fail(text);
}

/* The linker puts this function between the program and log_event. */
void __wrap_log_event(enum log_level level, const char *event, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    watch_event(event, text);
    __real_log_event(level, event, "%s", text);
}

/* ---- faults ----------------------------------------------------------------------------------- */

static const char *any_host(void)
{
    unsigned which = (unsigned)sim_random(SHARDS + world.cluster.plan.proxies + 2);
    if (which < SHARDS)
        return world.cluster.backends[which].name;
    which -= SHARDS;
    if (which < world.cluster.plan.proxies)
        return world.cluster.proxies[which].name;
    return which == world.cluster.plan.proxies ? "relays"
                                               : world.tellers[sim_random(world.teller_count)].name;
}

static void crash(unsigned which, uint64_t down_us)
{
    struct sim_backend *backend = &world.cluster.backends[which];
    if (backend->state != SIM_UP)
        return;
    say("crash", which);
    sim_strays_crashed(&world.strays, which);
    sim_backend_crash(backend);
    backend->back_us = sim_now_us() + down_us;
    backend->groups[0].follows = world.has_leaders && (backend->groups[0].follows || sim_random(2));
}

static void restart_backend(unsigned which)
{
    struct sim_backend *backend = &world.cluster.backends[which];
    if (backend->state != SIM_UP)
        return;
    say("restart backend", which);
    sim_strays_crashed(&world.strays, which);
    sim_backend_stop(backend);
    backend->back_us = sim_now_us() + sim_random(100000);
}

static void restart_proxy(void)
{
    if (world.cluster.plan.proxies == 0)
        return;
    unsigned which = (unsigned)sim_random(world.cluster.plan.proxies);
    struct sim_proxy *proxy = &world.cluster.proxies[which];
    if (proxy->state != SIM_UP)
        return;
    say("restart proxy", which);
    sim_proxy_stop(proxy);
    proxy->back_us = sim_now_us() + sim_random(100000);
}

static struct sim_leader *leader_of(unsigned which)
{
    return world.cluster.backends[which].seats[0].leader;
}

static void break_disk(unsigned which)
{
    if (world.cluster.backends[which].state != SIM_UP)
        return;
    struct storage *storage = partition_of(which)->storage;
    say("disk fails", which);
    if (world.has_leaders && sim_random(3) == 0)
        sim_leader_fill_disk(leader_of(which), sim_now_us() + sim_random(DOWN_US_MAX));
    if (world.has_leaders && sim_random(3) == 0)
        store_mem_fail_apply(storage_store(storage), 1 + sim_random(4), ERR_STORE);
    storage_mem_fail_next(storage, 1 + sim_random(4), sim_random(2) ? ERR_DISK_FULL : ERR_STORE);
    storage_mem_fail_recover(storage, sim_random(3));
}

static void take_down(unsigned which)
{
    if (world.up_us[which])
        return;
    say("unreachable", which);
    sim_host_down(world.cluster.backends[which].name);
    world.up_us[which] = sim_now_us() + sim_random(DOWN_US_MAX);
}

/* A new map, which each backend gets at another time. */
static void move_slots(void)
{
    if (!world.has_moves)
        return;
    sim_cluster_move(&world.cluster);
    say("new map", (unsigned)world.cluster.map->epoch);
    for (unsigned i = 0; i < SHARDS; i++)
        world.reload_us[i] = sim_now_us() + 1 + sim_random(sim_random(2) ? 1000 : DOWN_US_MAX);
}

static void reload_maps(bool at_once)
{
    for (unsigned i = 0; i < SHARDS; i++) {
        if (!world.reload_us[i] || (!at_once && world.reload_us[i] > sim_now_us()))
            continue;
        say("gets the map", i);
        sim_backend_reload(&world.cluster.backends[i]);
        world.reload_us[i] = 0;
    }
}

static bool may_pause(unsigned which)
{
    struct partition *partition = partition_of(which);
    return world.has_moves && world.cluster.backends[which].state == SIM_UP &&
           !commit_is_failed(partition->commit, NULL) && !partition->running.busy_error;
}

/* As the command does. */
static void cancel_moves(unsigned which)
{
    struct call call;
    if (!may_pause(which))
        return;
    say("cancel", which);
    internal_call_begin(partition_of(which), &call);
    (void)slot_moves_cancel(partition_of(which)->shards.moves);
    internal_call_end(partition_of(which), &call);
    world.go_on_us[which] = sim_now_us() + 1 + sim_random(DOWN_US_MAX);
    world.was_cancelled[which] = true;
}

/* on_line of slot_moves_list */
static void see_paused(void *owner, const char *line)
{
    *(bool *)owner |= strstr(line, "paused=yes") != NULL;
}

/* A batch that was rolled back may have begun the moves again. */
static bool is_still_paused(unsigned which)
{
    bool is_paused = false;
    if (!world.was_cancelled[which] || sim_now_us() < world.look_us[which] || !may_pause(which))
        return false;
    world.look_us[which] = sim_now_us() + LOOK_US;
    (void)slot_moves_list(partition_of(which)->shards.moves, see_paused, &is_paused);
    return is_paused;
}

static void let_moves_go_on(bool at_once)
{
    for (unsigned i = 0; i < SHARDS; i++) {
        struct call call;
        if (at_once && !world.go_on_us[i] && is_still_paused(i))
            world.go_on_us[i] = sim_now_us();
        if (!world.go_on_us[i] || (!at_once && world.go_on_us[i] > sim_now_us()) || !may_pause(i))
            continue;
        say("moves go on", i);
        internal_call_begin(partition_of(i), &call);
        slot_moves_pause(partition_of(i)->shards.moves, false);
        internal_call_end(partition_of(i), &call);
        commit_sync_next(partition_of(i)->commit);
        world.go_on_us[i] = 0;
    }
}

/* on_line of participant_list: keeps the id of a transaction in doubt. */
static void find_in_doubt(void *owner, const char *line)
{
    char *id = owner;
    if (!*id && strstr(line, "in_doubt=yes"))
        (void)sscanf(line, "id=%199s", id);
}

/* As the command does. What the deciding shard has decided is not known. */
static void force_transaction(unsigned which)
{
    char id[200] = "";
    const char *why;
    struct call call;
    if (world.cluster.backends[which].state != SIM_UP)
        return;
    struct partition *partition = partition_of(which);
    participant_list(partition->shards.participant, find_in_doubt, id);
    if (!*id || commit_is_failed(partition->commit, NULL) || partition->running.busy_error)
        return;
    bool is_commit = sim_random(2);
    internal_call_begin(partition, &call);
    bool is_done = participant_force(partition->shards.participant, bytes_of(id), is_commit, &why);
    call.failed = !is_done;
    internal_call_end(partition, &call);
    if (!is_done)
        return;
    say(is_commit ? "operator commits" : "operator aborts", which);
    world.was_forced = true;
}

/* All clocks are set, or the clock of one backend is wrong from now on. */
static void break_clock(unsigned which)
{
    int64_t us = (int64_t)sim_random(120000000) - 60000000;
    if (sim_random(2))
        sim_wall_step(us);
    else
        sim_clock_skew(world.cluster.backends[which].name, us);
}

static void make_fault(enum fault fault)
{
    unsigned which = (unsigned)sim_random(SHARDS);
    world.bank.may_fail = true;
    switch (fault) {
    case FAULT_CUT:
        say("cut", 0);
        sim_cut(any_host());
        break;
    case FAULT_MUTE:
        say("mute", 0);
        sim_relays_mute(&world.cluster.relays);
        break;
    case FAULT_DOWN:
        take_down(which);
        break;
    case FAULT_FREEZE:
        say("freeze", 0);
        sim_freeze(any_host(), sim_random(DOWN_US_MAX));
        break;
    case FAULT_CRASH:
        crash(which, sim_random(sim_random(2) ? 1000 : DOWN_US_MAX));
        break;
    case FAULT_RESTART_BACKEND:
        restart_backend(which);
        break;
    case FAULT_DISK:
        break_disk(which);
        break;
    case FAULT_RESTART_PROXY:
        restart_proxy();
        break;
    case FAULT_CLOCK:
        break_clock(which);
        break;
    case FAULT_MOVE:
        move_slots();
        break;
    case FAULT_CANCEL:
        cancel_moves(which);
        break;
    case FAULT_FORCE:
        force_transaction(which);
        break;
    case FAULT_KINDS:
        break;
    }
}

static void lead_later(unsigned which)
{
    world.lead_us[which] = sim_now_us() + sim_random(sim_random(2) ? 20000 : DOWN_US_MAX);
}

static void lose_leader(unsigned which)
{
    if (world.cluster.backends[which].state != SIM_UP || !sim_leader_lose(leader_of(which)))
        return;
    say("another copy leads", which);
    lead_later(which);
}

static void lead_again(unsigned which)
{
    if (world.cluster.backends[which].state != SIM_UP || !sim_leader_take(leader_of(which)))
        return;
    say("leads again", which);
    world.lead_us[which] = 0;
}

/* A copy follows also when it has crashed, or when its disk has refused a record. */
static void change_leaders(bool at_once)
{
    for (unsigned i = 0; i < SHARDS && world.has_leaders; i++) {
        if (world.lead_us[i] && (at_once || world.lead_us[i] <= sim_now_us()))
            lead_again(i);
        else if (!world.lead_us[i] && world.cluster.backends[i].groups[0].follows)
            lead_later(i);
    }
}

static bool all_lead(void)
{
    for (unsigned i = 0; i < SHARDS; i++)
        if (world.cluster.backends[i].groups[0].follows)
            return false;
    return true;
}

static void come_back(bool at_once)
{
    change_leaders(at_once);
    for (unsigned i = 0; i < SHARDS; i++) {
        if (!world.up_us[i] || (!at_once && world.up_us[i] > sim_now_us()))
            continue;
        say("reachable", i);
        sim_host_up(world.cluster.backends[i].name);
        world.up_us[i] = 0;
    }
    reload_maps(at_once);
    let_moves_go_on(at_once);
    sim_cluster_tend(&world.cluster);
    sim_cluster_revive(&world.cluster, at_once);
}

static void chance_of_fault(void)
{
    come_back(false);
    if (world.has_strays && sim_random(STRAYS_EVERY) == 0)
        sim_strays_add(&world.strays);
    sim_strays_tend(&world.strays, false);
    if (world.has_leaders && sim_random(8) == 0)
        lose_leader((unsigned)sim_random(SHARDS));
    if (world.faults & 1u << FAULT_FORCE && world.fault_ppm && sim_random(8) == 0)
        force_transaction((unsigned)sim_random(SHARDS));
    if (!sim_chance(world.fault_ppm))
        return;
    unsigned fault = (unsigned)sim_random(FAULT_KINDS);
    while (!(world.faults & 1u << fault))
        fault = (fault + 1) % FAULT_KINDS;
    make_fault((enum fault)fault);
}

/* Power fails in a moment in which a client has just read a reply: what was acknowledged too early is lost. */
static void chance_of_power_cut(void)
{
    unsigned replies = sim_bank_done(&world.bank);
    bool is_due = replies > world.replies && sim_random(POWER_CUT_EVERY) == 0;
    world.replies = replies;
    for (unsigned i = 0; i < SHARDS && is_due; i++)
        crash(i, sim_random(DOWN_US_MAX));
}

/* Ends the faults. */
static void heal(void)
{
    say("faults end", 0);
    sim_knobs()->cut_ppm = sim_knobs()->refuse_ppm = sim_knobs()->slow_ppm = 0;
    sim_knobs()->delay_us_min = 20;
    sim_knobs()->delay_us_max = 300;
    sim_knobs()->job_us_max = sim_knobs()->job_us_min + 100;
    world.cluster.relays.is_faulty = false;
    for (unsigned i = 0; i < SHARDS; i++) {
        if (world.cluster.backends[i].state == SIM_DOWN)
            continue;
        storage_mem_fail_next(partition_of(i)->storage, 0, ERR_STORE);
        store_mem_fail_apply(storage_store(partition_of(i)->storage), 0, ERR_STORE);
        storage_mem_fail_recover(partition_of(i)->storage, 0);
    }
    come_back(true);
}

/* ---- random schedules ------------------------------------------------------------------------- */

static void draw_faults(void)
{
    static const unsigned rates[] = {0, 5000, 20000, 60000};
    world.fault_ppm = rates[sim_random(4)];
    world.faults = 1u << sim_random(FAULT_FORCE);
    for (unsigned fault = 0; fault < FAULT_FORCE; fault++)
        if (sim_random(2))
            world.faults |= 1u << fault;
    if (sim_random(4) == 0)
        world.faults |= 1u << FAULT_FORCE | 1u << FAULT_DOWN | 1u << FAULT_CRASH;
    sim_knobs_shuffle();
    if (sim_random(2))
        sim_knobs()->slow_ppm = 0;
    if (world.fault_ppm && sim_random(3) == 0)
        sim_knobs()->cut_ppm = (unsigned)sim_random(1000);
    world.cluster.relays.is_faulty = sim_random(2);
    world.bank.may_fail = world.fault_ppm || sim_knobs()->cut_ppm || sim_knobs()->slow_ppm;
}

static bool have_claimed(void)
{
    reload_maps(false);
    check_owners();
    for (unsigned i = 0; i < SHARDS; i++)
        if (slot_table_count(partition_of(i)->shards.slots, SLOT_NONE) == SLOT_COUNT)
            return false;
    return true;
}

/* A second map reaches the shards while they claim their first slots. All of them must claim by the first map. */
static void claim_by_two_maps(void)
{
    move_slots();
    run_until(have_claimed, "a shard claims no slots");
    reload_maps(true);
}

/* Do only clients that wait for each other for ever show what is broken? Then nothing fails, no wait ends by its time-out, and shards
 * have two accounts each, so that one command locks both. */
static bool is_about_waits(void)
{
    return sim_broken == BREAK_WOUNDED_KEPT;
}

/* Where nothing fails, no command waits for too long. */
static uint64_t draw_lock_timeout(void)
{
    uint64_t drawn_ms = sim_random(2) ? 200 : 1 + sim_random(2000);
    return world.is_prompt || is_about_waits() ? NEVER_MS : drawn_ms;
}

/* Do only flushes of databases whose slots move one after the other show what is broken? */
static bool is_about_ranges(void)
{
    return sim_broken == BREAK_RANGE_NOT_CLIPPED;
}

/* A slow copy is followed by a long tail of effects. */
static uint64_t draw_migration_rate(void)
{
    return sim_random(2) && !is_about_ranges() ? 0 : (uint64_t)RATE_MIN << sim_random(RATE_SHIFTS);
}

static void start_cluster(unsigned proxies, enum durability durability)
{
    struct sim_plan plan = {.backends = SHARDS,
                            .partitions = 1,
                            .proxies = proxies,
                            .workers = 1,
                            .places = 1,
                            .has_secret = true,
                            .is_linked = true,
                            .active_expire = true,
                            .durability = durability,
                            .upstream_timeout_ms = 5000,
                            .lock_timeout_ms = draw_lock_timeout(),
                            .migration_freeze_ms = world.is_prompt ? FREEZE_MS_MAX : 50,
                            .migration_rate = draw_migration_rate(),
                            .has_one_grant = !world.is_prompt && sim_random(2),
                            .has_portions = !world.is_prompt && sim_random(2),
                            .transaction_timeout_ms =
                                sim_random(2) && !is_about_waits() ? 4000 : NEVER_MS};
    plan.has_leaders = world.has_leaders;
    plan.has_short_output = !plan.migration_rate && sim_random(2);
    sim_cluster_start(&world.cluster, &plan);
    sim_bank_init(&world.bank, &world.cluster, durability != DURABILITY_ALWAYS,
                  is_about_waits() ? 2 : 1);
    sim_strays_init(&world.strays, &world.cluster);
    world.strays.has_long = plan.has_short_output;
    world.bank.trace = sim_options.is_verbose ? stdout : NULL;
    if (world.has_moves && world.has_two_maps)
        claim_by_two_maps();
    set_up();
}

/* Does only a table that single commands and transactions use in turn notice what is broken? */
static bool is_about_tables(void)
{
    return sim_broken == BREAK_APPLIED_KEPT || sim_broken == BREAK_OWN_KEPT ||
           sim_broken == BREAK_ROLLBACK_KEPT;
}

/* Do only scripts that halt notice what is broken? */
static bool is_about_halts(void)
{
    return sim_broken == BREAK_HALT_UNLOCKED;
}

/* The deals that clients make: without single ones, if crashes may lose these. */
static uint32_t draw_kinds(void)
{
    const uint32_t all = (1u << DEAL_KINDS) - 1;
    const uint32_t looks = 1u << LOOK_EXEC | 1u << LOOK_SCRIPT;
    const uint32_t single = 1u << DEAL_ENTRY | 1u << DEAL_DEPOSIT | 1u << LOOK_LEDGER |
                            1u << DEAL_MEMBER | 1u << LOOK_RANKS;
    uint32_t kinds = sim_random(2) ? all : (uint32_t)sim_random(all) | looks | 1u << DEAL_EXEC;
    if (sim_random(4) == 0 || is_about_ranges() || sim_broken == BREAK_HALT_UNCOUNTED)
        kinds = 1u << DEAL_PAGES | 1u << LOOK_PAGES;
    if (sim_random(6) == 0 || is_about_tables())
        kinds = 1u << DEAL_RANKED | 1u << DEAL_MEMBER | 1u << LOOK_RANKS | 1u << LOOK_SCRIPT;
    if (is_about_halts())
        kinds = 1u << DEAL_SCRIPT | 1u << DEAL_EXEC | 1u << DEAL_DEPOSIT;
    if (is_about_waits())
        kinds = 1u << DEAL_LMOVE | 1u << DEAL_SMOVE | 1u << DEAL_RENAME | 1u << DEAL_MSETNX |
                1u << DEAL_EXEC;
    return world.bank.is_across_only ? kinds & ~single : kinds;
}

static void draw_no_faults(void)
{
    struct sim_knobs *knobs = sim_knobs();
    world.fault_ppm = 0;
    world.cluster.relays.is_faulty = false;
    knobs->slow_ppm = knobs->cut_ppm = 0;
}

/* Of a world in which slots move, and nothing else fails. */
static void draw_moves_alone(void)
{
    struct sim_knobs *knobs = sim_knobs();
    unsigned moves_ppm = world.fault_ppm;
    draw_no_faults();
    world.fault_ppm = moves_ppm;
    world.faults = 1u << FAULT_MOVE;
    world.bank.must_try = true;
    world.freeze_us_max =
        FREEZE_DELAYS * (knobs->delay_us_max + knobs->job_us_max) + FREEZE_MORE_US;
}

/* Does only a target that has lost its source notice what is broken? Then links and shards fail in every world. */
static bool is_about_lost_sources(void)
{
    return sim_broken == BREAK_NO_ASK || sim_broken == BREAK_ASK_ENDED;
}

/* Does only an owner of strays that crashes notice what is broken? Then all worlds have strays, and crashes. */
static bool is_about_strays(void)
{
    return sim_broken == BREAK_EARLY_PUT || sim_broken == BREAK_NO_RECEIPT;
}

/* Does only a shard whose leader is replaced notice what is broken? */
static bool is_about_leaders(void)
{
    return sim_broken == BREAK_PEERS_NOT_CUT;
}

/* Does only a crash between a reply and the next sync notice what is broken? */
static bool is_about_replies(void)
{
    return sim_broken == BREAK_EARLY_REPLY;
}

static void run_schedule(void)
{
    bool must_fail = is_about_lost_sources() || is_about_strays();
    world.has_moves = (sim_random(2) && !is_about_waits()) || must_fail || is_about_ranges();
    world.is_prompt = (world.has_moves && sim_random(3) == 0 && !must_fail) || is_about_ranges();
    world.has_leaders |= is_about_leaders();
    world.has_leaders &= !world.is_prompt && !is_about_waits();
    start_cluster((unsigned)sim_random(SIM_PROXIES_MAX),
                  sim_random(4) || is_about_waits() || world.has_leaders ? DURABILITY_ALWAYS
                                                                         : DURABILITY_EVERYSEC);
    draw_faults();
    world.bank.may_fail |= world.has_leaders;
    if (world.has_moves) {
        world.faults = sim_random(2) ? world.faults | 1u << FAULT_MOVE : 1u << FAULT_MOVE;
        world.fault_ppm += sim_random(2) ? 20000 : 200000;
        world.bank.may_fail = true;
    }
    if (is_about_lost_sources())
        world.faults = 1u << FAULT_MOVE | 1u << FAULT_DOWN | 1u << FAULT_CRASH | 1u << FAULT_CUT;
    if (is_about_strays())
        world.faults = 1u << FAULT_MOVE | 1u << FAULT_CRASH;
    if (world.is_prompt)
        draw_moves_alone();
    if (is_about_waits())
        draw_no_faults();
    world.has_power_cuts |= is_about_replies();
    world.has_power_cuts &= !world.is_prompt && !is_about_waits();
    world.bank.may_fail |= world.has_power_cuts;
    world.has_strays = world.has_moves && !world.is_prompt && !world.bank.is_across_only &&
                       (sim_random(2) || is_about_strays());
    uint32_t kinds = draw_kinds();
    world.teller_count = 2 + (unsigned)sim_random(SIM_TELLERS_MAX - 2);
    for (unsigned i = 0; i < world.teller_count; i++)
        sim_teller_start(&world.tellers[i], &world.bank, i, kinds, 1 + (unsigned)sim_random(40));
    for (uint64_t step = 0; step < sim_options.steps && !has_failed(); step++) {
        if (step % FAULT_EVERY == 0)
            chance_of_fault();
        check_owners();
        watch_freezes();
        if (world.has_power_cuts)
            chance_of_power_cut();
        if (!sim_step() || (step % FAULT_EVERY == 0 && all_idle()))
            break;
    }
}

/* ---- crash points ----------------------------------------------------------------------------- */

static uint64_t persists_of(unsigned victim)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < SHARDS; i++)
        if (victim == SHARDS || victim == i)
            count += wal_mem_writes(storage_wal(partition_of(i)->storage));
    return count;
}

/* The run is the same for all its points until the crash. */
static void run_to_point(unsigned run)
{
    static const uint32_t kinds[RUNS] = {1u << DEAL_EXEC,
                                         1u << DEAL_SCRIPT,
                                         1u << DEAL_WATCHED | 1u << DEAL_EXEC,
                                         1u << DEAL_RENAME | 1u << DEAL_LMOVE | 1u << DEAL_SMOVE,
                                         1u << DEAL_MSETNX | 1u << DEAL_CLEAR,
                                         (1u << DEAL_KINDS) - 1,
                                         1u << DEAL_EXEC,
                                         (1u << DEAL_KINDS) - 1};
    world.has_moves = run >= RUNS - MOVE_RUNS;
    start_cluster(run % 2, DURABILITY_ALWAYS);
    if (world.has_moves) {
        move_slots();
        reload_maps(true);
    }
    world.bank.may_fail = true;
    world.teller_count = 2;
    for (unsigned i = 0; i < world.teller_count; i++)
        sim_teller_start(&world.tellers[i], &world.bank, i, kinds[run], 3);
    uint64_t last = persists_of(world.victim) + world.persists;
    while (!(all_idle() && is_calm()) && !has_failed() && persists_of(world.victim) < last)
        CHECK(sim_step());
    if (persists_of(world.victim) < last)
        return;
    world.has_crashed = true;
    for (unsigned i = 0; i < SHARDS; i++)
        if (world.victim == SHARDS || world.victim == i)
            crash(i, sim_random(DOWN_US_MAX));
    uint64_t end_us = sim_now_us() + sim_random(2 * DOWN_US_MAX);
    while (sim_now_us() < end_us && !has_failed()) {
        come_back(false);
        CHECK(sim_step());
    }
}

/* ---- the end of a world ----------------------------------------------------------------------- */

static bool is_up(void)
{
    come_back(true);
    return sim_cluster_is_up(&world.cluster) && all_lead();
}

static bool is_down(void)
{
    return sim_cluster_is_down(&world.cluster);
}

/* on_line of participant_list: a forced transaction agrees with its deciding shard, and is forgotten, or differs. */
static void take_forced(void *owner, const char *line)
{
    if (!strstr(line, "role=forced"))
        return;
    if (!strstr(line, "deciding_shard=differs"))
        fail("a forced decision is not compared");
    (void)sscanf(line, "id=%199s", (char *)owner);
    world.has_differed = true;
}

/* Looks at the decisions that differ, which are forgotten. */
static void forget_forced(unsigned shard)
{
    struct partition *partition = partition_of(shard);
    struct call call;
    char id[200] = "x";
    while (*id && !has_failed()) {
        *id = 0;
        participant_list(partition->shards.participant, take_forced, id);
        internal_call_begin(partition, &call);
        if (*id)
            (void)participant_forget(partition->shards.participant, bytes_of(id));
        internal_call_end(partition, &call);
    }
}

/* No decision and no prepared transaction is in the store. */
static void check_records(unsigned shard)
{
    struct overlay_iter *iter = overlay_iter_new(partition_of(shard)->overlay, CF_SYSTEM,
                                                 transaction_rows_from(), transaction_rows_to());
    overlay_iter_seek_first(iter);
    if (overlay_iter_valid(iter)) {
        enum transaction_record record;
        struct transaction_id id;
        CHECK(decode_transaction_key(overlay_iter_key(iter), &record, &id));
        (void)snprintf(world.why, sizeof world.why,
                       "shard %u keeps a record '%c' of %s/%s/%" PRIu64, shard, record, id.shard,
                       id.run_id, id.number);
    }
    overlay_iter_free(iter);
}

static void look_at_all(void)
{
    for (unsigned i = 0; i < SHARDS; i++)
        start_one(LOOK_EXEC, -1, i);
    for (unsigned i = 0; i < world.cluster.plan.proxies; i++)
        start_one(LOOK_EXEC, (int)i, 0);
    run_until(all_idle, "the last reads do not end");
    end_tellers();
}

static bool is_quiet(void)
{
    return sim_cluster_is_quiet(&world.cluster);
}

/* Requests of clients that have left may still run. */
static void rest(void)
{
    uint64_t end_us = sim_now_us() + REST_US;
    run_until(is_quiet, "a proxy does not notice that its clients have left");
    while (sim_now_us() < end_us && !has_failed())
        CHECK(sim_step());
    run_until_calm();
}

/* An operator who ends a transaction in another way, and a crash that takes commits without a sync, may leave halves. */
static void check_closure(void)
{
    if (!world.was_forced && !sim_closure_check(world.why, sizeof world.why))
        CHECK(has_failed());
}

static void end_world(void)
{
    heal();
    for (unsigned i = 0; i < world.teller_count; i++)
        sim_teller_end(&world.tellers[i]);
    run_until(is_up, "the cluster does not come back");
    run_until(all_idle, "a client waits for ever");
    end_tellers();
    rest();
    if (!world.has_moves)
        run_until(are_trackers_calm, "a client that tracks cannot read");
    for (unsigned i = 0; i < SHARDS && !has_failed(); i++)
        forget_forced(i);
    for (unsigned i = 0; i < SHARDS && !has_failed(); i++)
        check_records(i);
    if (!has_failed())
        check_closure();
    if (!has_failed())
        look_at_all();
    if (!has_failed())
        sim_bank_check_end(&world.bank);
    if (!has_failed())
        sim_strays_check(&world.strays);
    if (world.was_forced && !world.has_differed && world.bank.why[0])
        fail(world.bank.why); /* forced as decided: nothing may show it */
    if (!world.has_moves &&
        !has_failed()) /* a request of a client that has left may have changed a ledger since */
        run_until(are_trackers_calm, "a client that tracks cannot read");
    for (unsigned i = 0; i < SHARDS && !has_failed(); i++)
        if (!world.has_moves)
            sim_tracker_check(&world.trackers[i]);
    for (unsigned i = 0; i < SHARDS && !has_failed() && !world.has_moves; i++)
        sim_tracker_fini(&world.trackers[i]);
    for (unsigned i = 0; i < world.cluster.plan.proxies && !has_failed(); i++)
        sim_proxy_stop(&world.cluster.proxies[i]);
    for (unsigned i = 0; i < SHARDS && !has_failed(); i++)
        sim_backend_stop(&world.cluster.backends[i]);
    run_until(is_down, "the cluster does not stop");
}

static void print_counts(void)
{
    for (unsigned i = 0; i < DEAL_KINDS; i++)
        printf("%s %u, ", sim_deal_name((enum deal_kind)i), world.bank.done[i]);
    printf("refused %u, unknown %u, moves %" PRIu64 ", longest freeze %" PRIu64 " us of %" PRIu64
           "\n",
           world.bank.refused, world.bank.unknown, world.moved, world.longest_freeze_us,
           world.freeze_us_max);
}

/* sim_simulation.run */
static void run_world(struct sim_result *result)
{
    bool is_point = result->seed <= POINTS;
    unsigned point = is_point ? (unsigned)(result->seed - 1) : 0;
    unsigned run = point / (VICTIMS * PERSISTS_MAX);
    memset(&world, 0, sizeof world);
    sim_init(is_point ? run : result->seed);
    storage_mem_seed(sim_random(UINT64_MAX));
    sim_closure_begin();
    wal_mem_hear = sim_closure_hear;
    world.victim = point / PERSISTS_MAX % VICTIMS;
    world.persists = 1 + point % PERSISTS_MAX;
    world.has_two_maps = !is_point && result->seed % 4 == 0;
    world.has_leaders = !is_point && result->seed % 8 == 5;
    world.has_power_cuts = !is_point && result->seed % 8 == 3;
    if (is_point)
        run_to_point(run);
    else
        run_schedule();
    end_world();
    result->hash = sim_hash();
    result->has_passed = !has_failed();
    memcpy(result->why, world.why, sizeof result->why);
    if (sim_options.is_verbose)
        print_counts();
    if (has_failed())
        return;
    sim_cluster_fini(&world.cluster);
    sim_fini();
    storage_mem_reset();
}

int main(int argc, char **argv)
{
    static const uint64_t known[] = {7594};
    const struct sim_simulation simulation = {.run = run_world,
                                              .seeds = POINTS + sized(SEEDS),
                                              .steps = STEPS,
                                              .known = known,
                                              .known_count = sizeof known / sizeof *known,
                                              .first_break = BREAK_LOCKS_NOT_REBUILT,
                                              .end_break = BREAK_TRANSACTIONS_END,
                                              .break_seed = POINTS + 1};
    return sim_seeds_main(argc, argv, &simulation);
}
