#include "backend/partition/leader_return.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/partition/hand_over.h"
#include "backend/replica/replica_figures.h"
#include "shared/log.h"

#include <strings.h>

enum {
    LOOK_MS = 1000,
    WAIT_MAX_MS = 3600 * 1000,
    FORGOTTEN_MS = 2 * WAIT_MAX_MS, /* a return so long ago does not count */
    LEAVE_AGAIN_MS = 30000,         /* clients wait while it is tried, so not all the time */
    LAGS_US = 1000000,              /* a copy that lags for longer is not close */
    DOUBLINGS_MAX = 16,
};

/* ---- when -------------------------------------------------------------------------------------- */

static uint64_t wait_of(const struct leader_return *state, uint64_t wait_ms)
{
    uint64_t doubled_ms = wait_ms << state->times;
    if (wait_ms >= WAIT_MAX_MS)
        return wait_ms;
    return doubled_ms < WAIT_MAX_MS ? doubled_ms : WAIT_MAX_MS;
}

bool leader_return_is_due(struct leader_return *state, bool is_fit, uint64_t now_ms,
                          uint64_t wait_ms)
{
    if (state->returned_ms && now_ms >= state->returned_ms + FORGOTTEN_MS)
        state->times = 0;
    if (!is_fit)
        state->close_ms = 0;
    else if (!state->close_ms)
        state->close_ms = now_ms;
    return is_fit && now_ms >= state->close_ms + wait_of(state, wait_ms);
}

void leader_return_note(struct leader_return *state, uint64_t now_ms)
{
    state->close_ms = 0;
    state->returned_ms = now_ms;
    state->times += state->times < DOUBLINGS_MAX;
}

/* ---- whether ----------------------------------------------------------------------------------- */

/* The member at the first address of the map; NULL: there is none, or it leads. */
static const struct replica_figure *first_copy(const struct replica_figures *figures)
{
    for (unsigned i = 0; i < figures->count && figures->place_count; i++) {
        const struct replica_figure *copy = &figures->of[i];
        if (copy->id != figures->own && strcasecmp(copy->address, figures->places[0].address) == 0)
            return copy;
    }
    return NULL;
}

static bool is_fit(const struct replica_figures *figures, const struct replica_figure *copy)
{
    return copy && !copy->declines && copy->room == REPLICA_ROOM && copy->lag_us < LAGS_US &&
           !hand_over_objection(figures, copy);
}

static const struct replica_figure *copy_at_place(const struct replica_figures *figures,
                                                  const struct replica_place *place)
{
    for (unsigned i = 0; i < figures->count; i++)
        if (strcasecmp(figures->of[i].address, place->address) == 0)
            return &figures->of[i];
    return NULL;
}

static bool is_in_map(const struct replica_figures *figures, uint64_t id)
{
    for (unsigned i = 0; i < figures->place_count; i++) {
        const struct replica_figure *copy = copy_at_place(figures, &figures->places[i]);
        if (copy && copy->id == id)
            return true;
    }
    return false;
}

static bool has_own_figure(const struct replica_figures *figures)
{
    for (unsigned i = 0; i < figures->count; i++)
        if (figures->of[i].id == figures->own)
            return true;
    return false;
}

bool leader_return_is_dropped(const struct replica_figures *figures)
{
    return figures->place_count && figures->map_epoch >= figures->members_epoch &&
           has_own_figure(figures) && !is_in_map(figures, figures->own);
}

static bool is_better_successor(const struct replica_figure *copy,
                                const struct replica_figure *than)
{
    return copy->room != than->room ? copy->room < than->room : copy->declines < than->declines;
}

const struct replica_figure *leader_return_successor(const struct replica_figures *figures)
{
    const struct replica_figure *best = NULL;
    for (unsigned i = 0; i < figures->place_count; i++) {
        const struct replica_figure *copy = copy_at_place(figures, &figures->places[i]);
        if (copy && !hand_over_objection(figures, copy) &&
            (!best || is_better_successor(copy, best)))
            best = copy;
    }
    return best;
}

static void leave_lead(struct partition *partition, struct leader_return *state,
                       const struct replica_figures *figures)
{
    uint64_t now_ms = loop_mono_ms(partition->loop);
    const struct replica_figure *successor = leader_return_successor(figures);
    if (now_ms < state->leave_ms || !successor ||
        hand_over_begin(partition, successor->address) != NULL)
        return;
    state->leave_ms = now_ms + LEAVE_AGAIN_MS;
}

static bool leads_with_voters(const struct partition *partition)
{
    const struct partition_copies *copies = &partition->copies;
    return copies->replica && copies->lease_us && !copies->is_closed && !copies->hand_over &&
           !partition->thread.is_draining;
}

static void give_back(struct partition *partition, struct leader_return *state,
                      const struct replica_figures *figures)
{
    uint64_t now_ms = loop_mono_ms(partition->loop);
    const struct replica_figure *first = first_copy(figures);
    if (!leader_return_is_due(state, is_fit(figures, first), now_ms,
                              partition->snapshot->config.leader_return_ms) ||
        hand_over_begin(partition, first->address) != NULL)
        return;
    leader_return_note(state, now_ms);
    log_event(LOG_INFO, "leadership_returns", "partition=%u to=%s", partition->index,
              first->address);
}

void leader_return_tick(struct partition *partition, struct leader_return *state)
{
    uint64_t wait_ms = partition->snapshot->config.leader_return_ms;
    uint64_t now_ms = loop_mono_ms(partition->loop);
    struct replica_figures figures;
    if (now_ms < state->next_ms)
        return;
    state->next_ms = now_ms + LOOK_MS;
    if (!leads_with_voters(partition)) {
        state->close_ms = 0;
        if (partition->copies.is_closed)
            state->leave_ms = 0;
        return;
    }
    replica_figures(partition->copies.replica, &figures);
    if (leader_return_is_dropped(&figures))
        leave_lead(partition, state, &figures);
    else if (wait_ms)
        give_back(partition, state, &figures);
    else
        state->close_ms = 0;
}
