#include "backend/replica/replica_figures.h"

#include "backend/replica/replica_inner.h"
#include "shared/clock.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    HEARD_US = 2000000, /* a copy that was heard so long ago is there */
    DRIFT = 1000,       /* clocks of two machines differ in rate by less than one part of so many */
};

void replica_figures(struct replica *replica, struct replica_figures *to)
{
    pthread_mutex_lock(&replica->shown.figures_lock);
    *to = replica->shown.figures;
    pthread_mutex_unlock(&replica->shown.figures_lock);
}

uint64_t replica_lag_note(struct replica_lag *lag, uint64_t applied, uint64_t committed,
                          uint64_t now_us)
{
    if (applied >= lag->index)
        *lag = (struct replica_lag){.index = committed, .since_us = now_us};
    return applied >= committed ? 0 : now_us - lag->since_us;
}

uint64_t replica_delay_note(struct replica_delay *delay, uint64_t term, uint64_t sent_us,
                            uint64_t now_us)
{
    uint64_t took_us = now_us - sent_us;
    bool is_later = term == delay->term && sent_us > delay->sent_us;
    uint64_t least_us = delay->least_us + (is_later ? (sent_us - delay->sent_us) / DRIFT : 0);
    if (term != delay->term || (int64_t)(took_us - least_us) < 0)
        least_us = took_us;
    *delay = (struct replica_delay){
        .term = term,
        .sent_us = term != delay->term || is_later ? sent_us : delay->sent_us,
        .least_us = least_us,
    };
    return sent_us + least_us;
}

uint64_t replica_age_note(struct replica_age *age, const struct replica_figures *figures,
                          uint64_t applied, uint64_t now_us)
{
    const struct replica_figure *leader = replica_leader_heard(figures);
    bool is_new = leader && leader->id != age->leader;
    bool has_index = applied >= age->index && !is_new;
    if (has_index && age->said_us > age->fresh_us)
        age->fresh_us = age->said_us;
    if (leader && (is_new || has_index))
        *age = (struct replica_age){leader->id, leader->applied, leader->said_us, age->fresh_us};
    if (leader && applied >= leader->applied && leader->said_us > age->fresh_us)
        age->fresh_us = leader->said_us;
    return !age->fresh_us ? UINT64_MAX : now_us > age->fresh_us ? now_us - age->fresh_us : 0;
}

/* Is it connected, or was it heard a moment ago? */
static bool is_copy_there(const struct replica_figure *copy, uint64_t now_us)
{
    return copy->is_up || (copy->heard_us && now_us < copy->heard_us + HEARD_US);
}

bool replica_is_led(const struct replica_figures *figures, uint64_t now_us)
{
    unsigned voters = 0, there = 0;
    bool has_other = false;
    for (unsigned i = 0; i < figures->count; i++) {
        const struct replica_figure *copy = &figures->of[i];
        bool is_other = copy->id != figures->own && is_copy_there(copy, now_us);
        if (is_other && copy->id == figures->leader)
            return true;
        has_other |= is_other && copy->is_voter;
        voters += copy->is_voter;
        there += copy->is_voter && (is_other || copy->id == figures->own);
    }
    return has_other && 2 * there > voters;
}

const struct replica_figure *replica_leader_heard(const struct replica_figures *figures)
{
    for (unsigned i = 0; i < figures->count; i++) {
        const struct replica_figure *copy = &figures->of[i];
        if (copy->id == figures->leader && copy->id != figures->own && copy->heard_us)
            return copy;
    }
    return NULL;
}

/* The figure of the member before, with what the copy said last. */
static struct replica_figure figure_before(const struct replica_figures *before, uint64_t id)
{
    for (unsigned i = 0; i < before->count; i++)
        if (before->of[i].id == id)
            return before->of[i];
    return (struct replica_figure){.id = id};
}

/* What a leader hears of the member besides its log. */
static void note_state(const struct consensus *core, struct replica_figure *figure)
{
    figure->room = REPLICA_ROOM;
    figure->declines = false;
    for (unsigned i = 0; core && i < core->members.count; i++) {
        if (core->members.list[i].id != figure->id)
            continue;
        figure->room = replica_room_at(core, i);
        figure->declines = core->progress[i].state & CONSENSUS_DECLINES;
    }
}

static uint64_t member_match(const struct consensus *core, uint64_t id)
{
    if (!core || core->role < CONSENSUS_LEADING)
        return 0;
    for (unsigned i = 0; i < core->members.count; i++)
        if (core->members.list[i].id == id)
            return id == core->id ? core->synced : core->progress[i].match;
    return 0;
}

static struct replica_figure member_figure(const struct replica *replica,
                                           const struct member *member)
{
    struct replica_figure figure = figure_before(&replica->shown.figures, member->id);
    const struct consensus *core = replica_core(replica);
    bool is_own = member->id == replica->record.id;
    figure.is_voter = member->kind == MEMBER_VOTER;
    figure.is_up = is_own || replica_links_to(replica->net.links, member->id);
    figure.match = member_match(core, member->id);
    note_state(core, &figure);
    figure.is_log_unreadable =
        replica->net.peers && replica_peers_has_failed(replica->net.peers, member->id);
    if (is_own) {
        figure.applied = atomic_load(&replica->shown.applied);
        figure.heard_us = clock_boot_us();
    }
    figure.lag_us =
        replica_lag_note(&figure.lag, figure.applied, core ? core->committed : 0, clock_boot_us());
    memset(figure.address, 0, sizeof figure.address);
    memcpy(figure.address, member->address.data, member->address.len);
    return figure;
}

static struct replica_place heard_place(const struct replica *replica, const char *address)
{
    const struct replica_hello *said = replica_links_hello(replica->net.links, address);
    struct replica_place place = {.is_own = strcasecmp(address, replica->map.address) == 0,
                                  .is_heard = replica_links_is_heard(replica->net.links, address)};
    (void)snprintf(place.address, sizeof place.address, "%s", address);
    if (said) {
        place.state = said->state;
        place.group = said->group;
        place.id = said->id;
        place.map_epoch = said->map_epoch;
        place.has_lost = said->flags & REPLICA_FLAG_HAS_LOST;
    }
    return place;
}

static void tell_acknowledged(struct replica *replica)
{
    if (atomic_load_explicit(&replica->shown.is_awaited, memory_order_relaxed) &&
        atomic_exchange(&replica->shown.is_awaited, false))
        replica_note_acknowledged(&replica->notes);
}

void replica_note_figures(struct replica *replica)
{
    const struct consensus *core = replica_core(replica);
    const struct members *named = &replica->membership.now.named;
    struct replica_figures figures = {.phase = replica->phase,
                                      .own = replica->record.id,
                                      .term = core ? core->term : replica->record.term,
                                      .leader = core ? core->leader : 0,
                                      .last = core ? core->last : replica->start.found.last,
                                      .committed = core ? core->committed : 0,
                                      .map_epoch = replica->map.epoch,
                                      .members_epoch = named->epoch,
                                      .count = named->count,
                                      .place_count = replica->map.count};
    for (unsigned i = 0; i < named->count; i++)
        figures.of[i] = member_figure(replica, &named->list[i]);
    for (unsigned i = 0; i < replica->map.count; i++)
        figures.places[i] = heard_place(replica, replica->map.addresses[i]);
    pthread_mutex_lock(&replica->shown.figures_lock);
    replica->shown.figures = figures;
    pthread_mutex_unlock(&replica->shown.figures_lock);
    tell_acknowledged(replica);
}

/* Only of the present term: what was acknowledged in an earlier one may have been cut since. True: it is more. */
static bool note_match(const struct replica *replica, struct replica_figure *figure)
{
    const struct consensus *core = replica_core(replica);
    uint64_t before = figure->match;
    if (core && core->term == replica->shown.figures.term)
        figure->match = member_match(core, figure->id);
    return figure->match > before;
}

static bool note_said(struct replica *replica, struct replica_figure *figure,
                      const struct replica_heard *heard)
{
    const struct consensus_message *message = heard->message;
    pthread_mutex_lock(&replica->shown.figures_lock);
    figure->applied = heard->applied;
    figure->heard_us = clock_boot_us();
    if (message->kind == CONSENSUS_APPEND)
        figure->said_us =
            replica_delay_note(&figure->delay, message->term, message->sent_us, figure->heard_us);
    bool is_more = note_match(replica, figure);
    pthread_mutex_unlock(&replica->shown.figures_lock);
    return is_more;
}

void replica_note_heard(struct replica *replica, const struct replica_heard *heard)
{
    struct replica_figures *figures = &replica->shown.figures;
    for (unsigned i = 0; i < figures->count; i++)
        if (figures->of[i].id == heard->message->from && note_said(replica, &figures->of[i], heard))
            tell_acknowledged(replica);
}

void replica_await_acknowledged(struct replica *replica)
{
    atomic_store(&replica->shown.is_awaited, true);
}

unsigned replica_acknowledged(struct replica *replica, uint64_t term, uint64_t index)
{
    const struct replica_figures *figures = &replica->shown.figures;
    unsigned count = 0;
    pthread_mutex_lock(&replica->shown.figures_lock);
    for (unsigned i = 0; i < figures->count && figures->term == term; i++)
        count += figures->of[i].id != figures->own && figures->of[i].match >= index;
    pthread_mutex_unlock(&replica->shown.figures_lock);
    return count;
}
