#include "proxy/run/worker_accept.h"

#include "proxy/client/connection.h"
#include "proxy/client/login.h"
#include "proxy/client/memory.h"
#include "proxy/core/login_rules.h"
#include "proxy/core/proxy.h"
#include "proxy/core/share_limits.h"
#include "shared/net/refuse.h"

#include <stdlib.h>

static const char maxclients_refusal[] = "-ERR max number of clients reached\r\n";
static const char tls_memory_error[] =
    "-ERR too many TLS connections: their buffers take half of memory-limit\r\n";

/* The error of redis-server, word for word. */
static const char protected_error[] =
    "-DENIED Redis is running in protected mode because protected mode is enabled "
    "and no password is set for the default user. In this mode connections are only "
    "accepted from the loopback interface. If you want to connect from external "
    "computers to Redis you may adopt one of the following solutions: 1) Just "
    "disable protected mode sending the command 'CONFIG SET protected-mode no' from "
    "the loopback interface by connecting to Redis from the same host the server is "
    "running, however MAKE SURE Redis is not publicly accessible from internet if "
    "you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively "
    "you can just disable the protected mode by editing the Redis configuration "
    "file, and setting the protected mode option to 'no', and then restarting the "
    "server. 3) If you started the server manually just for testing, restart it with "
    "the '--protected-mode no' option. 4) Setup a an authentication password for the "
    "default user. NOTE: You only need to do one of the above things in order for "
    "the server to start accepting connections from the outside.\r\n";

/* A bound address and the namespace of its clients. */
struct entrance {
    struct listener *listener;
    struct proxy_worker *worker;
    char *name;
};

static void refuse_client(struct proxy_worker *worker, struct stream *stream, const char *error)
{
    metric_add(worker->metrics.process, METRIC_PROXY_CLIENTS_REFUSED, 1);
    out_write(stream_out(stream), error, strlen(error));
    refuse_stream(stream);
}

static bool is_tls_full(const struct proxy_worker *worker, const struct stream *stream)
{
    size_t bytes = stream_tls_bytes(stream); /* the same number for all TLS connections */
    return bytes && metrics_sum(METRIC_PROCESS_TLS_CONNECTIONS) * bytes > memory_tls_share(worker);
}

/* Why a connection is refused; NULL: it is not. `all`: the number of those before it. */
static const char *refusal_of(const struct proxy_worker *worker, const struct stream *stream,
                              struct bytes name, int64_t all)
{
    int64_t limit = worker->snapshot->config.maxclients;
    int64_t spare = login_is_needed(worker->snapshot) ? RESERVED_CLIENTS : 0;
    if (all >= limit + spare || worker->thread.is_stopping || !shares_may_enter(worker, name))
        return maxclients_refusal;
    if (is_tls_full(worker, stream))
        return tls_memory_error;
    return login_is_protected(worker, stream, name) ? protected_error : NULL;
}

void proxy_worker_accept(struct proxy_worker *worker, struct stream *stream, struct bytes name)
{
    int64_t all = atomic_fetch_add(&worker->proxy->clients, 1);
    const char *refusal = refusal_of(worker, stream, name, all);
    if (refusal) {
        atomic_fetch_sub(&worker->proxy->clients, 1);
        refuse_client(worker, stream, refusal);
        return;
    }
    metric_add(worker->metrics.process, METRIC_PROXY_CLIENTS_ACCEPTED, 1);
    struct client *client = client_new(worker, stream, name);
    client->session.is_spare = all >= worker->snapshot->config.maxclients;
}

static void on_accept(void *owner, struct stream *stream)
{
    struct entrance *entrance = owner;
    proxy_worker_accept(entrance->worker, stream, bytes_of(entrance->name));
}

static struct tls_context *tls_of(void *owner)
{
    struct entrance *entrance = owner;
    return entrance->worker->snapshot->tls;
}

void proxy_worker_listen(struct proxy_worker *worker, int fd, const struct listen_options *options,
                         const char *name, bool tls)
{
    size_t size = (worker->thread.entrance_count + 1) * sizeof(struct entrance *);
    struct entrance *entrance = calloc(1, sizeof(*entrance));
    CHECK(entrance);
    worker->thread.entrances = realloc(worker->thread.entrances, size);
    CHECK(worker->thread.entrances);
    entrance->worker = worker;
    entrance->name = strdup(name);
    CHECK(entrance->name);
    entrance->listener = listener_new(worker->loop, fd, options, on_accept, entrance);
    if (tls)
        listener_secure(entrance->listener, tls_of,
                        worker->snapshot->config.tls_handshake_timeout_ms);
    worker->thread.entrances[worker->thread.entrance_count++] = entrance;
}

void worker_stop_listening(struct proxy_worker *worker)
{
    for (size_t i = 0; i < worker->thread.entrance_count; i++) {
        listener_free(worker->thread.entrances[i]->listener);
        free(worker->thread.entrances[i]->name);
        free(worker->thread.entrances[i]);
    }
    free(worker->thread.entrances);
    worker->thread.entrances = NULL;
    worker->thread.entrance_count = 0;
}
