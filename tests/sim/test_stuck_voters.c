/*
 * test_stuck_voters.c - whatever the disks of a group's copies have become, a copy leads soon and commits, when all links and disks are well.
 *
 *   sim_past.h ─► disks ─► all copies start, or all but a minority ─► one leads, and a record of its term is committed     within BOUND
 *
 * Copies start all at once, or one after the other, so that a late one finds a leader, or so that all stand at once, and their votes are
 * split. Messages, saves and syncs take up to 2 ms, in some worlds up to E / 33; files take up to E / 2. Clocks run at rates up to 19 % apart.
 * A minority may stay down for ever: so few that the others are a majority by each record of the members that is in a log.
 *
 * Some worlds are quiet: no past, logs are equal, as when the leader of a group without writes dies. Then all that are left stand at once,
 * and one must lead much sooner.
 *
 * One kind of state is stuck until a copy that is down comes back (docs/internals/consensus.md, "Known limit"): a learner by its own
 * record has newer records than a voter that needs its vote. With all copies up there is no such state.
 *
 * Controls: a voter without the record of its promotion does not vote; a refusal has no term; votes that were split are not asked for again
 * soon.
 *
 *   test_stuck_voters [--seed N] …      sim_seeds.h; --steps: most steps of a past
 */
#include "backend/consensus/core.h"
#include "backend/consensus/members.h"
#include "shared/check.h"
#include "tests/sim/sim_past.h"
#include "tests/sim/sim_seeds.h"
#include "tests/sim/sim_truth.h"
#include "tests/sized.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    SEEDS = 20000,
    STEPS = 1000,
    E = 500000,
    QUICK_US = 2000,  /* of a message, a save, a sync at most … */
    SLOW_US = E / 33, /* … or so much: a round trip and a save take E / 10 then */
    POSTED_MAX = 400,
    /* After the last start. None of a million worlds took longer, but for the state that is stuck. */
    BOUND_US = 12 * E,
    QUIET_US = E * 3 / 2,
};

struct files {
    bool is_going;
    uint64_t from, term, index, index_term, ends_us;
    struct sim_log log;
};

struct seat {
    struct sim_copy *copy;
    uint64_t offset_us, rate; /* clock: offset + time × rate / 1000 */
    uint64_t served_term, random;
    bool is_away;
    uint64_t start_us, save_us, sync_us, serve_us; /* when it happens; 0: not at all */
    struct files files;
};

struct posted {
    uint64_t at_us;
    struct sim_mail mail;
};

static struct {
    struct sim_truth truth;
    struct sim_copy copies[PAST_COPIES];
    struct seat seats[PAST_COPIES];
    struct posted posted[POSTED_MAX];
    unsigned posted_count;
    uint64_t now_us, begun_us; /* begun: when the last copy starts */
    uint64_t random, hash, goal, most_us, bound_us;
    uint32_t value;
    bool is_one_away, has_led;
} scene;

/* ---- chance, clocks, words --------------------------------------------------------------------- */

/* splitmix64 */
static uint64_t draw(uint64_t below)
{
    uint64_t z = scene.random += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) % below;
}

static uint64_t soon_us(void)
{
    return scene.now_us + 100 + draw(scene.most_us);
}

static uint64_t clock_of(const struct seat *seat)
{
    return seat->offset_us + scene.now_us * seat->rate / 1000;
}

static uint64_t time_of(const struct seat *seat, uint64_t clock_us)
{
    return clock_us <= clock_of(seat) ? scene.now_us
                                      : (clock_us - seat->offset_us) * 1000 / seat->rate + 1;
}

static struct seat *seat_of(uint64_t id)
{
    return id && id <= PAST_COPIES ? &scene.seats[id - 1] : NULL;
}

static void stir(uint64_t value)
{
    scene.hash = (scene.hash ^ value) * 0x100000001b3;
}

static void show_seat(const struct seat *seat)
{
    const struct sim_copy *copy = seat->copy;
    struct consensus_members members = sim_log_members(&copy->written, copy->written.last);
    uint64_t last = copy->written.last;
    printf("%9" PRIu64 " copy %" PRIu64 "%s: term %" PRIu64 " vote %" PRIu64 ", records %" PRIu64
           " … %" PRIu64 " of term %u, filed %" PRIu64 ", members of %" PRIu64 ":",
           scene.now_us, copy->id, seat->is_away ? " (away)" : "", copy->term, copy->vote,
           copy->base + 1, last, last ? copy->written.record[last - 1].term : 0, copy->filed,
           members.index);
    for (unsigned i = 0; i < members.count; i++)
        printf(" %" PRIu64 "%s", members.list[i].id,
               members.list[i].kind == CONSENSUS_VOTER ? "" : "(learner)");
    putchar('\n');
}

static void show_seats(void)
{
    for (unsigned i = 0; sim_options.is_verbose && i < PAST_COPIES; i++)
        show_seat(&scene.seats[i]);
}

/* ---- after each step of a copy ----------------------------------------------------------------- */

static void post_mails(struct seat *seat)
{
    struct sim_mail mail;
    while (sim_copy_take_mail(seat->copy, &mail)) {
        const struct seat *to = seat_of(mail.message.to);
        sim_truth_look_at(&scene.truth, &mail.message);
        if (to && to->copy->is_up && scene.posted_count < POSTED_MAX)
            scene.posted[scene.posted_count++] = (struct posted){soon_us(), mail};
    }
}

static void plan(struct seat *seat)
{
    const struct sim_copy *copy = seat->copy;
    if (copy->save_count && !seat->save_us)
        seat->save_us = soon_us();
    if (copy->sync_count && !seat->sync_us)
        seat->sync_us = soon_us();
    if (copy->update.role == CONSENSUS_SERVING && seat->served_term != copy->core.term &&
        !seat->serve_us)
        seat->serve_us = soon_us();
}

static void look_after(struct seat *seat, const struct consensus *before)
{
    const struct consensus_update *update = &seat->copy->update;
    sim_truth_look(&scene.truth, seat->copy, before);
    stir(update->term << 32 | update->committed << 4 | update->role);
    if (sim_options.is_verbose &&
        (before->role != seat->copy->core.role || before->term != update->term))
        printf("%9" PRIu64 " copy %" PRIu64 " has role %d in term %" PRIu64 "\n", scene.now_us,
               seat->copy->id, (int)update->role, update->term);
    post_mails(seat);
    plan(seat);
}

static void tell(struct seat *seat, struct consensus_event event, uint32_t value)
{
    struct consensus before = seat->copy->core;
    event.now_us = clock_of(seat);
    sim_copy_step(seat->copy, event, value);
    look_after(seat, &before);
}

/* ---- events ------------------------------------------------------------------------------------ */

static void start_seat(struct seat *seat)
{
    const struct consensus none = {0};
    const struct sim_copy_options options = {E, SIM_PARTS_MAX, seat->random++};
    seat->start_us = seat->save_us = seat->sync_us = seat->serve_us = 0;
    seat->served_term = 0;
    seat->files.is_going = false;
    sim_copy_start(seat->copy, &options, clock_of(seat));
    sim_truth_look(&scene.truth, seat->copy, &none);
    plan(seat);
}

static void begin_files(struct seat *seat, const struct consensus_message *message)
{
    const struct seat *from = seat_of(message->from);
    if (seat->files.is_going || !from->copy->is_up || from->copy->core.committed < message->index)
        return;
    seat->files = (struct files){.is_going = true,
                                 .from = message->from,
                                 .term = message->term,
                                 .index = message->index,
                                 .index_term = message->index_term,
                                 .ends_us = scene.now_us + 1 + draw(E / 2),
                                 .log = from->copy->written};
}

/* The leader hears that the copy has the files; or, index 0, that it could not use them. */
static void tell_giver(const struct seat *seat, uint64_t index)
{
    struct seat *from = seat_of(seat->files.from);
    if (from->copy->is_up)
        tell(from,
             (struct consensus_event){
                 .kind = CONSENSUS_SNAPSHOT_SENT, .id = seat->copy->id, .index = index},
             0);
}

static void end_files(struct seat *seat)
{
    struct files *files = &seat->files;
    struct sim_copy *copy = seat->copy;
    uint64_t term = copy->core.term, vote = copy->core.vote;
    files->is_going = false;
    if (!consensus_may_install(&copy->core, files->term, files->index, files->index_term)) {
        tell_giver(seat, 0);
        return;
    }
    sim_copy_stop(copy, 0, true);
    sim_copy_install(copy, &files->log, files->index, term, vote);
    start_seat(seat);
    tell_giver(seat, files->index);
}

static void deliver_posted(unsigned at)
{
    struct sim_mail mail = scene.posted[at].mail;
    scene.posted[at] = scene.posted[--scene.posted_count];
    struct seat *seat = seat_of(mail.message.to);
    if (!seat->copy->is_up)
        return;
    struct consensus before = seat->copy->core;
    sim_copy_hear(seat->copy, &mail, clock_of(seat));
    look_after(seat, &before);
    if (mail.message.kind == CONSENSUS_SNAPSHOT)
        begin_files(seat, &mail.message);
}

static void end_save_or_sync(struct seat *seat, bool is_save)
{
    struct consensus before = seat->copy->core;
    if (is_save) {
        seat->save_us = 0;
        sim_copy_save(seat->copy, clock_of(seat));
    } else {
        seat->sync_us = 0;
        sim_copy_sync(seat->copy, clock_of(seat));
    }
    look_after(seat, &before);
}

/* Serves, and appends the record for which the world waits. */
static void serve_term(struct seat *seat)
{
    seat->serve_us = 0;
    if (seat->copy->update.role != CONSENSUS_SERVING)
        return;
    uint64_t term = seat->served_term = seat->copy->core.term;
    tell(seat, (struct consensus_event){.kind = CONSENSUS_SERVES, .term = term}, 0);
    tell(seat, (struct consensus_event){.kind = CONSENSUS_APPENDED, .term = term}, ++scene.value);
    if (!seat->copy->update.is_refused)
        scene.goal = seat->copy->written.last;
}

static bool has_committed(const struct seat *seat)
{
    return seat->copy->is_up && scene.goal && seat->served_term &&
           seat->copy->update.role == CONSENSUS_SERVING &&
           seat->served_term == seat->copy->core.term && seat->copy->core.committed >= scene.goal;
}

static bool is_done(void)
{
    for (unsigned i = 0; i < PAST_COPIES; i++)
        if (has_committed(&scene.seats[i]))
            return true;
    return false;
}

/* ---- time -------------------------------------------------------------------------------------- */

enum happening { IS_POSTED, IS_START, IS_SAVE, IS_SYNC, IS_SERVE, IS_FILES, IS_TICK };

struct next {
    uint64_t at_us;
    enum happening what;
    unsigned which;
};

static void earlier(struct next *next, uint64_t at_us, enum happening what, unsigned which)
{
    if (at_us && at_us < next->at_us)
        *next = (struct next){at_us, what, which};
}

static void next_of_seat(struct next *next, const struct seat *seat, unsigned i)
{
    earlier(next, seat->start_us, IS_START, i);
    if (!seat->copy->is_up)
        return;
    earlier(next, seat->save_us, IS_SAVE, i);
    earlier(next, seat->sync_us, IS_SYNC, i);
    earlier(next, seat->serve_us, IS_SERVE, i);
    earlier(next, seat->files.is_going ? seat->files.ends_us : 0, IS_FILES, i);
    earlier(next, time_of(seat, consensus_next_us(&seat->copy->core)), IS_TICK, i);
}

static struct next find_next(void)
{
    struct next next = {UINT64_MAX, IS_TICK, 0};
    for (unsigned i = 0; i < scene.posted_count; i++)
        earlier(&next, scene.posted[i].at_us, IS_POSTED, i);
    for (unsigned i = 0; i < PAST_COPIES; i++)
        next_of_seat(&next, &scene.seats[i], i);
    return next;
}

static void happen(const struct next *next)
{
    struct seat *seat = &scene.seats[next->what == IS_POSTED ? 0 : next->which];
    switch (next->what) {
    case IS_POSTED:
        deliver_posted(next->which);
        break;
    case IS_START:
        start_seat(seat);
        break;
    case IS_SAVE:
    case IS_SYNC:
        end_save_or_sync(seat, next->what == IS_SAVE);
        break;
    case IS_SERVE:
        serve_term(seat);
        break;
    case IS_FILES:
        end_files(seat);
        break;
    case IS_TICK:
        tell(seat, (struct consensus_event){.kind = CONSENSUS_TICK}, 0);
        break;
    }
}

/* ---- a world ----------------------------------------------------------------------------------- */

/* Are the copies that are not away a majority by each record of the members that is in force at some copy? */
static bool are_most_here(void)
{
    for (unsigned i = 0; i < PAST_COPIES; i++) {
        const struct sim_log *log = &scene.copies[i].written;
        struct consensus_members members = sim_log_members(log, log->last);
        uint64_t here[CONSENSUS_MEMBERS_MAX] = {0};
        for (unsigned at = 0; at < members.count; at++)
            here[at] = !seat_of(members.list[at].id)->is_away;
        if (members.count && !members_majority(&members, here))
            return false;
    }
    return true;
}

static void send_some_away(void)
{
    for (unsigned tries = 0; tries < 3; tries++) {
        struct seat *seat = &scene.seats[draw(PAST_COPIES)];
        bool was_away = seat->is_away;
        seat->is_away = true;
        if (!are_most_here())
            seat->is_away = was_away;
        scene.is_one_away |= seat->is_away;
    }
}

static bool is_newer(const struct sim_log *log, const struct sim_log *than)
{
    uint32_t term = log->last ? log->record[log->last - 1].term : 0;
    uint32_t other = than->last ? than->record[than->last - 1].term : 0;
    return term > other || (term == other && log->last > than->last);
}

/* May this group have no leader while one copy is away ("Known limit" in docs/internals/consensus.md)? So it is if a voter needs the vote of a
 * copy that has newer records, and that does not stand itself, because by its own record it is a learner. */
static bool may_be_stuck(void)
{
    for (unsigned i = 0; scene.is_one_away && i < PAST_COPIES; i++) {
        const struct sim_log *log = &scene.copies[i].written;
        struct consensus_members members = sim_log_members(log, log->last);
        for (unsigned at = 0; at < members.count; at++) {
            const struct sim_copy *other = seat_of(members.list[at].id)->copy;
            struct consensus_members theirs = sim_log_members(&other->written, other->written.last);
            if (members.list[at].kind == CONSENSUS_VOTER &&
                !members_has_voter(&theirs, other->id) && is_newer(&other->written, log))
                return true;
        }
    }
    return false;
}

/* After its start the copy waits so long before it stands. */
static uint64_t first_patience_us(const struct seat *seat)
{
    static struct sim_copy trial;
    const struct sim_copy_options options = {E, SIM_PARTS_MAX, seat->random};
    trial = *seat->copy;
    sim_copy_start(&trial, &options, clock_of(seat));
    return time_of(seat, trial.core.deadline_us) - scene.now_us;
}

/* So that all copies stand at once; the network is quick. */
static void plan_split_votes(void)
{
    scene.most_us = QUICK_US;
    scene.begun_us = 3 * E;
    for (unsigned i = 0; i < PAST_COPIES; i++) {
        struct seat *seat = &scene.seats[i];
        seat->start_us = seat->is_away ? 0 : scene.begun_us + draw(100) - first_patience_us(seat);
    }
}

/* All at once, or one after the other. */
static void plan_starts(uint64_t apart_us)
{
    scene.most_us = draw(2) ? QUICK_US : SLOW_US;
    for (unsigned i = 0; i < PAST_COPIES; i++) {
        struct seat *seat = &scene.seats[i];
        seat->start_us = seat->is_away ? 0 : 1 + draw(apart_us);
        scene.begun_us = seat->start_us > scene.begun_us ? seat->start_us : scene.begun_us;
    }
}

static void begin_scene(uint64_t seed)
{
    memset(&scene, 0, sizeof scene);
    sim_members_reset();
    scene.random =
        seed *
        0xbf58476d1ce4e5b9; /* another multiple than that of draw(), whose numbers would only be shifted */
    scene.now_us = 1;
    bool is_quiet = draw(8) == 0;
    sim_past_make(scene.copies, is_quiet ? 0 : (unsigned)draw(sim_options.steps + 1), draw);
    for (unsigned i = 0; i < PAST_COPIES; i++)
        scene.seats[i] = (struct seat){.copy = &scene.copies[i],
                                       .offset_us = 1 + draw(100 * E),
                                       .rate = 1000 + draw(190),
                                       .random = draw(UINT64_MAX)};
    if (is_quiet || draw(2))
        send_some_away();
    show_seats();
    if (is_quiet || draw(4) == 0)
        plan_split_votes();
    else
        plan_starts(draw(2) ? QUICK_US : 3 * E);
    scene.bound_us = is_quiet ? QUIET_US : BOUND_US;
}

static void run_scene(void)
{
    uint64_t end_us = scene.begun_us + scene.bound_us;
    while (!scene.truth.why[0] && !is_done()) {
        struct next next = find_next();
        if (next.at_us > end_us) {
            show_seats();
            if (!may_be_stuck())
                sim_truth_fail(&scene.truth, "no copy leads and commits in %" PRIu64 " ms",
                               scene.bound_us / 1000);
            return;
        }
        scene.now_us = next.at_us > scene.now_us ? next.at_us : scene.now_us;
        stir(scene.now_us << 3 | next.what);
        happen(&next);
    }
}

/* sim_simulation.run */
static void run_seed_of_states(struct sim_result *result)
{
    begin_scene(result->seed);
    run_scene();
    result->hash = scene.hash;
    result->has_passed = !scene.truth.why[0];
    (void)snprintf(result->why, sizeof result->why, "%s", scene.truth.why);
}

int main(int argc, char **argv)
{
    const struct sim_simulation simulation = {.run = run_seed_of_states,
                                              .seeds = sized(SEEDS),
                                              .steps = STEPS,
                                              .first_break = BREAK_PROMOTED_SILENT,
                                              .end_break = BREAK_STUCK_END,
                                              .break_seed = 1};
    return sim_seeds_main(argc, argv, &simulation);
}
