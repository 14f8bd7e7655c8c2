#include "backend/partition_host.h"

#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/partition_new.h"
#include "backend/partition_run.h"
#include "shared/log.h"
#include "shared/net/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REASON_MAX = 256, ADDRESS_MAX = 512 };

/* ---- ports ------------------------------------------------------------------------------------- */

static struct listener *listen_on(struct partition_host *host, const char *address, char *error,
                                  size_t size)
{
    struct partition *partition = host->partition;
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

bool partition_host_listen(struct partition_host *host, char *error, size_t size)
{
    struct partition *partition = host->partition;
    const struct backend_config *config = &partition->snapshot->config;
    char address[ADDRESS_MAX];
    int index = (int)partition->index;
    if (config->tls_port) {
        tcp_address(config, config->tls_port + index, address);
        partition->listeners.tls = listen_on(host, address, error, size);
        if (!partition->listeners.tls)
            return false;
        listener_secure(partition->listeners.tls, partition_tls, config->tls_handshake_timeout_ms);
    }
    if (config->port >= 0) {
        tcp_address(config, config->port ? config->port + index : 0, address);
        partition->listeners.tcp = listen_on(host, address, error, size);
        if (!partition->listeners.tcp)
            return false;
    }
    if (!*config->unix_socket)
        return true;
    (void)snprintf(address, sizeof address, "unix:%s.%u", config->unix_socket, partition->index);
    partition->listeners.unix_socket = listen_on(host, address, error, size);
    return partition->listeners.unix_socket != NULL;
}

/* ---- life -------------------------------------------------------------------------------------- */

/* Called on the partition's thread. */
static void on_partition_stopped(void *owner)
{
    struct partition_host *host = owner;
    loop_post(host->options.main, &host->stopped);
    loop_stop(host->loop);
}

static void run_host_stop(struct task *task)
{
    struct partition_host *host = container_of(task, struct partition_host, stop);
    partition_stop(host->partition, on_partition_stopped, host);
}

/* Called on the main thread. */
static void run_host_stopped(struct task *task)
{
    const struct partition_host *host = container_of(task, struct partition_host, stopped);
    host->options.on_stopped(host->options.owner);
}

bool partition_host_open(struct partition_host *host, const struct partition_host_options *options,
                         bool *is_damaged, char *error, size_t size)
{
    *host = (struct partition_host){
        .options = *options,
        .loop = loop_new(),
        .stop = {.run = run_host_stop},
        .stopped = {.run = run_host_stopped},
    };
    host->partition =
        partition_new(options->process, options->index, host->loop, is_damaged, error, size);
    if (!host->partition)
        loop_free(host->loop);
    return host->partition != NULL;
}

void partition_host_start(struct partition_host *host)
{
    host->thread = loop_thread_start(host->loop, host->partition->name, NULL, NULL, host);
}

void partition_host_stop(struct partition_host *host)
{
    loop_post(host->loop, &host->stop);
}

void partition_host_join(struct partition_host *host)
{
    loop_thread_join(host->thread);
}

void partition_host_close(struct partition_host *host)
{
    partition_free(host->partition);
    loop_free(host->loop);
}
