#include "backend/partition/expiry_timer.h"

#include "backend/context/backend_metrics.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/stats.h"
#include "backend/dispatch/blocking.h"
#include "backend/keyspace/expiry.h"
#include "backend/keyspace/space.h"
#include "backend/session/internal_call.h"
#include "backend/session/session.h"
#include "shared/clock.h"

enum {
    STEP_US = 200,
    CALLS_MAX = 4,    /* in a step, where clocks stand still during a turn */
    SHARE_FIRST = 25, /* percent of the time that steps take, with expire-effort 1 */
    SHARE_PER_EFFORT = 5,
    BUSY_MS = 1, /* until the next try while a slow script runs the loop, or there is little room */
};

static bool may_delete_expired(const struct partition *partition)
{
    return partition->expiry.is_active && !partition->thread.is_stopping &&
           !partition->shards.is_held && !partition_keeps_expired(partition) &&
           !commit_is_failed(partition->commit, NULL);
}

static enum expiry_result delete_some(struct partition *partition, uint64_t until_us)
{
    struct call call;
    internal_call_begin(partition, &call);
    enum expiry_result result = expiry_step(&call, until_us);
    internal_call_end(partition, &call);
    return result;
}

/* Deletes keys for the time of a step. */
static enum expiry_result step(struct partition *partition)
{
    struct partition_expiry *expiry = &partition->expiry;
    uint64_t begun_us = clock_mono_us();
    uint64_t now_us = begun_us;
    enum expiry_result result = EXPIRY_GOES_ON;
    for (int i = 0; i < CALLS_MAX && result == EXPIRY_GOES_ON && now_us < begun_us + STEP_US &&
                    !partition_is_half_full(partition);
         i++) {
        result = delete_some(partition, begun_us + STEP_US);
        now_us = clock_mono_us();
    }
    uint64_t share =
        SHARE_FIRST + (uint64_t)(partition->snapshot->config.expire_effort - 1) * SHARE_PER_EFFORT;
    expiry->rest_us += (now_us - begun_us) * (100 - share) / share;
    expiry->ended_us = now_us;
    partition->metrics.stats->expiry.usec += now_us - begun_us;
    partition->metrics.stats->expiry.cuts += result == EXPIRY_GOES_ON;
    partition_note_latency(partition, LATENCY_EXPIRE_CYCLE, now_us - begun_us);
    return result;
}

/* Starts the timer for the next step. A rest of less than a millisecond is kept for later, because the timer has no finer unit. */
static void start_timer(struct partition *partition)
{
    struct partition_expiry *expiry = &partition->expiry;
    uint64_t passed_us = clock_mono_us() - expiry->ended_us;
    expiry->rest_us -= passed_us < expiry->rest_us ? passed_us : expiry->rest_us;
    expiry->ended_us += passed_us;
    timer_start(expiry->timer, expiry->rest_us / 1000, 0);
}

static void on_timer(void *owner)
{
    struct partition *partition = owner;
    struct partition_expiry *expiry = &partition->expiry;
    if (partition->running.busy_error || partition_is_half_full(partition)) {
        timer_start(expiry->timer, BUSY_MS, 0);
        return;
    }
    uint64_t passed_us = clock_mono_us() - expiry->ended_us;
    expiry->rest_us -= passed_us < expiry->rest_us ? passed_us : expiry->rest_us;
    enum expiry_result result = may_delete_expired(partition) ? step(partition) : EXPIRY_DONE;
    expiry->is_under_way = result != EXPIRY_DONE;
    if (result == EXPIRY_GOES_ON)
        start_timer(partition);
    blocking_resume(partition->watchers.blocking); /* a key for which a client waits may be gone */
}

/* expiry_new: on_rows. May be called while other waits for rows end. */
static void rows_have_come(struct partition *partition)
{
    if (partition->expiry.is_under_way)
        start_timer(partition);
}

void expiry_timer_new(struct partition *partition)
{
    partition->expiry.keys = expiry_new(partition, rows_have_come);
    partition->expiry.timer = timer_new(partition->loop, on_timer, partition);
}

void expiry_timer_free(struct partition *partition)
{
    timer_free(partition->expiry.timer);
    expiry_free(partition->expiry.keys);
}

void expiry_timer_tick(struct partition *partition)
{
    if (partition->expiry.is_under_way || !may_delete_expired(partition))
        return;
    partition->expiry.is_under_way = true;
    start_timer(partition);
}

/* Percentage of the keys with a TTL that have expired and are not deleted yet. */
static double stale_percent(const struct partition *partition, uint64_t due)
{
    uint64_t expires = 0;
    size_t cursor = 0;
    const struct space *space;
    while ((space = space_next(partition->spaces, &cursor)))
        expires += space->expires;
    return due >= expires ? (due ? 100 : 0) : 100 * (double)due / (double)expires;
}

void expiry_timer_show(struct partition *partition)
{
    struct expiry_figures figures = {.due = 0};
    if (partition->expiry.is_active)
        figures = expiry_figures(partition->expiry.keys, loop_wall_ms(partition->loop));
    cell_set(partition->metrics.cell, PARTITION_EXPIRY_DUE, figures.due);
    cell_set(partition->metrics.cell, PARTITION_EXPIRY_LAG_MS, figures.lag_ms);
    partition->metrics.stats->expiry.stale_percent = stale_percent(partition, figures.due);
}
