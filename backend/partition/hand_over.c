#include "backend/partition/hand_over.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/dispatch/blocking.h"
#include "backend/partition/stopping.h"
#include "backend/replica/replica_figures.h"
#include "backend/session/pause.h"
#include "backend/transaction/participant.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum {
    DRAIN_MS = 1000,                      /* a command that takes longer may fail */
    GIVE_MS = REPLICA_HAND_OVER_MS + 100, /* the replica has given up before */
    ROOM_AGAIN_MS = 30000,                /* clients wait while it is tried, so not all the time */
    BEHIND_RECORDS = 1000, /* a copy that lacks more than these would make clients wait */
};

enum step { DRAINS, GIVES, GIVEN };

struct hand_over {
    enum step step;
    uint64_t until_ms;    /* of the step; monotonic */
    uint64_t last_client; /* those that come later have heard that this copy does not lead */
    bool is_asked;        /* the replica was */
    char address[REPLICA_ADDRESS_MAX + 1];
};

static void go_to(struct partition *partition, enum step step, uint64_t ms)
{
    struct hand_over *hand_over = partition->copies.hand_over;
    hand_over->step = step;
    hand_over->until_ms = loop_mono_ms(partition->loop) + ms;
}

void hand_over_free(struct partition *partition)
{
    free(partition->copies.hand_over);
    partition->copies.hand_over = NULL;
    partition->copies.is_leaving = partition->copies.is_held = false;
}

/* ---- to which copy ----------------------------------------------------------------------------- */

const char *hand_over_objection(const struct replica_figures *figures,
                                const struct replica_figure *copy)
{
    if (copy->id == figures->own)
        return "this copy leads already";
    if (!copy->is_voter)
        return "the copy at this address does not vote";
    if (!copy->is_up)
        return "the copy at this address is not connected";
    if (copy->applied + BEHIND_RECORDS < figures->committed ||
        copy->match + BEHIND_RECORDS < figures->committed)
        return "the copy at this address lacks too many records: try again when it has them";
    return NULL;
}

static bool is_better_copy(const struct replica_figure *copy, const struct replica_figure *than)
{
    return copy->room != than->room ? copy->room < than->room : copy->applied > than->applied;
}

static const struct replica_figure *best_copy(const struct replica_figures *figures)
{
    const struct replica_figure *best = NULL;
    for (unsigned i = 0; i < figures->count; i++) {
        const struct replica_figure *copy = &figures->of[i];
        if (!hand_over_objection(figures, copy) && (!best || is_better_copy(copy, best)))
            best = copy;
    }
    return best;
}

static const struct replica_figure *copy_at(const struct replica_figures *figures,
                                            const char *address)
{
    for (unsigned i = 0; i < figures->count; i++)
        if (strcasecmp(figures->of[i].address, address) == 0)
            return &figures->of[i];
    return NULL;
}

/* Writes the address of the copy that is to lead. NULL, or why there is none. */
static const char *choose_copy(struct partition *partition, const char *address, char *to,
                               size_t size)
{
    struct replica_figures figures;
    replica_figures(partition->copies.replica, &figures);
    const struct replica_figure *copy = *address ? copy_at(&figures, address) : best_copy(&figures);
    if (!copy)
        return *address ? "the shard has no copy at this address" : "no other copy may lead now";
    (void)snprintf(to, size, "%s", copy->address);
    return hand_over_objection(&figures, copy);
}

/* ---- steps ------------------------------------------------------------------------------------- */

const char *hand_over_begin(struct partition *partition, const char *address)
{
    struct partition_copies *copies = &partition->copies;
    char to[REPLICA_ADDRESS_MAX + 1];
    if (!copies->replica)
        return "the shard has one copy";
    if (copies->is_closed)
        return "this copy does not lead its shard";
    if (!copies->lease_us)
        return "the copies of the shard do not vote";
    if (copies->hand_over)
        return "leadership is being handed over already";
    const char *refusal = choose_copy(partition, address, to, sizeof to);
    if (refusal)
        return refusal;
    copies->hand_over = calloc(1, sizeof *copies->hand_over);
    CHECK(copies->hand_over);
    copies->hand_over->last_client = partition->clients.last_id;
    (void)snprintf(copies->hand_over->address, sizeof copies->hand_over->address, "%s", to);
    copies->is_leaving = true;
    go_to(partition, DRAINS, DRAIN_MS);
    log_event(LOG_INFO, "hand_over_begun", "partition=%u to=%s", partition->index, to);
    return NULL;
}

void hand_over_for_room(struct partition *partition)
{
    struct partition_copies *copies = &partition->copies;
    uint64_t now_ms = loop_mono_ms(partition->loop);
    if (now_ms < copies->room_ms || hand_over_begin(partition, "") != NULL)
        return;
    copies->room_ms = now_ms + ROOM_AGAIN_MS;
    replica_decline(copies->replica, true);
    log_event(LOG_WARN, "leadership_has_no_room", "partition=%u", partition->index);
}

/* A partition that stops looks also at its listeners' last clients, and at the other partitions of the process. */
static bool has_ended_all(struct partition *partition)
{
    char why[256];
    if (partition->thread.is_draining)
        return stopping_is_drained(partition);
    return stopping_drain(partition, partition->copies.hand_over->last_client) &&
           participant_is_quiet(partition->shards.participant, why, sizeof why);
}

static void give_up(struct partition *partition)
{
    log_event(LOG_WARN, "hand_over_failed", "partition=%u to=%s", partition->index,
              partition->copies.hand_over->address);
    hand_over_free(partition);
    partition_resume(partition);
    blocking_resume(partition->watchers.blocking);
}

/* A batch that has only effects of transactions which are decided would stay open: nothing runs any more that closes it. */
static bool has_committed_all(struct partition *partition)
{
    overlay_await_secured(partition->overlay);
    (void)commit_turn_end(partition->commit);
    return commit_is_idle(partition->commit);
}

/* The batch in flight and the open one are committed before: else what they acknowledge later would be in doubt. */
static void give_role(struct partition *partition, bool is_late)
{
    struct hand_over *hand_over = partition->copies.hand_over;
    if (is_late)
        give_up(partition);
    else if (!hand_over->is_asked && has_committed_all(partition)) {
        hand_over->is_asked = true;
        replica_hand_over(partition->copies.replica, hand_over->address);
    }
}

void hand_over_turn_end(struct partition *partition)
{
    struct partition_copies *copies = &partition->copies;
    if (!copies->hand_over)
        return;
    bool is_late = loop_mono_ms(partition->loop) >= copies->hand_over->until_ms;
    switch (copies->hand_over->step) {
    case DRAINS:
        if (!is_late && !has_ended_all(partition))
            return;
        copies->is_held = true;
        go_to(partition, GIVES, GIVE_MS);
        give_role(partition, false);
        return;
    case GIVES:
        give_role(partition, is_late);
        return;
    case GIVEN:
        if (is_late || *copies->leader)
            hand_over_free(partition);
        return;
    }
}

void hand_over_role_lost(struct partition *partition)
{
    struct partition_copies *copies = &partition->copies;
    if (!copies->hand_over)
        return;
    copies->is_leaving = copies->is_held = false;
    go_to(partition, GIVEN, partition->snapshot->config.election_timeout_ms);
}
