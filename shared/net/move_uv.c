/*
 * move_uv.c - a stream moves to another loop.
 *
 *   loop A: stream ─► parcel: descriptor, TLS, bytes held and pending ─► loop_post ─► loop B: another stream, on_arrive
 *
 * Blocks belong to a thread, so the bytes travel as plain memory. Bytes that arrive in between wait in the socket. The old
 * stream ends like a closed one, but its descriptor stays open.
 */
#include "shared/check.h"
#include "shared/net/net_uv.h"
#include "shared/tls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct parcel {
    struct task task;
    struct loop *to;
    accept_fn *on_arrive;
    void *owner;
    int fd;
    int err;      /* of an end that was not reported yet */
    uint8_t tell; /* TELL_ bits that were not reported yet */
    bool is_paused, is_ended, is_broken, was_high;
    struct stream_tls secure;
    char *local;
    char peer[ADDRESS_TEXT_MAX];
    char *held, *pending, *sealed; /* received; to be sent; encrypted already */
    size_t held_len, held_need, pending_len, sealed_len;
};

/* ---- departure ---- */

static char *copied(const char *data, size_t len)
{
    char *copy = malloc(len + 1);
    CHECK(copy);
    if (len)
        memcpy(copy, data, len);
    return copy;
}

static char *take_out(struct out *out, size_t *len)
{
    char *copy = copied(NULL, 0);
    *len = out->bytes;
    if (*len) {
        free(copy);
        copy = malloc(*len);
        CHECK(copy);
        out_copy(out, copy);
    }
    out_clear(out);
    return copy;
}

static void pack_bytes(struct stream *stream, struct parcel *parcel)
{
    struct receive *receive = &stream->receive;
    const char *held = receive->partial ? receive->partial->data + receive->start : NULL;
    parcel->held_len = receive_held(receive);
    parcel->held_need = receive->need;
    parcel->held = copied(held, parcel->held_len);
    receive_fini(receive);
    parcel->pending = take_out(&stream->out, &parcel->pending_len);
    if (parcel->secure.tls)
        parcel->sealed = take_out(tls_out(parcel->secure.tls), &parcel->sealed_len);
}

static struct parcel *pack(struct stream *stream)
{
    struct parcel *parcel = calloc(1, sizeof *parcel);
    CHECK(parcel);
    parcel->fd = stream->fd;
    parcel->err = stream->err;
    parcel->tell = stream->tell;
    parcel->is_paused = stream->is_paused;
    parcel->is_ended = stream->is_ended;
    parcel->is_broken = stream->is_broken;
    parcel->was_high = stream->was_high;
    parcel->local = stream->local;
    stream->local = NULL;
    memcpy(parcel->peer, stream->peer, sizeof parcel->peer);
    secure_leave(stream, &parcel->secure);
    pack_bytes(stream, parcel);
    return parcel;
}

/* ---- arrival ---- */

static void give_bytes(struct stream *stream, const struct parcel *parcel)
{
    if (parcel->held_len &&
        !receive_restore(&stream->receive, parcel->held, parcel->held_len, parcel->held_need)) {
        stream->err = -ENOMEM;
        stream_tell(stream, TELL_END);
    }
    if (parcel->sealed_len)
        out_write(tls_out(stream->secure.tls), parcel->sealed, parcel->sealed_len);
    if (parcel->pending_len)
        out_write(&stream->out, parcel->pending, parcel->pending_len);
}

static void parcel_free(struct parcel *parcel)
{
    free(parcel->held);
    free(parcel->pending);
    free(parcel->sealed);
    free(parcel);
}

static struct stream *stream_of(const struct parcel *parcel)
{
    struct stream *stream = stream_alloc(parcel->to);
    stream->err = parcel->err;
    stream->is_paused = parcel->is_paused;
    stream->is_ended = parcel->is_ended;
    stream->is_broken = parcel->is_broken;
    stream->was_high = parcel->was_high;
    stream->local = parcel->local;
    memcpy(stream->peer, parcel->peer, sizeof stream->peer);
    secure_join(stream, &parcel->secure);
    give_bytes(stream, parcel);
    return stream;
}

/* The loop cannot watch the descriptor: the stream ends like a broken connection. */
static void fail(struct stream *stream, int fd)
{
    (void)close(fd);
    stream->is_broken = stream->is_paused = true;
    stream->err = -ENOMEM;
    stream_tell(stream, TELL_END);
}

/* task: on the other loop's thread */
static void arrive(struct task *task)
{
    struct parcel *parcel = container_of(task, struct parcel, task);
    struct stream *stream = stream_of(parcel);
    if (!stream_attach(stream, parcel->fd))
        fail(stream, parcel->fd);
    parcel->on_arrive(parcel->owner, stream);
    if (stream->state == STREAM_CONNECTING)
        stream_opened(stream);
    if (stream->state == STREAM_OPEN) {
        stream_tell(stream, parcel->tell | TELL_AGAIN);
        stream_send(stream);
    }
    parcel_free(parcel);
}

void stream_move(struct stream *stream, struct loop *to, accept_fn *on_arrive, void *owner)
{
    CHECK(stream->state == STREAM_OPEN && !stream->pipe && !stream->secure.is_reading);
    struct parcel *parcel = pack(stream);
    parcel->task.run = arrive;
    parcel->to = to;
    parcel->on_arrive = on_arrive;
    parcel->owner = owner;
    stream_depart(stream);
    loop_post(to, &parcel->task);
}
