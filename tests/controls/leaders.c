/*
 * leaders.c - breaks a promise of partitions that lead in turn, chosen by sim_broken (tests/sim/sim_break.h): these functions are linked
 * into test_leaders in place of the program's.
 */
#include "backend/context/partition.h"
#include "backend/dispatch/fresh_reads.h"
#include "backend/partition/leader_line.h"
#include "backend/partition/leadership.h"
#include "backend/partition/replica_apply.h"
#include "backend/session/session_reply.h"
#include "backend/storage/commit_inner.h"
#include "shared/error.h"
#include "tests/sim/sim_break.h"

bool __real_partition_lease_is_over(const struct partition *partition);
bool __wrap_partition_lease_is_over(const struct partition *partition);
uint64_t __real_commit_step_down(struct commit *commit);
uint64_t __wrap_commit_step_down(struct commit *commit);
void __real_sessions_release(struct partition *partition, unsigned parity, int err);
void __wrap_sessions_release(struct partition *partition, unsigned parity, int err);
void __real_leadership_committed(void *owner, uint64_t index);
void __wrap_leadership_committed(void *owner, uint64_t index);
bool __real_replica_apply_is_behind(const struct replica_apply *apply);
bool __wrap_replica_apply_is_behind(const struct replica_apply *apply);

bool __real_leader_line_index(const struct partition *partition, struct read_index *to);
bool __wrap_leader_line_index(const struct partition *partition, struct read_index *to);
void __real_fresh_reads_answered(struct partition *partition, const struct read_index *answer);
void __wrap_fresh_reads_answered(struct partition *partition, const struct read_index *answer);
void __real_group_clock_raise(struct group_clock *clock, uint64_t time_us);
void __wrap_group_clock_raise(struct group_clock *clock, uint64_t time_us);

void __wrap_group_clock_raise(struct group_clock *clock, uint64_t time_us)
{
    if (sim_broken != BREAK_LOG_TIME_FORGOTTEN)
        __real_group_clock_raise(clock, time_us);
}

bool __wrap_partition_lease_is_over(const struct partition *partition)
{
    return sim_broken != BREAK_LEASE_ENDLESS && __real_partition_lease_is_over(partition);
}

/* The batch that the log has taken. */
static bool is_in_flight(const struct commit *commit)
{
    return commit->state == COMMIT_WRITING && commit->current.batch && !commit->current.is_running;
}

uint64_t __wrap_commit_step_down(struct commit *commit)
{
    if (sim_broken == BREAK_BATCH_KEPT && is_in_flight(commit))
        overlay_batch_committed(commit->overlay);
    return __real_commit_step_down(commit);
}

void __wrap_sessions_release(struct partition *partition, unsigned parity, int err)
{
    bool is_good = sim_broken == BREAK_BATCH_REPLIED && err == ERR_LEADER_CHANGED;
    __real_sessions_release(partition, parity, is_good ? OK : err);
}

void __wrap_leadership_committed(void *owner, uint64_t index)
{
    const struct partition *partition = owner;
    if (sim_broken == BREAK_TAIL_APPLIED && partition->copies.is_following)
        index = storage_written(partition->storage);
    __real_leadership_committed(owner, index);
}

bool __wrap_replica_apply_is_behind(const struct replica_apply *apply)
{
    return sim_broken != BREAK_BEHIND_SERVES && __real_replica_apply_is_behind(apply);
}

static struct read_index unchecked(const struct partition *partition)
{
    return (struct read_index){.generation = partition->copies.generation,
                               .term = partition->copies.term,
                               .index = storage_committed(partition->storage)};
}

bool __wrap_leader_line_index(const struct partition *partition, struct read_index *to)
{
    static struct read_index before;
    *to = unchecked(partition);
    if (sim_broken == BREAK_INDEX_UNLEASED)
        return true;
    bool is_good = __real_leader_line_index(partition, to);
    struct read_index now = *to;
    if (sim_broken == BREAK_INDEX_OLD && before.term == to->term)
        *to = before;
    before = now;
    return is_good;
}

/* Those that wait for the next question get the answer, too. */
static void join_waiting(struct fresh_reads *fresh)
{
    struct list *link;
    while ((link = list_pop(&fresh->waiting))) {
        container_of(link, struct session, pending.fresh.link)->pending.fresh.state =
            SESSION_FRESH_ASKING;
        list_push(&fresh->asking, link);
    }
}

void __wrap_fresh_reads_answered(struct partition *partition, const struct read_index *answer)
{
    struct read_index index = answer ? *answer : (struct read_index){0};
    if (sim_broken == BREAK_INDEX_EARLY)
        join_waiting(partition->copies.age.fresh);
    if (sim_broken == BREAK_INDEX_UNAPPLIED)
        index.index = 0;
    if (sim_broken == BREAK_INDEX_UNLEASED)
        index.term = partition->copies.term;
    __real_fresh_reads_answered(partition, answer ? &index : NULL);
}
