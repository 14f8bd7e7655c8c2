#include "backend/partition_host.h"

#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/partition/founding.h"
#include "backend/partition_new.h"
#include "backend/partition_run.h"
#include "backend/replica/snapshot_install.h"
#include "backend/replica/snapshot_join.h"
#include "backend/slots/peering.h"
#include "shared/check.h"
#include "shared/log.h"
#include "shared/metrics.h"
#include "shared/net/stream.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REASON_MAX = 256, ADDRESS_MAX = 512 };

/* ---- ports ------------------------------------------------------------------------------------- */

static struct listener *listen_on(struct partition_host *host, struct partition *partition,
                                  const char *address, char *error, size_t size)
{
    const struct backend_config *config = &partition->snapshot->config;
    const struct listen_options options = {
        .address = address,
        .backlog = config->tcp_backlog,
        .keepalive_s = (uint32_t)(config->tcp_keepalive_ms / 1000),
        .unix_mode = config->unix_mode,
    };
    char reason[REASON_MAX];
    char bound[ADDRESS_MAX];
    int fd = listen_bind(&options, reason, sizeof reason);
    if (fd < 0) {
        (void)snprintf(error, size, "partition-%u cannot listen on %s: %s", partition->index,
                       address, reason);
        return NULL;
    }
    listen_address(fd, bound, sizeof bound);
    log_event(LOG_INFO, "listening", "partition=%u address=%s", partition->index, bound);
    const char *colon = strrchr(bound, ':');
    if (colon && strncmp(address, "unix:", 5) != 0) /* TCP addresses come last */
        partition->listeners.port = (int)strtol(colon + 1, NULL, 10);
    return listener_new(host->loop, fd, &options, partition_accept, partition);
}

static void tcp_address(const struct backend_config *config, int port, char address[ADDRESS_MAX])
{
    bool is_v6 = strchr(config->bind, ':') != NULL;
    (void)snprintf(address, ADDRESS_MAX, is_v6 ? "[%s]:%d" : "%s:%d", config->bind, port);
}

/* A port that the kernel has chosen stays. */
static bool listen_tcp(struct partition_host *host, struct partition *partition, char *error,
                       size_t size)
{
    const struct backend_config *config = &partition->snapshot->config;
    char address[ADDRESS_MAX];
    int chosen = host->port;
    if (config->port < 0)
        return true;
    tcp_address(config, config->port ? config->port + (int)partition->index : chosen, address);
    partition->listeners.tcp = listen_on(host, partition, address, error, size);
    host->port = partition->listeners.port;
    return partition->listeners.tcp != NULL;
}

static bool listen_tls(struct partition_host *host, struct partition *partition, char *error,
                       size_t size)
{
    const struct backend_config *config = &partition->snapshot->config;
    char address[ADDRESS_MAX];
    if (!config->tls_port)
        return true;
    tcp_address(config, config->tls_port + (int)partition->index, address);
    partition->listeners.tls = listen_on(host, partition, address, error, size);
    if (partition->listeners.tls)
        listener_secure(partition->listeners.tls, partition_tls, config->tls_handshake_timeout_ms);
    return partition->listeners.tls != NULL;
}

static bool listen_unix(struct partition_host *host, struct partition *partition, char *error,
                        size_t size)
{
    const struct backend_config *config = &partition->snapshot->config;
    char address[ADDRESS_MAX];
    if (!*config->unix_socket)
        return true;
    (void)snprintf(address, sizeof address, "unix:%s.%u", config->unix_socket, partition->index);
    partition->listeners.unix_socket = listen_on(host, partition, address, error, size);
    return partition->listeners.unix_socket != NULL;
}

static bool listen_at_ports(struct partition_host *host, struct partition *partition, char *error,
                            size_t size)
{
    return listen_tls(host, partition, error, size) && listen_tcp(host, partition, error, size) &&
           listen_unix(host, partition, error, size);
}

bool partition_host_listen(struct partition_host *host, char *error, size_t size)
{
    return listen_at_ports(host, host->partition, error, size);
}

/* ---- tasks ------------------------------------------------------------------------------------- */

/* Called on the replica's thread. */
static void run_replica_end(struct task *task)
{
    struct partition_host_replica *replica = container_of(task, struct partition_host_replica, end);
    loop_stop(replica->loop);
}

/* Called on the partition's thread. Its replica has stopped. */
static void on_partition_stopped(void *owner)
{
    struct partition_host *host = owner;
    if (host->replica.loop)
        loop_post(host->replica.loop, &host->replica.end);
    loop_post(host->options.main, &host->stopped);
    loop_stop(host->loop);
}

static void run_host_stop(struct task *task)
{
    struct partition_host *host = container_of(task, struct partition_host, stop);
    partition_stop(host->partition, on_partition_stopped, host);
}

static void go_on_with_other_files(struct partition_host *host);

/* Called on the main thread. */
static void run_host_stopped(struct task *task)
{
    struct partition_host *host = container_of(task, struct partition_host, stopped);
    if (host->is_leaving && !host->is_stopping)
        go_on_with_other_files(host);
    else
        host->options.on_stopped(host->options.owner, host);
}

/* Called on the main thread. The files wait for the next process if this one is about to end. */
static void run_host_leave(struct task *task)
{
    struct partition_host *host = container_of(task, struct partition_host, leave);
    if (host->is_stopping || host->is_leaving)
        return;
    host->is_leaving = true;
    loop_post(host->loop, &host->stop);
}

/* ---- life -------------------------------------------------------------------------------------- */

static void data_dir(const struct partition_host *host, char dir[PATH_MAX])
{
    struct config_snapshot *snapshot = process_settings(host->options.process);
    (void)snprintf(dir, PATH_MAX, "%s/partition-%u", snapshot->config.data, host->options.index);
    config_snapshot_unref(snapshot);
}

static struct partition *open_partition(struct partition_host *host, bool *is_damaged, char *error,
                                        size_t size)
{
    const struct partition_host_options *options = &host->options;
    char dir[PATH_MAX];
    data_dir(host, dir);
    host->loop = loop_new();
    struct partition *partition =
        partition_new(options->process, options->index, host->loop, is_damaged, error, size);
    if (partition) {
        snapshot_install_clean(dir);
    } else {
        loop_free(host->loop);
        host->loop = NULL;
    }
    return partition;
}

/* The files before the partition's storage, and the loop after its replica. */
static void close_partition(struct partition_host *host, struct partition *partition)
{
    snapshot_join_free(host->replica.files);
    partition_free(partition);
    loop_free(host->loop);
    host->loop = NULL;
    if (host->replica.loop)
        loop_free(host->replica.loop);
    host->replica = (struct partition_host_replica){.metrics = host->replica.metrics};
}

static void show_partition(struct partition_host *host, struct partition *partition)
{
    CHECK(pthread_rwlock_wrlock(host->options.lock) == 0);
    host->partition = partition;
    CHECK(pthread_rwlock_unlock(host->options.lock) == 0);
}

bool partition_host_open(struct partition_host *host, const struct partition_host_options *options,
                         bool *is_damaged, char *error, size_t size)
{
    *host = (struct partition_host){
        .options = *options,
        .stop = {.run = run_host_stop},
        .stopped = {.run = run_host_stopped},
        .leave = {.run = run_host_leave},
    };
    struct partition *partition = open_partition(host, is_damaged, error, size);
    if (partition)
        show_partition(host, partition);
    return partition != NULL;
}

/* Called on the partition's thread. Files that were fetched and promises that are lost may be reported one right after the other. */
static void ask_to_leave(struct partition_host *host)
{
    if (!host->has_asked_to_leave)
        loop_post(host->options.main, &host->leave);
    host->has_asked_to_leave = true;
}

/* founding_options.on_install; called on the partition's thread */
static void on_files_fetched(void *owner, const char *dir, const struct replica_record *record)
{
    struct partition_host *host = owner;
    (void)dir; /* beside the data: snapshot_install finds it */
    host->record = *record;
    ask_to_leave(host);
}

/* founding_options.on_lost; called on the partition's thread */
static void on_promises_lost(void *owner)
{
    struct partition_host *host = owner;
    host->is_lost = true;
    ask_to_leave(host);
}

static struct snapshot_join *files_new(const struct partition_host *host,
                                       const struct partition *partition)
{
    char dir[PATH_MAX];
    data_dir(host, dir);
    const struct snapshot_join_options options = {
        .loop = host->replica.loop,
        .storage = partition->storage,
        .dir = dir,
        .index = partition->index,
        .rate = partition->snapshot->config.snapshot_rate_bytes,
        .free_min = 2 * partition->snapshot->config.store_disk_free_min_bytes,
    };
    return snapshot_join_new(&options);
}

static bool begin_replica(struct partition_host *host, struct partition *partition, char *error,
                          size_t size)
{
    struct metrics *metrics = host->replica.metrics ? host->replica.metrics : metrics_new();
    host->replica = (struct partition_host_replica){
        .loop = loop_new(), .end = {.run = run_replica_end}, .metrics = metrics};
    host->replica.files = files_new(host, partition);
    const struct replica_snapshots table = snapshot_join_table(host->replica.files);
    char dir[PATH_MAX];
    data_dir(host, dir);
    const struct founding_options options = {.loop = host->replica.loop,
                                             .metrics = metrics,
                                             .snapshots = &table,
                                             .on_install = on_files_fetched,
                                             .on_lost = on_promises_lost,
                                             .has_lost =
                                                 host->keeps_lost || snapshot_is_set_aside(dir),
                                             .owner = host};
    if (!founding_begin(partition, &options, error, size))
        return false;
    snapshot_join_use(host->replica.files, partition->copies.replica);
    return true;
}

static bool begin_partition(struct partition_host *host, struct partition *partition, char *error,
                            size_t size)
{
    if (founding_wants_loop(partition) && !begin_replica(host, partition, error, size))
        return false;
    peering_configure(partition);
    return true;
}

bool partition_host_begin(struct partition_host *host, char *error, size_t size)
{
    return begin_partition(host, host->partition, error, size);
}

void partition_host_start(struct partition_host *host)
{
    if (host->replica.loop)
        host->replica.thread = loop_thread_start(host->replica.loop, "replica", NULL, NULL, host);
    host->thread = loop_thread_start(host->loop, host->partition->name, NULL, NULL, host);
}

void partition_host_stop(struct partition_host *host)
{
    host->is_stopping = true;
    if (host->partition && !host->is_leaving)
        loop_post(host->loop, &host->stop);
}

void partition_host_join(struct partition_host *host)
{
    if (host->thread)
        loop_thread_join(host->thread);
    host->thread = NULL;
    if (host->replica.thread)
        loop_thread_join(host->replica.thread);
    host->replica.thread = NULL;
}

void partition_host_close(struct partition_host *host)
{
    struct partition *partition = host->partition;
    if (!partition)
        return;
    show_partition(host, NULL);
    close_partition(host, partition);
}

/* ---- other files ------------------------------------------------------------------------------- */

/* If the files cannot take the place of the data, the copy goes on with what it has, and will be given files again. */
static void install_files(const struct partition_host *host, const char *dir)
{
    char reason[REASON_MAX];
    if (snapshot_install(dir, &host->record, reason, sizeof reason))
        log_event(LOG_INFO, "snapshot_installed", "partition=%u index=%" PRIu64,
                  host->options.index, host->record.base);
    else
        log_event(LOG_ERROR, "snapshot_install_failed", "partition=%u reason=" LOG_QUOTED,
                  host->options.index, reason);
}

/* With a second loss the first directory is still there: an operator decides, and this copy takes part in nothing. */
static void set_files_aside(struct partition_host *host, const char *dir)
{
    char reason[REASON_MAX];
    host->keeps_lost = !snapshot_set_aside(dir, reason, sizeof reason);
    if (!host->keeps_lost)
        log_event(LOG_WARN, "copy_set_aside", "partition=%u path=%s%s", host->options.index, dir,
                  SNAPSHOT_LOST);
    else
        log_event(LOG_ERROR, "copy_not_set_aside", "partition=%u reason=" LOG_QUOTED,
                  host->options.index, reason);
}

static struct partition *open_again(struct partition_host *host, bool *is_damaged, char *error,
                                    size_t size)
{
    struct partition *partition = open_partition(host, is_damaged, error, size);
    if (!partition)
        return NULL;
    if (listen_at_ports(host, partition, error, size) &&
        begin_partition(host, partition, error, size))
        return partition;
    close_partition(host, partition);
    return NULL;
}

static void go_on_with_other_files(struct partition_host *host)
{
    char dir[PATH_MAX], error[ADDRESS_MAX];
    bool is_damaged = false;
    data_dir(host, dir);
    host->is_leaving = false;
    partition_host_join(host);
    partition_host_close(host);
    if (host->is_lost)
        set_files_aside(host, dir);
    else
        install_files(host, dir);
    host->is_lost = host->has_asked_to_leave = false;
    struct partition *partition = open_again(host, &is_damaged, error, sizeof error);
    if (partition) {
        show_partition(host, partition);
        partition_host_start(host);
    } else {
        host->has_failed = true;
        host->options.on_failed(host->options.owner, host, is_damaged, error);
    }
}
