#include "tests/sim/sim_leader.h"

#include "backend/context/partition.h"
#include "backend/format/effects.h"
#include "backend/format/members_row.h"
#include "backend/partition/leadership.h"
#include "shared/check.h"
#include "shared/error.h"
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

enum { COMMIT_MS = 3 };

struct sim_leader {
    struct partition *partition;
    uint64_t *term;
    struct timer *timer; /* writes or commits the record */
    struct bytes given;  /* not in the log yet; data NULL: none */
    uint64_t written;    /* in the log, and not committed; 0: none */
};

static void forget_given(struct sim_leader *leader)
{
    free((char *)leader->given.data);
    leader->given = (struct bytes){0};
}

/* ---- the log ----------------------------------------------------------------------------------- */

static uint64_t append_record(struct sim_leader *leader, struct bytes record)
{
    struct storage *storage = leader->partition->storage;
    uint64_t index;
    char error[256];
    CHECK(storage_append(storage, record, &index, error, sizeof error) == OK);
    CHECK(storage_sync(storage, error, sizeof error) == OK);
    return index;
}

static void plan(struct sim_leader *leader)
{
    timer_start(leader->timer, sim_random(COMMIT_MS), 0);
}

/* commit_log.append */
static int take_record(void *owner, struct bytes record, char *error, size_t size)
{
    struct sim_leader *leader = owner;
    char *copy = malloc(record.len);
    CHECK(copy && !leader->given.data && !leader->written);
    memcpy(copy, record.data, record.len);
    leader->given = (struct bytes){copy, record.len};
    plan(leader);
    (void)error;
    (void)size;
    return OK;
}

/* commit_log.may_append */
static int may_append(void *owner, char *error, size_t size)
{
    (void)owner;
    (void)error;
    (void)size;
    return OK;
}

/* commit_log.has_committed */
static bool is_committed(void *owner, uint64_t index, uint64_t term)
{
    const struct sim_leader *leader = owner;
    (void)term;
    return !leader->given.data && !leader->written &&
           index <= storage_written(leader->partition->storage);
}

static void on_timer(void *owner)
{
    struct sim_leader *leader = owner;
    uint64_t index = leader->written;
    if (leader->given.data) {
        leader->written = append_record(leader, leader->given);
        forget_given(leader);
        plan(leader);
    } else if (index && leader->partition->running.busy_error) {
        plan(leader);
    } else if (index) {
        leader->written = 0;
        leadership_committed(leader->partition, index);
    }
}

/* ---- roles ------------------------------------------------------------------------------------- */

static void tell_role(struct sim_leader *leader, enum replica_phase phase)
{
    struct partition *partition = leader->partition;
    const struct replica_role role = {.phase = phase,
                                      .term = ++*leader->term,
                                      .leader = 1,
                                      .committed = storage_written(partition->storage)};
    leadership_role(partition, &role);
}

/* The first record of a term. */
static void write_probe(struct sim_leader *leader)
{
    const struct partition *partition = leader->partition;
    struct effects *effects = effects_new();
    uint64_t index = storage_written(partition->storage) + 1;
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_PROBE});
    effects_set_numbers(effects, index, *leader->term + 1, index);
    CHECK(append_record(leader, effects_bytes(effects)) == index);
    effects_free(effects);
}

static void lead(struct sim_leader *leader)
{
    const struct commit_log log = {.append = take_record,
                                   .may_append = may_append,
                                   .has_committed = is_committed,
                                   .owner = leader};
    commit_use_log(leader->partition->commit, &log);
    tell_role(leader, REPLICA_PHASE_SERVING);
}

/* The row by which a store is known as a copy, whose log keeps its end at a start. */
static void make_copy(struct storage *storage)
{
    const struct members members = {.generation = 1,
                                    .group = 1,
                                    .epoch = 1,
                                    .count = 1,
                                    .list = {{1, MEMBER_VOTER, BYTES("a:1")}}};
    struct effects *effects = effects_new();
    struct arena arena;
    char error[256];
    arena_init(&arena);
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_MEMBERS});
    effects_put(effects, CF_SYSTEM, BYTES(SYSTEM_MEMBERS), members_row_write(&arena, &members));
    CHECK(storage_write(storage, effects, true, error, sizeof error) == OK);
    CHECK(storage_flush(storage, error, sizeof error) == OK);
    arena_fini(&arena);
    effects_free(effects);
    storage_join_group(storage);
}

struct sim_leader *sim_leader_new(struct partition *partition, uint64_t *term)
{
    struct sim_leader *leader = calloc(1, sizeof *leader);
    CHECK(leader);
    leader->partition = partition;
    leader->term = term;
    leader->timer = timer_new(partition->loop, on_timer, leader);
    if (!storage_is_replicated(partition->storage))
        make_copy(partition->storage);
    leadership_new(partition);
    leadership_use_votes(partition);
    lead(leader);
    return leader;
}

void sim_leader_free(struct sim_leader *leader)
{
    if (!leader)
        return;
    timer_free(leader->timer);
    forget_given(leader);
    free(leader);
}

/* What was given to the log may be at the other copies, before it is on this one's disk. */
static void end_in_flight(struct sim_leader *leader)
{
    struct storage *storage = leader->partition->storage;
    char error[256];
    if (leader->given.data && sim_random(2))
        leader->written = append_record(leader, leader->given);
    else if (leader->written && sim_random(2))
        CHECK(storage_truncate(storage, leader->written - 1, error, sizeof error) == OK);
    leader->written = 0;
    forget_given(leader);
    timer_stop(leader->timer);
}

bool sim_leader_lose(struct sim_leader *leader)
{
    struct partition *partition = leader->partition;
    if (partition->copies.is_closed || partition->thread.is_draining ||
        partition->running.busy_error || commit_is_failed(partition->commit, NULL))
        return false;
    tell_role(leader, REPLICA_PHASE_FOLLOWING);
    end_in_flight(leader);
    return true;
}

void sim_leader_take(struct sim_leader *leader)
{
    const struct partition *partition = leader->partition;
    if (!partition->copies.is_closed || partition->thread.is_draining ||
        commit_follow_is_broken(partition->commit))
        return;
    write_probe(leader);
    lead(leader);
}
