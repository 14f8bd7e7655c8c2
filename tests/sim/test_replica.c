/*
 * test_replica.c - three copies of a shard, each a replica (replica.h) with its own links, log, saves and files in memory, over links that fail
 * (sim_relay.h).
 *
 *   home: batches ─► replica_append ─► core ─► log, saves ─► links ══ relays ══► the other copies       each copy on a host of its own,
 *     ▲─────────── role, committed ◄────┘                                                              with a clock of its own rate
 *
 *   test_replica [--seed N] …      sim_seeds.h
 *
 * Processes end at any time: between two saves, with records that are written and not synced, with messages that wait for a save. Disks
 * refuse records, and leadership is handed over. After each event of a core, sim_truth.h looks at it and at a shadow of its log; it looks at each message that leaves, and
 * the vote in it must be in the file `replica`. What homes are told as committed is read from their logs, and is the same everywhere, byte
 * for byte. Two copies may never serve at once. In the end, without faults, all have the same log, and one serves.
 *
 * Controls: saves that save nothing; messages that leave before the save they depend on.
 */
#include "backend/context/backend_metrics.h"
#include "backend/format/effects.h"
#include "backend/format/members_row.h"
#include "backend/replica/replica_inner.h"
#include "backend/replica/replica_receive.h"
#include "backend/replica/replica_send.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/metrics.h"
#include "tests/sim/replica_file_mem.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_replica.h"
#include "tests/sim/sim_seeds.h"
#include "tests/sim/sim_truth.h"
#include "tests/sim/storage_mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEEDS = 150,
    STEPS = 400,
    COPIES = 3,
    E_US = 500000,
    BATCHES_MAX = 60,
    RECORDS_END =
        SIM_RECORDS_MAX - 40, /* no faults with a longer log: each election adds a record */
    SECOND_US = 1000000,
    CALM_US = 60 * SECOND_US,
    FOUNDED = 2, /* index of the founding record; before it there was one copy */
};

struct copy {
    struct sim_replica of;
    uint64_t id;
    unsigned rate; /* of its clock */
    bool must_end;
    uint64_t start_us;
    uint64_t election_us;
    /* home */
    struct replica_role role;
    uint64_t committed, next; /* next: index of its next record */
    uint64_t served_term;
    /* what the core should have */
    struct sim_copy shadow;
};

static const struct replica_group group = {1, 77};

static struct {
    struct sim_truth truth;
    struct copy copies[COPIES];
    struct sim_relays relays;
    struct store_env *env;
    struct labels *labels;
    unsigned batches;
    bool is_healing;
    uint32_t names[SIM_RECORDS_MAX][TRUTH_TERMS_MAX]; /* hashes of records, by index and term */
    uint32_t committed[SIM_RECORDS_MAX];              /* likewise, as homes were told */
} world;

static struct metrics *metrics;
static struct arena arena;

static uint64_t greater_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- records ----------------------------------------------------------------------------------- */

static struct bytes members_row(const struct consensus_members *of)
{
    struct members members = {.generation = group.generation,
                              .group = group.group,
                              .epoch = of->epoch,
                              .count = of->count};
    for (unsigned i = 0; i < of->count; i++) {
        bool is_voter = of->list[i].kind == CONSENSUS_VOTER;
        uint64_t id = of->list[i].id;
        members.list[i] = (struct member){id, is_voter ? MEMBER_VOTER : MEMBER_LEARNER,
                                          bytes_of(sim_replica_address((unsigned)id - 1))};
    }
    return members_row_write(&arena, &members);
}

static struct consensus_members first_members(void)
{
    struct consensus_members members = {.index = FOUNDED, .epoch = 1, .count = COPIES};
    for (unsigned i = 0; i < COPIES; i++)
        members.list[i] = (struct consensus_member){i + 1, CONSENSUS_VOTER};
    return members;
}

static uint32_t number_of_members(struct bytes record)
{
    struct members row;
    CHECK(members_of_record(record, &row));
    const struct consensus_members members = replica_core_members(&row, 0);
    return sim_members_number(&members);
}

/* The record as the shadow has it. */
static struct sim_record shadow_of(const struct effects_header *header, struct bytes record)
{
    bool is_members = header->type == EFFECTS_MEMBERS;
    return (struct sim_record){
        .term = (uint32_t)header->term,
        .batch_term = (uint32_t)header->term,
        .value = header->type == EFFECTS_BATCH ? sim_record_hash(record) : 0,
        .members = is_members ? number_of_members(record) : 0,
    };
}

static struct sim_record read_shadow(struct bytes record, uint64_t index)
{
    struct effects_header header;
    struct effects_reader reader;
    CHECK(effects_open(record, &header, &reader) == EFFECTS_READ && header.index == index);
    return shadow_of(&header, record);
}

static void cut_shadow(struct sim_log *log, uint64_t last)
{
    if (last >= log->last)
        return;
    memset(log->record + last, 0, (log->last - last) * sizeof *log->record);
    log->last = last;
}

/* What is on the disk at the start. Trimmed records are as they were. */
static void read_shadow_log(struct copy *copy)
{
    struct wal *wal = storage_wal(copy->of.storage);
    struct sim_log *log = &copy->shadow.written;
    char error[200];
    uint64_t index;
    struct bytes record;
    struct wal_cursor *cursor = wal_cursor_new(wal, wal_first(wal));
    CHECK(cursor && wal_last(wal) < SIM_RECORDS_MAX && wal_first(wal) <= log->last + 1);
    log->last = greater_of(log->last, wal_last(wal));
    cut_shadow(log, wal_last(wal));
    while (wal_cursor_next(cursor, &index, &record, error, sizeof error) == OK)
        log->record[index - 1] = read_shadow(record, index);
    wal_cursor_free(cursor);
}

/* ---- what is looked at ------------------------------------------------------------------------- */

static struct copy *copy_of(uint64_t id)
{
    CHECK(id && id <= COPIES);
    return &world.copies[id - 1];
}

static uint64_t local_us(const struct copy *copy)
{
    return sim_now_us() + sim_now_us() / 1000 * copy->rate;
}

static void check_leases(void)
{
    const struct copy *holder = NULL;
    for (unsigned i = 0; i < COPIES; i++) {
        const struct copy *copy = &world.copies[i];
        if (!copy->of.is_up || !replica_may_serve(copy->of.replica, local_us(copy)))
            continue;
        sim_truth_lease(&world.truth, &copy->shadow, holder ? &holder->shadow : NULL);
        if (copy->served_term != copy->shadow.core.term)
            sim_truth_fail(&world.truth, "copy %s has a lease before its home serves",
                           copy->of.name);
        holder = copy;
    }
}

static void add_shadow(struct sim_log *log, uint64_t term, uint64_t batch_term,
                       const struct consensus_members *members)
{
    CHECK(log->last < SIM_RECORDS_MAX && term < TRUTH_TERMS_MAX);
    uint32_t value = members ? 0 : world.names[log->last][term];
    log->record[log->last++] =
        (struct sim_record){.term = (uint32_t)term,
                            .batch_term = (uint32_t)batch_term,
                            .value = value,
                            .members = members ? sim_members_number(members) : 0};
}

/* Names begin with 1, so a PROBE has none. */
static void add_probe(struct sim_log *log, uint64_t term)
{
    CHECK(log->last < SIM_RECORDS_MAX);
    log->record[log->last++] =
        (struct sim_record){.term = (uint32_t)term, .batch_term = (uint32_t)term};
}

static void add_heard(struct sim_log *log, const struct consensus_event *event,
                      const struct consensus_update *update)
{
    for (uint64_t i = update->append_first; i <= update->append_last; i++) {
        uint64_t term = event->message->records_term;
        CHECK(log->last == i - 1);
        add_shadow(log, term, term, i == update->append_last ? event->members : NULL);
    }
}

static void update_shadow(struct copy *copy, const struct consensus *core,
                          const struct consensus_event *event,
                          const struct consensus_update *update)
{
    struct sim_log *log = &copy->shadow.written;
    bool is_own = event->kind == CONSENSUS_APPENDED || event->kind == CONSENSUS_MEMBERS;
    if (update->has_truncate)
        cut_shadow(log, update->truncate_after);
    if (update->append == CONSENSUS_APPEND_PROBE)
        add_probe(log, update->term);
    else if (update->append)
        add_heard(log, event, update);
    else if (is_own && !update->is_refused)
        add_shadow(log, core->term, event->term, event->members);
    cut_shadow(log, core->last);
    copy->shadow.core = *core;
    copy->shadow.update = *update;
}

void __real_consensus_init(struct consensus *core, const struct consensus_start *start,
                           uint64_t now_us);
void __wrap_consensus_init(struct consensus *core, const struct consensus_start *start,
                           uint64_t now_us);

void __wrap_consensus_init(struct consensus *core, const struct consensus_start *start,
                           uint64_t now_us)
{
    const struct consensus none = {0};
    struct copy *copy = copy_of(start->id);
    __real_consensus_init(core, start, now_us);
    copy->shadow.core = *core;
    memset(&copy->shadow.update, 0, sizeof copy->shadow.update);
    sim_truth_look(&world.truth, &copy->shadow, &none);
}

void __real_consensus_step(struct consensus *core, const struct consensus_event *event,
                           struct consensus_update *update);
void __wrap_consensus_step(struct consensus *core, const struct consensus_event *event,
                           struct consensus_update *update);

void __wrap_consensus_step(struct consensus *core, const struct consensus_event *event,
                           struct consensus_update *update)
{
    struct copy *copy = copy_of(core->id);
    struct consensus before = *core;
    check_leases();
    __real_consensus_step(core, event, update);
    update_shadow(copy, core, event, update);
    sim_truth_look(&world.truth, &copy->shadow, &before);
    sim_note("term", update->term << 3 | update->role);
}

/* A vote that leaves is on the disk. */
static void check_vote(const struct consensus_message *message)
{
    const struct replica_record *record =
        replica_file_mem_record(world.copies[message->from - 1].of.dir);
    bool is_vote = message->kind == CONSENSUS_VOTE_REPLY && message->is_good && !message->is_pre;
    if (is_vote && record->term <= message->term &&
        (record->term != message->term || record->vote != message->to))
        sim_truth_fail(&world.truth, "copy %" PRIu64 " votes before its vote is saved",
                       message->from);
}

void __real_replica_send_message(struct replica_send *send,
                                 const struct consensus_message *message);
void __wrap_replica_send_message(struct replica_send *send,
                                 const struct consensus_message *message);

void __wrap_replica_send_message(struct replica_send *send, const struct consensus_message *message)
{
    sim_truth_look_at(&world.truth, message);
    check_vote(message);
    __real_replica_send_message(send, message);
}

/* Records are sent by the leader of their message's term only. */
void __real_replica_core_write(const struct replica_core *core, struct out *out);
void __wrap_replica_core_write(const struct replica_core *core, struct out *out);

void __wrap_replica_core_write(const struct replica_core *core, struct out *out)
{
    const struct consensus_message *message = &core->message;
    const struct consensus *sender = &copy_of(message->from)->shadow.core;
    if (message->kind == CONSENSUS_APPEND &&
        (sender->role < CONSENSUS_LEADING || sender->term != message->term))
        sim_truth_fail(&world.truth, "copy %" PRIu64 " sends records and leads no more",
                       message->from);
    __real_replica_core_write(core, out);
}

/* Homes read what they are told as committed from a disk that may lose what is not synced. */
void __real_replica_note_committed(const struct replica_notes *notes, uint64_t index);
void __wrap_replica_note_committed(const struct replica_notes *notes, uint64_t index);

void __wrap_replica_note_committed(const struct replica_notes *notes, uint64_t index)
{
    const struct copy *copy = notes->owner;
    if (index > copy->shadow.core.synced)
        sim_truth_fail(&world.truth, "home of %s hears of a record that is not durable",
                       copy->of.name);
    __real_replica_note_committed(notes, index);
}

void __real_outbox_save_begun(struct outbox *outbox);
void __wrap_outbox_save_begun(struct outbox *outbox);

void __wrap_outbox_save_begun(struct outbox *outbox)
{
    if (sim_broken != BREAK_MESSAGE_BEFORE_SAVE)
        __real_outbox_save_begun(outbox);
}

/* ---- home -------------------------------------------------------------------------------------- */

/* All records are applied as soon as they are committed. */
static void serve_when_applied(struct copy *copy)
{
    const struct replica_role *role = &copy->role;
    if (role->phase != REPLICA_PHASE_SERVING || copy->served_term == role->term ||
        copy->committed < role->committed)
        return;
    copy->served_term = role->term;
    copy->next = role->committed + 1;
    replica_serves(copy->of.replica, role->term);
}

static void on_role(void *owner, const struct replica_role *role)
{
    struct copy *copy = owner;
    if (role->term < copy->role.term)
        sim_truth_fail(&world.truth, "home of %s hears an older term", copy->of.name);
    copy->role = *role;
    serve_when_applied(copy);
}

static void see_committed(void *owner, uint64_t index, struct bytes record)
{
    const struct copy *copy = owner;
    uint32_t hash = sim_record_hash(record), *truth = &world.committed[index - 1];
    if (!*truth)
        *truth = hash;
    if (*truth != hash)
        sim_truth_fail(&world.truth, "home of %s has another record %" PRIu64, copy->of.name,
                       index);
}

static void on_committed(void *owner, uint64_t index)
{
    struct copy *copy = owner;
    copy->committed = sim_replica_commit(&copy->of, copy->committed, index, see_committed, copy);
    serve_when_applied(copy);
}

static void on_install(void *owner, const char *dir, const struct replica_record *record)
{
    (void)owner, (void)dir, (void)record;
    CHECK(!"there are no snapshots");
}

static void on_failed(void *owner, const char *reason)
{
    struct copy *copy = owner;
    sim_truth_fail(&world.truth, "copy %s fails: %s", copy->of.name, reason);
    copy->must_end = true;
}

static bool may_write(const struct copy *copy)
{
    return copy->served_term == copy->role.term && copy->role.phase == REPLICA_PHASE_SERVING &&
           replica_may_serve(copy->of.replica, local_us(copy)) && world.batches < BATCHES_MAX &&
           copy->next < RECORDS_END;
}

static void append(struct copy *copy, struct effects *effects)
{
    uint64_t index = copy->next++, term = copy->role.term;
    effects_set_numbers(effects, index, term, copy->committed);
    struct bytes record = effects_bytes(effects);
    world.names[index - 1][term] = sim_record_hash(record);
    world.batches++;
    replica_append(copy->of.replica, record);
}

/* A learner is to be a voter again; see write_change. */
static void on_propose(void *owner, uint64_t term, const struct members *members)
{
    struct copy *copy = owner;
    if (!may_write(copy) || term != copy->role.term)
        return;
    struct effects *effects = effects_new();
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_MEMBERS});
    effects_put(effects, CF_SYSTEM, BYTES(SYSTEM_MEMBERS), members_row_write(&arena, members));
    append(copy, effects);
    effects_free(effects);
}

static void write_batch(struct copy *copy)
{
    char value[300];
    size_t len = 1 + sim_random(sizeof value);
    memset(value, (int)sim_random(256), len);
    struct effects *effects = effects_new();
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_BATCH});
    effects_put(effects, CF_DATA, BYTES("x"), (struct bytes){value, len});
    append(copy, effects);
    effects_free(effects);
}

/* Another copy becomes a learner, or a voter again, unless the core refuses it. */
static void write_change(struct copy *copy)
{
    struct consensus_members members = copy->shadow.core.members;
    struct consensus_member *other = &members.list[sim_random(members.count)];
    if (other->id == copy->id)
        return;
    other->kind = other->kind == CONSENSUS_VOTER ? CONSENSUS_LEARNER : CONSENSUS_VOTER;
    struct effects *effects = effects_new();
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_MEMBERS});
    effects_put(effects, CF_SYSTEM, BYTES(SYSTEM_MEMBERS), members_row(&members));
    append(copy, effects);
    effects_free(effects);
}

static void write_something(struct copy *copy)
{
    if (!may_write(copy))
        return;
    if (sim_random(8))
        write_batch(copy);
    else
        write_change(copy);
}

/* ---- life of a copy ---------------------------------------------------------------------------- */

static void fail_disk(const struct copy *copy)
{
    storage_mem_fail_next(copy->of.storage, 1 + sim_random(4),
                          sim_random(2) ? ERR_STORE : ERR_DISK_FULL);
    if (sim_random(2))
        storage_mem_fail_recover(copy->of.storage, 1 + sim_random(2));
}

static void start_copy(struct copy *copy)
{
    const struct sim_replica_options options = {.env = world.env,
                                                .metrics = metrics,
                                                .labels = world.labels,
                                                .count = COPIES,
                                                .election_us = copy->election_us,
                                                .window = 1 + (uint32_t)sim_random(16),
                                                .has_voters = true,
                                                .state = REPLICA_STATE_NONE,
                                                .events = {.on_role = on_role,
                                                           .on_committed = on_committed,
                                                           .on_propose = on_propose,
                                                           .on_install = on_install,
                                                           .on_failed = on_failed},
                                                .owner = copy};
    sim_replica_open_storage(&copy->of, world.env);
    if (world.is_healing || sim_random(4) == 0)
        fail_disk(copy);
    read_shadow_log(copy);
    copy->committed = storage_committed(copy->of.storage);
    copy->role = (struct replica_role){0};
    copy->served_term = 0;
    sim_replica_start(&copy->of, &options);
}

/* The process ends without warning. */
static void crash_copy(struct copy *copy)
{
    copy->must_end = false;
    sim_replica_crash(&copy->of);
    copy->start_us = sim_now_us() + sim_random(sim_random(3) ? E_US / 5 : 3 * E_US);
}

/* Writes the row of the members: as a batch of the only copy, or as the founding record. */
static void write_members(struct copy *copy, const struct effects_header *header)
{
    const struct consensus_members members = first_members();
    char error[200];
    uint64_t index;
    struct effects *effects = effects_new();
    effects_begin(effects, header);
    effects_put(effects, CF_SYSTEM, BYTES(SYSTEM_MEMBERS), members_row(&members));
    if (header->type == EFFECTS_BATCH)
        CHECK(storage_write(copy->of.storage, effects, true, error, sizeof error) == OK);
    effects_set_numbers(effects, FOUNDED, 1, FOUNDED);
    if (header->type == EFFECTS_MEMBERS)
        CHECK(storage_append(copy->of.storage, effects_bytes(effects), &index, error,
                             sizeof error) == OK &&
              index == FOUNDED);
    CHECK(storage_sync(copy->of.storage, error, sizeof error) == OK);
    effects_free(effects);
}

/* The group was founded with all three as voters. The row is in a file before, so that each start finds a store with copies. */
static void found_copy(struct copy *copy)
{
    const struct consensus_members members = first_members();
    struct sim_log *log = &copy->shadow.written;
    char error[200];
    sim_replica_open_storage(&copy->of, world.env);
    write_members(copy, &(struct effects_header){.type = EFFECTS_BATCH});
    CHECK(storage_flush(copy->of.storage, error, sizeof error) == OK);
    storage_close(copy->of.storage);
    sim_replica_open_storage(&copy->of, world.env);
    CHECK(storage_is_replicated(copy->of.storage));
    write_members(copy, &(struct effects_header){.type = EFFECTS_MEMBERS});
    log->record[FOUNDED - 1] =
        (struct sim_record){.term = 1, .batch_term = 1, .members = sim_members_number(&members)};
    log->last = FOUNDED;
    storage_close(copy->of.storage);
    copy->of.storage = NULL;
    const struct replica_record record = {.generation = group.generation,
                                          .group = group.group,
                                          .id = copy->id,
                                          .term = 1,
                                          .base = FOUNDED,
                                          .base_term = 1,
                                          .committed = FOUNDED,
                                          .election_us = copy->election_us};
    replica_file_close(replica_file_make(copy->of.dir, &record, error, sizeof error));
}

static void new_copy(unsigned at)
{
    struct copy *copy = &world.copies[at];
    *copy = (struct copy){.id = at + 1,
                          .rate = (unsigned)sim_random(190),
                          .election_us = sim_random(4) ? E_US : E_US / 2};
    copy->shadow.id = copy->id;
    sim_replica_new(&copy->of, at, &world.relays);
    sim_clock_rate(copy->of.name, copy->rate);
    found_copy(copy);
    start_copy(copy);
}

/* ---- faults ------------------------------------------------------------------------------------ */

static void start_due(void)
{
    for (unsigned i = 0; i < COPIES; i++) {
        struct copy *copy = &world.copies[i];
        if (copy->must_end)
            crash_copy(copy);
        if (!copy->of.is_up && sim_now_us() >= copy->start_us)
            start_copy(copy);
    }
}

static bool is_log_short(void)
{
    for (unsigned i = 0; i < COPIES; i++)
        if (world.copies[i].shadow.written.last >= RECORDS_END)
            return false;
    return true;
}

/* A record that comes to the core during the transfer waits there until it is over. */
static void hand_over(struct copy *copy)
{
    uint64_t id = 1 + sim_random(COPIES);
    write_something(copy);
    sim_run_for(sim_random(E_US / 100));
    if (!may_write(copy))
        return;
    write_batch(copy);
    replica_step(copy->of.replica, (struct consensus_event){.kind = CONSENSUS_TRANSFER, .id = id});
}

static void make_fault(void)
{
    struct copy *copy = &world.copies[sim_random(COPIES)];
    if (!copy->of.is_up)
        return;
    switch (sim_random(9)) {
    case 8:
        hand_over(copy);
        break;
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
    default:
        crash_copy(copy);
        break;
    }
}

/* ---- worlds ------------------------------------------------------------------------------------ */

static void start_world(uint64_t seed)
{
    memset(&world, 0, sizeof world);
    sim_init(seed);
    sim_knobs_shuffle();
    sim_knobs()->delay_us_max = 1000 + sim_random(20000);
    sim_knobs()->pipe_bytes = 256 << 10;
    storage_mem_reset();
    storage_mem_seed(seed);
    replica_file_mem_reset();
    sim_members_reset();
    metrics = metrics ? metrics : metrics_new();
    world.labels = labels_new(LINK_WORDS, COPIES);
    world.env = store_env_new(&(struct store_env_options){0});
    sim_relays_init(&world.relays);
    world.relays.is_faulty = true;
    sim_run_for(1000); /* clocks do not begin with 0 */
    for (unsigned i = 0; i < COPIES; i++)
        new_copy(i);
}

static void turn(void)
{
    sim_run_for(sim_random(E_US / 10));
    check_leases();
    start_due();
    for (unsigned i = 0; i < COPIES; i++)
        if (world.copies[i].of.is_up && sim_random(2))
            write_something(&world.copies[i]);
}

/* With -v: what each copy has. */
static void show(void)
{
    for (unsigned i = 0; i < COPIES && sim_options.is_verbose; i++) {
        const struct copy *copy = &world.copies[i];
        const struct consensus *core = &copy->shadow.core;
        printf("%9" PRIu64 " %s %s phase %d role %d term %" PRIu64 " last %" PRIu64
               " synced %" PRIu64 " committed %" PRIu64 " home %" PRIu64 " logged %" PRIu64 "\n",
               sim_now_us(), copy->of.name, copy->of.is_up ? "up" : "down", copy->role.phase,
               core->role, core->term, core->last, core->synced, core->committed, copy->committed,
               copy->of.is_up ? storage_logged(copy->of.storage) : 0);
    }
}

/* The members with their addresses, which the core does not have. */
static bool has_right_figures(const struct copy *copy)
{
    const struct consensus_members *members = &copy->shadow.core.members;
    struct replica_figures figures;
    replica_figures(copy->of.replica, &figures);
    if (figures.count != members->count)
        return false;
    for (unsigned i = 0; i < members->count; i++)
        if (figures.of[i].id != members->list[i].id ||
            figures.of[i].is_voter != (members->list[i].kind == CONSENSUS_VOTER))
            return false;
    return true;
}

/* Home has counted its records as the log has. */
static bool is_serving_well(const struct copy *copy)
{
    return replica_may_serve(copy->of.replica, local_us(copy)) &&
           copy->next == copy->shadow.core.last + 1;
}

static bool has_all(const struct copy *copy, uint64_t last)
{
    const struct consensus *core = &copy->shadow.core;
    return copy->of.is_up && copy->committed == last && core->last == last &&
           core->synced == last && storage_logged(copy->of.storage) == last &&
           has_right_figures(copy);
}

static bool is_level(void)
{
    bool has_leader = false;
    for (unsigned i = 0; i < COPIES; i++) {
        const struct copy *copy = &world.copies[i];
        if (!has_all(copy, world.copies[0].shadow.core.last))
            return false;
        has_leader |= is_serving_well(copy);
    }
    return has_leader;
}

static void heal(void)
{
    struct copy *copy = &world.copies[sim_random(COPIES)];
    uint64_t end_us = sim_now_us() + CALM_US;
    world.is_healing = true;
    if (copy->of.is_up)
        crash_copy(copy); /* its disk fails at the start, and perhaps no record comes after that */
    world.relays.is_faulty = false;
    sim_knobs()->slow_ppm = 0;
    world.batches = BATCHES_MAX;
    while (!world.truth.why[0] && !is_level()) {
        turn();
        if (sim_now_us() > end_us) {
            show();
            sim_truth_fail(&world.truth, "the copies do not become equal");
        }
    }
}

static void end_world(void)
{
    for (unsigned i = 0; i < COPIES; i++)
        sim_replica_stop(&world.copies[i].of);
    sim_relays_stop(&world.relays);
    sim_run_for(SECOND_US);
    for (unsigned i = 0; i < COPIES; i++)
        sim_replica_fini(&world.copies[i].of);
    sim_relays_fini(&world.relays);
    labels_free(world.labels);
    store_env_free(world.env);
    sim_fini();
    storage_mem_reset();
    replica_file_mem_reset();
    arena_reset(&arena);
}

static void run_world(struct sim_result *result)
{
    start_world(result->seed);
    for (uint64_t i = 0; i < sim_options.steps && !world.truth.why[0]; i++) {
        turn();
        if (sim_random(12) == 0 && is_log_short())
            make_fault();
    }
    show();
    if (!world.truth.why[0])
        heal();
    show();
    result->hash = sim_hash();
    result->has_passed = !world.truth.why[0];
    (void)snprintf(result->why, sizeof result->why, "%s", world.truth.why);
    if (result->has_passed)
        end_world();
}

int main(int argc, char **argv)
{
    static const struct sim_simulation simulation = {
        .run = run_world,
        .seeds = SEEDS,
        .steps = STEPS,
        .first_break = BREAK_VOTE_UNSAVED,
        .end_break = BREAK_CACHE_COUNTS,
        .break_seed = 1,
    };
    log_set_level(LOG_ERROR + 1);
    arena_init(&arena);
    return sim_seeds_main(argc, argv, &simulation);
}
