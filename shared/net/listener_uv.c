/*
 * listener_uv.c - listening sockets, and accepting from them.
 *
 * A TCP address is first bound without SO_REUSEPORT, so that two programs never share a port by mistake. Only then
 * the option is set, and further sockets for an address on which this process already listens are bound with it. A
 * Unix socket is dup()ed instead. `bound` lists the addresses on which we listen; an entry is used only if its
 * descriptor still listens on its address.
 *
 * Without free descriptors: a closed stream that still has one gives it up (linger_uv.c); else the reserve descriptor is closed, the connection accepted and closed, the reserve opened
 * again. This empties the queue, so that the loop does not spin.
 */
#include "shared/check.h"
#include "shared/log.h"
#include "shared/net/net_uv.h"
#include "shared/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BOUND_MAX = 64,
    ACCEPTS_PER_TURN = 128,
    LOG_EVERY_MS = 1000,
    REST_MS = 100, /* pause in accepting when the reserve descriptor cannot be opened either */
};

struct listener {
    uv_poll_t poll;
    struct loop *loop;
    accept_fn *on_accept;
    void *owner;
    listener_tls_fn *tls_of; /* NULL: no TLS */
    uint64_t handshake_ms;
    struct timer *rest; /* ends a pause */
    uint64_t logged_ms;
    uint64_t failures; /* since the last log line */
    int fd;
    int reserve;
    bool is_freed;
};

/* ---- binding ---------------------------------------------------------------------------------- */

static pthread_mutex_t bound_lock = PTHREAD_MUTEX_INITIALIZER;
static int bound[BOUND_MAX];
static unsigned bound_count;

static bool is_same_address(const struct address *a, const struct address *b)
{
    char text_a[ADDRESS_TEXT_MAX];
    char text_b[ADDRESS_TEXT_MAX];
    address_print(a, text_a);
    address_print(b, text_b);
    return a->any.sa_family == b->any.sa_family && strcmp(text_a, text_b) == 0;
}

static bool is_listening_on(int fd, const struct address *address)
{
    struct address own;
    int listening = 0;
    socklen_t len = sizeof(listening);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) == 0 && listening &&
           address_of(fd, false, &own) && is_same_address(&own, address);
}

/* Our descriptor that listens on the address, or -1. */
static int bound_find(const struct address *address)
{
    unsigned count = bound_count < BOUND_MAX ? bound_count : BOUND_MAX;
    for (unsigned i = 0; i < count; i++) {
        if (is_listening_on(bound[i], address))
            return bound[i];
    }
    return -1;
}

static void bound_add(int fd)
{
    bound[bound_count++ % BOUND_MAX] = fd;
}

/* Does a program still listen on the socket file? Only ECONNREFUSED (or no file) means no: after any other error,
 * such as a missing permission or a socket of another type, the file counts as in use. */
static bool unix_is_live(const struct address *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true;
    bool live =
        connect(fd, &address->any, address->len) == 0 || (errno != ECONNREFUSED && errno != ENOENT);
    close(fd);
    return live;
}

/* Sets the mode of the socket file if the umask has removed bits from it. Follows no symbolic link: in a directory
 * that all users may write to, another user may have replaced the file by a link. */
static bool unix_set_mode(const char *path, mode_t mode)
{
    struct stat file;
    if (lstat(path, &file) < 0)
        return false;
    return (file.st_mode & 07777) == mode ||
           fchmodat(AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Sets the mode before the socket is bound to its path, so that it is never open to others. */
static int unix_bind(const struct address *address, const struct listen_options *options)
{
    struct stat file;
    const char *path = address->path.sun_path;
    if (lstat(path, &file) == 0) {
        if (!S_ISSOCK(file.st_mode))
            return -EEXIST;
        int ours = bound_find(address);
        if (ours >= 0) {
            int fd = fcntl(ours, F_DUPFD_CLOEXEC, 0);
            return fd < 0 ? -errno : fd;
        }
        if (unix_is_live(address))
            return -EADDRINUSE;
        (void)unlink(path);
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (fchmod(fd, options->unix_mode) < 0 || bind(fd, &address->any, address->len) < 0 ||
        !unix_set_mode(path, options->unix_mode) || listen(fd, options->backlog) < 0) {
        int err = -errno;
        close(fd);
        return err;
    }
    return fd;
}

static int tcp_bind(const struct address *address, int backlog)
{
    bool shared = bound_find(address) >= 0;
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int on = 1;
    int off = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address->any.sa_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    int err = 0;
    if (shared)
        err = setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    if (!err)
        err = bind(fd, &address->any, address->len);
    if (!err && !shared)
        err = setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    if (!err)
        err = listen(fd, backlog);
    if (!err)
        return fd;
    err = -errno;
    close(fd);
    return err;
}

/* Resolves a name at start; blocks. False: error[size] has the reason. */
static bool resolve_host_name(const char *text, struct address *address, char *error, size_t size)
{
    if (address_parse(text, address))
        return true;
    char host[ADDRESS_HOST_MAX];
    uint16_t port;
    if (address_is_unix(text) || !address_split(text, host, &port)) {
        (void)snprintf(error, size, "expected host:port or unix:/path");
        return false;
    }
    char service[8];
    (void)snprintf(service, sizeof(service), "%u", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    bool any = !host[0] || strcmp(host, "*") == 0;
    int problem = getaddrinfo(any ? NULL : host, service, &hints, &found);
    if (problem) {
        (void)snprintf(error, size, "%s", gai_strerror(problem));
        return false;
    }
    address->len = found->ai_addrlen;
    memcpy(&address->any, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return true;
}

int listen_bind(const struct listen_options *options, char *error, size_t size)
{
    struct address address;
    if (!resolve_host_name(options->address, &address, error, size))
        return -1;
    pthread_mutex_lock(&bound_lock);
    int fd = address.any.sa_family == AF_UNIX ? unix_bind(&address, options)
                                              : tcp_bind(&address, options->backlog);
    if (fd >= 0)
        bound_add(fd);
    pthread_mutex_unlock(&bound_lock);
    if (fd >= 0)
        return fd;
    if (fd == -EADDRINUSE)
        (void)snprintf(error, size, "address already in use");
    else if (fd == -EEXIST)
        (void)snprintf(error, size,
                       "the path exists and is not a socket: remove it or choose another path");
    else
        (void)snprintf(error, size, "%s", strerror(-fd));
    return -1;
}

void listen_address(int fd, char *text, size_t size)
{
    struct address address;
    char full[ADDRESS_TEXT_MAX] = "";
    if (address_of(fd, false, &address))
        address_print(&address, full);
    (void)snprintf(text, size, "%s", full);
}

/* ---- accepting -------------------------------------------------------------------------------- */

static void on_poll(uv_poll_t *poll, int status, int events);

/* Logs `why`, at most once per LOG_EVERY_MS. */
static void listener_log(struct listener *listener, const char *event, const char *why,
                         const char *peer)
{
    listener->failures++;
    uint64_t now = loop_mono_ms(listener->loop);
    if (listener->logged_ms && now - listener->logged_ms < LOG_EVERY_MS)
        return;
    char text[ADDRESS_TEXT_MAX];
    listen_address(listener->fd, text, sizeof(text));
    log_event(LOG_WARN, event, "address=%s peer=%s reason=" LOG_QUOTED " times=%llu", text, peer,
              why, (unsigned long long)listener->failures);
    listener->logged_ms = now ? now : 1;
    listener->failures = 0;
}

static void on_rested(void *owner)
{
    struct listener *listener = owner;
    uv_poll_start(&listener->poll, UV_READABLE, on_poll);
}

static void listener_rest(struct listener *listener)
{
    uv_poll_stop(&listener->poll);
    timer_start(listener->rest, REST_MS, 0);
}

/* Accepts one connection and closes it. */
static void listener_shed(struct listener *listener)
{
    if (listener->reserve >= 0) {
        close(listener->reserve);
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            close(fd);
    }
    listener->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (listener->reserve < 0)
        listener_rest(listener);
}

/* Handles a failed accept. False: stop accepting for now. */
static bool accept_failed(struct listener *listener, int err)
{
    if (err == EAGAIN)
        return false;
    if (err == EINTR || err == ECONNABORTED || err == EPROTO)
        return true;
    if ((err == EMFILE || err == ENFILE) && linger_make_room(listener->loop))
        return true;
    listener_log(listener, "accept_failed", strerror(err), "");
    if (err == EMFILE || err == ENFILE)
        listener_shed(listener);
    else
        listener_rest(listener);
    return false;
}

static void on_handshake(void *owner, struct stream *stream, int err)
{
    struct listener *listener = owner;
    if (!err) {
        listener->on_accept(listener->owner, stream);
        CHECK(stream->state == STREAM_CLOSED || stream->events);
        return;
    }
    listener_log(listener, "tls_handshake_failed", stream_error(stream, err), stream->peer);
    stream_close(stream);
}

static void accept_start(struct listener *listener, int fd, const struct address *peer)
{
    struct stream *stream = stream_alloc(listener->loop);
    bool is_good = listener->tls_of ? stream_attach(stream, fd) : stream_start(stream, fd);
    if (!is_good) {
        close(fd);
        stream_abort(stream);
        return;
    }
    address_print(peer, stream->peer);
    if (!stream->peer[0])
        (void)snprintf(stream->peer, sizeof(stream->peer), "%s", stream_local(stream));
    if (listener->tls_of) {
        stream->secure.tls = tls_new(listener->tls_of(listener->owner), "", "");
        secure_start(stream, listener->handshake_ms, on_handshake, listener);
        return;
    }
    listener->on_accept(listener->owner, stream);
    CHECK(stream->state == STREAM_CLOSED || stream->events);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = container_of(poll, struct listener, poll);
    (void)events;
    if (status < 0) {
        listener_log(listener, "accept_failed", strerror(-status), "");
        listener_rest(listener);
        return;
    }
    for (int i = 0; i < ACCEPTS_PER_TURN && !listener->is_freed; i++) {
        if (listener->tls_of && !handshakes_make_room(listener->loop)) {
            listener_rest(listener);
            return;
        }
        struct address peer;
        peer.len = sizeof(peer) - offsetof(struct address, any);
        int fd = accept4(listener->fd, &peer.any, &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            accept_start(listener, fd, &peer);
        else if (!accept_failed(listener, errno))
            break;
    }
}

struct listener *listener_new(struct loop *loop, int fd, const struct listen_options *options,
                              accept_fn *on_accept, void *owner)
{
    struct listener *listener = calloc(1, sizeof(*listener));
    CHECK(listener);
    listener->loop = loop;
    listener->on_accept = on_accept;
    listener->owner = owner;
    listener->fd = fd;
    listener->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    listener->rest = timer_new(loop, on_rested, listener);
    stream_set_options(fd, options->keepalive_s); /* accepted sockets inherit it */
    CHECK(uv_poll_init(&loop->uv, &listener->poll, fd) == 0);
    uv_poll_start(&listener->poll, UV_READABLE, on_poll);
    loop->opened++;
    return listener;
}

void listener_secure(struct listener *listener, listener_tls_fn *tls_of, uint64_t handshake_ms)
{
    listener->tls_of = tls_of;
    listener->handshake_ms = handshake_ms;
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct listener *listener = container_of((uv_poll_t *)handle, struct listener, poll);
    listener->loop->closing--;
    free(listener);
}

void listener_free(struct listener *listener)
{
    listener->loop->opened--;
    listener->loop->closing++;
    listener->is_freed = true;
    secure_abandon(listener->loop, listener);
    timer_free(listener->rest);
    uv_close((uv_handle_t *)&listener->poll, on_listener_closed);
    close(listener->fd);
    if (listener->reserve >= 0)
        close(listener->reserve);
}
