#include "backend/session/attempt.h"

#include "backend/context/backend_metrics.h"
#include "backend/context/call.h"
#include "backend/context/stats.h"
#include "backend/session/command_stats.h"
#include "backend/session/push_message.h"
#include "backend/session/session.h"
#include "shared/out.h"

#include <string.h>

/* Metrics that change while a handler runs. They get their old values back when it is rolled back, so that no attempt
 * counts twice; no other metric does, nor a cell (cell_add). */
static const enum metric counted[] = {METRIC_BACKEND_HITS,         METRIC_BACKEND_MISSES,
                                      METRIC_BACKEND_EXPIRED,      METRIC_BACKEND_EXPIRED_FIELDS,
                                      METRIC_BACKEND_LAZYFREED,    METRIC_BACKEND_ERRORS,
                                      METRIC_BACKEND_LIMIT_REFUSED};

enum { COUNTED = sizeof counted / sizeof counted[0] };

void attempt_begin(struct attempt *attempt, const struct call *call)
{
    const struct partition *partition = call->partition;
    _Static_assert((int)COUNTED == ATTEMPT_COUNTS, "one for each");
    attempt->is_group = attempt->has_chance = false;
    attempt->db = call->session->scope.db;
    attempt->messages = partition->watchers.messages->count;
    memcpy(attempt->random_state, partition->running.random_state, sizeof attempt->random_state);
    for (int i = 0; i < COUNTED; i++)
        attempt->counts[i] = stats_metric(partition->metrics.process, counted[i]);
}

void attempt_note_chance(struct attempt *attempt, const struct call *call)
{
    attempt->has_chance = true;
    attempt->chance = *call->partition->running.script_hooks->chance(call->session);
}

void attempt_group(struct attempt *attempt, const struct call *call, struct view *view)
{
    struct partition *partition = call->partition;
    attempt->is_group = true;
    attempt_note_chance(attempt, call);
    if (view)
        overlay_view_begin(partition->overlay, view);
    else
        overlay_attempt_begin(partition->overlay);
    space_attempt_begin(partition->spaces);
    command_stats_hold(call);
}

void attempt_keep(struct partition *partition)
{
    overlay_attempt_end(partition->overlay, true);
    space_attempt_end(partition->spaces, true);
    command_stats_release(partition);
}

void attempt_undo_effects(struct partition *partition)
{
    if (overlay_view(partition->overlay))
        overlay_view_end(partition->overlay);
    else
        overlay_attempt_end(partition->overlay, false);
    space_attempt_end(partition->spaces, false);
}

static void restore_counted(const struct attempt *attempt, const struct partition *partition)
{
    for (int i = 0; i < COUNTED; i++)
        metric_set(partition->metrics.process, counted[i], attempt->counts[i]);
}

void attempt_take_counts(const struct attempt *attempt, const struct partition *partition,
                         uint64_t counts[ATTEMPT_COUNTS])
{
    for (int i = 0; i < COUNTED; i++)
        counts[i] = stats_metric(partition->metrics.process, counted[i]) - attempt->counts[i];
    restore_counted(attempt, partition);
}

void attempt_add_counts(const struct partition *partition, const uint64_t counts[ATTEMPT_COUNTS])
{
    for (int i = 0; i < COUNTED; i++)
        metric_add(partition->metrics.process, counted[i], counts[i]);
}

void attempt_count(const struct attempt *attempt, struct partition *partition, bool is_counted)
{
    if (is_counted) {
        command_stats_release_across(partition);
        return;
    }
    command_stats_drop(partition);
    restore_counted(attempt, partition);
}

void attempt_undo(const struct attempt *attempt, const struct call *call)
{
    struct partition *partition = call->partition;
    if (call->session->scope.db != attempt->db)
        session_select(call->session, attempt->db);
    if (attempt->is_group) {
        attempt_undo_effects(partition);
        command_stats_drop(partition);
    }
    if (attempt->has_chance)
        *partition->running.script_hooks->chance(call->session) = attempt->chance;
    push_messages_drop(partition->watchers.messages, attempt->messages);
    memcpy(partition->running.random_state, attempt->random_state, sizeof attempt->random_state);
    restore_counted(attempt, partition);
    out_truncate(call->reply.out, call->begun);
}
