/*
 * pipe_uv.c - streams between two loops of this process: their bytes go through memory, without a descriptor.
 *
 *   loop A                                              loop B
 *   stream_flush ─► pipe_write ─► pieces of B's end ─► B is woken ─► pipe_read ─► on_data
 *        ▲                                                               │
 *        └── A is woken, if it waits for room ◄── at most PIPE_ROOM bytes wait in an end
 *
 * A pipe has two ends, one for each stream. pipe_read and pipe_write behave like read() and writev() of a non-blocking socket, so
 * stream_uv.c handles both in the same way: a pause stops the sender, and what was written before the end is read before it.
 *
 * An end that has something for its stream (bytes, room, the end of the other side) is in its loop's list `ready`. The loop
 * handles this list when it is woken, also inside loop_poll: as with sockets, peers are answered while a slow command runs.
 *
 * Locks, in this order: the listeners of the process, a pipe, the list `ready` of a loop. A loop outlives the ends that name it,
 * because an end leaves its loop when its stream is closed.
 */
#include "shared/check.h"
#include "shared/net/net_uv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PIPE_ROOM = 256 * 1024 };

static const char scheme[] = "process:";

struct pipe_piece {
    struct pipe_piece *next;
    size_t used; /* bytes that were read */
    size_t len;
    char data[];
};

struct pipe_end {
    struct list ready; /* in loop->pipes.ready; guarded by loop->pipes.lock */
    struct pipe *pipe;
    /* will accept this end; NULL: the end has a stream, or is closed */
    struct process_listener *listener;
    struct stream *stream; /* used by the end's own loop only */
    /* guarded by the pipe's lock: */
    struct loop *loop; /* NULL: closed */
    struct pipe_piece *first;
    struct pipe_piece **last;
    size_t bytes;     /* that wait to be read */
    bool awaits_room; /* its stream has bytes for which the other end had no room */
};

struct pipe {
    pthread_mutex_t lock;
    struct pipe_end ends[2];
};

struct process_listener {
    struct list link; /* in `listeners` */
    struct loop *loop;
    accept_fn *on_accept;
    void *owner;
    char name[];
};

static pthread_mutex_t listeners_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list listeners = {&listeners, &listeners};

static struct pipe_end *other_end(struct pipe_end *end)
{
    return &end->pipe->ends[end == end->pipe->ends];
}

/* ---- what is ready ---- */

/* Puts the end into its loop's list. The caller holds the pipe's lock, or no other thread has the pipe yet. */
static void end_ready(struct pipe_end *end)
{
    struct loop *loop = end->loop;
    if (!loop)
        return;
    pthread_mutex_lock(&loop->pipes.lock);
    bool wakes = list_empty(&loop->pipes.ready);
    if (list_empty(&end->ready)) {
        list_push(&loop->pipes.ready, &end->ready);
        loop->pipes.count++;
    }
    pthread_mutex_unlock(&loop->pipes.lock);
    if (wakes)
        wake_call(loop);
}

/* The caller holds the loop's lock. */
static void end_take(struct pipe_end *end)
{
    end->loop->pipes.count -= !list_empty(&end->ready);
    list_remove(&end->ready);
}

static struct pipe_end *pop_ready(struct loop *loop)
{
    struct pipe_end *end = NULL;
    pthread_mutex_lock(&loop->pipes.lock);
    if (!list_empty(&loop->pipes.ready)) {
        end = container_of(loop->pipes.ready.next, struct pipe_end, ready);
        end_take(end);
    }
    pthread_mutex_unlock(&loop->pipes.lock);
    return end;
}

/* ---- a pipe ---- */

static void drop_pieces(struct pipe_end *end)
{
    while (end->first) {
        struct pipe_piece *piece = end->first;
        end->first = piece->next;
        free(piece);
    }
    end->last = &end->first;
    end->bytes = 0;
}

static struct pipe *pipe_new(struct stream *stream, struct process_listener *listener)
{
    struct pipe *pipe = calloc(1, sizeof *pipe);
    CHECK(pipe);
    CHECK(pthread_mutex_init(&pipe->lock, NULL) == 0);
    for (int i = 0; i < 2; i++) {
        pipe->ends[i].pipe = pipe;
        pipe->ends[i].last = &pipe->ends[i].first;
        list_init(&pipe->ends[i].ready);
    }
    pipe->ends[0].stream = stream;
    pipe->ends[0].loop = stream->loop;
    pipe->ends[1].listener = listener;
    pipe->ends[1].loop = listener->loop;
    return pipe;
}

/* Closes an end, on its loop's thread. The second one frees the pipe. */
static void end_close(struct pipe_end *end)
{
    struct pipe *pipe = end->pipe;
    pthread_mutex_lock(&pipe->lock);
    pthread_mutex_lock(&end->loop->pipes.lock);
    end_take(end);
    pthread_mutex_unlock(&end->loop->pipes.lock);
    end->loop = NULL;
    end->stream = NULL;
    end->listener = NULL;
    drop_pieces(end);
    bool is_last = !other_end(end)->loop;
    end_ready(other_end(end));
    pthread_mutex_unlock(&pipe->lock);
    if (!is_last)
        return;
    drop_pieces(other_end(end));
    pthread_mutex_destroy(&pipe->lock);
    free(pipe);
}

void pipe_leave(struct stream *stream)
{
    struct pipe_end *end = stream->pipe;
    stream->pipe = NULL;
    if (end)
        end_close(end);
}

/* ---- reading and writing ---- */

/* Copies at most `room` of the oldest bytes to `to`, and removes them from the end's pieces. Returns their number. */
static size_t read_pieces(struct pipe_end *end, char *to, size_t room)
{
    size_t taken = 0;
    while (end->first && taken < room) {
        struct pipe_piece *piece = end->first;
        size_t len = piece->len - piece->used;
        if (len > room - taken)
            len = room - taken;
        memcpy(to + taken, piece->data + piece->used, len);
        piece->used += len;
        taken += len;
        if (piece->used < piece->len)
            break;
        end->first = piece->next;
        if (!end->first)
            end->last = &end->first;
        free(piece);
    }
    end->bytes -= taken;
    return taken;
}

ssize_t pipe_read(struct stream *stream, char *to, size_t room)
{
    struct pipe_end *end = stream->pipe;
    struct pipe_end *other = other_end(end);
    pthread_mutex_lock(&end->pipe->lock);
    size_t taken = read_pieces(end, to, room);
    bool is_end = !other->loop && !end->first;
    if (other->awaits_room && end->bytes <= PIPE_ROOM / 2) {
        other->awaits_room = false;
        end_ready(other);
    }
    pthread_mutex_unlock(&end->pipe->lock);
    if (taken || is_end)
        return (ssize_t)taken;
    errno = EAGAIN;
    return -1;
}

/* A piece of the first `len` bytes of iov. */
static struct pipe_piece *piece_of(const struct iovec *iov, size_t len)
{
    struct pipe_piece *piece = malloc(sizeof *piece + len);
    CHECK(piece);
    *piece = (struct pipe_piece){.len = len};
    for (size_t done = 0; done < len; iov++) {
        size_t part = iov->iov_len < len - done ? iov->iov_len : len - done;
        memcpy(piece->data + done, iov->iov_base, part);
        done += part;
    }
    return piece;
}

/* Appends at most `len` bytes. False: the other side is closed. */
static bool append_piece(struct pipe_end *to, const struct iovec *iov, size_t *len)
{
    size_t room = to->bytes < PIPE_ROOM ? PIPE_ROOM - to->bytes : 0;
    if (!to->loop)
        return false;
    if (*len > room)
        *len = room;
    if (*len == 0)
        return true;
    struct pipe_piece *piece = piece_of(iov, *len);
    *to->last = piece;
    to->last = &piece->next;
    to->bytes += *len;
    end_ready(to);
    return true;
}

ssize_t pipe_write(struct stream *stream, const struct iovec *iov, size_t bytes)
{
    struct pipe_end *end = stream->pipe;
    pthread_mutex_lock(&end->pipe->lock);
    bool is_open = append_piece(other_end(end), iov, &bytes);
    pthread_mutex_unlock(&end->pipe->lock);
    if (is_open && bytes)
        return (ssize_t)bytes;
    errno = is_open ? EAGAIN : EPIPE;
    return -1;
}

bool pipe_has_ended(const struct stream *stream)
{
    struct pipe_end *end = stream->pipe;
    pthread_mutex_lock(&end->pipe->lock);
    bool has_ended = !other_end(end)->loop;
    pthread_mutex_unlock(&end->pipe->lock);
    return has_ended;
}

/* Is there room for a stream whose output is blocked, or will writing fail? If not, the end is woken when there is. */
static bool peer_has_room(struct pipe_end *end)
{
    struct pipe_end *other = other_end(end);
    bool has = !other->loop || other->bytes <= PIPE_ROOM / 2;
    end->awaits_room = !has;
    return has;
}

void pipe_watch(struct stream *stream)
{
    struct pipe_end *end = stream->pipe;
    pthread_mutex_lock(&end->pipe->lock);
    if ((stream_is_reading(stream) && (end->first || !other_end(end)->loop)) ||
        (stream->is_blocked && peer_has_room(end)))
        end_ready(end);
    pthread_mutex_unlock(&end->pipe->lock);
}

/* ---- events ---- */

static bool end_may_write(struct pipe_end *end)
{
    pthread_mutex_lock(&end->pipe->lock);
    bool has = peer_has_room(end);
    pthread_mutex_unlock(&end->pipe->lock);
    return has;
}

static struct stream *stream_over(struct loop *loop, struct pipe_end *end, const char *name)
{
    struct stream *stream = stream_alloc(loop);
    stream->pipe = end;
    (void)snprintf(stream->peer, sizeof stream->peer, "%s%s", scheme, name);
    stream->local = strdup(stream->peer);
    CHECK(stream->local);
    return stream;
}

static void end_accept(struct pipe_end *end)
{
    struct process_listener *listener = end->listener;
    struct stream *stream = stream_over(listener->loop, end, listener->name);
    end->listener = NULL;
    end->stream = stream;
    stream_opened(stream);
    listener->on_accept(listener->owner, stream);
    CHECK(stream->state == STREAM_CLOSED || stream->events);
}

static void end_event(struct pipe_end *end)
{
    struct stream *stream = end->stream;
    if (!stream) {
        end_accept(end);
        return;
    }
    if (stream->is_blocked && end_may_write(end)) {
        stream->is_blocked = false;
        stream_send(stream);
    }
    stream_readable(stream);
}

/* Ends that become ready during the call are left for the next call. */
void pipes_deliver(struct loop *loop)
{
    pthread_mutex_lock(&loop->pipes.lock);
    size_t count = loop->pipes.count;
    pthread_mutex_unlock(&loop->pipes.lock);
    for (struct pipe_end *end; count > 0 && (end = pop_ready(loop)); count--)
        end_event(end);
    pthread_mutex_lock(&loop->pipes.lock);
    bool again = !list_empty(&loop->pipes.ready);
    pthread_mutex_unlock(&loop->pipes.lock);
    if (again)
        wake_call(loop);
}

void pipes_init(struct loop *loop)
{
    list_init(&loop->pipes.ready);
    CHECK(pthread_mutex_init(&loop->pipes.lock, NULL) == 0);
}

void pipes_fini(struct loop *loop)
{
    CHECK(list_empty(&loop->pipes.ready));
    pthread_mutex_destroy(&loop->pipes.lock);
}

/* ---- listening and connecting ---- */

/* The caller holds the lock. */
static struct process_listener *listener_named(const char *name)
{
    for (struct list *at = listeners.next; at != &listeners; at = at->next) {
        struct process_listener *listener = container_of(at, struct process_listener, link);
        if (strcasecmp(listener->name, name) == 0)
            return listener;
    }
    return NULL;
}

struct process_listener *process_listener_new(struct loop *loop, const char *name,
                                              accept_fn *on_accept, void *owner)
{
    struct process_listener *listener = calloc(1, sizeof *listener + strlen(name) + 1);
    CHECK(listener);
    listener->loop = loop;
    listener->on_accept = on_accept;
    listener->owner = owner;
    strcpy(listener->name, name);
    loop->opened++;
    pthread_mutex_lock(&listeners_lock);
    list_push(&listeners, &listener->link);
    pthread_mutex_unlock(&listeners_lock);
    return listener;
}

/* An end in the loop's list that the listener has not accepted; NULL: none. */
static struct pipe_end *unaccepted(const struct process_listener *listener)
{
    struct pipe_end *found = NULL;
    struct list *ready = &listener->loop->pipes.ready;
    pthread_mutex_lock(&listener->loop->pipes.lock);
    for (struct list *at = ready->next; at != ready && !found; at = at->next)
        if (container_of(at, struct pipe_end, ready)->listener == listener)
            found = container_of(at, struct pipe_end, ready);
    pthread_mutex_unlock(&listener->loop->pipes.lock);
    return found;
}

void process_listener_free(struct process_listener *listener)
{
    if (!listener)
        return;
    pthread_mutex_lock(&listeners_lock);
    list_remove(&listener->link);
    pthread_mutex_unlock(&listeners_lock);
    for (struct pipe_end *end; (end = unaccepted(listener));)
        end_close(end);
    listener->loop->opened--;
    free(listener);
}

bool process_listener_exists(const char *name)
{
    pthread_mutex_lock(&listeners_lock);
    bool exists = listener_named(name) != NULL;
    pthread_mutex_unlock(&listeners_lock);
    return exists;
}

bool pipe_is_address(const char *address)
{
    return strncmp(address, scheme, sizeof scheme - 1) == 0;
}

int pipe_connect(struct stream *stream, const char *address)
{
    pthread_mutex_lock(&listeners_lock);
    struct process_listener *listener = listener_named(address + sizeof scheme - 1);
    if (listener) {
        struct pipe *pipe = pipe_new(stream, listener);
        stream->pipe = &pipe->ends[0];
        end_ready(&pipe->ends[1]);
    }
    pthread_mutex_unlock(&listeners_lock);
    if (!listener)
        return -ECONNREFUSED;
    (void)snprintf(stream->peer, sizeof stream->peer, "%s", address);
    stream->local = strdup(address);
    CHECK(stream->local);
    return 0;
}
