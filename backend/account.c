#include "backend/account.h"

#include "backend/partition.h"
#include "backend/session.h"
#include "backend/settings.h"
#include "backend/stats.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/latency.h"

#include <stdlib.h>

struct ran {
    struct call call;
    uint64_t usec;
};

static void log_slow(const struct call *call, uint64_t usec)
{
    const struct slow_command slow = {
        .at_s = call->now_ms / 1000,
        .usec = usec,
        .peer = bytes_of(stream_peer(call->session->stream)),
        .name = bytes_of(call->session->name ? call->session->name : ""),
        .command = call->command,
        .argv = call->argv,
        .argc = call->argc,
    };
    slowlog_push(&call->partition->stats->slowlog, &slow,
                 (uint64_t)call->partition->settings->slowlog_len_max);
}

static void count(const struct call *call, uint64_t usec)
{
    struct partition *partition = call->partition;
    const struct settings *settings = partition->settings;
    struct command_stats *stats = &partition->stats->commands[call->command->id];
    stats->usec += usec;
    if (!call->ready_key) {
        partition->stats->commands_total++;
        metric_add(partition->metrics, METRIC_BACKEND_COMMANDS, 1);
    }
    if (call->is_waiting)
        return;
    stats->calls++;
    stats->failed += call->failed;
    command_cells_add(&partition->commands, call->command, usec, call->failed);
    partition->batch_commands += call->command->flags & CMD_WRITE && !call->failed;
    if (settings->latency_tracking)
        latency_add_command(partition->latency, call->command->id, usec);
    if (settings->latency_threshold_ms && usec >= (uint64_t)settings->latency_threshold_ms * 1000)
        latency_add_event(partition->latency,
                          call->command->flags & CMD_FAST ? LATENCY_FAST_COMMAND : LATENCY_COMMAND,
                          call->now_ms / 1000, usec / 1000);
    if (settings->slowlog_slower_than_us >= 0 &&
        usec >= (uint64_t)settings->slowlog_slower_than_us &&
        !(call->command->flags & CMD_SKIP_SLOWLOG))
        log_slow(call, usec);
}

static void keep(struct accounts *accounts, const struct call *call, uint64_t usec)
{
    if (accounts->count == accounts->cap) {
        accounts->cap = accounts->cap ? accounts->cap * 2 : 16;
        accounts->items = realloc(accounts->items, accounts->cap * sizeof *accounts->items);
        CHECK(accounts->items);
    }
    accounts->items[accounts->count++] = (struct ran){*call, usec};
}

void account(const struct call *call)
{
    struct partition *partition = call->partition;
    uint64_t now_us = clock_mono_us();
    uint64_t usec = now_us - partition->started_us;
    partition->started_us = now_us;
    if (partition->accounts.is_held)
        keep(&partition->accounts, call, usec);
    else
        count(call, usec);
}

void accounts_hold(struct partition *partition)
{
    partition->accounts.is_held = true;
    stats_hold_errors(partition->stats);
}

static void end(struct partition *partition, bool is_good)
{
    struct accounts *accounts = &partition->accounts;
    for (uint32_t i = 0; is_good && i < accounts->count; i++)
        count(&accounts->items[i].call, accounts->items[i].usec);
    accounts->count = 0;
    accounts->is_held = false;
    stats_settle_errors(partition->stats, is_good);
}

void accounts_settle(struct partition *partition)
{
    end(partition, true);
}

void accounts_drop(struct partition *partition)
{
    end(partition, false);
}

void accounts_fini(struct accounts *accounts)
{
    free(accounts->items);
    *accounts = (struct accounts){0};
}
