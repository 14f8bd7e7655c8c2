#include "tests/sim/sim_leader.h"

#include "backend/context/partition.h"
#include "backend/format/effects.h"
#include "backend/partition/leadership.h"
#include "shared/check.h"
#include "shared/error.h"

static void tell_role(struct partition *partition, enum replica_phase phase)
{
    const struct replica_role role = {.phase = phase,
                                      .term = partition->copies.term + 1,
                                      .leader = 1,
                                      .committed = storage_written(partition->storage)};
    leadership_role(partition, &role);
}

/* The first record of a term. */
static void write_probe(struct partition *partition)
{
    struct storage *storage = partition->storage;
    struct effects *effects = effects_new();
    uint64_t index, last = storage_written(storage);
    char error[256];
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_PROBE});
    effects_set_numbers(effects, last + 1, partition->copies.term + 1, last + 1);
    CHECK(storage_append(storage, effects_bytes(effects), &index, error, sizeof error) == OK);
    CHECK(storage_sync(storage, error, sizeof error) == OK);
    effects_free(effects);
}

void sim_leader_begin(struct partition *partition)
{
    leadership_new(partition);
    leadership_use_votes(partition);
    tell_role(partition, REPLICA_PHASE_SERVING);
}

bool sim_leader_lose(struct partition *partition)
{
    if (partition->copies.is_closed || partition->thread.is_draining ||
        partition->running.busy_error || commit_is_failed(partition->commit, NULL) ||
        commit_is_writing(partition->commit))
        return false;
    tell_role(partition, REPLICA_PHASE_FOLLOWING);
    return true;
}

void sim_leader_take(struct partition *partition)
{
    if (!partition->copies.is_closed || partition->thread.is_draining ||
        commit_follow_is_broken(partition->commit))
        return;
    write_probe(partition);
    tell_role(partition, REPLICA_PHASE_SERVING);
}
