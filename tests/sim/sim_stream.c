/*
 * sim_stream.c - stream.h in memory: two streams that write into each other's inbox.
 *
 *   stream_send ─► end of the turn: flush ─► chunk {arrival time} ─► peer's inbox ─► read: some bytes ─► on_data
 *                     └── at most pipe_bytes on the way; further bytes wait until the peer has read
 *
 * An inbox ends with 0 (the peer closed) or an error (a reset). The end is reported when all chunks before it were
 * read, or dropped at random. A closed stream stays in the world until its output is flushed or CLOSE_WAIT_US have
 * passed; when its loop is freed, it stays without a loop. Memory is freed between two steps, never during a callback.
 */
#include "tests/sim/sim_world.h"

#include "shared/check.h"
#include "tests/sim/sim_break.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BOUND_MAX = 1024,
    FIRST_FD = 1000000, /* larger than any real descriptor */
    FIRST_PORT = 20000,
    CLOSE_WAIT_US = 5000000,
    READ_ROOM_MAX = 8192,
    FLUSH_IOVECS_MAX = 64,
    ASTRAY_ONE_IN = 10,
};

enum stream_state { STREAM_CONNECTING, STREAM_OPEN, STREAM_CLOSING, STREAM_CLOSED };

struct chunk {
    struct chunk *next;
    uint64_t at_us;
    size_t used; /* bytes that were read */
    size_t len;
    char data[];
};

struct inbox {
    struct chunk *first;
    struct chunk **end;
    size_t bytes;
    uint64_t last_us; /* arrival of the last chunk: a later one never arrives earlier */
    bool has_end;
    int end_err;
};

struct stream {
    struct list link; /* in sim_streams; later in dead */
    struct list dirty;
    uint64_t number;
    struct loop *loop; /* NULL: the loop is freed, and the stream still flushes */
    struct sim_host *host;
    struct stream *peer; /* NULL: no peer (any more) */
    const struct stream_events *events;
    void *owner;
    struct parcel *parcel; /* it moves to another loop; NULL: it does not */
    stream_open_fn *on_open;
    struct out out;
    struct receive receive;
    struct inbox inbox;
    enum stream_state state;
    bool is_paused;
    bool is_ended;  /* on_end was called */
    bool is_broken; /* no more bytes can be sent */
    bool was_high;
    bool must_drain;
    bool must_repeat; /* on_data must be called again for the kept bytes */
    uint64_t active_ms;
    uint64_t timeout_ms;
    struct sim_event read;     /* bytes or the end have arrived, or a callback is pending */
    struct sim_event flush;    /* the rest of the output */
    struct sim_event open;     /* the connect succeeds or fails */
    struct sim_event deadline; /* of a closing stream */
    char peer_text[SIM_ADDRESS_MAX];
    char local_text[SIM_ADDRESS_MAX];
};

struct bound {
    char address[SIM_ADDRESS_MAX];
    struct sim_host *host;
};

struct listener {
    struct list link; /* in sim_listeners */
    struct loop *loop;
    char address[SIM_ADDRESS_MAX];
    accept_fn *on_accept;
    void *owner;
    struct sim_event accept;
    struct list queue; /* streams to be accepted, linked by `dirty` */
};

static struct bound bounds[BOUND_MAX];
static int bound_count;
static struct list dead = {&dead, &dead};

static void stream_wake(struct stream *stream);
static void stream_finish(struct stream *stream);

/* ---- the network ------------------------------------------------------------------------------ */

static void inbox_clear(struct inbox *inbox)
{
    while (inbox->first) {
        struct chunk *chunk = inbox->first;
        inbox->first = chunk->next;
        free(chunk);
    }
    inbox->end = &inbox->first;
    inbox->bytes = 0;
}

static uint64_t arrival_us(struct inbox *inbox)
{
    uint64_t at = sim_now_us() + sim_wire_delay();
    if (at < inbox->last_us)
        at = inbox->last_us;
    inbox->last_us = at;
    return at;
}

/* Moves the first `len` bytes of the output onto the network. */
static void inbox_add(struct inbox *inbox, struct out *out, size_t len)
{
    struct chunk *chunk = malloc(sizeof(*chunk) + len);
    CHECK(chunk);
    *chunk = (struct chunk){.at_us = arrival_us(inbox)};
    while (chunk->len < len) {
        struct iovec iov[FLUSH_IOVECS_MAX];
        int count = out_iov(out, iov, FLUSH_IOVECS_MAX);
        size_t moved = 0;
        for (int i = 0; i < count && chunk->len < len; i++) {
            size_t part = iov[i].iov_len < len - chunk->len ? iov[i].iov_len : len - chunk->len;
            memcpy(chunk->data + chunk->len, iov[i].iov_base, part);
            chunk->len += part;
            moved += part;
        }
        out_consume(out, moved);
    }
    *inbox->end = chunk;
    inbox->end = &chunk->next;
    inbox->bytes += len;
}

/* The stream's end will be reported after the bytes on the way, unless an end was already added. */
static void inbox_end(struct stream *stream, int err)
{
    if (stream->inbox.has_end)
        return;
    stream->inbox.has_end = true;
    stream->inbox.end_err = err;
    if (err && sim_random(2))
        inbox_clear(&stream->inbox);
    (void)arrival_us(&stream->inbox);
    stream_wake(stream);
}

/* Separates a stream from its peer, which gets the end `err`. A stream that only flushes is finished soon. */
static void part(struct stream *stream, int err)
{
    struct stream *peer = stream->peer;
    if (!peer)
        return;
    stream->peer = peer->peer = NULL;
    inbox_end(peer, err);
    if (peer->state == STREAM_CLOSING)
        sim_schedule(&peer->flush, sim_random(100));
    if (stream->state == STREAM_CLOSING)
        sim_schedule(&stream->flush, sim_random(100));
}

/* Resets the connection for both ends; the reset may overtake an end on its way. */
static void reset(struct stream *stream)
{
    part(stream, -ECONNRESET);
    if (stream->state != STREAM_OPEN)
        return;
    if (stream->inbox.end_err == 0 && sim_random(2))
        stream->inbox.has_end = false;
    inbox_end(stream, -ECONNRESET);
}

/* ---- reading ---------------------------------------------------------------------------------- */

static bool is_reading(const struct stream *stream)
{
    return stream->state == STREAM_OPEN && stream->events && !stream->is_paused &&
           !stream->is_ended;
}

/* Schedules the next read if there is, or will be, something to read or report. */
static void stream_wake(struct stream *stream)
{
    if (stream->state != STREAM_OPEN || !stream->events || sim_is_scheduled(&stream->read))
        return;
    uint64_t at = sim_now_us();
    if (!stream->must_drain && !stream->must_repeat) {
        if (!is_reading(stream) || (!stream->inbox.first && !stream->inbox.has_end))
            return;
        at = stream->inbox.first ? stream->inbox.first->at_us : stream->inbox.last_us;
    }
    uint64_t now = sim_now_us();
    sim_schedule(&stream->read, (at > now ? at - now : 0) + sim_random(20));
}

static void stream_end(struct stream *stream, int err)
{
    stream->is_ended = true;
    if (err) {
        stream->is_broken = true;
        out_clear(&stream->out);
    }
    sim_note("end", (uint64_t)(int64_t)err);
    stream->events->on_end(stream->owner, err);
}

/* Copies bytes that have arrived, at most `room`; returns their number. */
static size_t inbox_take(struct inbox *inbox, char *to, size_t room)
{
    size_t taken = 0;
    while (inbox->first && inbox->first->at_us <= sim_now_us() && taken < room) {
        struct chunk *chunk = inbox->first;
        size_t left = chunk->len - chunk->used;
        size_t some = left < room - taken ? left : room - taken;
        memcpy(to + taken, chunk->data + chunk->used, some);
        taken += some;
        chunk->used += some;
        if (chunk->used < chunk->len)
            break;
        inbox->first = chunk->next;
        if (!inbox->first)
            inbox->end = &inbox->first;
        free(chunk);
    }
    inbox->bytes -= taken;
    return taken;
}

static void stream_read(struct stream *stream)
{
    struct inbox *inbox = &stream->inbox;
    if (!inbox->first) {
        if (inbox->has_end && inbox->last_us <= sim_now_us())
            stream_end(stream, inbox->end_err);
        return;
    }
    size_t min = 1 + sim_random(READ_ROOM_MAX);
    struct block *block = receive_room(&stream->receive, &stream->loop->shared, min);
    CHECK(block);
    size_t room = block->size - block->used;
    if (sim_chance(sim_knobs()->partial_ppm))
        room = 1 + sim_random(room < 1000 ? room : 1000);
    size_t got = inbox_take(inbox, block->data + block->used, room);
    if (got == 0)
        return;
    sim_note("read", got);
    stream->active_ms = loop_mono_ms(stream->loop);
    if (stream->peer && stream->peer->out.bytes > 0 && !sim_is_scheduled(&stream->peer->flush))
        sim_schedule(&stream->peer->flush, sim_wire_delay());
    receive_filled(&stream->receive, block, got, stream->events->on_data, stream->owner);
}

static void on_read(struct sim_event *event)
{
    struct stream *stream = container_of(event, struct stream, read);
    if (stream->must_repeat) {
        stream->must_repeat = false;
        if (is_reading(stream))
            receive_again(&stream->receive, stream->events->on_data, stream->owner);
    } else if (is_reading(stream)) {
        stream_read(stream);
    }
    if (stream->must_drain && stream->state == STREAM_OPEN && !stream->is_broken) {
        stream->must_drain = false;
        stream->events->on_drain(stream->owner);
    }
    stream_wake(stream);
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
    stream->must_repeat = true;
    sim_unschedule(&stream->read);
    stream_wake(stream);
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
    if (list_empty(&stream->dirty) && stream->loop)
        list_push(&stream->loop->dirty, &stream->dirty);
}

void stream_hold(struct stream *stream)
{
    list_remove(&stream->dirty);
}

size_t stream_pending(const struct stream *stream)
{
    return stream->out.bytes;
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
    return stream->inbox.has_end && stream->inbox.last_us <= sim_now_us();
}

bool stream_is_broken(const struct stream *stream)
{
    return stream_has_hung_up(stream) && stream->inbox.end_err;
}

size_t stream_tls_bytes(const struct stream *stream)
{
    (void)stream;
    return 0;
}

size_t loop_tls_bytes(const struct loop *loop)
{
    (void)loop;
    return 0;
}

/* Writes as many bytes as fit into the pipe, at random fewer. */
static void stream_write(struct stream *stream)
{
    size_t limit = sim_knobs()->pipe_bytes;
    struct inbox *inbox = &stream->peer->inbox;
    size_t len = inbox->bytes < limit ? limit - inbox->bytes : 0;
    if (len > stream->out.bytes)
        len = stream->out.bytes;
    if (len > 1 && sim_chance(sim_knobs()->partial_ppm)) {
        len = 1 + sim_random(len);
        sim_schedule(&stream->flush, sim_random(100));
    }
    if (len == 0)
        return;
    sim_note("write", len);
    inbox_add(inbox, &stream->out, len);
    stream->active_ms = sim_now_us() / 1000;
    stream_wake(stream->peer);
}

static void stream_flush(struct stream *stream)
{
    if (stream->state == STREAM_CONNECTING || stream->state == STREAM_CLOSED)
        return;
    if (stream->out.bytes > STREAM_HIGH_WATER)
        stream->was_high = true;
    if (!stream->peer || stream->is_broken)
        out_clear(&stream->out);
    else if (stream->out.bytes > 0 && sim_chance(sim_knobs()->cut_ppm))
        reset(stream);
    else if (stream->out.bytes > 0)
        stream_write(stream);
    if (stream->state == STREAM_CLOSING && (stream->out.bytes == 0 || !stream->peer)) {
        stream_finish(stream);
        return;
    }
    if (stream->was_high && stream->out.bytes < STREAM_LOW_WATER) {
        stream->was_high = false;
        stream->must_drain = stream->events && stream->events->on_drain && !stream->is_broken;
        stream_wake(stream);
    }
}

static void on_flush(struct sim_event *event)
{
    stream_flush(container_of(event, struct stream, flush));
}

void sim_streams_flush(struct loop *loop)
{
    for (struct list *link; (link = list_pop(&loop->dirty));)
        stream_flush(container_of(link, struct stream, dirty));
}

/* ---- create and close ------------------------------------------------------------------------- */

static void on_open_decided(struct sim_event *event);

static void on_deadline(struct sim_event *event)
{
    stream_finish(container_of(event, struct stream, deadline));
}

static struct stream *stream_alloc(struct loop *loop)
{
    struct stream *stream = calloc(1, sizeof(*stream));
    CHECK(stream);
    stream->number = sim_number();
    stream->loop = loop;
    stream->host = loop->host;
    stream->active_ms = loop_mono_ms(loop);
    stream->inbox.end = &stream->inbox.first;
    out_init(&stream->out);
    receive_init(&stream->receive);
    list_init(&stream->dirty);
    list_push(&sim_streams, &stream->link);
    sim_event_init(&stream->read, "read", loop, on_read);
    sim_event_init(&stream->flush, "flush", loop, on_flush);
    sim_event_init(&stream->open, "open", loop, on_open_decided);
    sim_event_init(&stream->deadline, "deadline", loop, on_deadline);
    stream->read.is_callback = stream->open.is_callback = true;
    loop->opened++;
    return stream;
}

/* Removes the stream from the world; its memory is freed between two steps. */
static void stream_finish(struct stream *stream)
{
    CHECK(stream->state != STREAM_CLOSED);
    stream->state = STREAM_CLOSED;
    part(stream, stream->is_broken && sim_random(2) ? -ECONNRESET : 0);
    sim_unschedule(&stream->read);
    sim_unschedule(&stream->flush);
    sim_unschedule(&stream->open);
    sim_unschedule(&stream->deadline);
    list_remove(&stream->dirty);
    list_remove(&stream->link);
    list_push(&dead, &stream->link);
}

void sim_streams_bury(void)
{
    for (struct list *link; (link = list_pop(&dead));) {
        struct stream *stream = container_of(link, struct stream, link);
        inbox_clear(&stream->inbox);
        receive_fini(&stream->receive);
        out_clear(&stream->out);
        free(stream->parcel);
        free(stream);
    }
}

void stream_close(struct stream *stream)
{
    CHECK(stream->state == STREAM_CONNECTING || stream->state == STREAM_OPEN);
    stream->loop->opened--;
    if (stream->state == STREAM_CONNECTING || stream->out.bytes == 0 || !stream->peer) {
        stream_finish(stream);
        return;
    }
    stream->state = STREAM_CLOSING;
    sim_unschedule(&stream->read);
    sim_schedule(&stream->deadline, CLOSE_WAIT_US);
    stream_send(stream);
}

void stream_abort(struct stream *stream)
{
    CHECK(stream->state == STREAM_CONNECTING || stream->state == STREAM_OPEN);
    stream->loop->opened--;
    stream->is_broken = true;
    stream_finish(stream);
}

/* ---- moves ------------------------------------------------------------------------------------ */

struct parcel {
    struct task task;
    struct stream *stream;
    accept_fn *on_arrive;
    void *owner;
};

static void set_loop(struct stream *stream, struct loop *loop)
{
    stream->loop->opened--; /* on its way it counts nowhere */
    stream->loop = loop;
    stream->read.loop = stream->flush.loop = stream->open.loop = stream->deadline.loop = loop;
}

/* task: what was received and not consumed is presented again. */
static void arrive(struct task *task)
{
    struct parcel *parcel = container_of(task, struct parcel, task);
    struct stream *stream = parcel->stream;
    stream->loop->opened++;
    stream->parcel = NULL;
    parcel->on_arrive(parcel->owner, stream);
    free(parcel);
    if (stream->state != STREAM_OPEN)
        return;
    stream->must_repeat = true;
    stream_wake(stream);
    stream_send(stream);
}

/* It has no owner on the way, so it reads nothing and reports nothing. */
void stream_move(struct stream *stream, struct loop *to, accept_fn *on_arrive, void *owner)
{
    struct parcel *parcel = malloc(sizeof *parcel);
    CHECK(parcel && stream->state == STREAM_OPEN && stream->events);
    *parcel = (struct parcel){{.run = arrive}, stream, on_arrive, owner};
    stream->parcel = parcel;
    stream_set_owner(stream, NULL, NULL);
    sim_unschedule(&stream->read);
    list_remove(&stream->dirty);
    set_loop(stream, to);
    loop_post(to, &parcel->task);
}

void stream_set_owner(struct stream *stream, const struct stream_events *events, void *owner)
{
    stream->events = events;
    stream->owner = owner;
}

/* TLS does nothing here; it is tested with real sockets. */
void stream_secure(struct stream *stream, struct tls_context *context, const char *address)
{
    (void)stream;
    (void)context;
    (void)address;
}

bool stream_is_local(const struct stream *stream)
{
    (void)stream;
    return true;
}

bool stream_is_verified(const struct stream *stream)
{
    (void)stream;
    return false;
}

bool stream_is_secure(const struct stream *stream)
{
    (void)stream;
    return false;
}

const char *stream_error(const struct stream *stream, int err)
{
    (void)stream;
    return strerror(-err);
}

void listener_secure(struct listener *listener, listener_tls_fn *tls_of, uint64_t handshake_ms)
{
    (void)listener;
    (void)tls_of;
    (void)handshake_ms;
}

const char *stream_peer(const struct stream *stream)
{
    return stream->peer_text;
}

const char *stream_local(const struct stream *stream)
{
    return stream->local_text;
}

int stream_fd(const struct stream *stream)
{
    return stream->state == STREAM_OPEN ? (int)stream->number : -1;
}

uint64_t stream_active_ms(const struct stream *stream)
{
    return stream->active_ms;
}

/* ---- connecting ------------------------------------------------------------------------------- */

/* A listener at the address, chosen at random; NULL: none. */
static struct listener *listener_find(const char *address)
{
    struct listener *found = NULL;
    uint64_t count = 0;
    bool is_astray = sim_broken == BREAK_WRONG_BACKEND && sim_random(ASTRAY_ONE_IN) == 0;
    for (struct list *link = sim_listeners.next; link != &sim_listeners; link = link->next) {
        struct listener *listener = container_of(link, struct listener, link);
        if (listener->loop->is_dead || (strcmp(listener->address, address) != 0 && !is_astray))
            continue;
        if (sim_random(++count) == 0)
            found = listener;
    }
    return found;
}

static void listener_take(struct listener *listener, struct stream *client)
{
    struct stream *server = stream_alloc(listener->loop);
    server->state = STREAM_OPEN;
    server->peer = client;
    client->peer = server;
    memcpy(server->local_text, listener->address, sizeof(server->local_text));
    memcpy(server->peer_text, client->local_text, sizeof(server->peer_text));
    list_push(&listener->queue, &server->dirty);
    if (!sim_is_scheduled(&listener->accept))
        sim_schedule(&listener->accept, sim_random(100));
}

static void on_open_decided(struct sim_event *event)
{
    struct stream *stream = container_of(event, struct stream, open);
    struct listener *listener = listener_find(stream->peer_text);
    int err = 0;
    if (stream->open.at_us >= stream->timeout_ms * 1000)
        err = -ETIMEDOUT;
    else if (!listener || listener->loop->host->is_down || stream->host->is_down ||
             sim_chance(sim_knobs()->refuse_ppm))
        err = -ECONNREFUSED;
    if (err == 0) {
        listener_take(listener, stream);
        stream->state = STREAM_OPEN;
        stream_send(stream);
        stream_wake(stream);
    }
    sim_note("open", (uint64_t)(int64_t)err);
    stream->on_open(stream->owner, err);
}

struct stream *stream_connect(struct loop *loop, const char *address, uint64_t timeout_ms,
                              const struct stream_events *events, stream_open_fn *on_open,
                              void *owner)
{
    struct stream *stream = stream_alloc(loop);
    stream_set_owner(stream, events, owner);
    stream->on_open = on_open;
    stream->timeout_ms = sim_now_us() / 1000 + timeout_ms;
    (void)snprintf(stream->peer_text, sizeof(stream->peer_text), "%s", address);
    (void)snprintf(stream->local_text, sizeof(stream->local_text), "10.0.0.%u:%u",
                   loop->host->number, (unsigned)(30000 + stream->number % 30000));
    uint64_t delay = 2 * sim_wire_delay();
    struct sim_host *host = sim_bound_host(address);
    if (host && host->is_down && sim_random(2)) /* the connect gets no answer */
        delay = timeout_ms * 1000 + 1000;
    if (delay > timeout_ms * 1000)
        delay = timeout_ms * 1000 + 1000;
    sim_schedule(&stream->open, delay);
    return stream;
}

/* ---- listening -------------------------------------------------------------------------------- */

struct sim_host *sim_bound_host(const char *address)
{
    for (int i = bound_count - 1; i >= 0; i--) {
        if (strcmp(bounds[i].address, address) == 0)
            return bounds[i].host;
    }
    return NULL;
}

void sim_bound_reset(void)
{
    bound_count = 0;
}

int listen_bind(const struct listen_options *options, char *error, size_t size)
{
    CHECK(bound_count < BOUND_MAX);
    struct bound *bound = &bounds[bound_count];
    struct listener *taken = listener_find(options->address);
    if (taken && taken->loop->host != sim_host_now()) {
        (void)snprintf(error, size, "address already in use");
        return -1;
    }
    const char *colon = strrchr(options->address, ':');
    if (colon && strcmp(colon, ":0") == 0)
        (void)snprintf(bound->address, sizeof(bound->address), "%.*s:%d",
                       (int)(colon - options->address), options->address, FIRST_PORT + bound_count);
    else
        (void)snprintf(bound->address, sizeof(bound->address), "%s", options->address);
    bound->host = sim_host_now();
    return FIRST_FD + bound_count++;
}

void listen_address(int fd, char *text, size_t size)
{
    CHECK(fd >= FIRST_FD && fd < FIRST_FD + bound_count);
    (void)snprintf(text, size, "%s", bounds[fd - FIRST_FD].address);
}

static void on_accept(struct sim_event *event)
{
    struct listener *listener = container_of(event, struct listener, accept);
    struct stream *stream = container_of(list_pop(&listener->queue), struct stream, dirty);
    if (!list_empty(&listener->queue))
        sim_schedule(&listener->accept, sim_random(100));
    listener->on_accept(listener->owner, stream); /* may free the listener */
    CHECK(stream->state == STREAM_CLOSED || stream->events);
    stream_wake(stream);
}

static struct listener *listener_alloc(struct loop *loop, accept_fn *callback, void *owner)
{
    struct listener *listener = calloc(1, sizeof(*listener));
    CHECK(listener);
    listener->loop = loop;
    listener->on_accept = callback;
    listener->owner = owner;
    list_init(&listener->queue);
    sim_event_init(&listener->accept, "accept", loop, on_accept);
    listener->accept.is_callback = true;
    list_push(&sim_listeners, &listener->link);
    loop->opened++;
    return listener;
}

struct listener *listener_new(struct loop *loop, int fd, const struct listen_options *options,
                              accept_fn *callback, void *owner)
{
    struct listener *listener = listener_alloc(loop, callback, owner);
    (void)options;
    listen_address(fd, listener->address, sizeof(listener->address));
    return listener;
}

/* Resets connections that were not accepted. */
static void queue_drop(struct listener *listener)
{
    for (struct list *link; (link = list_pop(&listener->queue));)
        stream_abort(container_of(link, struct stream, dirty));
}

void listener_free(struct listener *listener)
{
    queue_drop(listener);
    sim_unschedule(&listener->accept);
    list_remove(&listener->link);
    listener->loop->opened--;
    free(listener);
}

/* ---- within a process ---- */

/* Streams of a host's process are simulated like those of the network: they have delays, and connections are cut. */
struct process_listener {
    struct listener *listener;
};

static void process_address(const char *name, char address[SIM_ADDRESS_MAX])
{
    (void)snprintf(address, SIM_ADDRESS_MAX, "process:%s", name);
}

struct process_listener *process_listener_new(struct loop *loop, const char *name,
                                              accept_fn *callback, void *owner)
{
    struct process_listener *process = calloc(1, sizeof *process);
    CHECK(process);
    process->listener = listener_alloc(loop, callback, owner);
    process_address(name, process->listener->address);
    return process;
}

void process_listener_free(struct process_listener *process)
{
    if (process)
        listener_free(process->listener);
    free(process);
}

bool process_listener_exists(const char *name)
{
    char address[SIM_ADDRESS_MAX];
    process_address(name, address);
    const struct listener *listener = listener_find(address);
    return listener && listener->loop->host == sim_host_now();
}

/* ---- faults ----------------------------------------------------------------------------------- */

void sim_streams_reset(const struct sim_host *host)
{
    for (struct list *link = sim_streams.next; link != &sim_streams; link = link->next) {
        struct stream *stream = container_of(link, struct stream, link);
        if (stream->host == host || (stream->peer && stream->peer->host == host))
            reset(stream);
    }
}

void sim_streams_crash(struct loop *loop)
{
    for (struct list *link = sim_listeners.next; link != &sim_listeners; link = link->next) {
        struct listener *listener = container_of(link, struct listener, link);
        if (listener->loop == loop)
            queue_drop(listener);
    }
    for (struct list *link = sim_streams.next, *next; link != &sim_streams; link = next) {
        struct stream *stream = container_of(link, struct stream, link);
        next = link->next;
        if (stream->loop != loop)
            continue;
        part(stream, -ECONNRESET);
        if (stream->state == STREAM_CLOSING)
            stream_finish(stream);
    }
}

/* Removes the streams from a loop that is freed; streams that still flush finish without it. */
void sim_streams_orphan(struct loop *loop)
{
    for (struct list *link = sim_streams.next, *next; link != &sim_streams; link = next) {
        struct stream *stream = container_of(link, struct stream, link);
        next = link->next;
        if (stream->loop != loop)
            continue;
        if (stream->parcel) {
            loop->opened++;
            stream_abort(stream);
            continue;
        }
        CHECK(stream->state == STREAM_CLOSING);
        stream->loop = NULL;
        stream->flush.loop = stream->deadline.loop = NULL;
        if (loop->is_dead)
            stream_finish(stream);
    }
}
