/*
 * replica_restarts.c - a learner whose disk was set back to an older state gets the records that it lost once more.
 *
 *   leader: match of b 90      b: kill, an older disk, start ─► hello: another run, last 40 ─► copy_went_back ─► match 40 ─► record 41
 *
 * A learner's log counts for nothing, so that is all; where copies vote, it sees this itself (replica_known.h). The log of a process that runs
 * does not get shorter, and its hello may be an old one.
 */
#include "backend/replica/replica_inner.h"
#include "shared/log.h"

#include <inttypes.h>

/* True: the copy's process is another one than before. */
static bool note_run(struct replica_runs *runs, const struct replica_hello *hello)
{
    for (unsigned i = 0; i < MEMBERS_MAX; i++) {
        if (runs->of[i].id != hello->id)
            continue;
        bool is_other = runs->of[i].run != hello->run;
        runs->of[i].run = hello->run;
        return is_other;
    }
    runs->of[runs->next++ % MEMBERS_MAX] = (struct replica_run){hello->id, hello->run};
    return false;
}

/* Up to here the learner's log was equal to that of this leader; 0: it is no learner, or this copy does not lead. */
static uint64_t match_of_learner(const struct replica *replica, uint64_t id)
{
    const struct consensus *core = replica_core(replica);
    for (unsigned i = 0; core && core->role >= CONSENSUS_LEADING && i < core->members.count; i++)
        if (core->members.list[i].id == id && core->members.list[i].kind == CONSENSUS_LEARNER)
            return core->progress[i].match;
    return 0;
}

void replica_hear_run(struct replica *replica, const struct replica_hello *hello)
{
    if (replica->options.has_voters || hello->state != REPLICA_STATE_MEMBER ||
        hello->group.group != replica->group.group || !note_run(&replica->net.runs, hello))
        return;
    uint64_t match = match_of_learner(replica, hello->id);
    if (hello->last >= match)
        return;
    log_event(LOG_WARN, "copy_went_back", "address=%.*s last=%" PRIu64 " known_last=%" PRIu64,
              (int)hello->address.len, hello->address.data, hello->last, match);
    replica_step(replica, (struct consensus_event){
                              .kind = CONSENSUS_WENT_BACK, .id = hello->id, .index = hello->last});
}
