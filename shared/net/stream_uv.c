/*
 * stream_uv.c - stream.h over a descriptor that uv_poll watches; reads and writes are plain system calls.
 *
 * Why not uv_stream_t: with one read per event and one writev per turn a request costs as much or less, no write
 * requests are allocated, and we can handle half-closed and broken connections ourselves.
 *
 *   readable ─► read into receive_room ─► receive_filled ─► owner's on_data
 *   stream_send ─► streams.dirty ─► end of turn: writev; remaining bytes wait (is_blocked) until writable
 *
 * (1) Callbacks come from poll or from streams_deliver, never from inside a call of the owner. (2) A closed stream
 * keeps its memory until libuv's close callback, so callers up the stack may still read `state` and return. (3)
 * Pausing costs no system call until bytes arrive: only then we stop watching the descriptor.
 */
#include "shared/check.h"
#include "shared/net/net_uv.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    READ_ROOM_MIN = 8 * 1024, /* minimum room for a read */
    READS_PER_TURN = 4,       /* per stream, so that other streams are served too */
    READ_MAX = 256 * 1024,    /* bytes per read, so that other streams need not wait long */
    WRITES_PER_TURN = 16,
    IOVECS_MAX = 256,
    CLOSE_WAIT_MS = 5000, /* for the bytes pending at stream_close */
};

static void stream_finish(struct stream *stream);

/* ---- creation --------------------------------------------------------------------------------- */

struct stream *stream_alloc(struct loop *loop)
{
    struct stream *stream = calloc(1, sizeof(*stream));
    CHECK(stream);
    stream->loop = loop;
    stream->fd = -1;
    stream->state = STREAM_CONNECTING;
    stream->active_ms = loop_mono_ms(loop);
    out_init(&stream->out);
    receive_init(&stream->receive);
    list_init(&stream->dirty);
    list_init(&stream->telling);
    loop->opened++;
    return stream;
}

void stream_slim(struct stream *stream)
{
    receive_fini(&stream->receive);
    receive_init(&stream->receive);
    out_clear(&stream->out);
    secure_free(stream);
}

static void stream_release(struct stream *stream)
{
    stream->loop->closing--;
    stream_slim(stream);
    free(stream->local);
    free(stream);
}

static void on_poll_closed(uv_handle_t *handle)
{
    stream_release(container_of((uv_poll_t *)handle, struct stream, poll));
}

bool streams_bury(struct loop *loop)
{
    bool found = !list_empty(&loop->streams.dead);
    for (struct list *link; (link = list_pop(&loop->streams.dead));)
        stream_release(container_of(link, struct stream, telling));
    return found;
}

void stream_set_options(int fd, uint32_t keepalive_s)
{
    struct address own;
    if (!address_of(fd, false, &own) || own.any.sa_family == AF_UNIX)
        return;
    int on = 1;
    int idle = (int)keepalive_s;
    int interval = idle / 3 > 0 ? idle / 3 : 1;
    int probes = 3;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (!keepalive_s)
        return;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

void stream_set_owner(struct stream *stream, const struct stream_events *events, void *owner)
{
    stream->events = events;
    stream->owner = owner;
}

void stream_tell(struct stream *stream, unsigned what)
{
    if (!stream->tell)
        list_push(&stream->loop->streams.telling, &stream->telling);
    stream->tell |= (uint8_t)what;
}

/* ---- reading ---------------------------------------------------------------------------------- */

static void on_poll(uv_poll_t *poll, int status, int events);

bool stream_is_reading(const struct stream *stream)
{
    return stream->state == STREAM_OPEN && !stream->is_paused && !stream->is_ended;
}

/* Watches the events that the stream needs now. */
static void stream_watch(struct stream *stream)
{
    if (stream->state == STREAM_CLOSED) /* linger_uv.c may watch the descriptor */
        return;
    if (stream->pipe) {
        pipe_watch(stream);
        return;
    }
    int want =
        (stream_is_reading(stream) ? UV_READABLE : 0) | (stream->is_blocked ? UV_WRITABLE : 0);
    if (want == stream->subscription)
        return;
    stream->subscription = (uint8_t)want;
    if (want)
        CHECK(uv_poll_start(&stream->poll, want, on_poll) == 0);
    else
        uv_poll_stop(&stream->poll);
}

void stream_end(struct stream *stream, int err)
{
    if (stream->is_ended)
        return;
    stream->is_ended = true;
    if (stream->is_broken)
        err = stream->err;
    if (err) {
        stream->is_broken = true;
        stream->is_blocked = false;
        out_clear(&stream->out);
    }
    stream_watch(stream);
    stream->events->on_end(stream->owner, err);
}

bool stream_read_failed(struct stream *stream, ssize_t got)
{
    if (got == 0)
        stream_end(stream, 0);
    else if (errno == EINTR)
        return true;
    else if (errno != EAGAIN)
        stream_end(stream, -errno);
    return false;
}

/* Reads once. False: there is no more to read now. */
static bool stream_read_once(struct stream *stream)
{
    struct loop *loop = stream->loop;
    if (stream->secure.tls)
        return secure_read(stream);
    struct block *block = receive_room(&stream->receive, &loop->shared, READ_ROOM_MIN);
    if (!block) {
        stream_end(stream, -ENOMEM);
        return false;
    }
    size_t room = block->size - block->used;
    if (room > READ_MAX)
        room = READ_MAX;
    char *to = block->data + block->used;
    ssize_t got = stream->pipe ? pipe_read(stream, to, room) : read(stream->fd, to, room);
    if (got <= 0)
        return stream_read_failed(stream, got);
    stream->active_ms = loop_mono_ms(loop);
    receive_filled(&stream->receive, block, (size_t)got, stream->events->on_data, stream->owner);
    return (size_t)got == room;
}

static void stream_read(struct stream *stream)
{
    for (int i = 0; i < READS_PER_TURN && stream_is_reading(stream); i++) {
        if (stream->tell & TELL_AGAIN) /* kept bytes come before new ones and before the end */
            break;
        if (!stream_read_once(stream))
            break;
    }
}

void stream_readable(struct stream *stream)
{
    stream_read(stream);
    stream_watch(stream);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct stream *stream = container_of(poll, struct stream, poll);
    wake_up(stream->loop);
    if (status < 0) { /* libuv stopped watching: the next read or write returns the error */
        stream->subscription = 0;
        events = UV_READABLE | UV_WRITABLE;
    }
    if ((events & UV_WRITABLE) && stream->is_blocked) {
        stream->is_blocked = false;
        stream_send(stream);
    }
    if ((events & UV_READABLE) && stream_is_reading(stream))
        stream_read(stream);
    else if (events & UV_READABLE)
        stream_watch(stream);
    if (status < 0 && stream->state != STREAM_CLOSED)
        stream_watch(stream);
}

bool stream_attach(struct stream *stream, int fd)
{
    if (uv_poll_init(&stream->loop->uv, &stream->poll, fd) < 0)
        return false;
    stream->fd = fd;
    linger_count(stream->loop, 1);
    return true;
}

void stream_opened(struct stream *stream)
{
    stream->state = STREAM_OPEN;
    stream->active_ms = loop_mono_ms(stream->loop);
    stream_watch(stream);
}

bool stream_start(struct stream *stream, int fd)
{
    if (!stream_attach(stream, fd))
        return false;
    stream_opened(stream);
    return true;
}

void stream_pause(struct stream *stream)
{
    stream->is_paused = true;
}

void stream_resume(struct stream *stream)
{
    if (!stream->is_paused)
        return;
    stream->is_paused = false;
    if (stream->state != STREAM_OPEN)
        return;
    stream_tell(stream, TELL_AGAIN);
    stream_watch(stream);
}

bool stream_is_paused(const struct stream *stream)
{
    return stream->is_paused;
}

/* ---- writing ---------------------------------------------------------------------------------- */

struct out *stream_out(struct stream *stream)
{
    return &stream->out;
}

void stream_send(struct stream *stream)
{
    if (list_empty(&stream->dirty))
        list_push(&stream->loop->streams.dirty, &stream->dirty);
}

void stream_hold(struct stream *stream)
{
    /* TLS may have bytes of its own to send */
    if (stream->state == STREAM_OPEN && stream_pending(stream) == stream->out.bytes)
        list_remove(&stream->dirty);
}

/* Nothing more can be written. on_end is called at the end of the turn, after the bytes that can still be read. */
static void stream_broke(struct stream *stream, int err)
{
    stream->is_broken = true;
    out_clear(&stream->out);
    if (stream->state == STREAM_CLOSING) {
        stream_finish(stream);
    } else if (!stream->is_ended) {
        stream->err = err;
        stream_tell(stream, TELL_END);
    }
}

/* Writes `bytes`, the sum of iov, or fewer. Returns their number, or -1. */
static ssize_t stream_writev(struct stream *stream, const struct iovec *iov, int count,
                             size_t bytes)
{
    if (stream->pipe)
        return pipe_write(stream, iov, bytes);
    return count == 1 ? write(stream->fd, iov[0].iov_base, bytes) : writev(stream->fd, iov, count);
}

/* Makes one system call. False: nothing more can be written now. */
static bool stream_write_once(struct stream *stream)
{
    struct iovec iov[IOVECS_MAX];
    struct out *out = stream->secure.tls ? secure_seal(stream) : &stream->out;
    if (!out) {
        stream_broke(stream, -EPROTO);
        return false;
    }
    int count = out_iov(out, iov, IOVECS_MAX);
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += iov[i].iov_len;
    ssize_t sent = stream_writev(stream, iov, count, bytes);
    if (sent < 0 && errno == EINTR)
        return true;
    if (sent < 0 && errno != EAGAIN) {
        stream_broke(stream, -errno);
        return false;
    }
    if (sent > 0) {
        out_consume(out, (size_t)sent);
        stream->active_ms = loop_mono_ms(stream->loop);
    }
    return sent == (ssize_t)bytes;
}

static void on_close_deadline(void *owner)
{
    stream_finish(owner);
}

/* Bytes remain: waits until the descriptor is writable. */
static void stream_block(struct stream *stream)
{
    out_end_run(&stream->out); /* the peer may not read for a long time */
    stream->is_blocked = true;
    stream_watch(stream);
    if (stream->state == STREAM_CLOSING && !stream->deadline) {
        stream->deadline = timer_new(stream->loop, on_close_deadline, stream);
        timer_start(stream->deadline, CLOSE_WAIT_MS, 0);
    }
}

static void stream_flush(struct stream *stream)
{
    if (stream->state == STREAM_CONNECTING)
        return;
    if (stream->is_broken) {
        out_clear(&stream->out);
        return;
    }
    if (stream_pending(stream) > STREAM_HIGH_WATER)
        stream->was_high = true;
    if (stream->is_blocked && stream->state == STREAM_OPEN)
        return;
    for (int i = 0; i < WRITES_PER_TURN && stream_pending(stream) > 0; i++) {
        if (!stream_write_once(stream))
            break;
    }
    if (stream->state == STREAM_CLOSED || stream->is_broken)
        return;
    if (stream->was_high && stream_pending(stream) < STREAM_LOW_WATER) {
        stream->was_high = false;
        if (stream->state == STREAM_OPEN && stream->events->on_drain)
            stream_tell(stream, TELL_DRAIN);
    }
    if (stream_pending(stream) > 0)
        stream_block(stream);
    else if (stream->state == STREAM_CLOSING)
        stream_finish(stream);
    else if (stream->subscription & UV_WRITABLE)
        stream_watch(stream);
}

void streams_flush(struct loop *loop)
{
    for (struct list *link; (link = list_pop(&loop->streams.dirty));)
        stream_flush(container_of(link, struct stream, dirty));
}

size_t stream_pending(const struct stream *stream)
{
    return stream->out.bytes + (stream->secure.tls ? secure_pending(stream) : 0);
}

size_t stream_held(const struct stream *stream)
{
    return receive_held(&stream->receive);
}

size_t stream_held_room(const struct stream *stream)
{
    return receive_room_bytes(&stream->receive);
}

bool stream_has_hung_up(const struct stream *stream)
{
    struct pollfd asked = {.fd = stream->fd, .events = POLLRDHUP};
    if (stream->pipe)
        return pipe_has_ended(stream);
    return stream->is_ended || stream->is_broken ||
           (poll(&asked, 1, 0) == 1 && asked.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

bool stream_is_broken(const struct stream *stream)
{
    struct pollfd asked = {.fd = stream->fd};
    if (stream->pipe)
        return pipe_has_ended(stream);
    return stream->is_broken || (poll(&asked, 1, 0) == 1 && asked.revents & (POLLHUP | POLLERR));
}

/* ---- events ----------------------------------------------------------------------------------- */

static void stream_deliver(struct stream *stream)
{
    unsigned what = stream->tell;
    stream->tell = 0;
    if (what & TELL_OPEN)
        connect_tell(stream);
    if (stream->state != STREAM_OPEN)
        return;
    if ((what & TELL_AGAIN) && stream_is_reading(stream))
        receive_again(&stream->receive, stream->events->on_data, stream->owner);
    if ((what & TELL_AGAIN) && stream->secure.tls && secure_has_input(stream) &&
        stream_is_reading(stream))
        (void)secure_read(stream);
    if ((what & TELL_DRAIN) && stream->state == STREAM_OPEN)
        stream->events->on_drain(stream->owner);
    if (!(what & TELL_END))
        return;
    stream_read(stream);
    if (stream->state == STREAM_OPEN)
        stream_end(stream, stream->err);
}

/* Handles the current events; events that they cause are left for the next call. One of the events may call loop_poll: the call from there
 * also handles those that this one has not come to. */
void streams_deliver(struct loop *loop)
{
    struct list *link;
    while ((link = list_pop(&loop->streams.telling)))
        list_push(&loop->streams.delivering, link);
    while ((link = list_pop(&loop->streams.delivering)))
        stream_deliver(container_of(link, struct stream, telling));
}

/* ---- ending ----------------------------------------------------------------------------------- */

/* The last bytes and the end of the connection travel in one packet, so a peer that has read them and looks for more sees
 * the end. It does not send a request that would get no reply. */
static void stream_cork(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)); /* fails for a Unix socket */
}

void stream_close_descriptor(struct stream *stream)
{
    uv_close((uv_handle_t *)&stream->poll, on_poll_closed);
    close(stream->fd);
}

/* Ends our side now. The descriptor is closed when the peer has ended its side, if that is soon; the memory is freed
 * later. */
static void stream_finish(struct stream *stream)
{
    CHECK(stream->state != STREAM_CLOSED);
    bool may_linger = !stream->is_ended && !stream->is_broken;
    stream->state = STREAM_CLOSED;
    list_remove(&stream->dirty);
    list_remove(&stream->telling);
    timer_free(stream->deadline);
    connect_free(stream->connecting);
    secure_stop(stream);
    pipe_leave(stream);
    if (stream->fd < 0) {
        list_push(&stream->loop->streams.dead, &stream->telling);
        return;
    }
    linger_count(stream->loop, -1);
    if (stream->secure.tls && !stream->is_broken)
        secure_goodbye(stream);
    if (!may_linger || !linger_begin(stream))
        stream_close_descriptor(stream);
}

static void stream_leave(struct stream *stream)
{
    CHECK(stream->state == STREAM_CONNECTING || stream->state == STREAM_OPEN);
    stream->loop->opened--;
    stream->loop->closing++;
}

void stream_depart(struct stream *stream)
{
    stream_leave(stream);
    stream->state = STREAM_CLOSED;
    list_remove(&stream->dirty);
    list_remove(&stream->telling);
    linger_count(stream->loop, -1);
    uv_close((uv_handle_t *)&stream->poll, on_poll_closed);
}

void stream_close(struct stream *stream)
{
    stream_leave(stream);
    if (stream->state == STREAM_CONNECTING || stream->is_broken || stream_pending(stream) == 0) {
        stream_finish(stream);
        return;
    }
    stream->state = STREAM_CLOSING;
    stream_cork(stream->fd);
    stream->tell = 0;
    list_remove(&stream->telling);
    stream_watch(stream);
    stream_send(stream);
}

void stream_abort(struct stream *stream)
{
    stream_leave(stream);
    stream->is_broken = true; /* so that the descriptor is closed at once */
    stream_finish(stream);
}

/* ---- properties ------------------------------------------------------------------------------- */

const char *stream_peer(const struct stream *stream)
{
    return stream->peer;
}

const char *stream_local(const struct stream *stream)
{
    if (stream->local)
        return stream->local;
    struct address own;
    if (stream->fd < 0 || !address_of(stream->fd, false, &own))
        return "";
    char text[ADDRESS_TEXT_MAX];
    address_print(&own, text);
    struct stream *mutable = (struct stream *)stream;
    mutable->local = strdup(text);
    CHECK(mutable->local);
    return stream->local;
}

int stream_fd(const struct stream *stream)
{
    return stream->fd;
}

uint64_t stream_active_ms(const struct stream *stream)
{
    return stream->active_ms;
}
