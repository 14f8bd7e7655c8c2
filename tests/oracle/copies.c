/*
 * copies.c - the core of backend/consensus obeys the schedules of etcd.go, and prints the same lines.
 *
 * Wanted differences, each made equal here: a leader's commit index reaches followers with the next heartbeat, so leaders send
 * heartbeats after each command; the copy is silent for E after its start, so a crash lets E pass;
 * who stands has waited for E; a save and a sync end at once.
 */
#include "backend/consensus/members.h"
#include "shared/check.h"
#include "tests/sim/sim_copy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COPIES = 4, MAILS_MAX = 2000, DELIVERIES_MAX = 5000, E = 500000 };

static struct sim_copy copies[COPIES + 1];
static uint64_t clocks_us[COPIES + 1];
static bool cut[COPIES + 1][COPIES + 1];
static bool doubles;
static struct sim_mail mails[MAILS_MAX];
static unsigned mail_count;

/* Saves and syncs end; then messages leave. */
static void end_step(unsigned id)
{
    struct sim_copy *copy = &copies[id];
    CHECK(!copy->update.fault);
    while (copy->save_count || copy->sync_count)
        if (copy->save_count)
            sim_copy_save(copy, clocks_us[id]);
        else
            sim_copy_sync(copy, clocks_us[id]);
    while (mail_count < MAILS_MAX && sim_copy_take_mail(copy, &mails[mail_count]))
        mail_count++;
}

static void give(unsigned id, struct consensus_event event)
{
    event.now_us = clocks_us[id];
    sim_copy_step(&copies[id], event, 1);
    end_step(id);
}

static void deliver(void)
{
    for (unsigned steps = 0; mail_count && steps < DELIVERIES_MAX; steps++) {
        struct sim_mail mail = mails[0];
        memmove(mails, mails + 1, --mail_count * sizeof *mails);
        unsigned to = (unsigned)mail.message.to;
        for (unsigned times = cut[mail.message.from][to] ? 0 : 1 + doubles; times > 0; times--) {
            sim_copy_hear(&copies[to], &mail, clocks_us[to]);
            end_step(to);
        }
    }
}

static bool leads(unsigned id)
{
    return copies[id].core.role >= CONSENSUS_LEADING;
}

static void run(void)
{
    for (unsigned round = 0; round < 3; round++) {
        deliver();
        for (unsigned id = 1; id <= COPIES; id++)
            if (leads(id))
                give(id, (struct consensus_event){.kind = CONSENSUS_CONFIRM});
    }
    deliver();
}

static void start_copy(unsigned id)
{
    const struct sim_copy_options options = {E, SIM_PARTS_MAX, id};
    sim_copy_start(&copies[id], &options, clocks_us[id]);
    clocks_us[id] += E;
    end_step(id);
}

static void begin(void)
{
    struct consensus_members members = {.epoch = 1, .count = COPIES};
    for (unsigned i = 0; i < COPIES; i++)
        members.list[i] =
            (struct consensus_member){i + 1, i + 1 < COPIES ? CONSENSUS_VOTER : CONSENSUS_LEARNER};
    memset(cut, 0, sizeof cut);
    doubles = false;
    mail_count = 0;
    for (unsigned id = 1; id <= COPIES; id++) {
        clocks_us[id] = E;
        sim_copy_new(&copies[id], id, &members);
        start_copy(id);
    }
}

static void change(unsigned id, unsigned member, bool promotes)
{
    struct consensus_members members = copies[id].core.members;
    unsigned at = members_find(&members, member);
    if (at == MEMBER_NONE || members.count == 0)
        return;
    members.index = 0;
    if (promotes)
        members.list[at].kind = CONSENSUS_VOTER;
    else
        members.list[at] = members.list[--members.count];
    if (!promotes)
        members.list[members.count] = (struct consensus_member){0};
    give(id, (struct consensus_event){
                 .kind = CONSENSUS_MEMBERS, .term = copies[id].core.term, .members = &members});
}

static bool is(const char *command, const char *name)
{
    return strcmp(command, name) == 0;
}

/* Returns whether messages are delivered after it. */
static bool obey(const char *command, unsigned a, unsigned b, unsigned c)
{
    if (is(command, "rest")) {
        clocks_us[a] += leads(a) ? 0 : E;
    } else if (is(command, "crash")) {
        copies[a].filed = copies[a].core.committed;
        sim_copy_stop(&copies[a], 0, true);
        start_copy(a);
    } else if (is(command, "cut")) {
        cut[a][b] = c != 0;
    } else if (is(command, "double")) {
        doubles = a != 0;
    } else if (is(command, "campaign")) {
        clocks_us[a] += leads(a) ? 0 : E;
        copies[a].core.deadline_us = clocks_us[a];
        if (!leads(a))
            give(a, (struct consensus_event){.kind = CONSENSUS_TICK});
        return true;
    } else if (is(command, "propose")) {
        give(a, (struct consensus_event){.kind = CONSENSUS_APPENDED, .term = copies[a].core.term});
        return true;
    } else if (is(command, "transfer")) {
        give(a, (struct consensus_event){.kind = CONSENSUS_TRANSFER, .id = b});
        return true;
    } else if (is(command, "promote") || is(command, "remove")) {
        change(a, b, is(command, "promote"));
        return true;
    } else {
        return is(command, "beat");
    }
    return false;
}

static void show(void)
{
    for (unsigned id = 1; id <= COPIES; id++) {
        const struct consensus *core = &copies[id].core;
        printf("%u:term=%" PRIu64 ",vote=%" PRIu64 ",leads=%d,commit=%" PRIu64 ",log=", id,
               core->term, core->vote, leads(id), core->committed);
        for (uint64_t index = 2; index <= core->last; index++)
            printf("%" PRIu64 ".", consensus_term_at(core, index));
        printf(" ");
    }
    printf("\n");
}

int main(void)
{
    char line[100];
    begin();
    while (fgets(line, sizeof line, stdin)) {
        char command[20] = "";
        unsigned a = 0;
        unsigned b = 0;
        unsigned c = 0;
        (void)sscanf(line, "%19s %u %u %u", command, &a, &b, &c); // NOLINT(cert-err34-c)
        if (is(command, "end")) {
            begin();
            continue;
        }
        CHECK(a <= COPIES && b <= COPIES);
        if (obey(command, a, b, c))
            run();
        show();
    }
    return EXIT_SUCCESS;
}
