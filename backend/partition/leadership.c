#include "backend/partition/leadership.h"

#include "backend/context/partition.h"
#include "backend/dispatch/blocking.h"
#include "backend/partition/founding.h"
#include "backend/partition/hand_over.h"
#include "backend/partition/leader_push.h"
#include "backend/partition/leader_return.h"
#include "backend/partition/replica_apply.h"
#include "backend/partition/shards.h"
#include "backend/partition/step_down.h"
#include "backend/partition/voted_commit.h"
#include "backend/session/pause.h"
#include "backend/session/push_message.h"
#include "backend/session/session_reply.h"
#include "backend/session/tracking.h"
#include "backend/slots/peering.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    WAITS_MS = 4000, /* less than the proxies wait for a reply */
    LEASE_MS = 2,    /* between two looks at a lease that is over */
};

struct leadership {
    struct replica_apply *apply; /* NULL: it was stopped */
    struct replica_role role;    /* the last one */
    bool must_take_over; /* the role is NONE or SERVING, and what it needs is not all added yet */
    bool has_votes;      /* another copy may be elected */
    struct timer *lease; /* runs while the lease is over */
    bool is_waiting;     /* it does */
    struct leader_return returning;
    uint64_t counted_term; /* the newest of which it has heard the leader; 0: none */
};

void leadership_end_process(const struct partition *partition, const char *why)
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
        leadership_end_process(partition, "rows of the partition cannot be read");
}

/* Stale reads: not before the rows of each record that the tables may have are all there. */
static void show_old_data(struct partition *partition)
{
    struct partition_copies *copies = &partition->copies;
    copies->may_read =
        copies->is_following && is_copying(copies->leadership->role.phase) &&
        storage_committed(partition->storage) >= storage_whole_at(partition->storage);
}

/* ---- the lease --------------------------------------------------------------------------------- */

static void wait_from_now(struct partition *partition)
{
    partition->copies.waits_ms = clock_mono_us() / 1000 + WAITS_MS;
}

static void stop_waiting_for_lease(struct leadership *leadership)
{
    leadership->is_waiting = false;
    timer_stop(leadership->lease);
}

/* Requests that have waited for the lease run; or, after WAITS_MS, are refused. */
static void look_at_lease(void *owner)
{
    struct partition *partition = owner;
    struct partition_copies *copies = &partition->copies;
    bool is_over = partition_lease_is_over(partition);
    if (partition->running.aside || partition->running.busy_error)
        return;
    if (!is_over)
        stop_waiting_for_lease(copies->leadership);
    bool was_powerless = copies->is_powerless;
    copies->is_powerless = is_over && clock_mono_us() / 1000 >= copies->waits_ms;
    if (is_over && copies->is_powerless == was_powerless)
        return;
    partition_resume(partition);
    blocking_resume(partition->watchers.blocking);
}

static void wait_for_lease(struct partition *partition)
{
    struct leadership *leadership = partition->copies.leadership;
    if (leadership->is_waiting)
        return;
    leadership->is_waiting = true;
    timer_start(leadership->lease, LEASE_MS, LEASE_MS);
}

static void tick_lease(struct partition *partition)
{
    if (partition->copies.is_closed || !partition->copies.lease_us)
        return;
    if (partition_lease_is_over(partition))
        wait_for_lease(partition);
    else
        wait_from_now(partition);
}

/* ---- a batch that is not committed ------------------------------------------------------------- */

/* Reads go on, but those of what the batches have changed, which no client may see yet. Messages about the changes are dropped with the replies,
 * so what clients keep of keys is void. */
static void tick_stall(struct partition *partition)
{
    if (partition->running.aside || partition->running.busy_error ||
        !commit_watch_log(partition->commit))
        return;
    if (!sessions_fail_held(partition, ERR_NOT_TAKEN))
        return;
    tracking_forget_all(partition);
    push_messages_deliver(partition->watchers.messages, 0);
}

/* ---- leading ----------------------------------------------------------------------------------- */

/* Not behind the newest record of the log, nor behind what clients were shown by the leader before. */
static void go_on_in_time(struct partition *partition)
{
    struct group_clock *time = &partition->copies.time;
    group_clock_raise(time, partition->batch.origin_ms * 1000);
    /* Also a time that is too far ahead to be believed: the leader before may have archived that it has no more batches up to then
     * (archive.c), so those of this one must be later. */
    (void)hybrid_clock_hear(&partition->batch.hybrid, group_clock_us(time), clock_wall_us());
    int64_t ahead_us = group_clock_lead(time);
    if (ahead_us)
        log_event(LOG_ERROR, "group_time_ahead", "partition=%u ahead_ms=%" PRId64, partition->index,
                  ahead_us / 1000);
}

static void begin_serving(struct partition *partition)
{
    struct leadership *leadership = partition->copies.leadership;
    uint64_t term = leadership->role.term;
    end_following(partition);
    go_on_in_time(partition);
    voted_commit_begin(partition);
    wait_from_now(partition);
    if (leadership->has_votes && partition->copies.replica)
        partition->copies.lease_us = replica_lease(partition->copies.replica);
    partition->copies.is_closed = false;
    if (!shards_reload(partition)) /* moves and transactions go on, and write */
        leadership_end_process(partition, "rows of the partition cannot be read");
    if (partition->copies.replica) {
        founding_count_lead(partition);
        replica_decline(partition->copies.replica, false);
        replica_serves(partition->copies.replica, term);
    }
    tick_lease(partition);
    log_event(LOG_WARN, "leadership_taken", "partition=%u term=%" PRIu64 " batches=%" PRIu64,
              partition->index, term, storage_committed(partition->storage));
    peering_configure(partition);
    shards_tick_soon(partition);
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

/* On a full disk a leader serves reads, but no group can be founded. */
static bool may_take_over(const struct partition *partition)
{
    bool serves = partition->copies.leadership->role.phase == REPLICA_PHASE_SERVING;
    return serves ? !commit_follow_is_stopped(partition->commit)
                  : !commit_follow_is_broken(partition->commit);
}

static void take_over_when_done(struct partition *partition)
{
    struct leadership *leadership = partition->copies.leadership;
    if (!leadership->must_take_over)
        return;
    want_all(partition);
    if (has_all(partition) && may_take_over(partition) && commit_is_idle(partition->commit))
        take_over(partition);
}

/* replica_apply_fn */
static void on_step(struct partition *partition)
{
    show_old_data(partition);
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

/* Requests that wait are refused at once: proxies send those that come later to the leader, where they must not overtake them. */
static void stop_waiting_for_leader(struct partition *partition)
{
    bool was_waiting = partition->copies.waits_ms != 0;
    partition->copies.waits_ms = 0;
    if (was_waiting)
        partition_resume(partition);
}

/* A copy that goes on in its group needs to know which of its records the group has: it has written none by itself. One that has left the
 * group takes no more records. */
static bool may_step_down(const struct partition *partition, enum replica_phase phase)
{
    bool has_left = phase == REPLICA_PHASE_OVERTAKEN || phase == REPLICA_PHASE_LOST;
    return has_left ||
           (partition->copies.leadership->has_votes && !commit_is_writing(partition->commit));
}

/* The partition's own term is the one of its open batch: a batch of another term would be made of rows that were read in this one. */
static void lose_leadership(struct partition *partition, enum replica_phase phase)
{
    struct leadership *leadership = partition->copies.leadership;
    if (!may_step_down(partition, phase))
        leadership_end_process(partition, "this copy has another role now");
    log_event(LOG_WARN, "leadership_given_up", "partition=%u term=%" PRIu64 " batches=%" PRIu64,
              partition->index, partition->copies.term, storage_committed(partition->storage));
    stop_waiting_for_lease(leadership);
    hand_over_role_lost(partition);
    partition->copies.leader = ""; /* it was this copy */
    step_down(partition);
    wait_from_now(partition);
}

/* What is being compared, or a pause, would hold up a copy that is about to lead. */
static void stop_holding(struct partition *partition, const struct replica_role *role)
{
    const struct replica_role *old = &partition->copies.leadership->role;
    if (role->phase != old->phase || role->term != old->term || role->leader != old->leader)
        replica_apply_new_role(partition->copies.leadership->apply,
                               role->phase == REPLICA_PHASE_FOLLOWING);
}

/* Also when the leader is elected again: clients have waited. */
static void count_new_leader(const struct partition *partition, struct leadership *leadership,
                             const struct replica_role *role)
{
    bool is_led = role->leader || role->phase == REPLICA_PHASE_SERVING;
    if (!is_led || role->term <= leadership->counted_term)
        return;
    if (leadership->counted_term)
        founding_count_change(partition);
    leadership->counted_term = role->term;
}

void leadership_role(void *owner, const struct replica_role *role)
{
    struct partition *partition = owner;
    struct leadership *leadership = partition->copies.leadership;
    bool is_written_here =
        role->phase == REPLICA_PHASE_NONE || role->phase == REPLICA_PHASE_SERVING;
    if (!leadership->apply)
        return;
    stop_holding(partition, role);
    if (!partition->copies.is_closed &&
        (role->phase != REPLICA_PHASE_SERVING || role->term != partition->copies.term))
        lose_leadership(partition, role->phase);
    count_new_leader(partition, leadership, role);
    leadership->role = *role;
    leadership->must_take_over = is_written_here;
    partition->copies.is_in_group = is_copying(role->phase) || role->phase == REPLICA_PHASE_SERVING;
    partition->copies.term = role->term;
    partition->copies.generation = role->generation;
    partition->copies.leader = leadership->role.leader_address;
    leader_push(partition);
    if (!partition->copies.is_closed)
        return;
    if (!is_written_here || role->phase == REPLICA_PHASE_SERVING)
        start_following(partition);
    show_old_data(partition);
    if (!may_lead_soon(role))
        stop_waiting_for_leader(partition);
    else if (!partition->copies.waits_ms) /* else it would send clients to itself, or refuse them */
        wait_from_now(partition);
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

void leadership_acknowledged(void *owner)
{
    const struct partition *partition = owner;
    blocking_count(partition->watchers.blocking);
}

/* ---- called by the partition ------------------------------------------------------------------- */

void leadership_tick(struct partition *partition)
{
    if (!partition->copies.leadership || !partition->copies.leadership->apply)
        return;
    replica_apply_tick(partition->copies.leadership->apply);
    show_old_data(partition);
    tick_lease(partition);
    tick_stall(partition);
    if (!partition->copies.is_closed)
        group_clock_tick(&partition->copies.time);
    take_over_when_done(partition);
    leader_return_tick(partition, &partition->copies.leadership->returning);
}

bool leadership_follows(const struct partition *partition)
{
    const struct leadership *leadership = partition->copies.leadership;
    return leadership && leadership->role.phase == REPLICA_PHASE_FOLLOWING;
}

/* Also at the end, when the write buffers are applied and `leadership` is freed. */
void leadership_has_room(struct partition *partition)
{
    const struct leadership *leadership = partition->copies.leadership;
    if (partition->copies.is_following && leadership && leadership->apply)
        replica_apply_go_on(leadership->apply);
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
    const struct leadership *leadership = partition->copies.leadership;
    if (leadership && leadership->apply && !partition->copies.is_closed)
        replica_apply_stop_sums(leadership->apply);
    founding_not_logged(partition);
}

/* ---- life -------------------------------------------------------------------------------------- */

void leadership_new(struct partition *partition)
{
    struct leadership *leadership = calloc(1, sizeof *leadership);
    CHECK(leadership);
    leadership->apply = replica_apply_new(partition, on_step);
    leadership->lease = timer_new(partition->loop, look_at_lease, partition);
    partition->copies.leadership = leadership;
    partition->copies.leader = leadership->role.leader_address;
    partition->copies.is_closed = true;
    loop_shift_wall(partition->loop, &partition->copies.time.shift_us);
    wait_from_now(partition);
    shards_forget(partition);
    if (storage_is_replicated(partition->storage))
        start_following(partition);
}

void leadership_use_votes(struct partition *partition)
{
    partition->copies.leadership->has_votes = true;
}

void leadership_stop(struct partition *partition, void (*on_stopped)(void *owner), void *owner)
{
    struct partition_copies *copies = &partition->copies;
    if (copies->leadership) {
        replica_apply_free(copies->leadership->apply);
        copies->leadership->apply = NULL;
        stop_waiting_for_lease(copies->leadership);
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
    copies->lease_us = NULL;
    loop_shift_wall(partition->loop, NULL);
    hand_over_free(partition);
    replica_free(copies->replica);
    replica_apply_free(copies->leadership->apply);
    timer_free(copies->leadership->lease);
    free(copies->leadership);
    free(copies->age.of_data);
    copies->leadership = NULL;
    copies->age.of_data = NULL;
    copies->replica = NULL;
}
