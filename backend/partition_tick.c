#include "backend/partition_tick.h"

#include "backend/backup/backup.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/context/stats.h"
#include "backend/dispatch/blocking.h"
#include "backend/keyspace/space.h"
#include "backend/partition/background.h"
#include "backend/partition/config_apply.h"
#include "backend/partition/expiry_timer.h"
#include "backend/partition/gauges.h"
#include "backend/partition/refresh.h"
#include "backend/script/script.h"
#include "backend/session/pause.h"
#include "backend/session/session_reply.h"
#include "backend/storage/compaction.h"
#include "backend/storage/maintenance.h"
#include "backend/storage/reader.h"
#include "shared/clock.h"
#include "shared/hours.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { TICK_MS = 100, TICKS_PER_SECOND = 10 };

static void close_idle_sessions(struct partition *partition)
{
    uint64_t limit_ms = partition->snapshot->config.idle_timeout_ms;
    uint64_t now_ms = loop_mono_ms(partition->loop);
    struct list *next;
    if (!limit_ms)
        return;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = next) {
        struct session *session = container_of(link, struct session, link);
        next = link->next;
        if (!session->login.is_internal && !session->is_closing &&
            (!session->is_throttled || session->pending.streamed) && !session->pending.waiter &&
            stream_active_ms(session->stream) + limit_ms < now_ms)
            session_end(session);
    }
}

/* Closes connections that have not logged in within login-timeout. */
static void close_without_login(struct partition *partition)
{
    const struct config_snapshot *snapshot = partition->snapshot;
    uint64_t limit_ms = snapshot->config.login_timeout_ms;
    uint64_t now_ms = loop_mono_ms(partition->loop);
    char text[128];
    struct list *next;
    if (!limit_ms || !config_snapshot_needs_password(snapshot))
        return;
    (void)snprintf(text, sizeof text,
                   "ERR no login within %" PRIu64 " ms (login-timeout), the connection is closed",
                   limit_ms);
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = next) {
        struct session *session = container_of(link, struct session, link);
        next = link->next;
        if (session->login.is_authenticated || session->login.is_internal || session->is_closing ||
            session->about.created_ms + limit_ms > now_ms)
            continue;
        session_refuse(session, text);
        session_end(session);
    }
}

/* Closes connections of users that were removed. */
static void close_removed(struct partition *partition)
{
    struct list *next;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = next) {
        struct session *session = container_of(link, struct session, link);
        next = link->next;
        if (session->login.name && !session->is_closing && !session_user(session))
            session_abort(session);
    }
}

static void show_reader(struct partition *partition)
{
    if (!partition->reader)
        return;
    struct reader_figures figures = reader_figures(partition->reader);
    metric_set(partition->metrics.process, METRIC_BACKEND_UNCACHED_FETCHES, figures.fetches);
    metric_set(partition->metrics.process, METRIC_BACKEND_UNCACHED_BLOCKING, figures.blocking);
}

/* Adjusts the rate of compactions to the latencies of commits and reads. */
static void tick_pace(struct partition *partition)
{
    struct pace *pace = partition->process->pace;
    pace_report(pace, &partition->batch.latency);
    if (partition->reader)
        pace_report(pace,
                    reader_latency(partition->reader, partition_latency_target_us(partition)));
    pace_adjust(pace, clock_mono_us());
}

/* Lifts the limit of the compaction rate when compactions fall behind, before RocksDB stalls writes. */
static void look_behind(struct partition *partition)
{
    struct pace *pace = partition->process->pace;
    if (pace_is_limited(pace) && store_is_behind(storage_store(partition->storage)))
        pace_behind(pace, clock_mono_us());
}

static void tick_compaction(struct partition *partition)
{
    struct hours hours;
    CHECK(hours_parse(bytes_of(partition->snapshot->config.store_compaction_window), &hours));
    if (!partition->thread.is_stopping)
        compaction_tick(maintenance_compaction(partition->saves.maintenance), &hours);
}

/* Segments of the WAL for readers of changes, for the archive, or for copies that were away, go before writes are refused: writes need a quarter more than the minimum
 * to begin again. */
static void keep_change_log(struct partition *partition)
{
    const struct backend_config *config = &partition->snapshot->config;
    uint64_t other_bytes = partition->copies.replica ? config->wal_keep_bytes : 0;
    if (partition->saves.archive && config->archive_backlog_bytes > other_bytes)
        other_bytes = config->archive_backlog_bytes;
    bool is_for_others = other_bytes > config->store_change_log_bytes;
    const struct maintenance_keep keep = {
        .bytes = is_for_others ? other_bytes : config->store_change_log_bytes,
        .age_ms = is_for_others ? 0 : config->store_change_log_age_ms,
        .free_bytes_min = config->store_disk_free_min_bytes + config->store_disk_free_min_bytes / 4,
    };
    if (!partition->thread.is_stopping)
        maintenance_keep(partition->saves.maintenance, &keep);
}

static void tick_second(struct partition *partition)
{
    tick_compaction(partition);
    look_behind(partition);
    config_apply(partition);
    show_reader(partition);
    close_removed(partition);
    block_cache_decay();
    scripts_log_next_second(partition->scripts);
    commit_rest(partition->commit);
    keep_change_log(partition); /* the limits are set before the first flush trims the WAL */
    if (storage_wal_is_long(partition->storage) && !partition->thread.is_stopping)
        (void)maintenance_start(partition->saves.maintenance, MAINTENANCE_FLUSH);
    commit_watch_disk(partition->commit, partition->snapshot->config.store_disk_free_min_bytes);
    close_idle_sessions(partition);
    close_without_login(partition);
    metric_set(partition->metrics.process, METRIC_BACKEND_KEYS,
               space_keys_total(partition->spaces));
    metric_set(partition->metrics.process, METRIC_BACKEND_READONLY,
               commit_refuses_writes(partition->commit, NULL) && !partition->copies.is_following);
    gauges_set(partition);
    expiry_timer_show(partition);
}

/* For other threads, which see by its CPU time that it works. */
static void note_thread(struct partition *partition)
{
    clockid_t clock;
    if (!atomic_load(&partition->thread.cpu_clock) &&
        pthread_getcpuclockid(pthread_self(), &clock) == 0)
        atomic_store(&partition->thread.cpu_clock, clock);
}

static void on_tick(void *owner)
{
    struct partition *partition = owner;
    note_thread(partition);
    atomic_store_explicit(&partition->thread.alive_ms, clock_mono_us() / 1000,
                          memory_order_relaxed);
    if (partition->running.aside)
        return; /* a slow call runs the loop, and its data must not change */
    partition_refresh(partition);
    stats_sample(partition->metrics.stats, loop_mono_ms(partition->loop));
    if (partition->pause.until_ms && loop_wall_ms(partition->loop) >= partition->pause.until_ms)
        partition_pause(partition, 0, false);
    else if (partition->pause.until_ms == 0 && !partition_is_full(partition))
        partition_resume(partition);
    backup_tick(partition->saves.backup);
    tick_pace(partition);
    if (!partition->thread.is_stopping)
        compaction_look_on(maintenance_compaction(partition->saves.maintenance),
                           commit_buffered_ms(partition->commit));
    if (++partition->thread.ticks % TICKS_PER_SECOND == 0)
        tick_second(partition);
    background_tick(partition);
    expiry_timer_tick(partition);
    /* waiters may be served after a failed commit, or when a proxy has read its replies */
    blocking_resume(partition->watchers.blocking);
}

void partition_tick_start(struct partition *partition)
{
    partition->thread.tick = timer_new(partition->loop, on_tick, partition);
    timer_start(partition->thread.tick, TICK_MS, TICK_MS);
}
