/*
 * test_consensus.c - groups of copies agree on a log while messages are lost, doubled, delayed and reordered, links are cut one way,
 * processes end at every save and sync, disks lose what is not synced, clocks run at different rates, members change, logs are
 * trimmed and snapshots are installed; in some worlds the copies have different election timeouts. What must hold is in
 * sim_truth.h; at the end the network heals, a minority stays down, and the others must agree and go on.
 */
#include "backend/consensus/members.h"
#include "shared/check.h"
#include "tests/sim/sim_seeds.h"
#include "tests/sim/sim_truth.h"
#include "tests/sized.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    SEEDS = 400,
    STEPS = 500, /* of chaos */
    E = 500000,
    PLACES = 6,
    MAILS_MAX = 400,
    WISHES_MAX = 200,
    HEAL_US = 60 * E,
    LOG_SPARE = 40, /* chaos ends when a log has so few records left */
};

struct receipt {
    bool is_going;
    uint64_t from, term, index, index_term, ends_us;
    struct sim_log log;
};

struct place {
    struct sim_copy copy;
    uint64_t offset_us, rate; /* clock: offset + time × rate / 1000 */
    uint64_t election_us;     /* its E */
    uint64_t lease_us;        /* by its clock */
    uint64_t served_term;     /* the owner of its data serves in this term */
    uint64_t epoch;           /* of its map */
    bool is_lost;             /* its id is, with its disk; a new one comes to another place */
    bool stays_down;
    uint64_t silent_us; /* by its clock: it grants nothing before, unless the vote is marked */
    uint64_t save_us, sync_us, serve_us, start_us; /* when it happens; 0: not at all */
    struct receipt receipt;
    struct sim_copy old; /* its disk at some time before */
};

struct mail {
    uint64_t at_us;
    struct sim_mail mail;
};

static struct {
    struct sim_truth truth;
    struct place places[PLACES];
    struct mail mails[MAILS_MAX];
    unsigned mail_count;
    bool is_cut[PLACES][PLACES];
    uint64_t link_us[PLACES][PLACES]; /* a link is slow, one way */
    uint64_t now_us, chaos_us;
    uint64_t random, hash, next_id, epoch;
    uint32_t value;
    unsigned loss_ppm, double_ppm, crash_ppm, late_ppm;
    uint64_t slow_us, disk_us, pace_us;
    bool is_healing;
    bool is_mixed;                               /* E of the copies differs */
    struct consensus_members wishes[WISHES_MAX]; /* of map epoch 1 … */
} world;

/* ---- chance ------------------------------------------------------------------------------------ */

static uint64_t chance(uint64_t below)
{
    uint64_t z = world.random += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) % below;
}

static bool happens(unsigned ppm)
{
    return chance(1000000) < ppm;
}

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    va_list arguments;
    if (!sim_options.is_verbose)
        return;
    printf("%9" PRIu64 " ", world.now_us);
    va_start(arguments, format);
    (void)vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

static void mix(uint64_t value)
{
    world.hash = (world.hash ^ value) * 0x100000001b3;
}

/* ---- places ------------------------------------------------------------------------------------ */

static uint64_t local_us(const struct place *place)
{
    return place->offset_us + world.now_us * place->rate / 1000;
}

static uint64_t real_us(const struct place *place, uint64_t local)
{
    return local <= local_us(place) ? world.now_us
                                    : (local - place->offset_us) * 1000 / place->rate + 1;
}

static struct place *place_of(uint64_t id)
{
    for (unsigned i = 0; i < PLACES; i++)
        if (world.places[i].copy.id == id)
            return &world.places[i];
    return NULL;
}

static unsigned number_of_place(const struct place *place)
{
    return (unsigned)(place - world.places);
}

/* A random one that runs, or NULL. */
static struct place *any_up(void)
{
    struct place *place = &world.places[chance(PLACES)];
    return place->copy.is_up ? place : NULL;
}

/* ---- network ----------------------------------------------------------------------------------- */

static void post(const struct sim_mail *mail, uint64_t link_us)
{
    if (world.mail_count == MAILS_MAX)
        return;
    uint64_t most_us = chance(10) ? 2000 : world.slow_us;
    if (!world.is_healing && happens(world.late_ppm))
        most_us = 10 * E;
    world.mails[world.mail_count++] =
        (struct mail){world.now_us + 100 + link_us + chance(most_us), *mail};
}

/* A vote that leaves is on the disk. */
static void check_vote(const struct sim_copy *copy, const struct consensus_message *message)
{
    bool is_vote = message->kind == CONSENSUS_VOTE_REPLY && message->is_good && !message->is_pre;
    if (is_vote && copy->term <= message->term &&
        (copy->term != message->term || copy->vote != message->to))
        sim_truth_fail(&world.truth, "copy %" PRIu64 " votes before its vote is saved", copy->id);
}

static void send_mails(struct place *place)
{
    struct sim_mail mail;
    while (sim_copy_take_mail(&place->copy, &mail)) {
        struct place *to = place_of(mail.message.to);
        sim_truth_look_at(&world.truth, &mail.message);
        check_vote(&place->copy, &mail.message);
        if (!to || world.is_cut[number_of_place(place)][number_of_place(to)] ||
            (!world.is_healing && happens(world.loss_ppm)))
            continue;
        uint64_t link_us = world.link_us[number_of_place(place)][number_of_place(to)];
        post(&mail, link_us);
        if (!world.is_healing && happens(world.double_ppm))
            post(&mail, link_us);
    }
}

/* ---- after each step of a copy ----------------------------------------------------------------- */

static void check_leases(void)
{
    const struct place *holder = NULL;
    for (unsigned i = 0; i < PLACES; i++) {
        const struct place *place = &world.places[i];
        if (!place->copy.is_up || local_us(place) >= place->lease_us)
            continue;
        sim_truth_lease(&world.truth, &place->copy, holder ? &holder->copy : NULL);
        if (place->served_term != place->copy.core.term)
            sim_truth_fail(&world.truth, "copy %" PRIu64 " has a lease before its data is served",
                           place->copy.id);
        holder = place;
    }
}

static void schedule(struct place *place)
{
    const struct sim_copy *copy = &place->copy;
    if (copy->save_count && !place->save_us)
        place->save_us = world.now_us + 100 + chance(world.disk_us);
    if (copy->sync_count && !place->sync_us)
        place->sync_us = world.now_us + 100 + chance(world.disk_us);
    if (copy->update.role == CONSENSUS_SERVING && place->served_term != copy->core.term &&
        !place->serve_us)
        place->serve_us = world.now_us + 100 + chance(world.slow_us);
}

static void after_step(struct place *place, const struct consensus *before)
{
    static const char *const roles[] = {"learner",   "follower", "pre-candidate",
                                        "candidate", "leading",  "serving"};
    const struct consensus_update *update = &place->copy.update;
    sim_truth_look(&world.truth, &place->copy, before);
    place->lease_us = update->lease_until_us;
    if (update->role >= CONSENSUS_LEADING)
        place->silent_us = 0; /* that it was elected shows that all leases before are over */
    if (before->role != place->copy.core.role || before->term != update->term)
        note("copy %" PRIu64 " %s term %" PRIu64 " last %" PRIu64 " committed %" PRIu64,
             place->copy.id, roles[update->role], update->term, place->copy.core.last,
             update->committed);
    mix(update->term << 32 | update->committed << 4 | update->role);
    send_mails(place);
    schedule(place);
    check_leases();
}

static void give(struct place *place, struct consensus_event event, uint32_t value)
{
    struct consensus before = place->copy.core;
    event.now_us = local_us(place);
    sim_copy_step(&place->copy, event, value);
    after_step(place, &before);
}

/* ---- starts and stops -------------------------------------------------------------------------- */

static void start_place(struct place *place)
{
    const struct consensus none = {0};
    const struct sim_copy_options options = {place->election_us, SIM_PARTS_MAX, chance(UINT64_MAX)};
    place->start_us = place->save_us = place->sync_us = place->serve_us = 0;
    place->lease_us = place->served_term = 0;
    place->receipt.is_going = false;
    place->silent_us = local_us(place) + place->election_us;
    sim_copy_start(&place->copy, &options, local_us(place));
    note("copy %" PRIu64 " starts, term %" PRIu64 " last %" PRIu64, place->copy.id,
         place->copy.core.term, place->copy.core.last);
    sim_truth_look(&world.truth, &place->copy, &none);
    schedule(place);
}

static void stop_place(struct place *place)
{
    bool has_power = chance(2);
    note("copy %" PRIu64 " %s", place->copy.id, has_power ? "is killed" : "loses power");
    sim_copy_stop(&place->copy, (unsigned)chance(3), has_power);
    place->save_us = place->sync_us = place->serve_us = 0;
    place->lease_us = place->served_term = 0;
    place->receipt.is_going = false;
    place->start_us = world.now_us + 1 + chance(chance(3) ? E / 5 : 3 * E);
}

static void new_place(struct place *place, const struct consensus_members *members)
{
    memset(place, 0, sizeof *place);
    place->offset_us = 1 + chance(100 * E);
    place->rate = 1000 + chance(190);
    place->election_us = world.is_mixed && number_of_place(place) % 2 ? E / 2 : E;
    CHECK(world.next_id < TRUTH_IDS_MAX);
    sim_copy_new(&place->copy, world.next_id++, members);
    place->start_us = world.now_us + 1 + chance(E);
}

/* ---- what is wished of the members ------------------------------------------------------------- */

static struct consensus_members *wish_again(void)
{
    if (world.epoch + 1 == WISHES_MAX)
        return NULL;
    struct consensus_members *wish = &world.wishes[world.epoch];
    *wish = (struct consensus_members){.epoch = ++world.epoch};
    return wish;
}

static void wish_of(struct consensus_members *wish, uint64_t id)
{
    wish->list[wish->count++] = (struct consensus_member){id, CONSENSUS_VOTER};
}

/* One to five of the copies. */
static void make_wish(void)
{
    struct consensus_members *wish = wish_again();
    uint64_t count = 1 + chance(5);
    for (uint64_t tries = 0; wish && tries < 20 && wish->count < count; tries++) {
        const struct place *place = &world.places[chance(PLACES)];
        if (place->copy.id && !place->is_lost && members_find(wish, place->copy.id) == MEMBER_NONE)
            wish_of(wish, place->copy.id);
    }
    if (wish && !wish->count)
        world.epoch--;
}

/* Takes a member out of the list. */
static void remove_member(struct consensus_members *members, unsigned at)
{
    members->count--;
    memmove(members->list + at, members->list + at + 1,
            (members->count - at) * sizeof *members->list);
    members->list[members->count] = (struct consensus_member){0};
}

/* The next single change from `members` towards the wish. False: there is none. */
static bool next_change(const struct place *place, const struct consensus_members *wish,
                        struct consensus_members *members)
{
    members->epoch = wish->epoch;
    for (unsigned i = 0; i < members->count; i++) {
        const struct place *of = place_of(members->list[i].id);
        if (members->list[i].id != place->copy.id && (!of || of->is_lost)) {
            remove_member(members, i);
            return true;
        }
    }
    for (unsigned i = 0; i < wish->count; i++) {
        unsigned at = members_find(members, wish->list[i].id);
        if (at == MEMBER_NONE && members->count < CONSENSUS_MEMBERS_MAX) {
            members->list[members->count++] =
                (struct consensus_member){wish->list[i].id, CONSENSUS_LEARNER};
            return true;
        }
        if (at != MEMBER_NONE && members->list[at].kind == CONSENSUS_LEARNER) {
            members->list[at].kind = CONSENSUS_VOTER;
            return true;
        }
    }
    for (unsigned i = 0; i < members->count; i++)
        if (members_find(wish, members->list[i].id) == MEMBER_NONE &&
            members->list[i].id != place->copy.id) {
            remove_member(members, i);
            return true;
        }
    return false;
}

static bool has_spare(const struct place *place)
{
    return place->copy.written.last + LOG_SPARE / 2 < SIM_RECORDS_MAX;
}

/* Then only they may be removed: else the rest may be no majority. */
static bool has_lost(const struct consensus_members *members)
{
    for (unsigned i = 0; i < members->count; i++) {
        const struct place *place = place_of(members->list[i].id);
        if (!place || place->is_lost)
            return true;
    }
    return false;
}

static void change_members(struct place *place, bool at_once)
{
    const struct consensus_members *wish = place->epoch ? &world.wishes[place->epoch - 1] : NULL;
    struct consensus_members members = place->copy.core.members;
    if (!wish || !wish->count || !members.count || !has_spare(place) || !place->served_term)
        return;
    if (at_once && !has_lost(&members))
        members = *wish;
    else if (!next_change(place, wish, &members))
        return;
    members.index = 0;
    give(place,
         (struct consensus_event){
             .kind = CONSENSUS_MEMBERS, .term = place->served_term, .members = &members},
         ++world.value);
    if (!place->copy.update.is_refused)
        note("copy %" PRIu64 " changes members: %u of map %" PRIu64, place->copy.id, members.count,
             members.epoch);
}

/* ---- disks ------------------------------------------------------------------------------------- */

static bool is_member_anywhere(uint64_t id)
{
    for (unsigned i = 0; i < PLACES; i++)
        for (uint64_t at = 0; at < world.places[i].copy.written.last; at++) {
            uint32_t number = world.places[i].copy.written.record[at].members;
            if (number && members_find(sim_members_get(number), id) != MEMBER_NONE)
                return true;
        }
    return false;
}

static unsigned fewer_voters(const struct sim_log *log, unsigned voters)
{
    struct consensus_members members = sim_log_members(log, log->last);
    unsigned count = 0;
    for (unsigned at = 0; at < members.count; at++)
        count += members.list[at].kind == CONSENSUS_VOTER;
    return count && count < voters ? count : voters;
}

/* Only one disk is lost at a time, and not that of one of two: a group survives no more. */
static bool may_lose(const struct place *place)
{
    unsigned voters = CONSENSUS_MEMBERS_MAX;
    for (unsigned i = 0; i < PLACES; i++) {
        const struct sim_copy *copy = &world.places[i].copy;
        if (world.places[i].is_lost || !copy->id)
            return false;
        voters = fewer_voters(&copy->written, fewer_voters(&copy->durable, voters));
    }
    return voters >= 3 && is_member_anywhere(place->copy.id);
}

/* The process ends, and the id with the disk; or, with a control, it comes back empty or as it was before. */
static void lose_disk(struct place *place)
{
    if (!may_lose(place) || world.next_id + 1 >= TRUTH_IDS_MAX)
        return;
    note("copy %" PRIu64 " loses its disk", place->copy.id);
    if (place->copy.is_up)
        stop_place(place);
    uint64_t id = place->copy.id;
    if (sim_broken == BREAK_EMPTY_KEEPS_ID) {
        sim_copy_new(&place->copy, id, NULL);
    } else if (sim_broken == BREAK_OLD_DISK_KEEPS_ID) {
        if (place->old.id == id)
            place->copy = place->old;
    } else {
        place->is_lost = true;
        place->start_us = 0;
    }
}

/* A lost copy that is in no configuration any more makes room for a new one; at first it is a place that is in the wish. */
static void replace_lost(void)
{
    for (unsigned i = 0; i < PLACES; i++) {
        struct place *place = &world.places[i];
        bool is_in_force = false;
        for (unsigned at = 0; at < PLACES; at++) {
            const struct sim_log *log = &world.places[at].copy.written;
            struct consensus_members members = sim_log_members(log, log->last);
            is_in_force |= at != i && members_find(&members, place->copy.id) != MEMBER_NONE;
        }
        if (place->is_lost && !is_in_force && world.next_id < TRUTH_IDS_MAX)
            new_place(place, NULL);
    }
}

static void trim(struct place *place)
{
    struct sim_copy *copy = &place->copy;
    if (copy->core.committed <= copy->base)
        return;
    uint64_t base = copy->base + 1 + chance(copy->core.committed - copy->base);
    if (copy->filed < base)
        copy->filed = base;
    copy->base = base;
    note("copy %" PRIu64 " trims its log to %" PRIu64, copy->id, base);
    give(place, (struct consensus_event){.kind = CONSENSUS_TRIMMED, .index = base}, 0);
}

static void lose_tail(struct place *place)
{
    struct consensus before = place->copy.core;
    uint64_t durable = place->copy.durable.last;
    uint64_t least = durable > before.committed ? durable : before.committed;
    if (before.last <= least)
        return;
    sim_copy_lose_tail(&place->copy, least + chance(before.last - least), local_us(place));
    note("copy %" PRIu64 " cannot write behind %" PRIu64, place->copy.id, place->copy.core.last);
    after_step(place, &before);
}

/* ---- snapshots --------------------------------------------------------------------------------- */

static void begin_receipt(struct place *place, const struct consensus_message *message)
{
    const struct place *from = place_of(message->from);
    if (!from || !from->copy.is_up || from->copy.core.committed < message->index)
        return;
    place->receipt = (struct receipt){.is_going = true,
                                      .from = message->from,
                                      .term = message->term,
                                      .index = message->index,
                                      .index_term = message->index_term,
                                      .ends_us = world.now_us + 1 + chance(2 * E),
                                      .log = from->copy.written};
}

static void install(struct place *place)
{
    struct receipt *receipt = &place->receipt;
    struct sim_copy *copy = &place->copy;
    receipt->is_going = false;
    if (!consensus_may_install(&copy->core, receipt->term, receipt->index, receipt->index_term))
        return;
    uint64_t term = copy->core.term;
    uint64_t vote = copy->core.vote;
    note("copy %" PRIu64 " installs a snapshot as of %" PRIu64, copy->id, receipt->index);
    sim_copy_stop(copy, 0, true);
    sim_copy_install(copy, &receipt->log, receipt->index, term, vote);
    start_place(place);
    struct place *from = place_of(receipt->from);
    if (from && from->copy.is_up && chance(4))
        give(from,
             (struct consensus_event){
                 .kind = CONSENSUS_SNAPSHOT_SENT, .id = copy->id, .index = receipt->index},
             0);
}

/* A leader notices that a snapshot does not arrive. */
static void look_at_snapshots(struct place *place)
{
    const struct consensus *core = &place->copy.core;
    for (unsigned i = 0; i < core->members.count && place->copy.is_up; i++) {
        uint64_t id = core->members.list[i].id;
        const struct place *to = place_of(id);
        if (core->role >= CONSENSUS_LEADING && core->progress[i].way == CONSENSUS_INSTALLING &&
            !(to && to->copy.is_up && to->receipt.is_going))
            give(place, (struct consensus_event){.kind = CONSENSUS_SNAPSHOT_SENT, .id = id}, 0);
    }
}

/* ---- chaos ------------------------------------------------------------------------------------- */

static void propose(struct place *place)
{
    if (place->served_term && has_spare(place))
        give(place,
             (struct consensus_event){.kind = CONSENSUS_APPENDED, .term = place->served_term},
             ++world.value);
}

static void toggle_cut(void)
{
    unsigned from = (unsigned)chance(PLACES);
    if (chance(3) == 0) {
        memset(world.is_cut, 0, sizeof world.is_cut);
        memset(world.link_us, 0, sizeof world.link_us);
    }
    for (unsigned to = 0; to < PLACES; to++)
        if (chance(2)) {
            world.is_cut[from][to] ^= true;
            if (chance(2))
                world.is_cut[to][from] = world.is_cut[from][to];
        }
}

/* A leader is not heard, by some or by all; and sometimes it hears late what is said to it. */
static void cut_leader(void)
{
    unsigned from = (unsigned)chance(PLACES);
    if (world.places[from].copy.core.role < CONSENSUS_LEADING)
        return;
    uint64_t late_us = chance(2) ? chance(3 * E) : 0;
    bool is_whole = chance(2);
    for (unsigned to = 0; to < PLACES; to++) {
        world.is_cut[from][to] = is_whole || chance(2);
        world.link_us[to][from] = late_us;
    }
}

static void slow_link(void)
{
    world.link_us[chance(PLACES)][chance(PLACES)] = chance(2) ? chance(3 * E) : 0;
}

static void hand_over(struct place *place)
{
    const struct consensus_members *members = &place->copy.core.members;
    uint64_t id = members->count ? members->list[chance(members->count)].id : 0;
    give(place, (struct consensus_event){.kind = CONSENSUS_TRANSFER, .id = chance(9) ? id : 0}, 0);
}

static void do_to_copy(struct place *place, unsigned dice)
{
    if (dice < 480)
        propose(place);
    else if (dice < 500)
        change_members(place, true);
    else if (dice < 700)
        change_members(place, false);
    else if (dice < 740)
        trim(place);
    else if (dice < 780)
        place->copy.filed += chance(place->copy.core.committed - place->copy.filed + 1);
    else if (dice < 830)
        hand_over(place);
    else if (dice < 840)
        give(place, (struct consensus_event){.kind = CONSENSUS_RESIGN}, 0);
    else if (dice < 850)
        give(place, (struct consensus_event){.kind = CONSENSUS_CONFIRM}, 0);
    else if (dice < 860)
        give(
            place,
            (struct consensus_event){.kind = CONSENSUS_DISCONNECTED, .id = place->copy.core.leader},
            0);
    else if (dice < 870)
        give(place, (struct consensus_event){.kind = CONSENSUS_STATE, .state = (uint8_t)chance(4)},
             0);
    else if (dice < 890)
        lose_tail(place);
    else if (dice < 930)
        look_at_snapshots(place);
    else if (dice < 960)
        stop_place(place);
    else
        place->epoch = world.epoch;
}

static void do_chaos(void)
{
    unsigned dice = (unsigned)chance(1000);
    struct place *place = any_up();
    world.chaos_us = world.now_us + 1 + chance(world.pace_us);
    if (dice < 20)
        toggle_cut();
    else if (dice < 24)
        cut_leader();
    else if (dice < 30)
        slow_link();
    else if (dice < 45)
        make_wish();
    else if (dice < 50)
        lose_disk(&world.places[chance(PLACES)]);
    else if (dice < 60)
        replace_lost();
    else if (dice < 62 && place)
        place->old = place->copy;
    else if (place)
        do_to_copy(place, (unsigned)chance(1000));
}

/* ---- time -------------------------------------------------------------------------------------- */

static void deliver(unsigned at)
{
    struct sim_mail mail = world.mails[at].mail;
    world.mails[at] = world.mails[--world.mail_count];
    struct place *place = place_of(mail.message.to);
    if (!place || !place->copy.is_up)
        return;
    struct consensus before = place->copy.core;
    if (mail.message.kind == CONSENSUS_SNAPSHOT && mail.message.term >= before.term &&
        !place->receipt.is_going)
        begin_receipt(place, &mail.message);
    bool is_leased = local_us(place) < place->lease_us;
    sim_copy_hear(&place->copy, &mail, local_us(place));
    after_step(place, &before);
    if (is_leased && mail.message.kind == CONSENSUS_VOTE && place->copy.core.term != before.term)
        sim_truth_fail(&world.truth, "copy %" PRIu64 " votes within its own lease", place->copy.id);
    if (local_us(place) < place->silent_us && mail.message.kind == CONSENSUS_VOTE &&
        !mail.message.is_marked && place->copy.core.term != before.term)
        sim_truth_fail(&world.truth, "copy %" PRIu64 " votes too soon after its start",
                       place->copy.id);
}

/* Ends the oldest save or sync of the copy; the process may end just before, or just after. */
static void persist(struct place *place, bool is_save)
{
    bool may_crash = !world.is_healing && happens(world.crash_ppm);
    if (may_crash && chance(2)) {
        stop_place(place);
        return;
    }
    struct consensus before = place->copy.core;
    if (is_save) {
        place->save_us = 0;
        sim_copy_save(&place->copy, local_us(place));
    } else {
        place->sync_us = 0;
        sim_copy_sync(&place->copy, local_us(place));
    }
    after_step(place, &before);
    if (may_crash)
        stop_place(place);
}

static void begin_to_serve(struct place *place)
{
    place->serve_us = 0;
    if (place->copy.update.role != CONSENSUS_SERVING)
        return;
    place->served_term = place->copy.core.term;
    give(place, (struct consensus_event){.kind = CONSENSUS_SERVES, .term = place->served_term}, 0);
}

enum what { DELIVER, CHAOS, START, SAVE, SYNC, SERVE, INSTALL, TICK };

struct due {
    uint64_t at_us;
    enum what what;
    unsigned which;
};

static void sooner(struct due *due, uint64_t at_us, enum what what, unsigned which)
{
    if (at_us && at_us < due->at_us)
        *due = (struct due){at_us, what, which};
}

static struct due next_due(void)
{
    struct due due = {UINT64_MAX, CHAOS, 0};
    sooner(&due, world.is_healing ? 0 : world.chaos_us, CHAOS, 0);
    for (unsigned i = 0; i < world.mail_count; i++)
        sooner(&due, world.mails[i].at_us, DELIVER, i);
    for (unsigned i = 0; i < PLACES; i++) {
        const struct place *place = &world.places[i];
        if (!place->copy.is_up) {
            sooner(&due, place->stays_down ? 0 : place->start_us, START, i);
            continue;
        }
        sooner(&due, place->save_us, SAVE, i);
        sooner(&due, place->sync_us, SYNC, i);
        sooner(&due, place->serve_us, SERVE, i);
        sooner(&due, place->receipt.is_going ? place->receipt.ends_us : 0, INSTALL, i);
        sooner(&due, real_us(place, consensus_next_us(&place->copy.core)), TICK, i);
    }
    return due;
}

/* False: nothing happens any more. */
static bool step_world(void)
{
    struct due due = next_due();
    if (due.at_us == UINT64_MAX)
        return false;
    struct place *place = &world.places[due.what == DELIVER ? 0 : due.which];
    if (due.at_us > world.now_us)
        world.now_us = due.at_us;
    mix(world.now_us << 3 | due.what);
    switch (due.what) {
    case DELIVER:
        deliver(due.which);
        break;
    case CHAOS:
        do_chaos();
        break;
    case START:
        start_place(place);
        break;
    case SAVE:
    case SYNC:
        persist(place, due.what == SAVE);
        break;
    case SERVE:
        begin_to_serve(place);
        break;
    case INSTALL:
        install(place);
        break;
    case TICK:
        give(place, (struct consensus_event){.kind = CONSENSUS_TICK}, 0);
        break;
    }
    check_leases();
    return true;
}

/* ---- the end ----------------------------------------------------------------------------------- */

/* Would the voters that are not down be a majority by every record that is in force at some copy? */
static bool is_majority_up(void)
{
    for (unsigned i = 0; i < PLACES; i++) {
        const struct sim_log *log = &world.places[i].copy.written;
        struct consensus_members members = sim_log_members(log, log->last);
        uint64_t up[CONSENSUS_MEMBERS_MAX] = {0};
        for (unsigned at = 0; at < members.count; at++) {
            const struct place *place = place_of(members.list[at].id);
            up[at] = place && !place->is_lost && !place->stays_down;
        }
        if (members.count && !members_majority(&members, up))
            return false;
    }
    return true;
}

static void heal(void)
{
    note("the network heals");
    world.is_healing = true;
    world.mail_count = 0; /* a record on its way could change who is a majority */
    memset(world.is_cut, 0, sizeof world.is_cut);
    memset(world.link_us, 0, sizeof world.link_us);
    world.slow_us = 2000;
    world.disk_us = 2000;
    for (unsigned tries = 0; tries < 4; tries++) {
        struct place *place = &world.places[chance(PLACES)];
        bool was_down = place->stays_down;
        place->stays_down = true;
        if (!is_majority_up())
            place->stays_down = was_down;
        else if (place->copy.is_up)
            stop_place(place);
    }
    for (unsigned i = 0; i < PLACES; i++)
        if (!world.places[i].copy.is_up && !world.places[i].is_lost && world.places[i].copy.id)
            world.places[i].start_us = world.now_us + 1;
}

/* Have all members that run what the leader has, and is it all committed? */
static bool agrees(const struct place *leader)
{
    const struct consensus *core = &leader->copy.core;
    if (core->committed != core->last || core->committed < world.truth.committed.last)
        return false;
    for (unsigned i = 0; i < core->members.count; i++) {
        const struct place *place = place_of(core->members.list[i].id);
        if (place && !place->is_lost && !place->stays_down &&
            (!place->copy.is_up || place->copy.core.committed != core->committed))
            return false;
    }
    return true;
}

static bool is_calm(void)
{
    for (unsigned i = 0; i < PLACES; i++) {
        const struct place *place = &world.places[i];
        if (place->copy.is_up && local_us(place) < place->lease_us && agrees(place))
            return true;
    }
    return false;
}

static void show_place(const struct place *place)
{
    const struct sim_copy *copy = &place->copy;
    struct consensus_members members = sim_log_members(&copy->written, copy->written.last);
    note("copy %" PRIu64 "%s%s%s: term %" PRIu64 " last %" PRIu64 " committed %" PRIu64
         " base %" PRIu64 ", members of record %" PRIu64,
         copy->id, place->is_lost ? " lost" : "", place->stays_down ? " stays down" : "",
         copy->is_up ? "" : " down", copy->core.term, copy->written.last, copy->core.committed,
         copy->base, members.index);
    for (unsigned i = 0; i < members.count; i++)
        note("  %" PRIu64 " %s, way %d match %" PRIu64 " next %" PRIu64, members.list[i].id,
             members.list[i].kind == CONSENSUS_VOTER ? "voter" : "learner",
             (int)copy->core.progress[i].way, copy->core.progress[i].match,
             copy->core.progress[i].next);
}

/* A disk is lost before all copies agree on who the members are. Then one that has the record of its promotion may need the vote of a
 * learner that has newer records, and the learner stands for nothing: rules.h. */
static bool may_stall(void)
{
    struct consensus_members first = {0};
    bool has_lost_one = false;
    bool is_other = false;
    for (unsigned i = 0; i < PLACES; i++) {
        const struct sim_log *log = &world.places[i].copy.written;
        struct consensus_members members = sim_log_members(log, log->last);
        if (!members.count)
            continue;
        has_lost_one |= has_lost(&members);
        is_other |= first.count && members.index != first.index;
        first = members;
    }
    return has_lost_one && is_other;
}

/* Runs until all agree, with a new record; only the longest patience is limited. */
static void run_to_calm(void)
{
    uint64_t end_us = world.now_us + HEAL_US;
    uint64_t goal = 0;
    for (unsigned step = 0; !world.truth.why[0]; step++) {
        if (!step_world() || world.now_us > end_us) {
            for (unsigned i = 0; i < PLACES; i++)
                show_place(&world.places[i]);
            if (!may_stall())
                sim_truth_fail(&world.truth, "no agreement after the network has healed");
            return;
        }
        for (unsigned i = 0; i < PLACES && step % 50 == 0; i++)
            look_at_snapshots(&world.places[i]);
        if (!is_calm())
            continue;
        if (goal && world.truth.acknowledged >= goal)
            return;
        goal = goal ? goal : world.truth.acknowledged + 1;
        for (unsigned i = 0; i < PLACES; i++)
            if (world.places[i].copy.is_up && local_us(&world.places[i]) < world.places[i].lease_us)
                propose(&world.places[i]);
    }
}

/* ---- a world ----------------------------------------------------------------------------------- */

static void begin_world(uint64_t seed)
{
    memset(&world, 0, sizeof world);
    sim_members_reset();
    world.random = seed * 0x9e3779b97f4a7c15;
    world.is_mixed = seed % 4 == 3;
    world.now_us = 1;
    world.next_id = 1;
    world.loss_ppm = chance(3) ? (unsigned)chance(200000) : 0;
    world.double_ppm = (unsigned)chance(100000);
    world.crash_ppm = chance(3) ? (unsigned)chance(20000) : 0;
    world.late_ppm = chance(3) ? 0 : (unsigned)chance(30000);
    world.slow_us = 1000 + chance(chance(2) ? 20000 : 600000);
    world.disk_us = 200 + chance(chance(3) ? 5000 : 300000);
    world.pace_us = 1000 + chance(60000);
    struct consensus_members *wish = wish_again();
    uint64_t count = (const uint64_t[]){1, 3, 3, 3, 4, 5}[chance(6)];
    for (uint64_t id = 1; id <= count; id++)
        wish_of(wish, id);
    for (unsigned i = 0; i < PLACES; i++)
        new_place(&world.places[i], i < count ? wish : NULL);
    world.chaos_us = 1;
}

static bool has_room(void)
{
    for (unsigned i = 0; i < PLACES; i++)
        if (world.places[i].copy.written.last + LOG_SPARE > SIM_RECORDS_MAX)
            return false;
    return true;
}

/* sim_simulation.run */
static void run_world(struct sim_result *result)
{
    begin_world(result->seed);
    uint64_t limit = sim_options.steps * 20;
    for (uint64_t step = 0; step < limit && !world.truth.why[0] && has_room(); step++)
        (void)step_world();
    if (!world.truth.why[0]) {
        heal();
        run_to_calm();
    }
    result->hash = world.hash;
    result->has_passed = !world.truth.why[0];
    (void)snprintf(result->why, sizeof result->why, "%s", world.truth.why);
}

int main(int argc, char **argv)
{
    const struct sim_simulation simulation = {.run = run_world,
                                              .seeds = sized(SEEDS),
                                              .steps = STEPS,
                                              .first_break = BREAK_TRANSACTIONS_END,
                                              .end_break = BREAK_CONSENSUS_END,
                                              .break_seed = 1};
    return sim_seeds_main(argc, argv, &simulation);
}
