/*
 * http_mhd.c - http.h with libmicrohttpd: one thread polls, reads, calls the handler and sends replies.
 *
 * The thread is ours, not libmicrohttpd's, so that it can also limit connections (http_connections.h): libmicrohttpd
 * itself only has an idle timeout, and accepts no more connections once it has reached its maximum. The socket is
 * bound here, so that the error can be reported. A request must fit into libmicrohttpd's buffer of a connection;
 * request bodies are refused.
 */
#include "shared/net/http.h"

#include "shared/check.h"
#include "shared/clock.h"
#include "shared/net/http_connections.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SPARE_CONNECTIONS = 64, /* already shut down, but not yet closed by libmicrohttpd */
    CONNECTION_BYTES_MAX = 16 * 1024,
    BACKLOG = 64,
    TICK_MS = 500,
};

struct http_server {
    struct MHD_Daemon *daemon;
    pthread_t thread;
    int wake_fd; /* an eventfd that wakes the thread when it must end */
    atomic_bool is_stopping;
    struct http_connections connections; /* used by the thread only */
    http_fn *on_request;
    void *owner;
    int port;
};

static enum MHD_Result queue_response(struct MHD_Connection *connection,
                                      const struct http_reply *reply)
{
    size_t len = reply->body.bytes;
    char *body = malloc(len + 1);
    CHECK(body);
    out_copy(&reply->body, body);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, body, MHD_RESPMEM_MUST_FREE);
    CHECK(response);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->content_type);
    for (const struct http_header *header = reply->headers; header && header->name; header++)
        (void)MHD_add_response_header(response, header->name, header->value);
    if (reply->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (reply->status == MHD_HTTP_UNAUTHORIZED) {
        static const char header[] = MHD_HTTP_HEADER_WWW_AUTHENTICATE;
        (void)MHD_add_response_header(response, header, "Bearer realm=\"scree\"");
        (void)MHD_add_response_header(response, header, "Basic realm=\"scree\"");
    }
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)reply->status, response);
    MHD_destroy_response(response);
    return result;
}

static bool is_read(const char *method)
{
    return strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
}

/* ---- connections ---- */

/* MHD_OPTION_NOTIFY_CONNECTION */
static void on_connection(void *owner, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = owner;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        http_connection_close(&server->connections, *context);
        return;
    }
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *peer =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    CHECK(fd && peer);
    *context = http_connection_open(&server->connections, fd->connect_fd, peer->client_addr,
                                    clock_mono_us());
}

static struct http_connection *own_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    CHECK(info && info->socket_context);
    return info->socket_context;
}

/* MHD_OPTION_NOTIFY_COMPLETED */
static void on_completed(void *owner, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct http_server *server = owner;
    (void)state;
    (void)code;
    http_connection_wait(&server->connections, own_of(connection), clock_mono_us());
}

/* ---- requests ---- */

/* Runs the handler with the request's token: programs send Bearer, browsers send Basic. */
static void handle(const struct http_server *server, struct MHD_Connection *connection,
                   const char *path, struct http_reply *reply)
{
    static const char BEARER[] = "Bearer ";
    const char *header =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    char *password = NULL;
    char *user = MHD_basic_auth_get_username_password(connection, &password);
    struct http_request request = {
        .path = path,
        .host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST),
        .token = password,
    };
    if (header && strncasecmp(header, BEARER, sizeof(BEARER) - 1) == 0)
        request.token = header + sizeof(BEARER) - 1;
    server->on_request(server->owner, &request, reply);
    if (password)
        MHD_free(password);
    if (user)
        MHD_free(user);
}

static enum MHD_Result on_http(void *owner, struct MHD_Connection *connection, const char *path,
                               const char *method, const char *version, const char *upload,
                               size_t *upload_len, void **state)
{
    /* libmicrohttpd calls first with only the headers; the reply is queued in the second call */
    static char seen;
    struct http_server *server = owner;
    struct http_reply reply = {.status = 200, .content_type = HTTP_TEXT};
    (void)version;
    (void)upload;
    out_init(&reply.body);
    if (!is_read(method)) {
        reply.status = MHD_HTTP_METHOD_NOT_ALLOWED;
        out_printf(&reply.body, "only GET and HEAD\n");
    } else if (!*state) {
        *state = &seen;
        return MHD_YES;
    } else if (*upload_len > 0) {
        *upload_len = 0;
        return MHD_YES;
    } else {
        handle(server, connection, path, &reply);
    }
    http_connection_answer(&server->connections, own_of(connection), clock_mono_us());
    enum MHD_Result result = queue_response(connection, &reply);
    out_clear(&reply.body);
    return result;
}

/* ---- the thread ---- */

static void *serve_http(void *argument)
{
    struct http_server *server = argument;
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    CHECK(info);
    struct pollfd polled[] = {{.fd = info->epoll_fd, .events = POLLIN},
                              {.fd = server->wake_fd, .events = POLLIN}};
    while (!atomic_load(&server->is_stopping)) {
        MHD_UNSIGNED_LONG_LONG wait_ms = TICK_MS;
        bool has_timeout = MHD_get_timeout(server->daemon, &wait_ms) == MHD_YES;
        int at_most_ms = server->connections.first ? TICK_MS : -1;
        if (has_timeout && wait_ms < TICK_MS)
            at_most_ms = (int)wait_ms;
        (void)poll(polled, 2, at_most_ms);
        (void)MHD_run(server->daemon);
        http_connections_expire(&server->connections, clock_mono_us());
    }
    return NULL;
}

/* ---- start and stop ---- */

/* Resolves "host:port" or "[v6]:port"; "*" or an empty host means all addresses. */
static struct addrinfo *resolve_listen_address(const char *address, char *error, size_t size)
{
    char host[256];
    const char *colon = strrchr(address, ':');
    size_t len = colon ? (size_t)(colon - address) : sizeof(host);
    if (len >= sizeof(host)) {
        (void)snprintf(error, size, "expected host:port");
        return NULL;
    }
    const char *from = address;
    if (len >= 2 && from[0] == '[' && from[len - 1] == ']') {
        from++;
        len -= 2;
    }
    memcpy(host, from, len);
    host[len] = '\0';
    bool any = !host[0] || strcmp(host, "*") == 0;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int problem = getaddrinfo(any ? NULL : host, colon + 1, &hints, &found);
    if (problem)
        (void)snprintf(error, size, "%s", gai_strerror(problem));
    return problem ? NULL : found;
}

static int bind_to(const struct addrinfo *info)
{
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int on = 1;
    int off = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (info->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int err = errno;
    close(fd);
    errno = err;
    return -1;
}

static int port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } own = {0};
    socklen_t len = sizeof(own);
    if (getsockname(fd, &own.any, &len) < 0)
        return 0;
    return ntohs(own.any.sa_family == AF_INET6 ? own.v6.sin6_port : own.v4.sin_port);
}

static struct MHD_Daemon *start_daemon(struct http_server *server, int fd)
{
    return MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_http, server, MHD_OPTION_LISTEN_SOCKET,
                            fd, MHD_OPTION_CONNECTION_LIMIT,
                            (unsigned)(HTTP_CONNECTIONS_MAX + SPARE_CONNECTIONS),
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES_MAX,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
                            MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_END);
}

struct http_server *http_start(const char *address, http_fn *on_request, void *owner, char *error,
                               size_t size)
{
    struct addrinfo *info = resolve_listen_address(address, error, size);
    if (!info)
        return NULL;
    int fd = bind_to(info);
    freeaddrinfo(info);
    if (fd < 0) {
        (void)snprintf(error, size, "%s", strerror(errno));
        return NULL;
    }
    struct http_server *server = calloc(1, sizeof(*server));
    CHECK(server);
    server->on_request = on_request;
    server->owner = owner;
    server->port = port_of(fd);
    server->daemon = start_daemon(server, fd);
    if (!server->daemon) {
        (void)snprintf(error, size, "the HTTP server could not be started");
        close(fd);
        free(server);
        return NULL;
    }
    server->wake_fd = eventfd(0, EFD_CLOEXEC);
    CHECK(server->wake_fd >= 0);
    CHECK(pthread_create(&server->thread, NULL, serve_http, server) == 0);
    return server;
}

int http_port(const struct http_server *server)
{
    return server->port;
}

void http_stop(struct http_server *server)
{
    if (!server)
        return;
    atomic_store(&server->is_stopping, true);
    CHECK(eventfd_write(server->wake_fd, 1) == 0);
    CHECK(pthread_join(server->thread, NULL) == 0);
    MHD_stop_daemon(server->daemon);
    close(server->wake_fd);
    free(server);
}
