#include "backend/partition_new.h"

#include "backend/backup/backup.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/context/stats.h"
#include "backend/dispatch/blocking.h"
#include "backend/keyspace/space.h"
#include "backend/partition/shards.h"
#include "backend/partition_commit.h"
#include "backend/partition_run.h"
#include "backend/partition_storage.h"
#include "backend/partition_tick.h"
#include "backend/script/script.h"
#include "backend/session/changes.h"
#include "backend/session/held_stats.h"
#include "backend/session/pubsub.h"
#include "backend/session/push_message.h"
#include "backend/session/reply_stream.h"
#include "backend/session/tracking.h"
#include "shared/clock.h"

#include <stdlib.h>

/* space_swapped_fn */
static void on_swap(void *owner, struct space *a, struct space *b)
{
    struct partition *partition = owner;
    watch_swap(partition->watchers.watches, a, b);
    changes_swap(partition, a, b);
    blocking_check_all(partition->watchers.blocking);
}

/* partition_shards.libraries_changed */
static void read_libraries_anew(struct partition *partition)
{
    functions_forget(partition->scripts);
    stored_options_adopt_rows(partition->process, partition->overlay);
}

/* Makes all parts above the store. */
static bool build_partition(struct partition *partition, const struct backend_config *config)
{
    if (!partition_storage_new(partition, config))
        return false;
    partition_commit_init(partition);
    partition->saves.backup = backup_new(partition);
    partition->watchers.watches = watch_set_new();
    partition->watchers.blocking = blocking_new(partition);
    space_on_swap(partition->spaces, on_swap, partition);
    partition->watchers.messages = push_messages_new(partition);
    partition->watchers.changes = &changes_events;
    partition->watchers.pubsub = pubsub_new();
    partition->watchers.tracking = tracking_new();
    partition->listeners.on_accept = partition_accept;
    if (!shards_new(partition))
        return false;
    partition->scripts = script_set_new(partition);
    partition->shards.libraries_changed = read_libraries_anew;
    if (functions_load(partition, BYTES("")) != OK)
        return false;
    partition->metrics.stats = stats_new();
    partition_tick_start(partition);
    partition->thread.hook = (struct turn_hook){.run = partition_end_turn, .owner = partition};
    loop_add_hook(partition->loop, &partition->thread.hook);
    return true;
}

struct partition *partition_new(struct process *process, uint32_t index, struct loop *loop,
                                bool *is_damaged, char *error, size_t size)
{
    struct partition *partition = calloc(1, sizeof *partition);
    CHECK(partition);
    partition->index = index;
    (void)snprintf(partition->name, sizeof partition->name, "partition-%u", index);
    partition->process = process;
    partition->loop = loop;
    partition->snapshot = process_settings(process);
    partition->caches.snapshot = config_snapshot_ref(partition->snapshot);
    const struct backend_config *config = &partition->snapshot->config;
    if (!process->metrics[index])
        process->metrics[index] = metrics_new();
    partition->metrics.process = process->metrics[index];
    partition->metrics.cell = backend_metrics_partition(&process->labelled, index);
    partition->metrics.commands =
        (struct command_cells){.labels = process->labelled.commands, .thread = index};
    partition->expiry.is_active = config->active_expire;
    partition->saves.last_s = clock_wall_us() / 1000000;
    arena_init(&partition->running.arena);
    out_init(&partition->running.discarded);
    partition->metrics.held_stats = held_stats_new();
    partition->metrics.latency = latency_new();
    acl_log_init(&partition->metrics.acl_log);
    list_init(&partition->clients.all);
    list_init(&partition->clients.monitors);
    list_init(&partition->clients.slot_sets);
    list_init(&partition->clients.overdue);
    list_init(&partition->shards.ticket_waits);
    list_init(&partition->shards.waits.slots);
    list_init(&partition->shards.waits.locks);
    list_init(&partition->clients.quiet);
    list_init(&partition->streamed.all);
    list_init(&partition->streamed.ready);
    partition->streamed.task.run = reply_stream_run;
    for (int i = 0; i < 2; i++)
        list_init(&partition->clients.waiting[i]);
    for (int i = 0; i < 4; i++)
        partition->running.random_state[i] = clock_random() | 1;
    if (!partition_storage_open(partition, config, is_damaged, error, size))
        goto failed;
    if (!build_partition(partition, config)) {
        *is_damaged = true;
        (void)snprintf(error, size, "%s: its system rows cannot be read", partition->name);
        goto failed;
    }
    return partition;
failed:
    partition_free(partition);
    return NULL;
}

void partition_free(struct partition *partition)
{
    if (!partition)
        return;
    partition_close(partition);
    backup_free(partition->saves.backup);
    shards_free(partition);
    timer_free(partition->thread.tick);
    commit_free(partition->commit);
    partition_storage_stop(partition);
    script_set_free(partition->scripts);
    blocking_free(partition->watchers.blocking);
    if (partition->watchers.watches)
        watch_set_free(partition->watchers.watches);
    acl_log_clear(&partition->metrics.acl_log);
    pubsub_free(partition->watchers.pubsub);
    tracking_free(partition->watchers.tracking);
    push_messages_free(partition->watchers.messages);
    held_stats_free(partition->metrics.held_stats);
    latency_free(partition->metrics.latency);
    partition_storage_free(partition);
    if (partition->metrics.stats)
        stats_free(partition->metrics.stats);
    out_clear(&partition->running.discarded);
    arena_fini(&partition->running.arena);
    free(partition->running.pins);
    free(partition->running.argv);
    config_snapshot_unref(partition->caches.snapshot);
    config_snapshot_unref(partition->snapshot);
    free(partition);
}
