/*
 * goes_on.h - what handlers and the keyspace ask before they go on: is the call within its budget (budget.h)?
 */
#pragma once

#include "backend/context/call.h"
#include "backend/context/partition.h"

/* Counts work in units of 10 ns. False: the call has exceeded one of its limits or reply-limit, and the error was replied. Loops that
 * read no rows ask this, with the work of a pass. */
static inline bool call_goes_on(struct call *call, size_t work)
{
    struct call_budget *budget = &call->partition->running.budget;
    budget->work += (uint32_t)(work < BUDGET_WORK_SLICE ? work : BUDGET_WORK_SLICE);
    if (budget->work < BUDGET_WORK_SLICE && !out_is_over(call->reply.out))
        return true;
    return budget_look(call);
}

/* Counts work that is done whatever the limits are, such as that of the bytes of a row which was read: the next call_goes_on sees it. */
static inline void call_count_work(struct call *call, size_t work)
{
    call->partition->running.budget.work +=
        (uint32_t)(work < BUDGET_WORK_SLICE ? work : BUDGET_WORK_SLICE);
}

/* A call begins, before the first of its commands, and ends. */
static inline void call_begins(struct call *call)
{
    struct partition_running *running = &call->partition->running;
    running->budget.call = call;
    running->budget.work = 0;
    running->budget.memory.held = 0; /* nothing is left of earlier calls but a chunk */
    running->budget.started_us = running->started_us;
    running->written->bytes = 0;
}

static inline void call_ends(struct partition *partition)
{
    partition->running.budget.call = NULL;
    if (partition->running.budget.is_measured)
        budget_end(partition);
}

/* May the call write more? Asked before a key is opened for writing, and before each row of a collection. False: the error was
 * replied. */
static inline bool call_may_write_more(struct call *call)
{
    const struct overlay_written *written = call->partition->running.written;
    return written->bytes <= written->max || budget_look_at_writes(call);
}

/* Nearly always: counts the work, within a slice, of a call that has written little. False: nothing was counted; ask the two above. */
static inline bool call_does_little(struct call *call, size_t work)
{
    struct partition_running *running = &call->partition->running;
    if (running->budget.work + work >= BUDGET_WORK_SLICE || out_is_over(call->reply.out) ||
        running->written->bytes > running->written->max)
        return false;
    running->budget.work += (uint32_t)work;
    return true;
}
