#include "backend/context/process.h"

#include "backend/store/pace.h"
#include "backend/store/store.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"

#include <stdlib.h>

/* ---- snapshot ---- */

struct config_snapshot *process_settings(struct process *process)
{
    pthread_mutex_lock(&process->config_lock);
    struct config_snapshot *snapshot = config_snapshot_ref(process->snapshot);
    pthread_mutex_unlock(&process->config_lock);
    return snapshot;
}

struct config_snapshot *process_config_edit(struct process *process)
{
    pthread_mutex_lock(&process->config_lock);
    return config_snapshot_copy(process->snapshot);
}

static void set_pace(struct process *process, const struct backend_config *config)
{
    pace_limit(process->pace, config->store_background_rate_bytes,
               config->store_latency_target_ms * 1000);
}

void process_config_publish(struct process *process, struct config_snapshot *snapshot)
{
    struct config_snapshot *old = process->snapshot;
    CHECK(snapshot->epoch == old->epoch + 1);
    process->snapshot = snapshot;
    log_set_level((enum log_level)snapshot->config.log_level);
    if (snapshot->config.store_block_cache_bytes != old->config.store_block_cache_bytes)
        store_env_resize(process->env, snapshot->config.store_block_cache_bytes);
    set_pace(process, &snapshot->config);
    if (process->events)
        process->events->on_settings(process->owner, old, snapshot);
    atomic_store_explicit(&process->config_snapshot_epoch, snapshot->epoch, memory_order_release);
    pthread_mutex_unlock(&process->config_lock);
    config_snapshot_unref(old);
}

void process_config_drop(struct process *process, struct config_snapshot *snapshot)
{
    pthread_mutex_unlock(&process->config_lock);
    config_snapshot_unref(snapshot);
}

/* ---- clients ---- */

bool process_client_joined(struct process *process)
{
    struct config_snapshot *snapshot = process_settings(process);
    uint32_t limit = (uint32_t)snapshot->config.maxclients;
    config_snapshot_unref(snapshot);
    if (atomic_fetch_add(&process->clients, 1) < limit)
        return true;
    atomic_fetch_sub(&process->clients, 1);
    return false;
}

void process_client_left(struct process *process)
{
    atomic_fetch_sub(&process->clients, 1);
}

/* ---- start and stop ---- */

void process_stop(struct process *process)
{
    if (!atomic_exchange(&process->is_stopping, true) && process->events)
        process->events->on_stop(process->owner);
}

bool process_is_stopping(const struct process *process)
{
    return atomic_load_explicit(&process->is_stopping, memory_order_relaxed);
}

struct process *process_new(const struct backend_config *config,
                            const struct process_events *events, void *owner)
{
    static const char hex[] = "0123456789abcdef";
    struct process *process = calloc(1, sizeof *process);
    CHECK(process);
    process->events = events;
    process->owner = owner;
    process->snapshot = config_snapshot_new(config);
    process->partitions = (uint32_t)config->partitions;
    CHECK(pthread_mutex_init(&process->config_lock, NULL) == 0);
    clock_random_bytes(process->run_id, RUN_ID_LEN);
    for (int i = 0; i < RUN_ID_LEN; i++)
        process->run_id[i] = hex[process->run_id[i] & 15];
    process->started_mono_ms = clock_mono_us() / 1000;
    process->pace = pace_new();
    set_pace(process, config);
    backend_metrics_init(&process->labelled);
    return process;
}

void process_free(struct process *process)
{
    config_snapshot_unref(process->snapshot);
    pace_free(process->pace);
    backend_metrics_fini(&process->labelled);
    pthread_mutex_destroy(&process->config_lock);
    free(process);
}
