#include "backend/partition/founding.h"

#include "backend/context/backend_metrics.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/keyspace/space.h"
#include "backend/partition/copy_pause.h"
#include "backend/partition/leadership.h"
#include "backend/peer/peer_set.h"
#include "backend/replica/replica_figures.h"
#include "backend/replica/replica_members.h"
#include "backend/slots/peering.h"
#include "backend/storage/overlay.h"
#include "backend/storage/partition_store.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"
#include "shared/shard_map.h"
#include "shared/version.h"

#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum {
    WINDOW = 64, /* records that are sent to a copy before it has acknowledged them */
    PINGS_PER_TIMEOUT = 4,
    BACKOFF_MIN_MS = 50,
    BACKOFF_MAX_MS = 1000,
    OUTSTANDING_MAX = 4096,
    OUTPUT_BYTES_MIN = 16 << 20, /* a frame of records, and pieces of files, must fit */
    RECORDS_OF_AN_EMPTY_STORE = 1,
};

enum proposal { PROPOSAL_NONE, PROPOSAL_WAITS, PROPOSAL_WRITTEN };

struct founding {
    struct founding_options options;
    struct replica_role role;
    bool has_asked; /* for its group; phase NONE */
    bool is_forced; /* … and it is made without the others, who may have had more batches */
    enum proposal proposal;
    struct replica_members proposed;
    uint64_t term;                  /* of the proposal */
    uint64_t ticket;                /* of the batch that writes it */
    uint64_t log_id;                /* in this batch: the log's new name; 0: it keeps its name */
    char shard[SHARD_NAME_MAX + 1]; /* of which the map had this copy last; empty: none yet */
    bool was_close;                 /* it follows, and has had nearly all records of its leader */
    char waits[400];                /* why no group is founded, as it was logged last */
};

/* ---- this copy in the map ---------------------------------------------------------------------- */

/* The shard of the map that this partition is a copy of; NULL: none. */
static const struct shard *copied_shard(const struct partition *partition)
{
    const struct shard_map *map = partition->snapshot->map;
    char address[PEER_ADDRESS_MAX + 1];
    peering_address(partition, address, sizeof address);
    return map ? peer_shard_at(map, address) : NULL;
}

static bool is_first(const struct partition *partition, const struct shard *shard)
{
    char address[PEER_ADDRESS_MAX + 1];
    peering_address(partition, address, sizeof address);
    return strcasecmp(shard->addresses[0], address) == 0;
}

static bool has_nothing(const struct partition *partition)
{
    return space_keys_total(partition->spaces) == 0 &&
           storage_logged(partition->storage) <= RECORDS_OF_AN_EMPTY_STORE;
}

/* What it is as long as it is of no group. */
static enum replica_state first_state(const struct partition *partition)
{
    const struct shard *shard = copied_shard(partition);
    if (partition->copies.founding->options.has_lost && has_nothing(partition))
        return REPLICA_STATE_EMPTY;
    if (!shard || is_first(partition, shard))
        return REPLICA_STATE_NONE;
    return has_nothing(partition) ? REPLICA_STATE_EMPTY : REPLICA_STATE_DATA;
}

bool founding_wants_loop(const struct partition *partition)
{
    const struct shard *shard = copied_shard(partition);
    return storage_is_replicated(partition->storage) || (shard && shard->address_count > 1);
}

/* ---- events of the replica --------------------------------------------------------------------- */

/* Does a copy in this phase neither serve nor follow? */
static bool is_idle(enum replica_phase phase)
{
    return phase != REPLICA_PHASE_FOLLOWING && phase != REPLICA_PHASE_LEADING &&
           phase != REPLICA_PHASE_SERVING;
}

static void on_role(void *owner, const struct replica_role *role)
{
    struct partition *partition = owner;
    struct founding *founding = partition->copies.founding;
    if (role->phase != REPLICA_PHASE_NONE)
        founding->has_asked = false;
    founding->role = *role;
    if (is_idle(role->phase)) {
        founding->was_close = false;
        cell_set(partition->metrics.cell, PARTITION_COPY_IS_IDLE,
                 1); /* show_copies says when it ends */
    }
    leadership_role(partition, role);
}

static void on_propose(void *owner, uint64_t term, const struct members *members)
{
    const struct partition *partition = owner;
    struct founding *founding = partition->copies.founding;
    replica_members_set(&founding->proposed, members);
    founding->term = term;
    founding->proposal = PROPOSAL_WAITS;
}

static void pass_files(void *owner, const char *dir, const struct replica_record *record)
{
    const struct partition *partition = owner;
    const struct founding_options *options = &partition->copies.founding->options;
    options->on_install(options->owner, dir, record);
}

static void pass_lost(void *owner)
{
    const struct partition *partition = owner;
    const struct founding_options *options = &partition->copies.founding->options;
    options->on_lost(options->owner);
}

/* The event is in the log. */
static void on_failed(void *owner, const char *reason)
{
    (void)owner;
    (void)reason;
    _exit(1);
}

/* ---- life -------------------------------------------------------------------------------------- */

/* replica_options.home_progress: the partition's ticks, and the CPU time that a long command uses between them. */
static uint64_t progress_of_thread(void *owner)
{
    const struct partition_thread *thread = &((const struct partition *)owner)->thread;
    struct timespec used = {0};
    (void)clock_gettime((clockid_t)atomic_load(&thread->cpu_clock), &used);
    return atomic_load_explicit(&thread->alive_ms, memory_order_relaxed) +
           (uint64_t)used.tv_sec * 1000 + (uint64_t)used.tv_nsec / 1000000;
}

static struct replica *make_replica(struct partition *partition, char *error, size_t size)
{
    static const struct replica_events events = {.on_role = on_role,
                                                 .on_committed = leadership_committed,
                                                 .on_propose = on_propose,
                                                 .on_install = pass_files,
                                                 .on_failed = on_failed,
                                                 .on_lost = pass_lost,
                                                 .on_acknowledged = leadership_acknowledged};
    const struct founding_options *options = &partition->copies.founding->options;
    const struct backend_config *config = &partition->snapshot->config;
    char dir[PATH_MAX];
    (void)snprintf(dir, sizeof dir, "%s/%s", config->data, partition->name);
    const struct replica_options made = {
        .loop = options->loop,
        .home = partition->loop,
        .storage = partition->storage,
        .dir = dir,
        .run_id = partition->process->run_id,
        .version = SCREE_VERSION,
        .thread = partition->index,
        .metrics = options->metrics,
        .labels = partition->process->labelled.links,
        .election_us = config->election_timeout_ms * 1000,
        .window = WINDOW,
        .state = first_state(partition),
        .has_voters = config->replicas == REPLICAS_VOTERS,
        .may_join = has_nothing(partition),
        .waits_for_voters =
            config->replicas == REPLICAS_VOTERS && space_keys_total(partition->spaces) == 0,
        .has_lost = options->has_lost,
        .snapshots = *options->snapshots,
        .home_progress = progress_of_thread,
        .home_owner = partition,
        .time = &partition->copies.time,
    };
    return replica_new(&made, &events, partition, error, size);
}

bool founding_begin(struct partition *partition, const struct founding_options *options,
                    char *error, size_t size)
{
    if (!founding_wants_loop(partition))
        return true;
    if (!partition->snapshot->config.replicas) {
        (void)snprintf(error, size, "%s: its data are one of several copies: set replicas = yes",
                       partition->name);
        return false;
    }
    struct founding *founding = calloc(1, sizeof *founding);
    CHECK(founding);
    founding->options = *options;
    partition->copies.founding = founding;
    cell_set(partition->metrics.cell, PARTITION_COPY_IS_IDLE, 1);
    leadership_new(partition);
    if (partition->snapshot->config.replicas == REPLICAS_VOTERS)
        leadership_use_votes(partition);
    partition->copies.replica = make_replica(partition, error, size);
    if (partition->copies.replica)
        founding_configure(partition);
    return partition->copies.replica != NULL;
}

void founding_free(struct partition *partition)
{
    free(partition->copies.founding);
    partition->copies.founding = NULL;
}

static struct peer_options link_options(const struct backend_config *config)
{
    uint64_t output = config->peer_output_limit_bytes;
    return (struct peer_options){
        .connect_timeout_ms = config->peer_timeout_ms,
        .timeout_ms = config->peer_timeout_ms,
        .ping_ms = config->peer_timeout_ms / PINGS_PER_TIMEOUT,
        .backoff_min_ms = BACKOFF_MIN_MS,
        .backoff_max_ms = BACKOFF_MAX_MS,
        .output_max = output < OUTPUT_BYTES_MIN ? OUTPUT_BYTES_MIN : output,
        .requests_max = OUTSTANDING_MAX,
    };
}

/* The shard whose other copies this one is linked to: a copy whose address is gone from the map is one until it is removed. */
static const struct shard *linked_shard(const struct partition *partition)
{
    const struct config_snapshot *snapshot = partition->snapshot;
    const struct shard *shard = copied_shard(partition);
    struct founding *founding = partition->copies.founding;
    if (shard)
        (void)snprintf(founding->shard, sizeof founding->shard, "%s", shard->name);
    if (shard || !snapshot->map || snapshot->config.replicas != REPLICAS_VOTERS)
        return shard;
    int named = shard_map_named(snapshot->map, bytes_of(founding->shard));
    return named < 0 ? NULL : &snapshot->map->shards[named];
}

void founding_configure(struct partition *partition)
{
    const struct config_snapshot *snapshot = partition->snapshot;
    char address[PEER_ADDRESS_MAX + 1];
    if (!partition->copies.replica)
        return;
    const struct shard *shard = linked_shard(partition);
    peering_address(partition, address, sizeof address);
    struct replica_settings to = {
        .links = {.shard = shard ? shard->name : "",
                  .address = address,
                  .secret = snapshot->config.secret,
                  .secret_previous = snapshot->config.secret_previous,
                  .tls = snapshot->peer_tls,
                  .options = link_options(&snapshot->config)},
        .epoch = snapshot->map ? snapshot->map->epoch : 0,
    };
    for (size_t i = 0; shard && i < shard->address_count && i < SHARD_ADDRESSES_MAX; i++)
        to.links.addresses[to.links.address_count++] = shard->addresses[i];
    replica_configure(partition->copies.replica, &to);
}

/* ---- founding ---------------------------------------------------------------------------------- */

/* Why no group may be founded beside the copy that has said this, whatever the operator says; NULL: one may. */
static const char *forbids(const struct replica_place *place)
{
    switch (place->state) {
    case REPLICA_STATE_MEMBER:
        return "is a member of a group: it would be founded twice";
    case REPLICA_STATE_LOST:
        return "has lost what it had promised to a group (replica_lost in its log): remove its "
               "directory when its data are not needed";
    default:
        break;
    }
    return place->has_lost ? "keeps a directory of a group (partition-N.lost): remove it when its "
                             "data are not needed"
                           : NULL;
}

/* Why the first address waits for this copy; NULL: it need not. */
static const char *delays(const struct replica_place *place)
{
    if (!place->is_heard)
        return "does not answer";
    if (place->state == REPLICA_STATE_DATA)
        return "has keys: remove its directory, or put it first in the map";
    return forbids(place);
}

typedef const char *judge_fn(const struct replica_place *place);

/* The first objection to founding, as an error text; empty: there is none. */
static void find_objection(const struct partition *partition, const struct replica_figures *figures,
                           judge_fn *judge, char *text, size_t size)
{
    const struct shard *shard = copied_shard(partition);
    *text = 0;
    if (!shard) {
        (void)snprintf(text, size, "the shard map has no shard with this address");
        return;
    }
    if (!is_first(partition, shard)) {
        (void)snprintf(text, size,
                       "its store has keys, and %s is the first address of shard %s, which founds "
                       "the group: remove this copy's directory, or put it first in the map",
                       shard->addresses[0], shard->name);
        return;
    }
    for (unsigned i = 0; i < figures->place_count && !*text; i++) {
        const struct replica_place *place = &figures->places[i];
        const char *reason = place->is_own ? NULL : judge(place);
        if (reason)
            (void)snprintf(text, size, "the copy at %s %s", place->address, reason);
    }
}

/* Logs why no group is founded, when the reason is a new one. */
static void note_waits(struct partition *partition, const char *reason)
{
    struct founding *founding = partition->copies.founding;
    if (strcmp(founding->waits, reason) == 0)
        return;
    (void)snprintf(founding->waits, sizeof founding->waits, "%s", reason);
    if (*reason)
        log_event(LOG_WARN, "founding_waits", "partition=%u reason=" LOG_QUOTED, partition->index,
                  reason);
}

static const char *make_group(struct partition *partition, bool is_forced)
{
    const char *error = replica_make_group(partition->copies.replica, is_forced);
    partition->copies.founding->has_asked = !error;
    partition->copies.founding->is_forced = is_forced;
    if (!error)
        log_event(LOG_WARN, "group_founded", "partition=%u forced=%d", partition->index, is_forced);
    return error;
}

static void found_when_it_may(struct partition *partition)
{
    const struct founding *founding = partition->copies.founding;
    struct replica_figures figures;
    char reason[sizeof founding->waits];
    if (founding->role.phase != REPLICA_PHASE_NONE || founding->has_asked ||
        founding->proposal != PROPOSAL_NONE)
        return;
    replica_figures(partition->copies.replica, &figures);
    if (!figures.place_count)
        return; /* the replica is starting */
    find_objection(partition, &figures, delays, reason, sizeof reason);
    note_waits(partition, reason);
    if (!*reason)
        (void)make_group(partition, false);
}

/* ---- proposals --------------------------------------------------------------------------------- */

/* A proposal is of the term in which it is written, by a copy that leads or founds. */
static bool may_write_members(const struct partition *partition)
{
    const struct partition_copies *copies = &partition->copies;
    const struct replica_role *role = &copies->founding->role;
    bool is_its_turn = role->phase == REPLICA_PHASE_SERVING ? !copies->is_closed
                                                            : role->phase == REPLICA_PHASE_NONE;
    return is_its_turn && !copies->is_following && role->term == copies->founding->term &&
           !commit_is_failed(partition->commit, NULL);
}

/* The log goes on with batches that are not those of the group before, which may be read elsewhere (archive.h). */
static void rename_forced_log(struct partition *partition, struct arena *arena)
{
    struct founding *founding = partition->copies.founding;
    bool is_forced = founding->is_forced && founding->role.phase == REPLICA_PHASE_NONE;
    founding->log_id = is_forced ? partition_store_new_log_id() : 0;
    if (is_forced)
        overlay_put(partition->overlay, CF_SYSTEM, BYTES(SYSTEM_LOG_ID),
                    encode_u64(arena, founding->log_id));
}

static void write_members(struct partition *partition)
{
    struct founding *founding = partition->copies.founding;
    struct arena arena;
    arena_init(&arena);
    storage_join_group(partition->storage);
    overlay_put(partition->overlay, CF_SYSTEM, BYTES(SYSTEM_MEMBERS),
                members_row_write(&arena, &founding->proposed.named));
    overlay_set_members(partition->overlay);
    rename_forced_log(partition, &arena);
    arena_fini(&arena);
    founding->ticket = overlay_ticket(partition->overlay);
    founding->proposal = PROPOSAL_WRITTEN;
}

/* ---- metrics ------------------------------------------------------------------------------------- */

static uint64_t missing_records(uint64_t have, uint64_t all)
{
    return all > have ? all - have : 0;
}

/* What a partition shows of its copies. */
struct shown_copies {
    unsigned up, unreadable;
    unsigned voters, up_voters;
    uint64_t behind, lag_us; /* of the slowest connected member */
};

static void note_most(uint64_t *most, uint64_t value)
{
    if (value > *most)
        *most = value;
}

static struct shown_copies copies_of(const struct replica_figures *figures)
{
    struct shown_copies shown = {0};
    for (unsigned i = 0; i < figures->count; i++) {
        const struct replica_figure *figure = &figures->of[i];
        shown.voters += figure->is_voter;
        if (!figure->is_up)
            continue;
        shown.up++;
        shown.up_voters += figure->is_voter;
        shown.unreadable += figure->is_log_unreadable;
        note_most(&shown.behind, missing_records(figure->applied, figures->committed));
        note_most(&shown.lag_us, figure->lag_us);
    }
    return shown;
}

/* Of the members that a leader is connected to: how many may be lost until no copy can serve? */
static unsigned spare_copies(const struct partition *partition, const struct shown_copies *shown)
{
    unsigned needed = partition->copies.lease_us ? shown->voters / 2 + 1 : 1;
    unsigned up = partition->copies.lease_us ? shown->up_voters : shown->up;
    return up > needed ? up - needed : 0;
}

static uint64_t own_lag_us(const struct replica_figures *figures)
{
    for (unsigned i = 0; i < figures->count; i++)
        if (figures->of[i].id == figures->own)
            return figures->of[i].lag_us;
    return 0;
}

/* A copy that begins to follow may lack much, and one that has a vote may not be connected to the leader yet: the shard would stand still if
 * a rolling update stopped another copy now. So it is not ready until it was close to its leader once. Later it may fall behind. */
static bool is_catching_up(const struct partition *partition, const struct replica_figures *figures)
{
    struct founding *founding = partition->copies.founding;
    const struct replica_figure *leader = replica_leader_heard(figures);
    uint64_t applied = storage_committed(partition->storage);
    bool is_behind = leader && applied + REPLICA_BEHIND_RECORDS < leader->applied;
    bool serves = figures->phase == REPLICA_PHASE_SERVING;
    founding->was_close |= serves || (leader && !is_behind);
    bool has_vote = partition->snapshot->config.replicas == REPLICAS_VOTERS;
    return !founding->was_close && (is_behind || has_vote);
}

static void show_copies(const struct partition *partition)
{
    struct metric_cell *cell = partition->metrics.cell;
    struct replica_figures figures;
    replica_figures(partition->copies.replica, &figures);
    const struct shown_copies shown = copies_of(&figures);
    bool serves = figures.phase == REPLICA_PHASE_SERVING;
    cell_set(cell, PARTITION_COPIES, figures.count);
    cell_set(cell, PARTITION_COPIES_UP, shown.up);
    cell_set(cell, PARTITION_COPIES_UNREADABLE, shown.unreadable);
    cell_set(cell, PARTITION_COPY_SERVES, serves);
    cell_set(cell, PARTITION_COPY_IS_IDLE,
             is_idle(figures.phase) || is_catching_up(partition, &figures));
    cell_set(cell, PARTITION_COPIES_SPARE, serves ? spare_copies(partition, &shown) : 0);
    cell_set(cell, PARTITION_COPY_TERM, figures.term);
    cell_set(cell, PARTITION_COPY_PAUSED_MS, copy_pause_left_ms(partition));
    cell_set(cell, PARTITION_COPY_BEHIND,
             serves ? shown.behind
                    : missing_records(storage_committed(partition->storage), figures.committed));
    cell_set(cell, PARTITION_COPY_LAG_MS, (serves ? shown.lag_us : own_lag_us(&figures)) / 1000);
}

void founding_count_lead(const struct partition *partition)
{
    cell_add(partition->metrics.cell, PARTITION_COPY_LEADS, 1);
}

void founding_count_change(const struct partition *partition)
{
    cell_add(partition->metrics.cell, PARTITION_COPY_CHANGES, 1);
}

void founding_tick(struct partition *partition)
{
    struct founding *founding = partition->copies.founding;
    if (!founding)
        return;
    if (founding->proposal == PROPOSAL_WAITS && founding->role.term > founding->term)
        founding->proposal = PROPOSAL_NONE; /* of an earlier leader */
    if (founding->proposal == PROPOSAL_WAITS && may_write_members(partition))
        write_members(partition);
    found_when_it_may(partition);
    show_copies(partition);
}

const struct members *founding_logged(struct partition *partition, uint64_t ticket)
{
    struct founding *founding = partition->copies.founding;
    if (!founding || founding->proposal != PROPOSAL_WRITTEN || founding->ticket != ticket)
        return NULL;
    founding->proposal = PROPOSAL_NONE;
    if (founding->log_id)
        partition->batch.log_id = founding->log_id;
    return &founding->proposed.named;
}

void founding_not_logged(struct partition *partition)
{
    struct founding *founding = partition->copies.founding;
    if (founding && founding->proposal == PROPOSAL_WRITTEN)
        founding->proposal = PROPOSAL_WAITS;
}

/* ---- the operator ------------------------------------------------------------------------------ */

const char *founding_found(struct partition *partition)
{
    struct founding *founding = partition->copies.founding;
    struct replica_figures figures;
    if (!founding)
        return "the shard has one copy";
    if (founding->role.phase != REPLICA_PHASE_NONE || founding->has_asked)
        return replica_make_group(partition->copies.replica, false);
    replica_figures(partition->copies.replica, &figures);
    find_objection(partition, &figures, forbids, founding->waits, sizeof founding->waits);
    return *founding->waits ? founding->waits : make_group(partition, false);
}

/* Its last writes would be lost. */
static bool is_led(const struct partition *partition)
{
    struct replica_figures figures;
    replica_figures(partition->copies.replica, &figures);
    return replica_is_led(&figures, clock_boot_us());
}

const char *founding_force(struct partition *partition)
{
    const struct founding *founding = partition->copies.founding;
    if (!founding)
        return "the shard has one copy";
    if (founding->role.phase == REPLICA_PHASE_SERVING || founding->has_asked)
        return "this copy serves already, or is about to";
    if (clock_mono_us() / 1000 < partition->copies.waits_ms)
        return "this copy has started a moment ago, and may hear of the one that leads: try again";
    if (is_led(partition))
        return "the copy that leads is connected: stop it first, or its last writes are lost";
    return make_group(partition, true);
}

const struct replica_role *founding_role(const struct partition *partition)
{
    return &partition->copies.founding->role;
}
