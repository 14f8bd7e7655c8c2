/*
 * attempt_aside.c - an attempt of a script or an EXEC over shards that waits for a key is set aside, and goes on later (attempt.h).
 */
#include "backend/context/call.h"
#include "backend/context/stats.h"
#include "backend/session/attempt.h"
#include "backend/session/session.h"
#include "shared/check.h"
#include "shared/clock.h"

#include <stdlib.h>
#include <string.h>

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void attempt_halt(struct call *call, bool is_again)
{
    if (!call->aside) {
        call->aside = calloc(1, sizeof *call->aside);
        CHECK(call->aside);
        out_init(&call->aside->reply);
    }
    call->aside->is_again = is_again;
    call->has_halted = true;
}

/* What it has used, since the handler began. */
static void note_use(struct call *call, struct attempt_aside *aside)
{
    struct partition_running *running = &call->partition->running;
    budget_measure(&running->budget);
    aside->cpu_us = clock_thread_us() - running->budget.cpu_from_us;
    aside->ran_us = clock_mono_us() - running->started_us;
    aside->written = running->written->bytes;
    aside->observed = later(aside->observed, overlay_observed(call->partition->overlay));
    aside->now_ms = call->now_ms;
    aside->now_us = call->now_us;
}

/* Random numbers of others do not depend on whether the call waits. */
static void leave_random(const struct attempt *attempt, const struct call *call,
                         struct attempt_aside *aside)
{
    struct partition_running *running = &call->partition->running;
    memcpy(aside->random_state, running->random_state, sizeof aside->random_state);
    memcpy(running->random_state, attempt->random_state, sizeof aside->random_state);
    struct script_chance *chance = running->script_hooks->chance(call->session);
    aside->chance = *chance;
    *chance = attempt->chance;
}

/* Does a script of EXEC wait, which may be ended without the rest? */
static bool is_script_of_exec(const struct call *call, const struct attempt_aside *aside)
{
    return aside->halt && call->command->traits & TRAIT_RUNS_QUEUE;
}

static void leave_messages(struct push_messages *messages, uint32_t from,
                           struct attempt_aside *aside, bool has_script)
{
    struct push_messages of_script = {.count = 0};
    if (has_script)
        push_messages_take(messages, aside->script.messages, &of_script);
    push_messages_take(messages, from, &aside->messages);
    if (!aside->script.has_waited)
        aside->script.messages_from = aside->messages.count;
    aside->script.has_waited = has_script;
    push_messages_take(&of_script, 0, &aside->messages);
    push_messages_clear(&of_script);
}

void attempt_leave(const struct attempt *attempt, struct call *call, struct attempt_aside *aside)
{
    struct partition *partition = call->partition;
    bool has_script = is_script_of_exec(call, aside);
    note_use(call, aside);
    leave_random(attempt, call, aside);
    attempt_take_counts(attempt, partition, aside->counts);
    leave_messages(partition->watchers.messages, attempt->messages, aside, has_script);
    command_stats_leave(partition, &aside->stats);
    if (has_script)
        overlay_view_keep_script(partition->overlay);
    overlay_view_leave(partition->overlay);
    space_attempt_leave(partition->spaces, &aside->sums, has_script ? &aside->script.sums : NULL);
    aside->generation = space_generation(partition->spaces);
    aside->db = call->session->scope.db;
    if (aside->db != attempt->db)
        session_select(call->session, attempt->db);
    out_truncate(call->reply.out, call->begun);
}

bool attempt_may_enter(const struct call *call, const struct attempt_aside *aside)
{
    const struct partition *partition = call->partition;
    return aside->generation == space_generation(partition->spaces) &&
           partition->running.script_hooks->may_go_on(aside->halt);
}

void attempt_enter(struct attempt *attempt, struct call *call, struct attempt_aside *aside,
                   struct view *view)
{
    struct partition *partition = call->partition;
    attempt_begin(attempt, call);
    attempt->is_group = true;
    attempt_add_counts(partition, aside->counts);
    memcpy(partition->running.random_state, aside->random_state, sizeof aside->random_state);
    attempt_note_chance(attempt, call);
    *partition->running.script_hooks->chance(call->session) = aside->chance;
    overlay_view_enter(partition->overlay, view);
    overlay_observe(partition->overlay, aside->observed);
    space_attempt_begin(partition->spaces);
    command_stats_enter(call, &aside->stats);
    call->now_ms = aside->now_ms;
    call->now_us = aside->now_us;
}

void attempt_go_on(struct call *call)
{
    struct partition *partition = call->partition;
    struct partition_running *running = &partition->running;
    const struct attempt_aside *aside = call->aside;
    budget_measure(&running->budget);
    running->budget.cpu_from_us -= aside->cpu_us;
    running->budget.effects_from = 0; /* all that is in the view is of this call */
    running->started_us -= aside->ran_us;
    running->written->bytes += aside->written;
    space_count_sums(partition->spaces, &aside->sums);
    if (call->session->scope.db != aside->db)
        session_select(call->session, aside->db);
}

void attempt_join(const struct attempt *attempt, struct call *call)
{
    struct push_messages *messages = call->partition->watchers.messages;
    struct push_messages *before = &call->aside->messages;
    push_messages_take(messages, attempt->messages, before);
    push_messages_give(messages, before);
}

void attempt_forget_effects(struct call *call)
{
    overlay_view_undo(call->partition->overlay);
    push_messages_roll_back(&call->aside->messages, 0);
}

void attempt_forget_script(struct call *call)
{
    struct attempt_aside *aside = call->aside;
    push_messages_roll_back(&aside->messages, aside->script.messages_from);
    space_uncount_sums(call->partition->spaces, &aside->script.sums);
    space_savepoint(call->partition->spaces); /* the command that fails is rolled back up to here */
}

void attempt_aside_free(struct attempt_aside *aside, const struct partition *partition)
{
    if (!aside)
        return;
    partition->running.script_hooks->drop_halt(aside->halt);
    push_messages_clear(&aside->messages);
    out_clear(&aside->reply);
    command_stats_forget(&aside->stats);
    free(aside->sums.items);
    free(aside->script.sums.items);
    free(aside);
}
