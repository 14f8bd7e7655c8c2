/*
 * replica_group.c - which group a copy is of: how it starts, is founded, joins, and what it says of itself.
 *
 *   start     E was shorter? wait ─► the only voter: have the others said hello, or 2 s? ─► save the start ─► core
 *   found     save {group, id, term, own vote} ─► home writes the record of the members, N ─► save {base N} ─► core
 *   join      leader: hello EMPTY of an address of the map ─► proposal with a learner ─► snapshot ─► install
 *
 * The numbers of a group are saved before its first record is written: a record without them would be a copy that has lost its
 * promises. A start that finds the numbers alone goes on with them.
 */
#include "backend/format/encoding.h"
#include "backend/replica/replica_inner.h"
#include "backend/storage/storage.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    GREET_US = 2000000,
    FOUNDED_TERM = 1,                 /* of a group that was never forced */
    GENERATIONS_BEGIN_S = 1767225600, /* 2026-01-01 */
};

/* ---- phases ------------------------------------------------------------------------------------ */

void replica_group_set_phase(struct replica *replica, enum replica_phase phase)
{
    replica->phase = phase;
    atomic_store(&replica->shown.phase, (int)phase);
    replica->told.role = (struct replica_role){
        .phase = phase, .generation = replica->record.generation, .term = replica->record.term};
    replica_note_role(&replica->notes, &replica->told.role);
    replica_group_say(replica);
}

/* replica_saved_fn */
static void nothing_saved(void *owner)
{
    (void)owner;
}

void replica_group_save(struct replica *replica, replica_saved_fn *saved)
{
    replica_save_begin(replica->disk.save, &replica->record, saved ? saved : nothing_saved);
}

static uint64_t random_id(void)
{
    uint64_t id;
    do {
        id = clock_random();
    } while (!id);
    return id;
}

/* ---- hello ------------------------------------------------------------------------------------- */

static enum replica_state state_of(const struct replica *replica)
{
    switch (replica->phase) {
    case REPLICA_PHASE_NONE:
        return replica->options.state;
    case REPLICA_PHASE_JOINING:
        return REPLICA_STATE_EMPTY;
    case REPLICA_PHASE_LOST:
        return REPLICA_STATE_LOST;
    default:
        return REPLICA_STATE_MEMBER;
    }
}

static uint8_t flags_of(const struct replica *replica)
{
    bool serves = replica->phase == REPLICA_PHASE_SERVING;
    return (uint8_t)((replica->options.has_voters ? REPLICA_FLAG_VOTES : 0) |
                     (replica->options.has_lost ? REPLICA_FLAG_HAS_LOST : 0) |
                     (serves ? REPLICA_FLAG_SERVES : 0));
}

static void say_log(const struct replica *replica, struct replica_hello *hello)
{
    const struct consensus *core = replica_core(replica);
    hello->term = core ? core->term : replica->record.term;
    hello->last = core ? core->last : replica->start.found.last;
    hello->last_term = core ? consensus_term_at(core, core->last) : replica->record.base_term;
    if (hello->last_term > hello->term)
        hello->term = hello->last_term;
}

void replica_group_say(struct replica *replica)
{
    const struct replica_record *record = &replica->record;
    if (!replica->voting.is_start_saved)
        return;
    struct replica_hello hello = {.id = record->id,
                                  .starts = record->starts,
                                  .run = replica->self.run,
                                  .state = state_of(replica),
                                  .data_format = DATA_FORMAT,
                                  .flags = flags_of(replica),
                                  .map_epoch = replica->map.epoch};
    if (hello.state == REPLICA_STATE_MEMBER)
        hello.group = (struct replica_group){record->generation, record->group};
    say_log(replica, &hello);
    replica_links_say(replica->net.links, &hello);
}

static bool is_in_group(const struct replica *replica)
{
    return replica->phase == REPLICA_PHASE_FOLLOWING || replica->phase == REPLICA_PHASE_LEADING ||
           replica->phase == REPLICA_PHASE_SERVING;
}

/* Survivors were made a group of their own: what this one has written since is lost, and it must not serve. */
static void be_overtaken(struct replica *replica, const struct replica_hello *hello)
{
    log_event(LOG_ERROR, "replica_overtaken", "generation=%" PRIu32 " newer=%" PRIu32,
              replica->record.generation, hello->group.generation);
    replica_drive_stop(replica);
    replica->start.due_us = 0;
    replica_group_set_phase(replica, REPLICA_PHASE_OVERTAKEN);
}

static bool make_file(struct replica *replica);

/* A copy whose data may be overwritten waits for a leader, under an id of its own. */
static void begin_joining(struct replica *replica)
{
    replica->record = (struct replica_record){.id = random_id(), .starts = 1};
    term_runs_init(&replica->start.found.runs, 0, 0);
    if (make_file(replica))
        replica->phase = REPLICA_PHASE_JOINING;
}

/* The core that joins is of the leader's group. One of an earlier generation ends. */
static void join_group(struct replica *replica, const struct replica_group *group)
{
    bool is_newer =
        group->group == replica->group.group && group->generation > replica->group.generation;
    if (replica->group.group && !is_newer)
        return;
    replica_drive_stop(replica);
    replica->group = *group;
    replica->start.due_us = 1;
}

/* A copy that has nothing, at the address that would found the group: its disk was lost, and the group goes on. */
static void join_when_served(struct replica *replica, const struct replica_hello *hello)
{
    const struct replica_options *options = &replica->options;
    if (replica->phase != REPLICA_PHASE_NONE || replica->founding != REPLICA_NOT_FOUNDING ||
        !options->has_voters || !options->may_join || !(hello->flags & REPLICA_FLAG_SERVES))
        return;
    begin_joining(replica);
    replica_group_set_phase(replica, replica->phase);
}

void replica_group_hear(struct replica *replica, const struct replica_hello *hello)
{
    const struct replica_record *record = &replica->record;
    if (hello->state != REPLICA_STATE_MEMBER || !hello->group.group)
        return;
    join_when_served(replica, hello);
    if (replica->phase == REPLICA_PHASE_JOINING)
        join_group(replica, &hello->group);
    else if (is_in_group(replica) && hello->group.group == record->group &&
             hello->group.generation > record->generation)
        be_overtaken(replica, hello);
    else if (is_in_group(replica))
        replica_change_hear(replica, hello);
}

/* ---- start of a core --------------------------------------------------------------------------- */

static bool have_all_said_hello(const struct replica *replica)
{
    for (unsigned i = 0; i < replica->map.count; i++)
        if (strcasecmp(replica->map.addresses[i], replica->map.address) != 0 &&
            !replica_links_hello(replica->net.links, replica->map.addresses[i]))
            return false;
    return replica->map.count > 0;
}

/* replica_saved_fn */
static void start_saved(void *owner)
{
    struct replica *replica = owner;
    const struct replica_record *record = &replica->record;
    struct consensus_start start = {.id = record->id,
                                    .random = clock_random(),
                                    .election_us = replica->options.election_us,
                                    .window = replica->options.window,
                                    .term = record->term,
                                    .vote = record->vote};
    if (replica->has_ended || replica->has_core ||
        !(is_in_group(replica) || replica->phase == REPLICA_PHASE_JOINING))
        return;
    replica_log_start(&replica->start.found, &start);
    replica_members_set(&replica->membership.now, &replica->start.found.named.named);
    replica_members_set(&replica->membership.before, &replica->start.found.named_before.named);
    replica->membership.index = replica->start.found.members.index;
    replica_drive_start(replica, &start);
}

static void start_when_due(struct replica *replica)
{
    uint64_t now_us = clock_boot_us();
    if (!replica->start.due_us || now_us < replica->start.due_us ||
        (now_us < replica->start.greet_us && !have_all_said_hello(replica)))
        return;
    replica->start.due_us = 0;
    replica->record.election_us = replica->options.election_us;
    replica_group_save(replica, start_saved);
}

/* A process with a longer E may have promised to grant nothing for so long. */
static void plan_start(struct replica *replica)
{
    uint64_t now_us = clock_boot_us(), promised_us = replica->record.election_us;
    uint64_t own_us = replica->options.election_us;
    replica->start.due_us = now_us + (promised_us > own_us ? promised_us - own_us : 0);
    if (replica_members_is_alone(&replica->membership.now, replica->record.id))
        replica->start.greet_us = now_us + GREET_US;
}

/* ---- founding ---------------------------------------------------------------------------------- */

static void propose_group(struct replica *replica)
{
    const struct replica_record *record = &replica->record;
    const struct members members = {
        .generation = record->generation,
        .group = record->group,
        .epoch = replica->map.epoch,
        .count = 1,
        .list = {{record->id, MEMBER_VOTER, bytes_of(replica->map.address)}},
    };
    replica->founding = REPLICA_FOUND_PROPOSED;
    replica_note_propose(&replica->notes, record->term, &members);
}

/* The address in the record of the members is that of the map. */
static void propose_when_known(struct replica *replica)
{
    if (replica->founding == REPLICA_FOUND_SAVED && replica->map.address[0])
        propose_group(replica);
}

/* replica_saved_fn */
static void found_saved(void *owner)
{
    struct replica *replica = owner;
    replica->founding = REPLICA_FOUND_SAVED;
    propose_when_known(replica);
}

static void open_save(struct replica *replica)
{
    replica->disk.save = replica_save_new(replica->options.loop, replica->disk.file,
                                          replica_save_has_failed, replica);
}

/* The file, with the present record; there was none. */
static bool make_file(struct replica *replica)
{
    char error[256];
    replica->disk.file =
        replica_file_make(replica->self.dir, &replica->record, error, sizeof error);
    if (replica->disk.file)
        open_save(replica);
    else
        replica_fail(replica, error);
    return replica->disk.file != NULL;
}

static uint32_t own_place_in_map(const struct replica *replica)
{
    for (unsigned i = 0; i < replica->map.count; i++)
        if (strcasecmp(replica->map.addresses[i], replica->map.address) == 0)
            return i;
    return 0;
}

/* Copies that are forced and do not hear of each other get different generations, so that all but one are overtaken in the end. The later
 * one goes on; of those in one second the last of the map. A group that is founded after all copies were lost is newer than that of before
 * for proxies and other shards, which remember it. A clock that shows a year before 2026 or after 2042 is left out. */
static uint32_t next_generation(const struct replica *replica)
{
    uint64_t since_s = clock_wall_us() / 1000000 - GENERATIONS_BEGIN_S;
    uint64_t next = replica->record.generation / REPLICA_ADDRESSES_MAX + 1;
    if (since_s > next && since_s < UINT32_MAX / REPLICA_ADDRESSES_MAX)
        next = since_s;
    return (uint32_t)next * REPLICA_ADDRESSES_MAX + own_place_in_map(replica);
}

static void number_group(struct replica *replica, bool is_forced)
{
    struct replica_record *record = &replica->record;
    uint32_t generation = next_generation(replica);
    if (is_forced)
        record->term++;
    else
        *record =
            (struct replica_record){.group = random_id(), .id = random_id(), .term = FOUNDED_TERM};
    record->generation = generation;
    record->vote = record->id;
}

void replica_group_found(struct replica *replica, bool is_forced)
{
    bool is_unfit = !is_forced && replica->phase != REPLICA_PHASE_NONE; /* it has joined one */
    if (replica->founding != REPLICA_NOT_FOUNDING || replica->has_ended || is_unfit)
        return;
    if (replica->has_core)
        replica->record.term = replica->core.term;
    replica_drive_stop(replica);
    replica->start.due_us = 0;
    replica->start.must_force = is_forced && !replica_log_is_idle(replica->disk.log);
    if (replica->start.must_force) /* the log and home must not write both */
        return;
    number_group(replica, is_forced);
    replica->voting.known = (struct replica_known){0}; /* of the generation before */
    replica->voting.has_had_most |= is_forced;
    replica->record.election_us = replica->options.election_us;
    replica->record.starts++;
    replica->founding = REPLICA_FOUND_SAVING;
    replica_group_set_phase(replica, REPLICA_PHASE_NONE);
    if (replica->disk.file || make_file(replica))
        replica_group_save(replica, found_saved);
}

/* replica_saved_fn: the log begins behind its founding record, which is durable. */
static void found_logged(void *owner)
{
    struct replica *replica = owner;
    const struct replica_record *record = &replica->record;
    struct consensus_members members =
        replica_core_members(&replica->membership.now.named, record->base);
    const struct consensus_start start = {.id = record->id,
                                          .random = clock_random(),
                                          .election_us = replica->options.election_us,
                                          .window = replica->options.window,
                                          .has_promised_nothing = record->term == FOUNDED_TERM,
                                          .term = record->term,
                                          .vote = record->vote,
                                          .base = record->base,
                                          .base_term = record->base_term,
                                          .last = record->base,
                                          .synced = record->base,
                                          .committed = record->base,
                                          .members = members};
    if (replica->has_ended)
        return;
    replica->founding = REPLICA_NOT_FOUNDING;
    replica_group_set_phase(replica, REPLICA_PHASE_FOLLOWING);
    replica_drive_start(replica, &start);
}

void replica_group_logged(struct replica *replica, uint64_t index, uint64_t term,
                          const struct members *members)
{
    if (replica->founding != REPLICA_FOUND_PROPOSED || !members ||
        members->group != replica->record.group ||
        members->generation != replica->record.generation)
        return;
    replica->founding = REPLICA_FOUND_LOGGED;
    replica->group = (struct replica_group){members->generation, members->group};
    replica->record.base = replica->record.committed = index;
    replica->record.base_term = term;
    replica->record.whole_at = 0;
    replica_members_set(&replica->membership.now, members);
    replica_members_set(&replica->membership.before, members);
    replica->membership.index = index;
    replica_group_save(replica, found_logged);
}

/* ---- the file and the log ---------------------------------------------------------------------- */

/* A process that knows one voter only would commit what it has written alone. */
static bool check_voters(const struct replica *replica, char *error, size_t size)
{
    const struct members *named = &replica->start.found.named.named;
    unsigned voters = 0;
    for (unsigned i = 0; i < named->count; i++)
        voters += named->list[i].kind == MEMBER_VOTER;
    if (voters <= 1 || replica->options.has_voters)
        return true;
    (void)snprintf(error, size, "%s: its group has %u voters: set replicas = voters",
                   replica->self.dir, voters);
    return false;
}

static bool read_own_log(struct replica *replica, char *error, size_t size)
{
    const struct replica_record *record = &replica->record;
    switch (
        replica_log_read(replica->options.storage, record, &replica->start.found, error, size)) {
    case REPLICA_LOG_READ:
        replica->phase = record->group ? REPLICA_PHASE_FOLLOWING : REPLICA_PHASE_JOINING;
        if (record->group) /* others hear it also while no record comes */
            atomic_store(&replica->shown.applied, storage_committed(replica->options.storage));
        return check_voters(replica, error, size);
    case REPLICA_LOG_UNFOUNDED:
        replica->phase = REPLICA_PHASE_NONE;
        replica->founding = REPLICA_FOUND_SAVED;
        return true;
    case REPLICA_LOG_LOST:
        replica->phase = REPLICA_PHASE_LOST;
        /* the WAL has removed what lay behind the gap; later starts see it by this, which replica_group_begin saves */
        replica->record.committed = UINT64_MAX;
        log_event(LOG_ERROR, "replica_lost", "reason=\"%s\"", error);
        return true;
    case REPLICA_LOG_FAILED:
        break;
    }
    return false;
}

bool replica_group_read(struct replica *replica, char *error, size_t size)
{
    switch (
        replica_file_open(replica->self.dir, &replica->disk.file, &replica->record, error, size)) {
    case REPLICA_IS_OPEN:
        return read_own_log(replica, error, size);
    case REPLICA_NONE:
        replica->phase = storage_is_replicated(replica->options.storage) ? REPLICA_PHASE_LOST
                                                                         : REPLICA_PHASE_NONE;
        return true;
    case REPLICA_IS_LOST:
        replica->phase = REPLICA_PHASE_LOST;
        log_event(LOG_ERROR, "replica_lost", "reason=\"%s\"", error);
        return true;
    case REPLICA_IS_NEWER:
    case REPLICA_FAILED:
        break;
    }
    return false;
}

/* ---- on the replica's thread ------------------------------------------------------------------- */

/* replica_saved_fn: a hello has the number of this start, which no later one has. */
static void begin_saved(void *owner)
{
    struct replica *replica = owner;
    replica->voting.is_start_saved = true;
    replica_group_set_phase(replica, replica->phase);
}

void replica_group_begin(struct replica *replica)
{
    bool has_file = replica->disk.file != NULL;
    replica_time_go_on(replica);
    if (has_file)
        open_save(replica);
    else if (replica->phase == REPLICA_PHASE_NONE && replica->options.state == REPLICA_STATE_EMPTY)
        begin_joining(replica);
    if (is_in_group(replica)) {
        replica->group = (struct replica_group){replica->record.generation, replica->record.group};
        replica_members_set(&replica->membership.now, &replica->start.found.named.named);
        plan_start(replica);
    }
    if (has_file) {
        replica->record.starts++;
        replica_group_save(replica, begin_saved);
    } else {
        begin_saved(replica);
    }
}

void replica_group_tick(struct replica *replica)
{
    if (replica->start.must_force && is_in_group(replica))
        replica_group_found(replica, true);
    propose_when_known(replica);
    replica_fetch_when_due(replica);
    replica_check_announced(replica);
    start_when_due(replica);
    replica_change_tick(replica);
    replica_stall_tick(replica);
    replica_behind_tick(replica);
    replica_declines_tick(replica);
    replica_room_tick(replica);
    replica_time_tick(replica);
}
