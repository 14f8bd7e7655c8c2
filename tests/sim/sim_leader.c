#include "tests/sim/sim_leader.h"

#include "backend/context/partition.h"
#include "backend/format/effects.h"
#include "backend/format/members_row.h"
#include "backend/partition/leadership.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/error.h"
#include "tests/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMIT_MS = 3 };

struct sim_leader {
    struct partition *partition;
    struct sim_leader_kept *kept;
    struct timer *timer; /* writes or commits the record */
    /* not in the log yet; data NULL: none. While it follows: a record of its own that the others have, and its disk has refused */
    struct bytes given;
    uint64_t written;       /* in the log, and home has not heard that it is committed; 0: none */
    uint64_t full_until_us; /* its disk is full */
    bool is_broken;         /* its log has failed */
};

static void forget_given(struct sim_leader *leader)
{
    free((char *)leader->given.data);
    leader->given = (struct bytes){0};
}

/* ---- the log ----------------------------------------------------------------------------------- */

/* The index of the record; 0: the disk has refused it. */
static uint64_t append_record(struct sim_leader *leader, struct bytes record)
{
    struct storage *storage = leader->partition->storage;
    uint64_t index;
    char error[256];
    leader->is_broken = storage_append(storage, record, &index, error, sizeof error) != OK ||
                        storage_sync(storage, error, sizeof error) != OK;
    return leader->is_broken ? 0 : index;
}

/* As replica_log.c does after a failure: what was not synced is void, and the disk must take data. */
static bool renew_log(struct sim_leader *leader)
{
    struct storage *storage = leader->partition->storage;
    char error[256];
    if (!leader->is_broken)
        return true;
    wal_keep_none(storage_wal(storage));
    return storage_truncate(storage, storage_logged(storage), error, sizeof error) == OK &&
           wal_probe(storage_wal(storage), error, sizeof error) == OK;
}

static void plan(struct sim_leader *leader)
{
    timer_start(leader->timer, sim_random(COMMIT_MS), 0);
}

/* commit_log.may_append */
static int may_append(void *owner, char *error, size_t size)
{
    const struct sim_leader *leader = owner;
    (void)snprintf(error, size, "the disk is full");
    return sim_now_us() < leader->full_until_us ? ERR_DISK_FULL : OK;
}

/* commit_log.append */
static int take_record(void *owner, struct bytes record, char *error, size_t size)
{
    struct sim_leader *leader = owner;
    int err = may_append(leader, error, size);
    if (err != OK)
        return err;
    char *copy = malloc(record.len);
    CHECK(copy && !leader->given.data && !leader->written);
    memcpy(copy, record.data, record.len);
    leader->given = (struct bytes){copy, record.len};
    plan(leader);
    return OK;
}

/* commit_log.has_committed */
static bool has_committed(void *owner, uint64_t index, uint64_t term)
{
    const struct sim_leader *leader = owner;
    return term == leader->kept->term && index <= leader->kept->committed;
}

/* ---- roles ------------------------------------------------------------------------------------- */

static void tell_role(struct sim_leader *leader, enum replica_phase phase)
{
    struct partition *partition = leader->partition;
    const struct replica_role role = {.phase = phase,
                                      .term = ++leader->kept->term,
                                      .leader = 1,
                                      .committed = storage_written(partition->storage)};
    leader->kept->follows = phase == REPLICA_PHASE_FOLLOWING;
    leadership_role(partition, &role);
}

/* A leader whose disk refuses a record gives up its role. The others may have the record. */
static void lose_by_disk(struct sim_leader *leader)
{
    if (sim_random(2))
        forget_given(leader);
    tell_role(leader, REPLICA_PHASE_FOLLOWING);
}

static void write_given(struct sim_leader *leader)
{
    leader->written = append_record(leader, leader->given);
    if (leader->written) {
        forget_given(leader);
        plan(leader);
    } else {
        lose_by_disk(leader);
    }
}

/* Home hears of it when no command runs; the record is committed before. */
static void commit_written(struct sim_leader *leader)
{
    uint64_t index = leader->written;
    leader->written = 0;
    leadership_committed(leader->partition, index);
}

static void on_timer(void *owner)
{
    struct sim_leader *leader = owner;
    bool is_busy = leader->partition->running.busy_error;
    if (leader->written)
        leader->kept->committed = leader->written;
    if (is_busy)
        plan(leader);
    else if (leader->given.data)
        write_given(leader);
    else if (leader->written)
        commit_written(leader);
}

/* The first record of a term. False: the disk has refused it. */
static bool write_probe(struct sim_leader *leader)
{
    const struct partition *partition = leader->partition;
    struct effects *effects = effects_new();
    uint64_t index = storage_written(partition->storage) + 1;
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_PROBE});
    effects_set_numbers(effects, index, leader->kept->term + 1, index);
    bool is_written = append_record(leader, effects_bytes(effects)) == index;
    effects_free(effects);
    return is_written;
}

static void lead(struct sim_leader *leader)
{
    const struct commit_log log = {.append = take_record,
                                   .may_append = may_append,
                                   .has_committed = has_committed,
                                   .owner = leader};
    commit_use_log(leader->partition->commit, &log);
    leader->kept->committed = storage_written(leader->partition->storage);
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

/* A record that was not committed may be on this disk alone: a leader that lacks it has cut it. */
static void cut_end(const struct sim_leader *leader)
{
    struct storage *storage = leader->partition->storage;
    uint64_t committed = leader->kept->committed;
    char error[256];
    if (storage_written(storage) > committed && sim_random(2))
        CHECK(storage_truncate(storage, committed, error, sizeof error) == OK);
}

struct sim_leader *sim_leader_new(struct partition *partition, struct sim_leader_kept *kept)
{
    struct sim_leader *leader = calloc(1, sizeof *leader);
    CHECK(leader);
    leader->partition = partition;
    leader->kept = kept;
    leader->timer = timer_new(partition->loop, on_timer, leader);
    if (storage_is_replicated(partition->storage))
        cut_end(leader);
    else
        make_copy(partition->storage);
    leadership_new(partition);
    leadership_use_votes(partition);
    if (kept->follows)
        tell_role(leader, REPLICA_PHASE_FOLLOWING);
    else
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

void sim_leader_fill_disk(struct sim_leader *leader, uint64_t until_us)
{
    leader->full_until_us = until_us;
}

/* What was given to the log may be at the other copies, before it is on this one's disk. */
static void end_in_flight(struct sim_leader *leader)
{
    struct storage *storage = leader->partition->storage;
    char error[256];
    if (leader->given.data && sim_random(2))
        (void)append_record(leader, leader->given);
    else if (leader->written && sim_random(2))
        CHECK(storage_truncate(storage, leader->written - 1, error, sizeof error) == OK);
    leader->written = 0;
    forget_given(leader);
    timer_stop(leader->timer);
}

bool sim_leader_lose(struct sim_leader *leader)
{
    const struct partition *partition = leader->partition;
    if (leader->kept->follows || partition->thread.is_draining || partition->running.busy_error)
        return false;
    if (leader->written && leader->kept->committed >= leader->written)
        commit_written(leader);
    tell_role(leader, REPLICA_PHASE_FOLLOWING);
    end_in_flight(leader);
    return true;
}

/* The others have sent the record again. */
static bool take_heard(struct sim_leader *leader)
{
    if (!leader->given.data)
        return true;
    bool is_taken = append_record(leader, leader->given);
    if (is_taken)
        forget_given(leader);
    return is_taken;
}

bool sim_leader_take(struct sim_leader *leader)
{
    const struct partition *partition = leader->partition;
    if (partition->thread.is_draining || commit_follow_is_broken(partition->commit) ||
        !renew_log(leader) || !take_heard(leader) || !write_probe(leader))
        return false;
    lead(leader);
    return true;
}
