/*
 * replica_stall.c - a copy that stands still does not lead: its disk takes nothing, or its partition's thread does nothing. One that is
 * behind, because it has many records to apply, leads only if no other copy does.
 *
 *   each tick:  one job of the log has run for 3 s and for 4 E           ─┬─ it leads, and most voters have its whole log without it ─► RESIGN
 *               home has done nothing for 100 of these ticks, 10 s       ─┴─ it does not lead ─► it does not stand
 *               it has more than 1000 records to apply                   ──── it stands E later, and no leader hands over to it
 *
 * Heartbeats and the lease wait for neither, so nothing else would end such a leadership. If the others cannot commit without this copy, it
 * goes on, because reads do.
 *
 * A long command is no hang, since its thread uses the CPU. Ticks are counted, and not time: of a process that was stopped as a whole, no thread
 * stands still.
 */
#include "backend/replica/replica_inner.h"
#include "shared/clock.h"
#include "shared/log.h"

#include <inttypes.h>

enum {
    DISK_HANGS_US = 3000000,
    DISK_HANGS_E = 4, /* as many times E */
    HOME_HANGS_TICKS = 100,
};

static const uint64_t DECLINES_US = UINT64_C(3600) * 1000000;

/* A voter that was not heard for E may be gone. */
static bool could_lead(const struct consensus *core, unsigned at, uint64_t now_us)
{
    return core->members.list[at].id != core->id && core->progress[at].match == core->last &&
           core->progress[at].heard_us + core->election_us > now_us;
}

/* Most voters, without this copy, have its whole log on disks that have taken the newest record: they can elect one of them, which commits. */
static bool can_others_lead(const struct consensus *core)
{
    unsigned voters = 0, whole = 0;
    uint64_t now_us = clock_boot_us();
    for (unsigned i = 0; i < core->members.count; i++) {
        bool is_voter = core->members.list[i].kind == CONSENSUS_VOTER;
        voters += is_voter;
        whole += is_voter && could_lead(core, i, now_us);
    }
    return 2 * whole > voters;
}

static void look_at_home(struct replica *replica)
{
    struct replica_stall *stall = &replica->voting.stall;
    const struct replica_options *options = &replica->options;
    uint64_t progress = options->home_progress ? options->home_progress(options->home_owner) : 0;
    stall->ticks = progress && progress == stall->progress ? stall->ticks + 1 : 0;
    stall->progress = progress;
}

static const char *find_hang(const struct replica *replica)
{
    uint64_t limit_us = DISK_HANGS_E * replica->options.election_us;
    if (limit_us < DISK_HANGS_US)
        limit_us = DISK_HANGS_US;
    if (replica_log_running_us(replica->disk.log) > limit_us)
        return "its disk takes nothing";
    return replica->voting.stall.ticks > HOME_HANGS_TICKS ? "its partition does nothing" : NULL;
}

bool replica_stands_still(const struct replica *replica)
{
    return find_hang(replica) != NULL;
}

void replica_stall_tick(struct replica *replica)
{
    look_at_home(replica);
    const char *why = find_hang(replica);
    if (!why || !replica->has_core || replica->core.role < CONSENSUS_LEADING ||
        !can_others_lead(&replica->core))
        return;
    log_event(LOG_ERROR, "leadership_resigned", "partition=%u term=%" PRIu64 " reason=\"%s\"",
              replica->options.thread, replica->core.term, why);
    replica_decline(replica, true);
    replica_step(replica, (struct consensus_event){.kind = CONSENSUS_RESIGN});
}

/* ---- leadership that is not wanted back -------------------------------------------------------- */

void replica_decline(struct replica *replica, bool is_declining)
{
    atomic_store(&replica->shown.declines_us, is_declining ? clock_boot_us() + DECLINES_US : 0);
}

void replica_declines_tick(struct replica *replica)
{
    bool is_declining = clock_boot_us() < atomic_load(&replica->shown.declines_us);
    replica_report(replica, CONSENSUS_DECLINES, is_declining);
}

void replica_behind_tick(struct replica *replica)
{
    const struct consensus *core = &replica->core;
    if (!replica->has_core)
        return;
    bool is_behind =
        core->committed > atomic_load(&replica->shown.applied) + REPLICA_BEHIND_RECORDS;
    replica_report(replica, CONSENSUS_BEHIND, is_behind);
}
