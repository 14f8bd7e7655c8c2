#include "backend/context/process.h"

#include "backend/context/cluster_clock.h"
#include "backend/store/pace.h"
#include "backend/store/store.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"
#include "shared/net/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>

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

void process_log_memory(const struct memory_plan *plan)
{
    log_event(LOG_INFO, "memory",
              "bytes=%" PRIu64 " block_cache=%" PRIu64 " row_cache=%" PRIu64 " range_cache=%" PRIu64
              " rank_cache=%" PRIu64 " memtable=%" PRIu64 " write_buffer=%" PRIu64,
              plan->memory, plan->block_cache, plan->row_cache, plan->range_cache, plan->rank_cache,
              plan->memtable, plan->write_buffer);
    if (plan->excess)
        log_event(LOG_WARN, "memory_exceeded",
                  "bytes=%" PRIu64 " excess=%" PRIu64 " reason=" LOG_QUOTED, plan->memory,
                  plan->excess,
                  "the sizes of caches and buffers that are given are more than memory: make them "
                  "smaller, or auto, or give more memory");
}

void process_config_publish(struct process *process, struct config_snapshot *snapshot)
{
    struct config_snapshot *old = process->snapshot;
    CHECK(snapshot->epoch == old->epoch + 1);
    process->snapshot = snapshot;
    log_set_level((enum log_level)snapshot->config.log_level);
    if (snapshot->memory.block_cache != old->memory.block_cache)
        store_env_resize(process->env, snapshot->memory.block_cache);
    if (memcmp(&snapshot->memory, &old->memory, sizeof old->memory) != 0)
        process_log_memory(&snapshot->memory);
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

enum { FILES_RESERVED = 256 };

uint64_t process_other_files(const struct backend_config *config)
{
    return FILES_RESERVED + (uint64_t)config->partitions *
                                ((uint64_t)config->store_max_open_files + STREAM_CLOSED_SPARE);
}

/* How many connections may be open: the stores keep the descriptors that they may need, or half of all. Without one they could
 * open no file, and all writes would fail. */
static uint32_t connections_max(const struct backend_config *config)
{
    struct rlimit limit;
    uint64_t others = process_other_files(config);
    uint64_t most = (uint64_t)config->maxclients;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return (uint32_t)most;
    uint64_t left = limit.rlim_cur > 2 * others ? limit.rlim_cur - others : limit.rlim_cur / 2;
    return (uint32_t)(left < most ? left : most);
}

bool process_client_joined(struct process *process)
{
    struct config_snapshot *snapshot = process_settings(process);
    uint32_t limit = connections_max(&snapshot->config);
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
    CHECK(pthread_mutex_init(&process->rewrite_lock, NULL) == 0);
    clock_random_bytes(process->run_id, RUN_ID_LEN);
    for (int i = 0; i < RUN_ID_LEN; i++)
        process->run_id[i] = hex[process->run_id[i] & 15];
    process->started_mono_ms = clock_mono_us() / 1000;
    process->pace = pace_new();
    process->clock = cluster_clock_new();
    set_pace(process, config);
    backend_metrics_init(&process->labelled);
    return process;
}

void process_free(struct process *process)
{
    config_snapshot_unref(process->snapshot);
    pace_free(process->pace);
    cluster_clock_free(process->clock);
    backend_metrics_fini(&process->labelled);
    pthread_mutex_destroy(&process->config_lock);
    pthread_mutex_destroy(&process->rewrite_lock);
    free(process);
}
