/*
 * connect_uv.c - stream_connect: from an address as text to a connected descriptor.
 *
 *   text ─┬─ numeric or unix ──────────────┬─► tries the addresses one by one ─► TELL_OPEN ─► on_open
 *         └─ name ─► lookup (own thread) ──┘   each gets its share of the remaining time
 *                      no answer in half of the time, or the name server fails ─► the last good addresses
 *
 * "process:NAME" is not an address of the network: pipe_uv.c connects it at once.
 *
 * The result is always reported through TELL_OPEN, so on_open is never called from inside stream_connect.
 */
#include "shared/check.h"
#include "shared/net/net_uv.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONNECT_KEEPALIVE_S = 60 };

/* A descriptor that is connecting. Freed in libuv's close callback. */
struct attempt {
    uv_poll_t poll;
    struct connecting *connecting;
    struct loop *loop;
    int fd;
};

struct connecting {
    struct stream *stream;
    stream_open_fn *on_open;
    struct timer *timer; /* limits the lookup, then each attempt */
    struct lookup *lookup;
    struct attempt *attempt;
    uint64_t deadline_ms;
    bool is_lookup_late;         /* half of the time is over */
    char host[ADDRESS_HOST_MAX]; /* the name that is looked up, if it is one */
    uint16_t port;
    int fd; /* the connected descriptor; -1: none yet */
    int count;
    int next; /* index of the address to try when this attempt fails */
    struct address list[ADDRESS_LIST_MAX];
};

static void connect_next(struct connecting *connecting, int err);

static void connect_ended(struct connecting *connecting, int fd, int err)
{
    timer_stop(connecting->timer);
    connecting->fd = fd;
    connecting->stream->err = err;
    stream_tell(connecting->stream, TELL_OPEN);
}

static void on_attempt_closed(uv_handle_t *handle)
{
    struct attempt *attempt = container_of((uv_poll_t *)handle, struct attempt, poll);
    attempt->loop->closing--;
    free(attempt);
}

/* Ends the attempt; returns its descriptor, which the caller owns. */
static int attempt_leave(struct connecting *connecting)
{
    struct attempt *attempt = connecting->attempt;
    connecting->attempt = NULL;
    attempt->loop->closing++;
    uv_close((uv_handle_t *)&attempt->poll, on_attempt_closed);
    return attempt->fd;
}

/* Reads the result of the attempt from the socket. */
static void attempt_finish(struct connecting *connecting)
{
    int fd = attempt_leave(connecting);
    int err = 0;
    socklen_t len = sizeof(err);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
        err = errno;
    if (err) {
        close(fd);
        connect_next(connecting, -err);
    } else {
        connect_ended(connecting, fd, 0);
    }
}

static void on_attempt(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    attempt_finish(container_of(poll, struct attempt, poll)->connecting);
}

static bool is_finished(const struct attempt *attempt)
{
    struct pollfd it = {.fd = attempt->fd, .events = POLLOUT};
    return poll(&it, 1, 0) > 0;
}

/* Waits until `fd` is connected, at most for this attempt's share of the time. */
static int attempt_wait(struct connecting *connecting, int fd)
{
    struct loop *loop = connecting->stream->loop;
    struct attempt *attempt = calloc(1, sizeof(*attempt));
    CHECK(attempt);
    int err = uv_poll_init(&loop->uv, &attempt->poll, fd);
    if (err) {
        free(attempt);
        return err;
    }
    attempt->fd = fd;
    attempt->loop = loop;
    attempt->connecting = connecting;
    connecting->attempt = attempt;
    CHECK(uv_poll_start(&attempt->poll, UV_WRITABLE, on_attempt) == 0);

    uint64_t now = loop_mono_ms(loop);
    uint64_t left = connecting->deadline_ms > now ? connecting->deadline_ms - now : 0;
    timer_start(connecting->timer, left / (uint64_t)(connecting->count - connecting->next + 1), 0);
    return 0;
}

/* Returns 0 when connected or connecting, else a negative errno. */
static int attempt_start(struct connecting *connecting, const struct address *address)
{
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    stream_set_options(fd, CONNECT_KEEPALIVE_S);
    address_print(address, connecting->stream->peer);
    int err = 0;
    if (connect(fd, &address->any, address->len) == 0) {
        connect_ended(connecting, fd, 0);
        return 0;
    }
    err = errno == EINPROGRESS ? attempt_wait(connecting, fd) : -errno;
    if (err)
        close(fd);
    return err;
}

/* Tries the remaining addresses; `err` is the error of the last attempt. */
static void connect_next(struct connecting *connecting, int err)
{
    while (connecting->next < connecting->count) {
        err = attempt_start(connecting, &connecting->list[connecting->next++]);
        if (err == 0)
            return;
    }
    connect_ended(connecting, -1, err);
}

/* Takes the last good addresses of the name; false: there are none. */
static bool use_last_good(struct connecting *connecting)
{
    connecting->count = lookup_last_good(connecting->host, connecting->port, connecting->list);
    return connecting->count > 0;
}

/* The lookup has taken half of the time. */
static void lookup_is_late(struct connecting *connecting)
{
    uint64_t now_ms = loop_mono_ms(connecting->stream->loop);
    connecting->is_lookup_late = true;
    if (use_last_good(connecting)) {
        lookup_cancel(connecting->lookup);
        connecting->lookup = NULL;
        connect_next(connecting, -ETIMEDOUT);
    } else {
        timer_start(connecting->timer,
                    connecting->deadline_ms > now_ms ? connecting->deadline_ms - now_ms : 0, 0);
    }
}

static void on_timeout(void *owner)
{
    struct connecting *connecting = owner;
    if (connecting->lookup && !connecting->is_lookup_late) {
        lookup_is_late(connecting);
        return;
    }
    if (connecting->attempt && is_finished(connecting->attempt)) {
        /* connected in time, but the loop was too busy to poll the socket */
        attempt_finish(connecting);
        return;
    }
    if (connecting->lookup) {
        lookup_cancel(connecting->lookup);
        connecting->lookup = NULL;
    }
    if (connecting->attempt)
        close(attempt_leave(connecting));
    connect_next(connecting, -ETIMEDOUT);
}

static void on_lookup(void *owner, const struct address *list, int count)
{
    struct connecting *connecting = owner;
    connecting->lookup = NULL;
    if (count > 0) {
        connecting->count = count;
        memcpy(connecting->list, list, sizeof(*list) * (size_t)count);
    } else if (count == -EAGAIN) {
        (void)use_last_good(connecting);
        count = -EHOSTUNREACH;
    }
    connect_next(connecting, count < 0 ? count : -EHOSTUNREACH);
}

struct stream *stream_connect(struct loop *loop, const char *address, uint64_t timeout_ms,
                              const struct stream_events *events, stream_open_fn *on_open,
                              void *owner)
{
    struct stream *stream = stream_alloc(loop);
    stream_set_owner(stream, events, owner);
    struct connecting *connecting = calloc(1, sizeof(*connecting));
    CHECK(connecting);
    stream->connecting = connecting;
    connecting->stream = stream;
    connecting->on_open = on_open;
    connecting->fd = -1;
    connecting->timer = timer_new(loop, on_timeout, connecting);
    timer_start(connecting->timer, timeout_ms, 0); /* also updates the loop's time */
    connecting->deadline_ms = loop_mono_ms(loop) + timeout_ms;

    if (pipe_is_address(address)) {
        connect_ended(connecting, -1, pipe_connect(stream, address));
    } else if (address_parse(address, &connecting->list[0])) {
        connecting->count = 1;
        connect_next(connecting, 0);
    } else if (!address_is_unix(address) &&
               address_split(address, connecting->host, &connecting->port) && connecting->host[0]) {
        timer_start(connecting->timer, timeout_ms / 2, 0);
        connecting->lookup =
            lookup_start(loop, connecting->host, connecting->port, on_lookup, connecting);
    } else {
        connect_ended(connecting, -1, -EINVAL);
    }
    return stream;
}

static void on_handshake(void *owner, struct stream *stream, int err)
{
    stream_open_fn *on_open = stream->connecting->on_open;
    (void)owner;
    connect_free(stream->connecting);
    stream->connecting = NULL;
    on_open(stream->owner, err);
}

/* Starts the TLS handshake of a connected stream, with the remaining time. False: libuv cannot watch the descriptor. */
static bool shake_hands(struct stream *stream)
{
    struct connecting *connecting = stream->connecting;
    uint64_t now_ms = loop_mono_ms(stream->loop);
    if (!stream_attach(stream, connecting->fd))
        return false;
    connecting->fd = -1;
    uint64_t left_ms = connecting->deadline_ms > now_ms ? connecting->deadline_ms - now_ms : 0;
    secure_start(stream, left_ms, on_handshake, stream);
    return true;
}

void connect_tell(struct stream *stream)
{
    struct connecting *connecting = stream->connecting;
    int err = stream->err;
    stream->err = 0;
    if (connecting->fd >= 0 && stream->secure.tls && shake_hands(stream))
        return;
    if (stream->pipe) {
        stream_opened(stream);
        stream_send(stream);
    } else if (connecting->fd >= 0) {
        if (stream_start(stream, connecting->fd)) {
            connecting->fd = -1;
            stream_send(stream); /* sends what was appended before the stream was open */
        } else {
            err = -ENOMEM;
        }
    }
    stream_open_fn *on_open = connecting->on_open;
    stream->connecting = NULL;
    connect_free(connecting);
    on_open(stream->owner, err);
}

void connect_free(struct connecting *connecting)
{
    if (!connecting)
        return;
    timer_free(connecting->timer);
    if (connecting->lookup)
        lookup_cancel(connecting->lookup);
    if (connecting->attempt)
        close(attempt_leave(connecting));
    if (connecting->fd >= 0)
        close(connecting->fd);
    free(connecting);
}
