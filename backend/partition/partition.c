/*
 * partition.c - builds a partition, ticks, hands commits' outcomes to the sessions, and stops it.
 */
#include "backend/partition/partition.h"

#include "backend/backup/backup.h"
#include "backend/format/encoding.h"
#include "backend/keyspace/cursor.h"
#include "backend/keyspace/edge.h"
#include "backend/keyspace/expiry.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/rank_cache.h"
#include "backend/partition/blocking.h"
#include "backend/partition/call.h"
#include "backend/partition/process.h"
#include "backend/partition/pubsub.h"
#include "backend/partition/session.h"
#include "backend/partition/settings.h"
#include "backend/partition/stats.h"
#include "backend/partition/tracking.h"
#include "backend/partition/tune.h"
#include "backend/partition/walk.h"
#include "backend/script/script.h"
#include "backend/storage/compaction.h"
#include "backend/storage/partition_store.h"
#include "backend/storage/reader.h"
#include "backend/storage/upkeep.h"
#include "backend/store/store.h"
#include "shared/block.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/hours.h"
#include "shared/latency.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { TICK_MS = 100, TICK_SOON_MS = 1, TICKS_PER_SECOND = 10 };

static const struct bytes header_key = {SYSTEM_HEADER, 1};

/* Where the last durable batch left off. */
static bool read_header(struct partition *partition)
{
    struct slice value;
    struct batch_header header = {0};
    int err = overlay_get(partition->overlay, CF_SYSTEM, header_key, &value);
    bool good =
        err == ERR_NOT_FOUND || (err == OK && decode_batch_header(slice_bytes(&value), &header));
    if (err == OK)
        slice_release(&value);
    if (!good)
        return false;
    partition->batch.index = header.index;
    if (header.version > partition->batch.version)
        partition->batch.version = header.version;
    return true;
}

/* ---- commits ---- */

/* commit_seal_fn: the last rows of a batch. */
static void on_seal(void *owner)
{
    struct partition *partition = owner;
    space_seal(partition->spaces);
    const struct batch_header header = {
        .index = ++partition->batch.index,
        .origin_ms = loop_wall_ms(partition->loop),
        .version = partition->batch.version,
    };
    overlay_set_header(partition->overlay, header_key,
                       encode_batch_header(&partition->running.arena, &header));
    arena_reset(&partition->running.arena);
    partition->batch.sealed_us = clock_mono_us();
    cell_observe(partition->metrics.cell, PARTITION_BATCH_COMMANDS, partition->batch.commands);
    partition->batch.commands = 0;
}

static void release_all(struct partition *partition, unsigned parity, int err)
{
    struct list *waiting = &partition->clients.waiting[parity];
    while (!list_empty(waiting)) {
        struct list *first = waiting->next - parity; /* waiting[0] of its session */
        session_release(container_of(first, struct session, waiting), parity, err);
    }
}

void partition_resume(struct partition *partition)
{
    if (!partition->pause.has_waiting)
        return;
    partition->pause.has_waiting = false;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = link->next)
        session_resume(container_of(link, struct session, link));
}

/* commit_recover_fn, and after a failure: memory follows what the store holds. */
static bool read_anew(void *owner)
{
    struct partition *partition = owner;
    partition->expiry.from_ms = 0;
    functions_forget(partition->scripts);
    if (space_reload(partition->spaces) && read_header(partition))
        return true;
    log_event(LOG_ERROR, "reload_failed", "partition=%u", partition->index);
    return false;
}

/* The engine may be reopened: no iterator may be left. */
static void cut_walks(struct partition *partition)
{
    struct list *link;
    while ((link = list_pop(&partition->walks.all)))
        session_abort(container_of(link, struct walk, link)->session);
}

/* The layers were dropped. */
static void commit_failed(struct partition *partition, uint64_t ticket)
{
    metric_add(partition->metrics.process, METRIC_BACKEND_COMMIT_FAILURES, 1);
    (void)read_anew(partition); /* done again before writes are let in */
    int err = commit_error(partition->commit);
    release_all(partition, ticket & 1, err);
    release_all(partition, !(ticket & 1), err);
    cut_walks(partition);
    tracking_forget_all(partition);
    messages_deliver(&partition->watchers.messages, 0);
    blocking_renew(partition->watchers.blocking);
}

/* latency-monitor-threshold: keeps what took long. */
static void note_latency(struct partition *partition, enum latency_kind kind, uint64_t usec)
{
    uint64_t threshold_ms = (uint64_t)partition->settings->latency_threshold_ms;
    if (threshold_ms && usec >= threshold_ms * 1000)
        latency_add_event(partition->metrics.latency, kind, loop_wall_ms(partition->loop) / 1000,
                          usec / 1000);
}

static uint64_t latency_target_us(const struct partition *partition)
{
    return (uint64_t)partition->settings->config.store_latency_target_ms * 1000;
}

/* commit_room_fn */
static void on_room(void *owner)
{
    struct partition *partition = owner;
    if (!partition_is_full(partition))
        partition_resume(partition);
}

/* commit_fn */
static void on_commit(void *owner, uint64_t ticket, int err)
{
    struct partition *partition = owner;
    if (err) {
        commit_failed(partition, ticket);
    } else {
        metric_add(partition->metrics.process, METRIC_BACKEND_COMMITS, 1);
        metric_set(partition->metrics.process, METRIC_BACKEND_KEYS,
                   space_keys_total(partition->spaces));
        metric_add(partition->metrics.process, METRIC_BACKEND_COMMIT_ROWS,
                   commit_rows(partition->commit));
        uint64_t usec = clock_mono_us() - partition->batch.sealed_us;
        metric_add(partition->metrics.process, METRIC_BACKEND_COMMIT_US, usec);
        cell_observe(partition->metrics.cell, PARTITION_COMMIT_SECONDS, usec);
        cell_observe(partition->metrics.cell, PARTITION_SYNC_SECONDS,
                     commit_sync_us(partition->commit));
        cell_observe(partition->metrics.cell, PARTITION_BATCH_BYTES,
                     commit_bytes(partition->commit));
        note_latency(partition, LATENCY_COMMIT, usec);
        pace_note(&partition->batch.latency, latency_target_us(partition), usec);
        release_all(partition, ticket & 1, OK);
    }
    on_room(partition);
}

bool partition_is_full(const struct partition *partition)
{
    return commit_is_full(partition->commit,
                          (uint64_t)partition->settings->config.commit_batch_limit_bytes);
}

/* upkeep_fn */
static void on_upkeep(void *owner, enum upkeep_task task, bool good)
{
    struct partition *partition = owner;
    if (task == UPKEEP_SAVE)
        partition_saved(partition, good, partition->saves.bgsave_changes);
}

void partition_saved(struct partition *partition, bool good, uint64_t changes)
{
    partition->saves.failed = !good;
    if (good) {
        partition->saves.count++;
        if (changes > partition->saves.changes)
            partition->saves.changes = changes;
        partition->saves.last_s = loop_wall_ms(partition->loop) / 1000;
    }
}

/* ---- time ---- */

static void close_idle(struct partition *partition)
{
    uint64_t limit_ms = partition->settings->config.idle_timeout_ms;
    uint64_t now_ms = loop_mono_ms(partition->loop);
    struct list *next;
    if (!limit_ms)
        return;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = next) {
        struct session *session = container_of(link, struct session, link);
        next = link->next;
        if (!session->is_internal && !session->is_closing &&
            (!session->is_throttled || session->walk) && !session->waiter &&
            stream_active_ms(session->stream) + limit_ms < now_ms)
            session_end(session);
    }
}

/* Closes connections that have not logged in within login-timeout. */
static void close_without_login(struct partition *partition)
{
    const struct settings *settings = partition->settings;
    uint64_t limit_ms = settings->config.login_timeout_ms;
    uint64_t now_ms = loop_mono_ms(partition->loop);
    char text[128];
    struct list *next;
    if (!limit_ms || !settings_needs_password(settings))
        return;
    (void)snprintf(text, sizeof text,
                   "ERR no login within %" PRIu64 " ms (login-timeout), the connection is closed",
                   limit_ms);
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = next) {
        struct session *session = container_of(link, struct session, link);
        next = link->next;
        if (session->is_authenticated || session->is_internal || session->is_closing ||
            session->created_ms + limit_ms > now_ms)
            continue;
        session_refuse(session, text);
        session_end(session);
    }
}

/* Connections of users that were removed. */
static void close_removed(struct partition *partition)
{
    struct list *next;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = next) {
        struct session *session = container_of(link, struct session, link);
        next = link->next;
        if (session->user_name && !session->is_closing && !session_user(session))
            session_abort(session);
    }
}

static void show_reader(struct partition *partition)
{
    if (!partition->reader)
        return;
    struct reader_figures figures = reader_figures(partition->reader);
    metric_set(partition->metrics.process, METRIC_BACKEND_COLD_FETCHES, figures.fetches);
    metric_set(partition->metrics.process, METRIC_BACKEND_COLD_BLOCKING, figures.blocking);
}

/* How fast compactions may go. What commands take by themselves tells nothing about it. */
static void tick_pace(struct partition *partition)
{
    struct pace *pace = partition->process->pace;
    pace_report(pace, &partition->batch.latency);
    if (partition->reader)
        pace_report(pace, reader_latency(partition->reader, latency_target_us(partition)));
    pace_turn(pace, clock_mono_us());
}

/* Compactions that are held back must not come so late that writes wait for them. */
static void look_behind(struct partition *partition)
{
    struct pace *pace = partition->process->pace;
    if (pace_is_limited(pace) && store_is_behind(partition->store))
        pace_behind(pace, clock_mono_us());
}

static void tick_compaction(struct partition *partition)
{
    struct hours hours;
    CHECK(hours_parse(bytes_of(partition->settings->config.store_compaction_window), &hours));
    if (!partition->thread.is_stopping)
        compaction_tick(upkeep_compaction(partition->upkeep), &hours);
}

static void tick_second(struct partition *partition)
{
    tick_compaction(partition);
    look_behind(partition);
    tune_partition(partition);
    show_reader(partition);
    close_removed(partition);
    block_cache_decay();
    scripts_log_turn(partition->scripts);
    commit_rest(partition->commit);
    if (store_log_is_long(partition->store) && !partition->thread.is_stopping)
        (void)upkeep_start(partition->upkeep, UPKEEP_FLUSH);
    commit_watch_disk(partition->commit, partition->settings->config.store_disk_free_min_bytes);
    close_idle(partition);
    close_without_login(partition);
    metric_set(partition->metrics.process, METRIC_BACKEND_KEYS,
               space_keys_total(partition->spaces));
    metric_set(partition->metrics.process, METRIC_BACKEND_READONLY,
               commit_is_failed(partition->commit, NULL));
    measures_slow(partition);
}

/* Deletes keys whose time has come, for as long as expire-effort allows. True: more are due. */
static bool expire_due(struct partition *partition)
{
    bool more = partition->expiry.is_active && !partition->thread.is_stopping &&
                !partition_keeps_expired(partition);
    uint64_t begun_us = clock_mono_us();
    for (int i = 0; more && i < partition->settings->config.expire_effort; i++)
        more = expiry_cycle(partition);
    uint64_t usec = clock_mono_us() - begun_us;
    partition->stats->expire_us += usec;
    note_latency(partition, LATENCY_EXPIRE_CYCLE, usec);
    return more;
}

static void on_tick(void *owner)
{
    struct partition *partition = owner;
    atomic_store_explicit(&partition->thread.alive_ms, clock_mono_us() / 1000,
                          memory_order_relaxed);
    if (scripts_running(partition->scripts))
        return; /* a script polls: nothing may change under it */
    partition_refresh(partition);
    stats_sample(partition->stats, loop_mono_ms(partition->loop));
    if (partition->pause.until_ms && loop_wall_ms(partition->loop) >= partition->pause.until_ms)
        partition_pause(partition, 0, false);
    else if (partition->pause.until_ms == 0 && !partition_is_full(partition))
        partition_resume(partition);
    backup_tick(partition->saves.backup);
    tick_pace(partition);
    if (!partition->thread.is_stopping)
        compaction_look_on(upkeep_compaction(partition->upkeep));
    if (++partition->thread.ticks % TICKS_PER_SECOND == 0)
        tick_second(partition);
    if (expire_due(partition))
        timer_start(partition->thread.tick, TICK_SOON_MS, TICK_MS);
    partition->running.started_us = clock_mono_us();
    blocking_serve(
        partition->watchers.blocking); /* keys that expired, or that a failed commit gave back */
}

bool partition_keeps_expired(const struct partition *partition)
{
    return partition->pause.until_ms && !partition->pause.is_new;
}

void partition_pause(struct partition *partition, uint64_t until_ms, bool writes_only)
{
    partition->pause.until_ms = until_ms;
    partition->pause.writes_only = writes_only;
    if (until_ms == 0)
        partition_resume(partition);
}

/* Connections whose users may no longer listen to what they listen to. */
static void close_forbidden(struct partition *partition)
{
    struct list *next;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = next) {
        struct session *session = container_of(link, struct session, link);
        const struct acl_user *user = session_user(session);
        next = link->next;
        if (!session->is_internal && !session->is_closing && user &&
            !subscriber_allowed(&session->subscriber, user))
            session_abort(session);
    }
}

void partition_refresh(struct partition *partition)
{
    struct settings *old = partition->settings;
    struct process *process = partition->process;
    if (atomic_load_explicit(&process->settings_epoch, memory_order_acquire) == old->epoch)
        return;
    const struct settings *now = partition->settings = process_settings(process);
    if (now->config.durability != old->config.durability)
        commit_set_durability(partition->commit, (enum durability)now->config.durability);
    overlay_use_layers(partition->overlay, now->config.store_layer_bytes);
    if (now->config.active_expire != old->config.active_expire)
        partition->expiry.is_active = now->config.active_expire;
    if (now->acl != old->acl)
        close_forbidden(partition);
    settings_unref(old);
}

/* ---- start and stop ---- */

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
    timer_stop(partition->thread.tick);
    partition->thread.on_stopped = NULL;
    tell(partition->thread.stop_owner);
}

/* turn_hook_fn */
static bool on_turn(void *owner)
{
    struct partition *partition = owner;
    struct list *overdue;
    bool told = tracking_turn(partition);
    while ((overdue = list_pop(&partition->clients.overdue)))
        session_abort(container_of(overdue, struct session, overdue));
    (void)commit_turn(partition->commit);
    backup_turn(partition->saves.backup);
    measures_turn(partition);
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
static void refuse(struct partition *partition, struct stream *stream)
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
    return partition->settings->tls;
}

void partition_accept(void *owner, struct stream *stream)
{
    struct partition *partition = owner;
    partition_refresh(partition);
    if (!process_client_joined(partition->process)) {
        refuse(partition, stream);
        return;
    }
    partition->stats->connections_total++;
    metric_add(partition->metrics.process, METRIC_BACKEND_CLIENTS_ACCEPTED, 1);
    session_new(partition, stream, ++partition->clients.last_id);
}

/* space_swapped_fn */
static void on_swap(void *owner, struct space *a, struct space *b)
{
    struct partition *partition = owner;
    watch_swap(partition->watchers.watches, a, b);
    blocking_renew(partition->watchers.blocking);
}

/* What lies on top of the store. */
static bool build(struct partition *partition, const struct backend_config *config)
{
    partition->overlay = overlay_new(partition->store);
    overlay_use_layers(partition->overlay, config->store_layer_bytes);
    if (!read_header(partition))
        return false;
    if (partition->process->readers) {
        partition->reader =
            reader_new(partition->loop, partition->process->readers, partition->store);
        overlay_use_reader(partition->overlay, partition->reader);
    }
    partition->caches.edges = edges_new();
    partition->caches.ranks = rank_cache_new(partition->overlay, config->store_rank_cache_bytes /
                                                                     (uint64_t)config->partitions);
    overlay_use_cache(partition->overlay,
                      config->store_row_cache_bytes / (uint64_t)config->partitions);
    overlay_use_range_cache(partition->overlay,
                            config->store_range_cache_bytes / (uint64_t)config->partitions);
    partition->spaces = space_set_new(partition->overlay);
    if (!partition->spaces)
        return false;
    const struct commit_options options = {
        .durability = (enum durability)config->durability,
        .on_seal = on_seal,
        .on_commit = on_commit,
        .on_recover = read_anew,
        .on_room = on_room,
        .owner = partition,
    };
    partition->commit = commit_new(partition->loop, partition->overlay, partition->store, &options);
    char save_path[4096];
    (void)snprintf(save_path, sizeof save_path, "%s/saved-%s", config->data, partition->name);
    partition->upkeep =
        upkeep_new(partition->loop, partition->store, save_path, on_upkeep, partition);
    partition->saves.backup = backup_new(partition);
    partition->watchers.watches = watch_set_new();
    partition->watchers.blocking = blocking_new(partition);
    space_on_swap(partition->spaces, on_swap, partition);
    partition->watchers.pubsub = pubsub_new();
    partition->watchers.tracking = tracking_new();
    partition->caches.cursors = cursor_cache_new();
    partition->scripts = script_set_new(partition);
    if (functions_load(partition, BYTES("")) != OK)
        return false;
    partition->stats = stats_new();
    partition->thread.tick = timer_new(partition->loop, on_tick, partition);
    timer_start(partition->thread.tick, TICK_MS, TICK_MS);
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
    partition->settings = process_settings(process);
    partition->caches.settings = settings_ref(partition->settings);
    const struct backend_config *config = &partition->settings->config;
    partition->metrics.process = metrics_new();
    partition->metrics.cell = measures_partition(&process->measures, index);
    partition->metrics.commands =
        (struct command_cells){.labels = process->measures.commands, .thread = index};
    partition->expiry.is_active = config->active_expire;
    partition->saves.last_s = clock_wall_us() / 1000000;
    arena_init(&partition->running.arena);
    out_init(&partition->running.discarded);
    partition->metrics.latency = latency_new();
    acl_log_init(&partition->metrics.acl_log);
    list_init(&partition->clients.all);
    list_init(&partition->clients.monitors);
    list_init(&partition->clients.slot_sets);
    list_init(&partition->clients.overdue);
    list_init(&partition->walks.all);
    list_init(&partition->walks.ready);
    partition->walks.task.run = walk_run;
    for (int i = 0; i < 2; i++)
        list_init(&partition->clients.waiting[i]);
    for (int i = 0; i < 4; i++)
        partition->running.random_state[i] = clock_random() | 1;
    partition->store = partition_store_open(process->env, config, partition->name, error, size);
    if (!partition->store)
        goto failed;
    if (!build(partition, config)) {
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
    close_listeners(partition);
    timer_free(partition->thread.tick);
    commit_free(partition->commit);
    backup_free(partition->saves.backup);
    upkeep_free(partition->upkeep);
    cursor_cache_free(partition->caches.cursors);
    script_set_free(partition->scripts);
    blocking_free(partition->watchers.blocking);
    if (partition->watchers.watches)
        watch_set_free(partition->watchers.watches);
    acl_log_clear(&partition->metrics.acl_log);
    pubsub_free(partition->watchers.pubsub);
    tracking_free(partition->watchers.tracking);
    messages_free(&partition->watchers.messages);
    accounts_fini(&partition->metrics.accounts);
    latency_free(partition->metrics.latency);
    if (partition->spaces)
        space_set_free(partition->spaces);
    if (partition->overlay)
        overlay_free(partition->overlay);
    reader_free(partition->reader);
    edges_free(partition->caches.edges);
    rank_cache_free(partition->caches.ranks);
    if (partition->store)
        store_close(partition->store);
    if (partition->stats)
        stats_free(partition->stats);
    out_clear(&partition->running.discarded);
    arena_fini(&partition->running.arena);
    free(partition->running.pins);
    free(partition->running.argv);
    settings_unref(partition->caches.settings);
    settings_unref(partition->settings);
    free(partition);
}

/* ---- calls without a session, versions ---- */

uint64_t partition_version(struct partition *partition, uint64_t now_us)
{
    uint64_t version = now_us << 11;
    if (version <= partition->batch.version)
        version = partition->batch.version + 1;
    partition->batch.version = version;
    return version;
}

void partition_call_begin(struct partition *partition, struct call *call)
{
    *call = (struct call){
        .partition = partition,
        .reply = {.out = &partition->running.discarded, .resp = 2},
        .arena = &partition->running.arena,
        .now_us = loop_wall_us(partition->loop),
        .now_ms = loop_wall_ms(partition->loop),
    };
    overlay_savepoint(partition->overlay);
    space_savepoint(partition->spaces);
}

void partition_call_end(struct partition *partition, struct call *call)
{
    if (call->failed) {
        overlay_rollback(partition->overlay);
        space_rollback(partition->spaces);
        messages_cut(&partition->watchers.messages, 0);
    }
    if (messages_ready(&partition->watchers.messages))
        messages_deliver(&partition->watchers.messages, overlay_ticket(partition->overlay));
    keyspace_end(partition);
    out_clear(&partition->running.discarded);
    arena_reset(&partition->running.arena);
}
