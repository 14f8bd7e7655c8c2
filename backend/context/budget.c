#include "backend/context/budget.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/goes_on.h"
#include "backend/context/process.h"
#include "backend/context/tally.h"
#include "backend/storage/overlay.h"
#include "shared/check.h"
#include "shared/clock.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    STEP =
        1 << 20, /* a call is short while it has less memory, and writes less; then in such steps */
    EFFECTS_TIMES = 4,     /* memory for a byte of effects */
    VOTED_MAX = 480 << 20, /* with the effects before it, below COPIED_BATCH_MAX */
    MS_MAX = INT32_MAX,    /* a longer busy-reply-threshold means: never slow */
    POLL_US = 1000,
    STOP_GRACE_MS = 1000 /* for commands, when the server stops */
};

static struct partition *partition_of(struct call_budget *budget)
{
    return container_of(budget, struct partition, running.budget);
}

/* The state between two calls. */
static void forget(struct call_budget *budget)
{
    budget->call = NULL;
    budget->end = BUDGET_GOES_ON;
    budget->is_measured = budget->is_slow = false;
    budget->reported = 0;
    budget->work = 0;
    budget->memory.is_over = false;
    budget->memory.max = STEP;
}

static void on_memory(struct arena_meter *meter);
static void on_work(struct arena_meter *meter, size_t work);

void budget_init(struct partition *partition)
{
    struct call_budget *budget = &partition->running.budget;
    budget->memory.on_max = on_memory;
    budget->memory.on_work = on_work;
    forget(budget);
    partition->running.arena.meter = &budget->memory;
    partition->running.written = overlay_written(partition->overlay);
    partition->running.written->max = STEP;
}

static void count_over(const struct partition *partition, enum budget_end end)
{
    static const enum metric metrics[BUDGET_ENDS] = {
        [BUDGET_MEMORY] = METRIC_BACKEND_OVER_MEMORY,
        [BUDGET_TRANSACTION] = METRIC_BACKEND_OVER_MEMORY,
        [BUDGET_BATCH] = METRIC_BACKEND_OVER_BATCH,
        [BUDGET_TIME] = METRIC_BACKEND_OVER_TIME,
        [BUDGET_KILLED] = METRIC_BACKEND_OVER_KILLED,
        [BUDGET_GONE] = METRIC_BACKEND_OVER_KILLED,
        [BUDGET_STOPPED] = METRIC_BACKEND_OVER_KILLED,
    };
    metric_add(partition->metrics.process, metrics[end], 1);
}

void budget_end(struct partition *partition)
{
    struct call_budget *budget = &partition->running.budget;
    if (budget->reported)
        atomic_fetch_sub_explicit(&partition->process->calls_memory, budget->reported,
                                  memory_order_relaxed);
    if (budget->end && budget->end != BUDGET_AGAIN)
        count_over(partition, budget->end);
    partition->running.written->max = STEP;
    forget(budget);
}

/* Bytes that the call's transaction holds besides. */
static size_t held_by_transaction(const struct call_budget *budget)
{
    const struct tally *tally = budget->call ? budget->call->tally : NULL;
    return tally ? tally->bytes : 0;
}

/* Up to so many bytes the call need not look again. */
static size_t next_step(const struct call_budget *budget)
{
    size_t besides = held_by_transaction(budget);
    size_t room = besides < budget->memory_max ? budget->memory_max - besides : 0;
    return budget->memory.held + STEP < room ? budget->memory.held + STEP : room;
}

void budget_forgive(struct partition *partition)
{
    struct call_budget *budget = &partition->running.budget;
    CHECK(budget->end == BUDGET_MEMORY);
    count_over(partition, budget->end);
    budget->end = BUDGET_GOES_ON;
    budget->work = 0;
    budget->memory.is_over = false;
    budget->memory.max = next_step(budget);
}

void budget_set_aside(struct partition *partition, struct call_budget *aside)
{
    *aside = partition->running.budget;
    forget(&partition->running.budget);
    partition->running.aside = aside;
}

void budget_restore(struct partition *partition, const struct call_budget *aside)
{
    partition->running.budget = *aside;
    partition->running.aside = NULL;
}

/* ---- limits ---- */

/* The lower limit; 0: none. */
static uint64_t lower(uint64_t limit, uint64_t own)
{
    return own && (!limit || own < limit) ? own : limit;
}

/* Limits of the call's namespace. `call` NULL: there are none. */
static struct budget_limits own_limits(const struct call *call)
{
    if (call && call->partition->running.limits_of)
        return call->partition->running.limits_of(call);
    return (struct budget_limits){.memory = 0};
}

size_t budget_memory_max(const struct call *call)
{
    return lower(call->partition->snapshot->memory.command, own_limits(call).memory);
}

/* With copies that vote, a longer batch would fail when it is closed, and all writes in it. */
static uint64_t batch_limit(const struct backend_config *config)
{
    return config->replicas == REPLICAS_VOTERS && config->batch_limit_bytes > VOTED_MAX
               ? VOTED_MAX
               : config->batch_limit_bytes;
}

void budget_measure(struct call_budget *budget)
{
    struct partition *partition = partition_of(budget);
    const struct config_snapshot *snapshot = partition->snapshot;
    if (budget->is_measured)
        return;
    struct budget_limits own = own_limits(budget->call);
    uint64_t limit_ms = lower(snapshot->config.command_time_limit_ms, own.time_ms);
    uint64_t slow_ms = (uint64_t)snapshot->busy_reply_ms;
    budget->is_measured = true;
    budget->id = ++partition->running.long_calls;
    budget->memory_max = lower(snapshot->memory.command, own.memory);
    budget->effects_max = batch_limit(&snapshot->config) * EFFECTS_TIMES;
    budget->effects_from = overlay_effects_memory(partition->overlay);
    budget->limit_us = limit_ms * 1000;
    budget->cpu_from_us = clock_thread_us();
    budget->slow_us = slow_ms < MS_MAX ? budget->started_us + slow_ms * 1000 : UINT64_MAX;
    if (partition->running.was_slow)
        budget->slow_us = budget->started_us; /* others get BUSY at once */
    budget->polled_us = 0;
    partition->running.written->max = (int64_t)batch_limit(&snapshot->config);
}

static void end_with(struct call_budget *budget, enum budget_end end)
{
    if (budget->end < end)
        budget->end = (uint8_t)end;
    budget->work = BUDGET_WORK_OVER;
}

/* May the call have `held` bytes, besides what calls of other partitions have? Reports them to the process. */
static bool process_has_room(struct call_budget *budget, size_t held)
{
    struct partition *partition = partition_of(budget);
    size_t more = held > budget->reported ? held - budget->reported : 0;
    size_t all =
        atomic_fetch_add_explicit(&partition->process->calls_memory, more, memory_order_relaxed);
    budget->reported += more;
    return all + more <= memory_plan_calls(&partition->snapshot->memory);
}

/* arena_meter.on_max */
static void on_memory(struct arena_meter *meter)
{
    struct call_budget *budget = container_of(meter, struct call_budget, memory);
    if (!budget->call) /* no client's call */
        return;
    budget_measure(budget);
    bool is_within = meter->held + held_by_transaction(budget) <= budget->memory_max;
    if (is_within && process_has_room(budget, meter->held)) {
        meter->max = next_step(budget);
        return;
    }
    meter->is_over = true;
    meter->max = SIZE_MAX;
    end_with(budget, BUDGET_MEMORY);
}

void budget_hold(struct call_budget *budget, size_t bytes)
{
    budget->memory.held += bytes;
    if (budget->memory.held > budget->memory.max)
        on_memory(&budget->memory);
}

void budget_give_back(struct call_budget *budget, size_t bytes)
{
    budget->memory.held -= bytes < budget->memory.held ? bytes : budget->memory.held;
}

void budget_end_transaction(struct call_budget *budget, const struct tally *tally)
{
    if (!budget->call || budget->call->tally != tally)
        return;
    budget_measure(budget);
    budget->memory.is_over = true;
    end_with(budget, BUDGET_TRANSACTION);
}

static bool are_effects_over(struct call_budget *budget)
{
    size_t memory = overlay_effects_memory(partition_of(budget)->overlay);
    return memory > budget->effects_from && memory - budget->effects_from > budget->effects_max;
}

bool budget_is_late(const struct call_budget *budget, uint64_t now_us)
{
    /* the wall's clock is cheaper, and ahead */
    return budget->limit_us && now_us - budget->started_us >= budget->limit_us &&
           clock_thread_us() - budget->cpu_from_us >= budget->limit_us;
}

/* Why the call must end now. */
static enum budget_end due_end(struct call_budget *budget, uint64_t now_us)
{
    if (budget_is_late(budget, now_us))
        return BUDGET_TIME;
    if (now_us >= budget->started_us + STOP_GRACE_MS * 1000ull &&
        process_is_stopping(partition_of(budget)->process))
        return BUDGET_STOPPED;
    return are_effects_over(budget) ? BUDGET_BATCH : BUDGET_GOES_ON;
}

/* Reads the clock. Sets `end` if the call must end. A slow call lets others be served, who may end it. */
static void look(struct call_budget *budget)
{
    struct partition *partition = partition_of(budget);
    budget_measure(budget);
    uint64_t now_us = clock_mono_us();
    if (budget->end == BUDGET_GOES_ON)
        budget->end = (uint8_t)due_end(budget, now_us);
    if (budget->end == BUDGET_GOES_ON && now_us >= budget->slow_us &&
        now_us >= budget->polled_us + POLL_US && partition->running.on_slow) {
        partition->running.on_slow(partition);
        budget->polled_us = clock_mono_us();
    }
    budget->work = budget->end ? BUDGET_WORK_OVER : 0;
    budget->memory.is_over |= budget->end != BUDGET_GOES_ON;
}

/* arena_meter.on_work */
static void on_work(struct arena_meter *meter, size_t work)
{
    struct call_budget *budget = container_of(meter, struct call_budget, memory);
    budget->work += (uint32_t)(work < BUDGET_WORK_SLICE ? work : BUDGET_WORK_SLICE);
    if (budget->work >= BUDGET_WORK_SLICE && budget->call)
        look(budget);
}

bool budget_look(struct call *call)
{
    struct call_budget *budget = &call->partition->running.budget;
    if (call_refuse_reply(call))
        return false;
    budget->work = 0;
    if (!budget->call)
        return true;
    look(budget);
    if (budget->end)
        call_error(call, ERR_OVER);
    return !budget->end;
}

bool budget_look_at_writes(struct call *call)
{
    struct call_budget *budget = &call->partition->running.budget;
    struct overlay_written *written = call->partition->running.written;
    if (!budget->call) {
        written->max = written->bytes + STEP;
        return true;
    }
    budget_measure(budget);
    if (written->bytes <= written->max)
        return true;
    end_with(budget, BUDGET_BATCH);
    return budget_look(call);
}

/* ---- texts ---- */

const char *budget_reason(enum budget_end end)
{
    static const char *const names[BUDGET_ENDS] = {"",     "again",  "memory", "memory", "batch",
                                                   "time", "killed", "gone",   "stopped"};
    return names[end];
}

void budget_memory_text(size_t max, char *text, size_t size)
{
    (void)snprintf(text, size,
                   "ERR the command needs more than %zu bytes of memory (command-memory), and has "
                   "changed nothing",
                   max);
}

void budget_text(const struct call *call, char *text, size_t size)
{
    const struct config_snapshot *snapshot = call->partition->snapshot;
    const struct call_budget *budget = &call->partition->running.budget;
    switch ((enum budget_end)budget->end) {
    case BUDGET_MEMORY:
    case BUDGET_TRANSACTION:
        budget_memory_text(budget->memory_max, text, size);
        return;
    case BUDGET_BATCH:
        (void)snprintf(text, size,
                       "ERR the command writes more than %" PRIu64 " bytes (batch-limit), and has "
                       "changed nothing",
                       batch_limit(&snapshot->config));
        return;
    case BUDGET_TIME:
        (void)snprintf(text, size,
                       "ERR the command ran for longer than command-time-limit, and has changed "
                       "nothing");
        return;
    case BUDGET_STOPPED:
        (void)snprintf(text, size,
                       "ERR the command was ended because the server is stopping, and "
                       "has changed nothing");
        return;
    case BUDGET_GONE:
        (void)snprintf(text, size,
                       "ERR the command was ended because its client has left, and has changed "
                       "nothing");
        return;
    case BUDGET_GOES_ON:
    case BUDGET_AGAIN:
    case BUDGET_KILLED:
    case BUDGET_ENDS:
        break;
    }
    (void)snprintf(text, size, "ERR the command was ended by SCREE KILL, and has changed nothing");
}
