#include "backend/server.h"

#include "backend/admin.h"
#include "backend/context/partition.h"
#include "backend/session/memory.h"
#include "backend/slots/map_check.h"
#include "backend/slots/peering.h"
#include "backend/store/pace.h"
#include "backend/store/store.h"
#include "backend/tool/tool.h"
#include "config/ini_file.h"
#include "config/reload.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"
#include "shared/net/worker.h"
#include "shared/version.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ERROR_MAX = 512, ADDRESS_MAX = 512 };

/* ---- snapshot ---- */

static bool same_watched_files(const struct backend_config *a, const struct backend_config *b)
{
    return strcmp(a->tls_cert_file, b->tls_cert_file) == 0 &&
           strcmp(a->tls_key_file, b->tls_key_file) == 0 &&
           strcmp(a->tls_ca_cert_file, b->tls_ca_cert_file) == 0 &&
           strcmp(a->shards, b->shards) == 0;
}

/* process_events.on_settings: watches the certificate files of the new settings. */
static void on_settings(void *owner, const struct config_snapshot *old,
                        const struct config_snapshot *now)
{
    struct server *server = owner;
    if (!same_watched_files(&now->config, &old->config) &&
        !atomic_exchange(&server->watches_are_old, true))
        loop_post(server->loop, &server->watch);
}

static void log_reload_refused(struct server *server, const char *error)
{
    metric_add(server->metrics, METRIC_BACKEND_RELOAD_FAILURES, 1);
    metric_set(server->metrics, METRIC_BACKEND_RELOAD_GOOD, 0);
    log_event(LOG_ERROR, "reload_refused", "reason=" LOG_QUOTED, error);
}

/* Reads the shard map, and checks the places of the partitions in it. */
static bool load_shards(const struct server *server, struct config_snapshot *snapshot,
                        struct map_check *check, char *error, size_t size)
{
    if (!config_snapshot_load_map(snapshot, error, size))
        return false;
    uint32_t at = 0;
    const struct partition *partition;
    while ((partition = server_next(server, &at)))
        if (!map_check(check, snapshot, partition, error, size))
            return false;
    return true;
}

/* SIGHUP: reads the configuration file again, and reopens the log file. */
static void reload(struct server *server)
{
    char error[ERROR_MAX];
    struct reload_report report = {0};
    struct map_check check = {0};
    struct config_snapshot *snapshot = process_config_edit(server->process);
    if (!backend_reload(&snapshot->config, &report, error, sizeof error)) {
        process_config_drop(server->process, snapshot);
        log_reload_refused(server, error);
        return;
    }
    stored_options_apply(snapshot);
    const struct tls_context *tls = snapshot->tls;
    const struct tls_context *peer_tls = snapshot->peer_tls;
    struct shard_map *map = snapshot->map ? shard_map_ref(snapshot->map) : NULL;
    if (!config_snapshot_load_tls(snapshot, error, sizeof error) ||
        !load_shards(server, snapshot, &check, error, sizeof error)) {
        shard_map_unref(map);
        process_config_drop(server->process, snapshot);
        log_reload_refused(server, error);
        return;
    }
    bool tls_changed = tls != snapshot->tls || peer_tls != snapshot->peer_tls;
    bool map_changed = map != snapshot->map;
    if (map && map_changed)
        reload_report_moves(&report, map, snapshot->map);
    if (check.needs_restart)
        reload_report_restart(&report, "shards");
    shard_map_unref(map);
    const char *log_file = snapshot->config.log_file;
    if (*log_file && !log_set_file(log_file))
        log_event(LOG_ERROR, "log_file_failed", "path=" LOG_QUOTED, log_file);
    config_snapshot_derive(snapshot);
    process_config_publish(server->process, snapshot);
    metric_add(server->metrics, METRIC_BACKEND_RELOADS, 1);
    metric_set(server->metrics, METRIC_BACKEND_RELOAD_GOOD, 1);
    log_event(LOG_INFO, "reloaded",
              "tls_changed=%d map_changed=%d moves=" LOG_QUOTED " changed=" LOG_QUOTED
              " needs_restart=" LOG_QUOTED,
              tls_changed, map_changed, report.moves, report.changed, report.needs_restart);
}

/* ---- stopping ---- */

/* partition_host_options.on_stopped */
static void on_host_stopped(void *owner, struct partition_host *host)
{
    struct server *server = owner;
    (void)host;
    if (--server->hosts_running == 0)
        loop_stop(server->loop);
}

static void run_stop(struct task *task)
{
    struct server *server = container_of(task, struct server, stop);
    log_event(LOG_INFO, "stopping", "partitions=%u", server->hosts_count);
    for (uint32_t i = 0; i < server->hosts_count; i++)
        partition_host_stop(&server->hosts[i]);
}

/* process_events: on_stop */
static void on_stop(void *owner)
{
    struct server *server = owner;
    if (server->loop)
        loop_post(server->loop, &server->stop);
}

static void on_signal(void *owner, int signum)
{
    struct server *server = owner;
    if (signum == SIGHUP) {
        reload(server);
    } else if (process_is_stopping(server->process)) {
        log_event(LOG_WARN, "killed", "signal=%d", signum);
        _exit(1);
    } else {
        process_stop(server->process);
    }
}

/* ---- starting ---- */

const struct partition *server_next(const struct server *server, uint32_t *at)
{
    while (*at < server->hosts_count) {
        const struct partition *partition = server->hosts[(*at)++].partition;
        if (partition)
            return partition;
    }
    return NULL;
}

static bool are_all_open(const struct server *server)
{
    for (uint32_t i = 0; i < server->hosts_count; i++)
        if (!server->hosts[i].partition)
            return false;
    return server->failed_count == 0;
}

bool server_is_ready(const struct server *server)
{
    return atomic_load(&server->process->is_ready) && are_all_open(server) &&
           !atomic_load(&server->process->is_stopping);
}

struct server *server_new(const struct backend_config *config)
{
    static const struct process_events events = {.on_stop = on_stop, .on_settings = on_settings};
    struct server *server = calloc(1, sizeof *server);
    CHECK(server);
    server->process = process_new(config, &events, server);
    server->stop.run = run_stop;
    server->metrics = metrics_new();
    CHECK(pthread_rwlock_init(&server->lock, NULL) == 0);
    metric_set(server->metrics, METRIC_BACKEND_RELOAD_GOOD, 1);
    return server;
}

void server_free(struct server *server)
{
    process_free(server->process);
    pthread_rwlock_destroy(&server->lock);
    free(server);
}

/* Each connection and each data file needs a descriptor, and connections that were closed keep theirs for a moment. */
static void raise_file_limit(const struct backend_config *config)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)config->maxclients + (rlim_t)process_other_files(config);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted)
        log_event(LOG_WARN, "few_descriptors", "limit=%llu wanted=%llu",
                  (unsigned long long)limit.rlim_cur, (unsigned long long)wanted);
}

static bool has_partition(const struct backend_config *config, int index)
{
    char path[ADDRESS_MAX + 4096];
    struct stat found;
    (void)snprintf(path, sizeof path, "%s/partition-%d", config->data, index);
    return stat(path, &found) == 0;
}

/* Checks that the number of partitions is unchanged, because keys are distributed over them. A copy of a shard fetches the files of a
 * partition that is missing. */
static bool check_partitions(const struct backend_config *config, char *error, size_t size)
{
    int found = 0;
    if (tool_restore_is_open(config->data)) {
        (void)snprintf(error, size, "data: a restore into %s was interrupted: run --restore again",
                       config->data);
        return false;
    }
    while (found < PARTITIONS_MAX && has_partition(config, found))
        found++;
    if (config->replicas && found < config->partitions)
        return true;
    if (found == 0 || found == config->partitions)
        return true;
    (void)snprintf(
        error, size,
        "partitions: %s has %d partitions, but the configuration has %d: set partitions = %d",
        config->data, found, config->partitions, found);
    return false;
}

static void note_damaged(struct server *server, uint32_t index, const char *reason)
{
    struct failed_partition *failed = &server->failed[server->failed_count++];
    failed->index = index;
    (void)snprintf(failed->reason, sizeof failed->reason, "%s", reason);
    log_event(LOG_ERROR, "partition_failed",
              "partition=%u reason=" LOG_QUOTED " action=" LOG_QUOTED, index, reason,
              "restore it from a backup with --restore BACKUP/SHARD --partition, then restart");
}

/* partition_host_options.on_failed. As at the start: the other partitions go on, unless the reason may be temporary. */
static void on_host_failed(void *owner, struct partition_host *host, bool is_damaged,
                           const char *reason)
{
    struct server *server = owner;
    if (is_damaged) {
        CHECK(pthread_rwlock_wrlock(&server->lock) == 0);
        note_damaged(server, host->options.index, reason);
        CHECK(pthread_rwlock_unlock(&server->lock) == 0);
    } else {
        log_event(LOG_ERROR, "start_failed", "reason=" LOG_QUOTED, reason);
        process_stop(server->process);
    }
    server->has_failed |= !is_damaged || server->hosts_running == 1; /* none is left */
    on_host_stopped(server, host);
}

/* Opens a partition. One with damaged files is noted in server->failed. Returns false after any other failure: it may be temporary, so
 * the process must end and be started again. */
static bool open_host(struct server *server, uint32_t index, char *error, size_t size)
{
    struct partition_host *host = &server->hosts[server->hosts_count];
    const struct partition_host_options options = {.process = server->process,
                                                   .main = server->loop,
                                                   .lock = &server->lock,
                                                   .index = index,
                                                   .on_stopped = on_host_stopped,
                                                   .on_failed = on_host_failed,
                                                   .owner = server};
    bool is_damaged = false;
    if (partition_host_open(host, &options, &is_damaged, error, size)) {
        server->hosts_count++;
        return true;
    }
    if (is_damaged)
        note_damaged(server, index, error);
    return is_damaged;
}

/* Opens all partitions and their ports. False and a reason: one cannot be opened, or all are damaged. */
static bool open_hosts(struct server *server, const struct backend_config *config, char *error,
                       size_t size)
{
    for (uint32_t i = 0; i < (uint32_t)config->partitions; i++)
        if (!open_host(server, i, error, size))
            return false;
    for (uint32_t i = 0; i < server->hosts_count; i++)
        if (!partition_host_listen(&server->hosts[i], error, size))
            return false;
    return server->hosts_count > 0;
}

/* Puts the stored options of all partitions in force, before the first request. False: the rows of a partition cannot be read. */
static bool adopt_stored_options(struct server *server, char *error, size_t size)
{
    struct stored_options found = {0};
    bool is_good = true;
    for (uint32_t i = 0; i < server->hosts_count && is_good; i++)
        is_good = stored_options_read(&found, server->hosts[i].partition->overlay);
    if (is_good)
        stored_options_adopt(server->process, &found);
    else
        (void)snprintf(error, size, "the stored options that CONFIG SET has stored cannot be read");
    stored_options_fini(&found);
    return is_good;
}

static void on_watched_file(void *owner)
{
    reload(owner);
}

static void unwatch_files(struct server *server)
{
    for (int i = 0; i < WATCHED_TLS_FILES_MAX; i++) {
        if (server->tls_watches[i])
            watch_free(server->tls_watches[i]);
        server->tls_watches[i] = NULL;
    }
    if (server->shards_watch)
        watch_free(server->shards_watch);
    server->shards_watch = NULL;
}

static void watch_shards(struct server *server)
{
    struct config_snapshot *snapshot = process_settings(server->process);
    if (*snapshot->config.shards) {
        char *path = path_beside(snapshot->config.head.path, snapshot->config.shards);
        server->shards_watch = watch_new(server->loop, path, on_watched_file, server);
        free(path);
    }
    config_snapshot_unref(snapshot);
}

static void watch_files(struct server *server)
{
    char *paths[WATCHED_TLS_FILES_MAX] = {NULL};
    struct config_snapshot *snapshot = process_settings(server->process);
    const struct backend_config *config = &snapshot->config;
    if (config->tls_port)
        backend_tls_paths(config, paths);
    if (config->peer_tls && (!config->tls_port || *config->peer_tls_cert_file))
        peer_tls_paths(config, paths + TLS_FILES_MAX);
    config_snapshot_unref(snapshot);
    unwatch_files(server);
    for (int i = 0; i < WATCHED_TLS_FILES_MAX; i++) {
        if (paths[i])
            server->tls_watches[i] = watch_new(server->loop, paths[i], on_watched_file, server);
        free(paths[i]);
    }
    watch_shards(server);
}

/* Watches the new files after the paths changed, and reads them, because they may have changed before. */
static void rewatch_and_reload(struct task *task)
{
    struct server *server = container_of(task, struct server, watch);
    atomic_store(&server->watches_are_old, false);
    watch_files(server);
    reload(server);
}

static bool server_open(struct server *server, char *error, size_t size)
{
    const struct backend_config *config = &server->process->snapshot->config;
    struct map_check check = {0};
    (void)signal(SIGXFSZ, SIG_IGN); /* exceeding a file size limit becomes a failed write */
    raise_file_limit(config);
    if (config->port < 0 && !config->tls_port && !*config->unix_socket) {
        (void)snprintf(error, size, "port: no port is set; set port or tls-port");
        return false;
    }
    server->loop = loop_new();
    server->watch.run = rewatch_and_reload;
    watch_files(server); /* before they are read: a change in between would not be noticed */
    if (!check_partitions(config, error, size) ||
        !config_snapshot_load_tls(server->process->snapshot, error, size) ||
        !config_snapshot_load_users(server->process->snapshot, error, size))
        return false;
    const struct store_env_options options = {
        .block_cache_bytes = server->process->snapshot->memory.block_cache,
        .background_threads = (uint32_t)config->store_background_threads,
        .pace = server->process->pace,
    };
    server->process->env = store_env_new(&options);
    if (config->store_reader_threads)
        server->process->readers =
            worker_pool_new("reader", (unsigned)config->store_reader_threads);
    if (!open_hosts(server, config, error, size) || !adopt_stored_options(server, error, size) ||
        !load_shards(server, server->process->snapshot, &check, error, size))
        return false;
    for (uint32_t i = 0; i < server->hosts_count; i++)
        if (!partition_host_begin(&server->hosts[i], error, size))
            return false;
    loop_on_signal(server->loop, SIGTERM, on_signal, server);
    loop_on_signal(server->loop, SIGINT, on_signal, server);
    loop_on_signal(server->loop, SIGHUP, on_signal, server);
    return admin_start(server, error, size);
}

static void server_serve(struct server *server)
{
    server->hosts_running = server->hosts_count;
    process_log_memory(&server->process->snapshot->memory); /* partitions that run may replace it */
    for (uint32_t i = 0; i < server->hosts_count; i++)
        partition_host_start(&server->hosts[i]);
    memory_started();
    atomic_store(&server->process->is_ready, true);
    log_event(LOG_INFO, "started", "version=%s partitions=%u failed=%u run_id=%s", SCREE_VERSION,
              server->hosts_count, server->failed_count, server->process->run_id);
    loop_run(server->loop);
    for (uint32_t i = 0; i < server->hosts_count; i++)
        partition_host_join(&server->hosts[i]);
    log_event(LOG_INFO, "stopped", "clean=yes");
}

static void server_close(struct server *server)
{
    unwatch_files(server);
    if (server->admin)
        http_stop(server->admin);
    for (uint32_t i = 0; i < server->hosts_count; i++)
        partition_host_close(&server->hosts[i]);
    worker_pool_free(server->process->readers);
    if (server->process->env)
        store_env_free(server->process->env);
    if (server->loop)
        loop_free(server->loop);
}

int server_run(struct server *server)
{
    char error[ERROR_MAX] = "";
    bool opened = server_open(server, error, sizeof error);
    if (opened)
        server_serve(server);
    else
        log_event(LOG_ERROR, "start_failed", "reason=" LOG_QUOTED, error);
    server_close(server);
    return opened && !server->has_failed ? 0 : 1;
}
