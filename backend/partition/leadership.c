#include "backend/partition/leadership.h"

#include "backend/context/partition.h"
#include "backend/partition/founding.h"
#include "backend/partition/leader_push.h"
#include "backend/partition/replica_apply.h"
#include "backend/partition/shards.h"
#include "backend/partition/voted_commit.h"
#include "backend/session/pause.h"
#include "backend/slots/peering.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

enum { WAITS_MS = 4000 }; /* less than the proxies wait for a reply */

struct leadership {
    struct replica_apply *apply; /* NULL: it was stopped */
    struct replica_role role;    /* the last one */
    bool must_take_over; /* the role is NONE or SERVING, and what it needs is not all added yet */
};

static void end_process(const struct partition *partition, const char *why)
{
    log_event(LOG_ERROR, "leadership_lost", "partition=%u term=%" PRIu64 " reason=\"%s\"",
              partition->index, partition->copies.term, why);
    _exit(1);
}

/* ---- following --------------------------------------------------------------------------------- */

static void start_following(struct partition *partition)
{
    if (partition->copies.is_following)
        return;
    partition->copies.is_following = true;
    commit_set_following(partition->commit, true);
}

static bool is_copying(enum replica_phase phase)
{
    return phase == REPLICA_PHASE_FOLLOWING || phase == REPLICA_PHASE_LEADING;
}

/* The partition writes from now on; what it keeps of rows is from before. */
static void end_following(struct partition *partition)
{
    if (!partition->copies.is_following)
        return;
    commit_set_following(partition->commit, false);
    partition->copies.is_following = partition->copies.may_read = false;
    if (!partition->copies.read_anew(partition))
        end_process(partition, "rows of the partition cannot be read");
}

/* ---- leading ----------------------------------------------------------------------------------- */

static void begin_serving(struct partition *partition)
{
    struct leadership *leadership = partition->copies.leadership;
    uint64_t term = leadership->role.term;
    end_following(partition);
    voted_commit_begin(partition);
    partition->copies.is_closed = false;
    if (!shards_reload(partition)) /* moves and transactions go on, and write */
        end_process(partition, "rows of the partition cannot be read");
    if (partition->copies.replica)
        replica_serves(partition->copies.replica, term);
    log_event(LOG_WARN, "leadership_taken", "partition=%u term=%" PRIu64 " batches=%" PRIu64,
              partition->index, term, storage_committed(partition->storage));
    peering_configure(partition);
    leader_push(partition);
    partition_resume(partition);
}

static void take_over(struct partition *partition)
{
    struct leadership *leadership = partition->copies.leadership;
    leadership->must_take_over = false;
    if (leadership->role.phase == REPLICA_PHASE_SERVING)
        begin_serving(partition);
    else
        end_following(partition);
}

/* Whoever makes this copy a group of its own gets all that it has, also what its group may not have committed. */
static void want_all(struct partition *partition)
{
    struct leadership *leadership = partition->copies.leadership;
    if (leadership->role.phase == REPLICA_PHASE_SERVING)
        replica_apply_upto(leadership->apply, leadership->role.committed);
    else if (partition->copies.is_following)
        replica_apply_upto(leadership->apply, storage_logged(partition->storage));
}

/* The last records of a log may still be on their way to the disk. */
static bool has_all(const struct partition *partition)
{
    const struct leadership *leadership = partition->copies.leadership;
    const struct storage *storage = partition->storage;
    return !replica_apply_is_behind(leadership->apply) &&
           (leadership->role.phase == REPLICA_PHASE_SERVING || !partition->copies.is_following ||
            storage_committed(storage) == storage_written(storage));
}

static void take_over_when_done(struct partition *partition)
{
    struct leadership *leadership = partition->copies.leadership;
    if (!leadership->must_take_over)
        return;
    want_all(partition);
    if (has_all(partition) && !commit_follow_is_broken(partition->commit) &&
        commit_is_idle(partition->commit))
        take_over(partition);
}

/* replica_apply_fn */
static void on_step(struct partition *partition)
{
    if (partition->copies.replica)
        replica_applied(partition->copies.replica, storage_committed(partition->storage));
    take_over_when_done(partition);
}

/* ---- roles ------------------------------------------------------------------------------------- */

/* No other copy is known to lead, and this one may. */
static bool may_lead_soon(const struct replica_role *role)
{
    return role->phase == REPLICA_PHASE_SERVING || role->phase == REPLICA_PHASE_LEADING ||
           (role->phase == REPLICA_PHASE_FOLLOWING && !role->leader_address[0]);
}

void leadership_role(void *owner, const struct replica_role *role)
{
    struct partition *partition = owner;
    struct leadership *leadership = partition->copies.leadership;
    bool is_written_here =
        role->phase == REPLICA_PHASE_NONE || role->phase == REPLICA_PHASE_SERVING;
    if (!leadership->apply)
        return;
    if (!partition->copies.is_closed &&
        (role->phase != REPLICA_PHASE_SERVING || role->term != partition->copies.term))
        end_process(partition, "this copy has another role now");
    leadership->role = *role;
    leadership->must_take_over = is_written_here;
    partition->copies.term = role->term;
    partition->copies.generation = role->generation;
    partition->copies.leader = leadership->role.leader_address;
    leader_push(partition);
    if (!partition->copies.is_closed)
        return;
    if (!is_written_here || role->phase == REPLICA_PHASE_SERVING)
        start_following(partition);
    partition->copies.may_read = partition->copies.is_following && is_copying(role->phase);
    if (!may_lead_soon(role))
        partition->copies.waits_ms = 0;
    take_over_when_done(partition);
}

void leadership_committed(void *owner, uint64_t index)
{
    struct partition *partition = owner;
    if (!partition->copies.is_following)
        commit_ended(partition->commit, index);
    else if (partition->copies.leadership->apply)
        replica_apply_upto(partition->copies.leadership->apply, index);
}

/* ---- called by the partition ------------------------------------------------------------------- */

void leadership_tick(struct partition *partition)
{
    if (!partition->copies.leadership || !partition->copies.leadership->apply)
        return;
    replica_apply_tick(partition->copies.leadership->apply);
    take_over_when_done(partition);
}

void leadership_has_room(struct partition *partition)
{
    if (partition->copies.is_following && partition->copies.leadership->apply)
        replica_apply_go_on(partition->copies.leadership->apply);
}

void leadership_logged(struct partition *partition, uint64_t ticket, uint64_t index)
{
    struct replica *replica = partition->copies.replica;
    if (!replica)
        return;
    const struct members *members = founding_logged(partition, ticket);
    if (!commit_went_through_log(partition->commit))
        replica_logged(replica, index, partition->copies.term, members);
    replica_applied(replica, index);
}

void leadership_not_logged(struct partition *partition)
{
    founding_not_logged(partition);
}

/* ---- life -------------------------------------------------------------------------------------- */

void leadership_new(struct partition *partition)
{
    struct leadership *leadership = calloc(1, sizeof *leadership);
    CHECK(leadership);
    leadership->apply = replica_apply_new(partition, on_step);
    partition->copies.leadership = leadership;
    partition->copies.leader = leadership->role.leader_address;
    partition->copies.is_closed = true;
    partition->copies.waits_ms = clock_mono_us() / 1000 + WAITS_MS;
    shards_forget(partition);
    if (storage_is_replicated(partition->storage))
        start_following(partition);
}

void leadership_stop(struct partition *partition, void (*on_stopped)(void *owner), void *owner)
{
    struct partition_copies *copies = &partition->copies;
    if (copies->leadership) {
        replica_apply_free(copies->leadership->apply);
        copies->leadership->apply = NULL;
    }
    if (copies->replica)
        replica_stop(copies->replica, on_stopped, owner);
    else
        on_stopped(owner);
}

void leadership_free(struct partition *partition)
{
    struct partition_copies *copies = &partition->copies;
    if (!copies->leadership)
        return;
    replica_free(copies->replica);
    replica_apply_free(copies->leadership->apply);
    free(copies->leadership);
    copies->leadership = NULL;
    copies->replica = NULL;
}
