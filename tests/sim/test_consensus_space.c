/*
 * test_consensus_space.c - all that can happen in a small group within some steps, breadth first: three voters and a learner with an
 * empty disk, of which copy 1 leads and serves.
 *
 *     a step: a copy's patience ends · a leader sends heartbeats, or finds that no majority answers · time passes · a message arrives and its answer arrives, or is lost
 *             · a batch · one change of the members · one log is trimmed · a snapshot is installed · a process ends and starts
 *
 * Messages arrive in any order or never. Each kind of failure has a budget. A world is known by the steps that lead to it, and is
 * played again from the beginning; two worlds are the same if their copies, messages and budgets are, whatever their clocks show.
 * What must hold is in sim_truth.h. Saves and syncs end at once here: test_consensus has those that do not.
 */
#include "backend/consensus/members.h"
#include "shared/check.h"
#include "tests/sim/sim_break.h"
#include "tests/sim/sim_truth.h"
#include "tests/sized.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COPIES = 4,
    MAILS_MAX = 10,
    DEPTH_MAX = 40,
    E = 500000,
    STATES = 45000, /* of each space */
    TABLE_BITS = 23,
};

enum kind {
    STAND,
    BEAT,
    GIVE_UP,
    REST,
    DELIVER,
    DELIVER_HALF,
    BATCH,
    PROMOTE,
    REMOVE,
    TRIM,
    INSTALL,
    CRASH,
    KINDS
};

/* How often each may happen; a space for each. */
static const uint8_t BUDGETS[][KINDS] = {
    {[STAND] = 3, [GIVE_UP] = 1, [REST] = 2, [DELIVER] = DEPTH_MAX, [BATCH] = 1},
    {[STAND] = 2, [REST] = 2, [DELIVER] = DEPTH_MAX, [BATCH] = 1, [PROMOTE] = 1, [REMOVE] = 1},
    {[STAND] = 2, [BEAT] = 1, [REST] = 1, [DELIVER] = DEPTH_MAX, [TRIM] = 1, [INSTALL] = 1},
    {[STAND] = 2,
     [BEAT] = 1,
     [GIVE_UP] = 1,
     [REST] = 2,
     [DELIVER] = DEPTH_MAX,
     [DELIVER_HALF] = 1,
     [BATCH] = 1,
     [PROMOTE] = 1,
     [REMOVE] = 1,
     [TRIM] = 1,
     [INSTALL] = 1,
     [CRASH] = 1},
};
enum { SPACES = sizeof BUDGETS / sizeof *BUDGETS };

struct world {
    struct sim_copy copies[COPIES];
    struct sim_truth truth;
    struct sim_mail mails[MAILS_MAX];
    unsigned mail_count;
    uint64_t now_us;
    uint32_t value;
    uint8_t used[KINDS];
    bool has_changed; /* one change of the members */
    struct {
        bool is_there;
        uint64_t term, index, index_term;
        struct sim_log log;
    } receipt; /* of copy 4 */
};

struct state {
    uint32_t parent;
    uint8_t kind, which;
};

static struct world start, world, next;
static struct state *states;
static uint32_t state_count, states_max;
static uint64_t *table;
static const uint8_t *budget;

/* ---- steps ------------------------------------------------------------------------------------- */

/* Saves and syncs end; then messages leave. */
static void end_step(struct world *of, struct sim_copy *copy, const struct consensus *before)
{
    struct consensus known = *before;
    struct sim_mail mail;
    for (bool is_new = true; is_new;) {
        sim_truth_look(&of->truth, copy, &known);
        known = copy->core;
        is_new = copy->save_count || copy->sync_count;
        if (copy->save_count)
            sim_copy_save(copy, of->now_us);
        else if (copy->sync_count)
            sim_copy_sync(copy, of->now_us);
    }
    while (sim_copy_take_mail(copy, &mail)) {
        sim_truth_look_at(&of->truth, &mail.message);
        mail.message.sent_us = mail.message.sent_us ? 1 : 0;
        if (of->mail_count < MAILS_MAX)
            of->mails[of->mail_count++] = mail;
    }
}

static void give(struct world *of, struct sim_copy *copy, struct consensus_event event)
{
    struct consensus before = copy->core;
    event.now_us = of->now_us;
    sim_copy_step(copy, event, of->value);
    end_step(of, copy, &before);
}

static void restart(struct world *of, struct sim_copy *copy)
{
    const struct sim_copy_options options = {E, SIM_PARTS_MAX, copy->id};
    const struct consensus none = {0};
    sim_copy_start(copy, &options, of->now_us);
    end_step(of, copy, &none);
}

static void hear(struct world *of, const struct sim_mail *mail)
{
    struct sim_copy *copy = &of->copies[mail->message.to - 1];
    struct consensus before = copy->core;
    if (mail->message.kind == CONSENSUS_SNAPSHOT) {
        of->receipt.is_there = mail->message.to == COPIES;
        of->receipt.term = mail->message.term;
        of->receipt.index = mail->message.index;
        of->receipt.index_term = mail->message.index_term;
        of->receipt.log = of->copies[mail->message.from - 1].written;
    }
    sim_copy_hear(copy, mail, of->now_us);
    end_step(of, copy, &before);
}

/* The message arrives, and what is answered to it at once, too; or the answer is lost. */
static void deliver(struct world *of, unsigned at, bool is_answered)
{
    struct sim_mail mail = of->mails[at];
    memmove(of->mails + at, of->mails + at + 1, (--of->mail_count - at) * sizeof *of->mails);
    unsigned first = of->mail_count;
    hear(of, &mail);
    for (unsigned i = first; i < of->mail_count;) {
        struct sim_mail answer = of->mails[i];
        bool is_answer = answer.message.to == mail.message.from &&
                         (answer.message.kind == CONSENSUS_VOTE_REPLY ||
                          answer.message.kind == CONSENSUS_APPEND_REPLY);
        if (!is_answer) {
            i++;
            continue;
        }
        memmove(of->mails + i, of->mails + i + 1, (--of->mail_count - i) * sizeof *of->mails);
        if (is_answered)
            hear(of, &answer);
    }
}

static void change(struct world *of, struct sim_copy *copy, bool promotes)
{
    struct consensus_members members = copy->core.members;
    unsigned at = members_find(&members, promotes ? 4 : copy->id == 3 ? 2 : 3);
    members.index = 0;
    if (promotes)
        members.list[at].kind = CONSENSUS_VOTER;
    else
        members.list[at] = members.list[--members.count];
    members.list[members.count] = (struct consensus_member){0};
    give(of, copy,
         (struct consensus_event){
             .kind = CONSENSUS_MEMBERS, .term = copy->core.term, .members = &members});
}

static void install(struct world *of)
{
    struct sim_copy *copy = &of->copies[COPIES - 1];
    uint64_t term = copy->core.term;
    uint64_t vote = copy->core.vote;
    of->receipt.is_there = false;
    if (!consensus_may_install(&copy->core, of->receipt.term, of->receipt.index,
                               of->receipt.index_term))
        return;
    sim_copy_stop(copy, 0, true);
    sim_copy_install(copy, &of->receipt.log, of->receipt.index, term, vote);
    restart(of, copy);
}

static void trim(struct world *of, struct sim_copy *copy)
{
    copy->base = copy->filed = copy->core.committed;
    give(of, copy, (struct consensus_event){.kind = CONSENSUS_TRIMMED, .index = copy->base});
}

/* Can it happen? */
static bool is_possible(const struct world *of, enum kind kind, unsigned which)
{
    const struct consensus *core = which < COPIES ? &of->copies[which].core : NULL;
    if (of->used[kind] >= budget[kind])
        return false;
    switch (kind) {
    case STAND:
        return core->role != CONSENSUS_SERVING && core->role != CONSENSUS_LEADING &&
               members_has_voter(&core->members, core->id);
    case BEAT:
    case GIVE_UP:
        return core->role >= CONSENSUS_LEADING;
    case BATCH:
        return core->role == CONSENSUS_SERVING;
    case PROMOTE:
    case REMOVE:
        return core->role == CONSENSUS_SERVING && core->members.count == COPIES && !of->has_changed;
    case TRIM:
        return core->role == CONSENSUS_SERVING && core->committed > of->copies[which].base;
    case INSTALL:
        return which == 0 && of->receipt.is_there;
    case REST:
        return which == 0;
    case DELIVER:
    case DELIVER_HALF:
        return which < of->mail_count;
    default:
        return true;
    }
}

static void take_step(struct world *of, enum kind kind, unsigned which)
{
    struct sim_copy *copy = &of->copies[which < COPIES ? which : 0];
    of->used[kind] = (uint8_t)(of->used[kind] + (kind != DELIVER));
    switch (kind) {
    case STAND:
        copy->core.deadline_us = of->now_us;
        give(of, copy, (struct consensus_event){.kind = CONSENSUS_TICK});
        break;
    case BEAT:
        give(of, copy, (struct consensus_event){.kind = CONSENSUS_CONFIRM});
        break;
    case GIVE_UP: /* if it has not heard a majority since time has passed */
        give(of, copy, (struct consensus_event){.kind = CONSENSUS_TICK});
        break;
    case REST:
        of->now_us += 2 * E;
        break;
    case DELIVER:
    case DELIVER_HALF:
        deliver(of, which, kind == DELIVER);
        break;
    case BATCH:
        of->value++;
        give(of, copy,
             (struct consensus_event){.kind = CONSENSUS_APPENDED, .term = copy->core.term});
        break;
    case PROMOTE:
    case REMOVE:
        change(of, copy, kind == PROMOTE);
        of->has_changed = true;
        break;
    case TRIM:
        trim(of, copy);
        break;
    case INSTALL:
        install(of);
        break;
    case CRASH:
        sim_copy_stop(copy, 0, false);
        restart(of, copy);
        break;
    case KINDS:
        break;
    }
}

/* ---- which worlds are the same ----------------------------------------------------------------- */

static uint64_t hash_of(uint64_t hash, const void *data, size_t len)
{
    const char *bytes = data;
    uint64_t word;
    for (; len >= sizeof word; len -= sizeof word, bytes += sizeof word) {
        memcpy(&word, bytes, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15;
        hash ^= hash >> 29;
    }
    for (; len > 0; len--)
        hash = (hash ^ (uint8_t)*bytes++) * 0x100000001b3;
    return hash;
}

/* Of times, only whether they have passed counts; of a lease nothing, since there is none here. */
static uint64_t hash_of_copy(const struct world *of, const struct sim_copy *copy)
{
    struct consensus core = copy->core;
    core.random = 0;
    core.promised_us = core.promised_us > of->now_us;
    core.deadline_us = 0;
    core.following.echo_us = 0;
    core.leading.heartbeat_us = core.leading.early_us = 0;
    for (unsigned i = 0; i < CONSENSUS_MEMBERS_MAX; i++) {
        core.progress[i].sent_us = core.progress[i].leased_us = core.progress[i].heard_us = 0;
        core.progress[i].has_answered = false;
    }
    uint64_t hash = hash_of(copy->id, &core, sizeof core);
    hash = hash_of(hash, copy->written.record, copy->written.last * sizeof *copy->written.record);
    return hash_of(hash, &copy->base, sizeof copy->base);
}

static uint64_t hash_of_mail(const struct sim_mail *mail)
{
    char bytes[CONSENSUS_MESSAGE_BYTES_MAX];
    unsigned len = consensus_message_write(&mail->message, bytes);
    return hash_of(hash_of(1, bytes, len), mail->record,
                   mail->message.count * sizeof *mail->record);
}

static uint64_t hash_of_world(const struct world *of)
{
    uint64_t hash = 7;
    uint64_t mails = 0; /* their order does not matter */
    for (unsigned i = 0; i < COPIES; i++)
        hash = hash * 31 + hash_of_copy(of, &of->copies[i]);
    for (unsigned i = 0; i < of->mail_count; i++)
        mails += hash_of_mail(&of->mails[i]);
    hash = hash_of(hash ^ mails, of->used, sizeof of->used);
    hash = hash_of(hash, &of->has_changed, sizeof of->has_changed);
    hash = hash_of(hash, &of->receipt.is_there, sizeof of->receipt.is_there);
    hash = hash_of(hash, of->truth.committed.record,
                   of->truth.committed.last * sizeof *of->truth.committed.record);
    return hash ? hash : 1;
}

/* False: it was there. */
static bool remember(uint64_t hash)
{
    uint64_t at = hash >> (64 - TABLE_BITS);
    while (table[at] && table[at] != hash)
        at = (at + 1) & ((1U << TABLE_BITS) - 1);
    bool is_new = !table[at];
    table[at] = hash;
    return is_new;
}

/* ---- breadth first ----------------------------------------------------------------------------- */

/* Plays the steps that lead to the state; returns how many there are. */
static unsigned play(struct world *of, uint32_t number)
{
    uint32_t way[DEPTH_MAX];
    unsigned depth = 0;
    for (; number; number = states[number].parent)
        way[depth++] = number;
    *of = start;
    for (unsigned i = depth; i-- > 0;)
        take_step(of, (enum kind)states[way[i]].kind, states[way[i]].which);
    return depth;
}

static void print_step(enum kind kind, unsigned which)
{
    static const char *const names[KINDS] = {"stand",   "beat",         "give up", "rest",
                                             "deliver", "deliver-half", "batch",   "promote",
                                             "remove",  "trim",         "install", "crash"};
    printf("%s %u\n", names[kind], which);
}

static void print_way(uint32_t number)
{
    if (!number)
        return;
    print_way(states[number].parent);
    print_step((enum kind)states[number].kind, states[number].which);
}

/* All that can happen next. False: something must not. */
static bool expand(uint32_t number)
{
    (void)play(&world, number);
    for (enum kind kind = STAND; kind < KINDS; kind++)
        for (unsigned which = 0; which < MAILS_MAX; which++) {
            bool is_of_mail = kind == DELIVER || kind == DELIVER_HALF;
            if ((!is_of_mail && which >= COPIES) || state_count == states_max ||
                !is_possible(&world, kind, which))
                continue;
            next = world;
            take_step(&next, kind, which);
            if (next.truth.why[0]) {
                printf("%s\n", next.truth.why);
                print_way(number);
                print_step(kind, which);
                return false;
            }
            if (remember(hash_of_world(&next)))
                states[state_count++] = (struct state){number, (uint8_t)kind, (uint8_t)which};
        }
    return true;
}

/* Copy 1 leads and serves, and its heartbeats were heard. */
static void begin(void)
{
    struct consensus_members members = {.epoch = 1, .count = COPIES};
    for (unsigned i = 0; i < COPIES; i++)
        members.list[i] =
            (struct consensus_member){i + 1, i + 1 < COPIES ? CONSENSUS_VOTER : CONSENSUS_LEARNER};
    start.now_us = 10 * E;
    for (unsigned i = 0; i < COPIES; i++) {
        sim_copy_new(&start.copies[i], i + 1, i + 1 < COPIES ? &members : NULL);
        restart(&start, &start.copies[i]);
    }
    take_step(&start, REST, 0);
    take_step(&start, STAND, 0);
    for (unsigned i = 0; i < 60 && start.mail_count; i++)
        deliver(&start, 0, true);
    CHECK(start.copies[0].core.role == CONSENSUS_SERVING && !start.truth.why[0]);
    memset(start.used, 0, sizeof start.used);
}

/* Worlds from the beginning on, until there are no more or so many. */
static bool explore(unsigned space)
{
    uint32_t done = 0;
    bool is_good = true;
    budget = BUDGETS[space];
    memset(table, 0, sizeof *table << TABLE_BITS);
    state_count = 1;
    (void)remember(hash_of_world(&start));
    for (; is_good && done < state_count && state_count < states_max; done++)
        is_good = expand(done);
    printf("space %u: %" PRIu32 " worlds, %s, at most %u steps\n", space, state_count,
           done == state_count ? "all there are" : "the first ones", play(&world, state_count - 1));
    return is_good;
}

/* A promise is broken, and the first space must show it. */
static bool is_noticed(enum sim_break broken)
{
    sim_broken = broken;
    printf("%s: ", sim_break_name(broken));
    bool is_found = !explore(0);
    sim_broken = BREAK_NONE;
    return is_found;
}

/* More with --long. Not fewer under a sanitizer: a quarter of the worlds does not show the broken promises. */
static uint32_t worlds(void)
{
    return sized(STATES) > STATES ? sized(STATES) : STATES;
}

int main(int argc, char **argv)
{
    bool is_good = true;
    states_max = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : worlds();
    CHECK(states_max > 1 && states_max < 1U << (TABLE_BITS - 1));
    states = calloc(states_max, sizeof *states);
    table = calloc(1U << TABLE_BITS, sizeof *table);
    CHECK(states && table);
    begin();
    for (unsigned space = 0; space < SPACES && is_good; space++)
        is_good = explore(space);
    is_good = is_good && is_noticed(BREAK_OLD_TERM_COUNTS) && is_noticed(BREAK_SHORT_LOG) &&
              is_noticed(BREAK_TWO_VOTES);
    free(states);
    free(table);
    return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}
