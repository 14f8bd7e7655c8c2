/*
 * secure_uv.c - TLS streams: handshakes in small steps, then encryption and decryption.
 *
 *   accepted ──┐                                               ┌─► listener: on_accept
 *   connected ─┴─► handshake: readable ─► ready ─► a step ─────┤
 *                     ▲                    │  at most some     └─► connector: on_open
 *                     └──── more bytes ◄───┘  in each turn
 *
 *   open: read ─► tls_feed ─► tls_read into receive_room ─► owner      out ─► tls_write ─► tls_out ─► write
 *
 * A step of a handshake computes for up to a millisecond, so a turn runs at most STEPS_MAX steps, and begins none
 * after STEPS_US. The other ready handshakes wait in a queue while requests are served. A stream has no owner until
 * its handshake is done.
 *
 * (1) The number of half-open handshakes is bounded: at HANDSHAKES_MAX the one that has been silent longest is ended.
 *     Their memory is not counted for any client or namespace: at most TLS_HANDSHAKE_BYTES each.
 * (2) Encrypted bytes that are not sent yet are bounded by SEALED_MAX; further bytes wait in the stream's out, where
 *     they count as pending.
 */
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/metrics.h"
#include "shared/net/net_uv.h"
#include "shared/tls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HANDSHAKES_MAX = 1024, /* half-open at a time, per loop */
    STEPS_MAX = 4,         /* per turn, so that requests are not delayed */
    STEPS_US = 250,        /* no step begins later than this in a turn */
    STEP_READ = 8 * 1024,
    SEALED_READ = 32 * 1024,
    READ_ROOM_MIN = 8 * 1024,
    SEALED_MAX = 64 * 1024,
    /* most bytes of TLS' own messages (alerts, key updates) for a peer that does not read them */
    UNASKED_MAX = 256 * 1024,
};

struct handshake {
    struct stream *stream;
    struct list link;  /* in loop->handshakes.all, ordered by silence, longest first */
    struct list ready; /* in loop->handshakes.ready: the next step can run */
    struct timer *timer;
    handshake_fn *on_done;
    void *owner;
};

static struct metrics *metrics_of(struct loop *loop)
{
    if (!loop->metrics)
        loop->metrics = metrics_new();
    return loop->metrics;
}

/* ---- handshakes -------------------------------------------------------------------------------- */

static void handshake_ready(struct handshake *handshake)
{
    if (list_empty(&handshake->ready))
        list_push(&handshake->stream->loop->handshakes.ready, &handshake->ready);
}

static void on_handshake_poll(uv_poll_t *poll, int status, int events)
{
    struct stream *stream = container_of(poll, struct stream, poll);
    (void)status; /* the next read reports the error */
    (void)events;
    uv_poll_stop(poll);
    handshake_ready(stream->secure.handshake);
}

static void count_handshake(const struct stream *stream, struct metrics *metrics)
{
    bool is_resumed = tls_is_resumed(stream->secure.tls);
    metric_add(metrics, METRIC_PROCESS_TLS_CONNECTIONS, 1);
    metric_add(metrics, METRIC_PROCESS_TLS_HANDSHAKES, 1);
    metric_add(metrics, METRIC_PROCESS_TLS_RESUMED, is_resumed);
    if (!stream->connecting)
        return;
    metric_add(metrics, METRIC_PROCESS_TLS_CONNECTS, 1);
    metric_add(metrics, METRIC_PROCESS_TLS_CONNECTS_RESUMED, is_resumed);
}

static void handshake_end(struct stream *stream, int err)
{
    struct handshake *handshake = stream->secure.handshake;
    struct metrics *metrics = metrics_of(stream->loop);
    handshake_fn *on_done = handshake->on_done;
    void *owner = handshake->owner;
    secure_stop(stream);
    if (err) {
        metric_add(metrics, METRIC_PROCESS_TLS_FAILURES, 1);
    } else {
        count_handshake(stream, metrics);
        stream->secure.is_done = true;
        stream->loop->handshakes.done++;
        stream_opened(stream);
        stream_send(stream);
        if (tls_has_input(stream->secure.tls))
            stream_tell(stream, TELL_AGAIN);
    }
    on_done(owner, stream, err);
}

static void on_handshake_timeout(void *owner)
{
    struct handshake *handshake = owner;
    handshake_end(handshake->stream, -ETIMEDOUT);
}

/* Sends the bytes of TLS. False: the connection is broken. */
static bool send_sealed(struct stream *stream)
{
    struct out *out = tls_out(stream->secure.tls);
    struct iovec iov[16];
    while (out->bytes > 0) {
        ssize_t sent = writev(stream->fd, iov, out_iov(out, iov, 16));
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN;
        out_consume(out, (size_t)sent);
    }
    return true;
}

static enum tls_result handshake_read(struct stream *stream, int *err)
{
    char bytes[STEP_READ];
    ssize_t got = read(stream->fd, bytes, sizeof bytes);
    *err = -EPROTO;
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        *err = got == 0 ? -ECONNRESET : -errno;
        return TLS_FAILED;
    }
    if (got > 0)
        tls_feed(stream->secure.tls, bytes, (size_t)got);
    enum tls_result result = tls_handshake(stream->secure.tls);
    tls_keep(stream->secure.tls);
    return result;
}

static void handshake_step(struct handshake *handshake)
{
    struct stream *stream = handshake->stream;
    struct list *all = &stream->loop->handshakes.all;
    int err;
    enum tls_result result = handshake_read(stream, &err);
    if (!send_sealed(stream) && result != TLS_FAILED) {
        result = TLS_FAILED;
        err = -errno;
    }
    if (result != TLS_MORE) {
        handshake_end(stream, result == TLS_DONE ? 0 : err);
        return;
    }
    list_remove(&handshake->link);
    list_push(all, &handshake->link);
    int events = UV_READABLE | (tls_pending(stream->secure.tls) > 0 ? UV_WRITABLE : 0);
    CHECK(uv_poll_start(&stream->poll, events, on_handshake_poll) == 0);
}

bool handshakes_run(struct loop *loop)
{
    if (list_empty(&loop->handshakes.ready))
        return false;
    uint64_t end_us = clock_mono_us() + STEPS_US;
    int steps = 0;
    do
        handshake_step(container_of(list_pop(&loop->handshakes.ready), struct handshake, ready));
    while (++steps < STEPS_MAX && !list_empty(&loop->handshakes.ready) && clock_mono_us() < end_us);
    return true;
}

bool handshakes_make_room(struct loop *loop)
{
    if (loop->handshakes.count < HANDSHAKES_MAX)
        return true;
    struct handshake *silent = container_of(loop->handshakes.all.next, struct handshake, link);
    if (!list_empty(&silent->ready))
        return false; /* the peer's bytes have arrived and wait to be read: no handshake is silent */
    handshake_end(silent->stream, -ETIMEDOUT);
    return true;
}

/* ---- creation ---------------------------------------------------------------------------------- */

void secure_start(struct stream *stream, uint64_t timeout_ms, handshake_fn *on_done, void *owner)
{
    struct loop *loop = stream->loop;
    struct handshake *handshake = calloc(1, sizeof *handshake);
    CHECK(handshake);
    CHECK(stream->secure.tls);
    CHECK(stream->fd >= 0);
    handshake->stream = stream;
    handshake->on_done = on_done;
    handshake->owner = owner;
    handshake->timer = timer_new(loop, on_handshake_timeout, handshake);
    timer_start(handshake->timer, timeout_ms, 0);
    list_init(&handshake->ready);
    list_push(&loop->handshakes.all, &handshake->link);
    loop->handshakes.count++;
    stream->secure.handshake = handshake;
    handshake_ready(handshake); /* the side that connects sends first */
}

void secure_stop(struct stream *stream)
{
    struct handshake *handshake = stream->secure.handshake;
    if (!handshake)
        return;
    stream->secure.handshake = NULL;
    stream->loop->handshakes.count--;
    timer_free(handshake->timer);
    list_remove(&handshake->link);
    list_remove(&handshake->ready);
    uv_poll_stop(&stream->poll);
    free(handshake);
}

void secure_free(struct stream *stream)
{
    if (stream->secure.is_done) {
        metric_sub(metrics_of(stream->loop), METRIC_PROCESS_TLS_CONNECTIONS, 1);
        stream->loop->handshakes.done--;
    }
    tls_free(stream->secure.tls);
    stream->secure.tls = NULL;
    stream->secure.is_done = false;
}

void secure_leave(struct stream *stream, struct stream_tls *to)
{
    *to = stream->secure;
    stream->secure.tls = NULL;
    secure_free(stream);
}

void secure_join(struct stream *stream, const struct stream_tls *from)
{
    stream->secure = *from;
    if (!from->is_done)
        return;
    metric_add(metrics_of(stream->loop), METRIC_PROCESS_TLS_CONNECTIONS, 1);
    stream->loop->handshakes.done++;
}

void secure_abandon(struct loop *loop, const void *owner)
{
    for (struct list *link = loop->handshakes.all.next; link != &loop->handshakes.all;) {
        struct handshake *handshake = container_of(link, struct handshake, link);
        link = link->next;
        if (handshake->owner == owner)
            stream_abort(handshake->stream);
    }
}

void stream_secure(struct stream *stream, struct tls_context *context, const char *address)
{
    char host[ADDRESS_HOST_MAX] = "";
    uint16_t port;
    CHECK(stream->state == STREAM_CONNECTING);
    (void)address_split(address, host, &port);
    stream->secure.tls = tls_new(context, host, address);
}

bool stream_is_local(const struct stream *stream)
{
    const char *peer = stream->peer;
    return pipe_is_address(peer) || strchr(peer, '/') || strncmp(peer, "127.0.0.1:", 10) == 0 ||
           strncmp(peer, "[::1]:", 6) == 0 || strncmp(peer, "[::ffff:127.0.0.1]:", 19) == 0;
}

size_t stream_tls_bytes(const struct stream *stream)
{
    return stream->secure.is_done ? TLS_CONNECTION_BYTES : 0;
}

size_t loop_tls_bytes(const struct loop *loop)
{
    return (size_t)loop->handshakes.done * TLS_CONNECTION_BYTES;
}

bool stream_is_verified(const struct stream *stream)
{
    return stream->secure.tls && tls_is_verified(stream->secure.tls);
}

bool stream_is_secure(const struct stream *stream)
{
    return stream->secure.tls != NULL;
}

const char *stream_error(const struct stream *stream, int err)
{
    return err == -EPROTO && stream->secure.tls && *tls_reason(stream->secure.tls)
               ? tls_reason(stream->secure.tls)
               : strerror(-err);
}

/* ---- open streams ------------------------------------------------------------------------------ */

/* Decrypts bytes and passes them to the owner until it stops reading or bytes are missing. False: reading has stopped. */
static bool secure_adopt(struct stream *stream)
{
    while (stream_is_reading(stream) && !(stream->tell & TELL_AGAIN)) {
        struct block *block = receive_room(&stream->receive, &stream->loop->shared, READ_ROOM_MIN);
        size_t got = 0;
        if (!block) {
            stream_end(stream, -ENOMEM);
            return false;
        }
        char *to = block->data + block->used;
        switch (tls_read(stream->secure.tls, to, block->size - block->used, &got)) {
        case TLS_DONE:
            receive_filled(&stream->receive, block, got, stream->events->on_data, stream->owner);
            break;
        case TLS_MORE:
            return true;
        case TLS_END:
            stream_end(stream, 0);
            return false;
        case TLS_FAILED:
            (void)send_sealed(stream);
            stream_end(stream, -EPROTO);
            return false;
        }
    }
    return false;
}

bool secure_read(struct stream *stream)
{
    char sealed[SEALED_READ];
    ssize_t got = 0;
    if (stream->secure.is_reading) /* called again from loop_poll inside on_data */
        return false;
    if (!tls_has_input(stream->secure.tls)) {
        got = read(stream->fd, sealed, sizeof sealed);
        if (got <= 0)
            return stream_read_failed(stream, got);
        stream->active_ms = loop_mono_ms(stream->loop);
        tls_feed(stream->secure.tls, sealed, (size_t)got);
    }
    stream->secure.is_reading = true;
    bool wants_more = secure_adopt(stream);
    stream->secure.is_reading = false;
    tls_keep(stream->secure.tls);
    if (stream->state != STREAM_OPEN)
        return false;
    if (tls_pending(stream->secure.tls) > UNASKED_MAX) {
        stream_end(stream, -EPROTO);
        return false;
    }
    if (tls_pending(stream->secure.tls) > 0)
        stream_send(stream);
    return wants_more && got == sizeof sealed;
}

struct out *secure_seal(struct stream *stream)
{
    return tls_write(stream->secure.tls, &stream->out, SEALED_MAX) ? tls_out(stream->secure.tls)
                                                                   : NULL;
}

bool secure_has_input(const struct stream *stream)
{
    return tls_has_input(stream->secure.tls);
}

size_t secure_pending(const struct stream *stream)
{
    return tls_pending(stream->secure.tls);
}

void secure_goodbye(struct stream *stream)
{
    tls_shutdown(stream->secure.tls);
    (void)send_sealed(stream);
}
