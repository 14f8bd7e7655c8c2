/*
 * http_mhd.c - http.h on libmicrohttpd: one internal thread polls, reads, calls the handler, answers.
 *
 * The socket is bound here, so that the reason of a failure can be told. Bounds: CONNECTIONS_MAX at a
 * time, IDLE_S of silence, libmicrohttpd's own buffer per connection; bodies of requests are refused.
 */
#include "shared/net/http.h"

#include "shared/check.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 64, CONNECTION_BYTES_MAX = 16 * 1024, IDLE_S = 10, BACKLOG = 64 };

struct http_server {
    struct MHD_Daemon *daemon;
    http_fn *on_request;
    void *owner;
    int port;
};

static enum MHD_Result answer(struct MHD_Connection *connection, const struct http_reply *reply)
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

/* Runs the handler with the token the request carries: programs send Bearer, browsers ask for a password. */
static void handle(const struct http_server *server, struct MHD_Connection *connection,
                   const char *path, struct http_reply *reply)
{
    static const char BEARER[] = "Bearer ";
    const char *header =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    char *password = NULL;
    char *user = MHD_basic_auth_get_username_password(connection, &password);
    struct http_request request = {.path = path, .token = password};
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
    static char
        seen; /* libmicrohttpd calls first with the headers only; the answer is for the second call */
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
    enum MHD_Result result = answer(connection, &reply);
    out_clear(&reply.body);
    return result;
}

/* The host and the service of "host:port", "[v6]:port"; "*" and nothing are every address. */
static struct addrinfo *resolve(const char *address, char *error, size_t size)
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

struct http_server *http_start(const char *address, http_fn *on_request, void *owner, char *error,
                               size_t size)
{
    struct addrinfo *info = resolve(address, error, size);
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
    server->daemon = MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD, 0, NULL, NULL, on_http, server,
                                      MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                                      (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
                                      (unsigned)IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                      (size_t)CONNECTION_BYTES_MAX, MHD_OPTION_END);
    if (server->daemon)
        return server;
    (void)snprintf(error, size, "the HTTP server does not start");
    close(fd);
    free(server);
    return NULL;
}

int http_port(const struct http_server *server)
{
    return server->port;
}

void http_stop(struct http_server *server)
{
    if (!server)
        return;
    MHD_stop_daemon(server->daemon);
    free(server);
}
