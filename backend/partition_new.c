#include "backend/partition_new.h"

#include "backend/backup/backup.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/context/stats.h"
#include "backend/keyspace/cursor.h"
#include "backend/keyspace/range_bound.h"
#include "backend/keyspace/rank_cache.h"
#include "backend/keyspace/space.h"
#include "backend/partition/blocking.h"
#include "backend/partition/changes.h"
#include "backend/partition/command_stats.h"
#include "backend/partition/connection.h"
#include "backend/partition/gauges.h"
#include "backend/partition/peering.h"
#include "backend/partition/pubsub.h"
#include "backend/partition/push_message.h"
#include "backend/partition/refresh.h"
#include "backend/partition/reply_stream.h"
#include "backend/partition/session.h"
#include "backend/partition/tracking.h"
#include "backend/partition_commit.h"
#include "backend/partition_tick.h"
#include "backend/peer/peer_set.h"
#include "backend/script/script.h"
#include "backend/storage/maintenance.h"
#include "backend/storage/partition_store.h"
#include "shared/clock.h"

#include <stdio.h>
#include <stdlib.h>

/* Closes them all with session_end or session_abort. */
static void close_sessions(struct partition *partition,
                           void (*session_close)(struct session *session))
{
    struct list *next;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = next) {
        next = link->next;
        session_close(container_of(link, struct session, link));
    }
    CHECK(list_empty(&partition->clients.all));
}

static void on_stopped(struct partition *partition)
{
    void (*tell)(void *owner) = partition->thread.on_stopped;
    close_sessions(partition, session_end);
    peer_set_free(partition->peers);
    partition->peers = NULL;
    timer_stop(partition->thread.tick);
    partition->thread.on_stopped = NULL;
    tell(partition->thread.stop_owner);
}

/* turn_hook_fn */
static bool on_turn(void *owner)
{
    struct partition *partition = owner;
    struct list *overdue;
    bool told = tracking_turn_end(partition);
    while ((overdue = list_pop(&partition->clients.overdue)))
        session_abort(container_of(overdue, struct session, replies.overdue));
    (void)commit_turn_end(partition->commit);
    backup_turn_end(partition->saves.backup);
    gauges_turn_end(partition);
    if (partition->thread.on_stopped && commit_is_idle(partition->commit))
        on_stopped(partition);
    return told;
}

static void close_listeners(struct partition *partition)
{
    if (partition->listeners.tcp)
        listener_free(partition->listeners.tcp);
    if (partition->listeners.tls)
        listener_free(partition->listeners.tls);
    if (partition->listeners.unix_socket)
        listener_free(partition->listeners.unix_socket);
    partition->listeners.tcp = partition->listeners.tls = partition->listeners.unix_socket = NULL;
}

void partition_stop(struct partition *partition, void (*tell)(void *owner), void *owner)
{
    CHECK(!partition->thread.is_stopping);
    partition->thread.is_stopping = true;
    partition->thread.on_stopped = tell;
    partition->thread.stop_owner = owner;
    close_listeners(partition);
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = link->next)
        stream_pause(container_of(link, struct session, link)->stream);
}

static size_t on_refused_data(void *owner, struct block *block, const char *data, size_t len,
                              size_t *need)
{
    (void)owner;
    (void)block;
    (void)data;
    (void)need;
    return len;
}

static void on_refused_end(void *owner, int err)
{
    (void)owner;
    (void)err;
}

/* One connection too many: it gets an error and is closed. */
static void refuse_connection(struct partition *partition, struct stream *stream)
{
    static const struct stream_events events = {.on_data = on_refused_data,
                                                .on_end = on_refused_end};
    struct reply reply = {.out = stream_out(stream), .resp = 2};
    stream_set_owner(stream, &events, partition);
    reply_code(&reply, ERR_MAXCLIENTS);
    stream_send(stream);
    stream_close(stream);
    partition->stats->connections_refused++;
    metric_add(partition->metrics.process, METRIC_BACKEND_CLIENTS_REFUSED, 1);
}

struct tls_context *partition_tls(void *owner)
{
    struct partition *partition = owner;
    partition_refresh(partition);
    return partition->snapshot->tls;
}

void partition_accept(void *owner, struct stream *stream)
{
    struct partition *partition = owner;
    partition_refresh(partition);
    if (!process_client_joined(partition->process)) {
        refuse_connection(partition, stream);
        return;
    }
    partition->stats->connections_total++;
    metric_add(partition->metrics.process, METRIC_BACKEND_CLIENTS_ACCEPTED, 1);
    connection_new(partition, stream, ++partition->clients.last_id);
}

/* maintenance_fn */
static void on_maintenance(void *owner, enum maintenance_task task, bool good)
{
    struct partition *partition = owner;
    if (task == MAINTENANCE_SAVE)
        partition_saved(partition, good, partition->saves.bgsave_changes);
}

/* space_swapped_fn */
static void on_swap(void *owner, struct space *a, struct space *b)
{
    struct partition *partition = owner;
    watch_swap(partition->watchers.watches, a, b);
    changes_swap(partition, a, b);
    blocking_check_all(partition->watchers.blocking);
}

/* What lies on top of the store. */
static bool build_partition(struct partition *partition, const struct backend_config *config)
{
    partition->overlay = overlay_new(partition->store);
    overlay_use_buffers(partition->overlay, config->store_write_buffer_bytes);
    if (!partition_read_header(partition))
        return false;
    if (partition->process->readers) {
        partition->reader =
            reader_new(partition->loop, partition->process->readers, partition->store);
        overlay_use_reader(partition->overlay, partition->reader);
    }
    partition->caches.range_bounds = range_bounds_new();
    partition->caches.ranks = rank_cache_new(partition->overlay, config->store_rank_cache_bytes /
                                                                     (uint64_t)config->partitions);
    overlay_use_cache(partition->overlay,
                      config->store_row_cache_bytes / (uint64_t)config->partitions);
    overlay_use_range_cache(partition->overlay,
                            config->store_range_cache_bytes / (uint64_t)config->partitions);
    partition->spaces = space_set_new(partition->overlay);
    if (!partition->spaces)
        return false;
    partition_commit_init(partition);
    char save_path[4096];
    (void)snprintf(save_path, sizeof save_path, "%s/saved-%s", config->data, partition->name);
    partition->maintenance =
        maintenance_new(partition->loop, partition->store, save_path, on_maintenance, partition);
    partition->saves.backup = backup_new(partition);
    partition->watchers.watches = watch_set_new();
    partition->watchers.blocking = blocking_new(partition);
    space_on_swap(partition->spaces, on_swap, partition);
    partition->watchers.messages = push_messages_new();
    partition->watchers.changes = &changes_events;
    partition->watchers.pubsub = pubsub_new();
    partition->watchers.tracking = tracking_new();
    partition->caches.cursors = cursor_cache_new();
    partition->peers = peering_new(partition);
    partition->scripts = script_set_new(partition);
    if (functions_load(partition, BYTES("")) != OK)
        return false;
    partition->stats = stats_new();
    partition_tick_start(partition);
    partition->thread.hook = (struct turn_hook){.run = on_turn, .owner = partition};
    loop_add_hook(partition->loop, &partition->thread.hook);
    return true;
}

struct partition *partition_new(struct process *process, uint32_t index, struct loop *loop,
                                char *error, size_t size)
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
    partition->metrics.process = metrics_new();
    partition->metrics.cell = backend_metrics_partition(&process->labelled, index);
    partition->metrics.commands =
        (struct command_cells){.labels = process->labelled.commands, .thread = index};
    partition->expiry.is_active = config->active_expire;
    partition->saves.last_s = clock_wall_us() / 1000000;
    arena_init(&partition->running.arena);
    out_init(&partition->running.discarded);
    partition->metrics.held_stats = command_stats_new();
    partition->metrics.latency = latency_new();
    acl_log_init(&partition->metrics.acl_log);
    list_init(&partition->clients.all);
    list_init(&partition->clients.monitors);
    list_init(&partition->clients.slot_sets);
    list_init(&partition->clients.overdue);
    list_init(&partition->streamed.all);
    list_init(&partition->streamed.ready);
    partition->streamed.task.run = reply_stream_run;
    for (int i = 0; i < 2; i++)
        list_init(&partition->clients.waiting[i]);
    for (int i = 0; i < 4; i++)
        partition->running.random_state[i] = clock_random() | 1;
    partition->store = partition_store_open(process->env, config, partition->name, error, size);
    if (!partition->store)
        goto failed;
    if (!build_partition(partition, config)) {
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
    close_sessions(partition, session_abort);
    peer_set_free(partition->peers);
    close_listeners(partition);
    timer_free(partition->thread.tick);
    commit_free(partition->commit);
    backup_free(partition->saves.backup);
    maintenance_free(partition->maintenance);
    cursor_cache_free(partition->caches.cursors);
    script_set_free(partition->scripts);
    blocking_free(partition->watchers.blocking);
    if (partition->watchers.watches)
        watch_set_free(partition->watchers.watches);
    acl_log_clear(&partition->metrics.acl_log);
    pubsub_free(partition->watchers.pubsub);
    tracking_free(partition->watchers.tracking);
    push_messages_free(partition->watchers.messages);
    command_stats_free(partition->metrics.held_stats);
    latency_free(partition->metrics.latency);
    if (partition->spaces)
        space_set_free(partition->spaces);
    if (partition->overlay)
        overlay_free(partition->overlay);
    reader_free(partition->reader);
    range_bounds_free(partition->caches.range_bounds);
    rank_cache_free(partition->caches.ranks);
    if (partition->store)
        store_close(partition->store);
    if (partition->stats)
        stats_free(partition->stats);
    out_clear(&partition->running.discarded);
    arena_fini(&partition->running.arena);
    free(partition->running.pins);
    free(partition->running.argv);
    config_snapshot_unref(partition->caches.snapshot);
    config_snapshot_unref(partition->snapshot);
    free(partition);
}
