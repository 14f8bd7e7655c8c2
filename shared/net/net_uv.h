/*
 * net_uv.h - private to the files that implement the network interface with libuv.
 *
 * One turn of a loop, all on one thread:
 *
 *   poll ─► callbacks of descriptors, timers, mail (collect work)
 *        ─► streams_deliver: pending events of streams (opened, resumed, drained, ended)  ◄─┐ again while
 *        ─► turn hooks, until none returns true                                            ─┘ there are new events
 *        ─► streams_flush: one writev per stream that has bytes
 *        ─► handshakes_run: a few steps of ready handshakes
 *        ─► last steps (loop_at_last), and streams_flush of what they send
 *        ─► poll: waits, unless streams have new events, a handshake ran, a timer was started with 0 ms, or mail has come
 *
 * Everything after the callbacks runs in a uv_prepare, which libuv calls last before it polls. The memory of a handle
 * is freed only in libuv's close callback; `closing` counts the handles whose callback is still to come, `opened`
 * those that their users have not closed yet.
 */
#pragma once

#include "shared/block.h"
#include "shared/list.h"
#include "shared/net/loop.h"
#include "shared/net/stream.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <uv.h>

/* Ends of pipes that have something for their streams (pipe_uv.c). Other threads add to it. */
struct loop_pipes {
    pthread_mutex_t lock;
    struct list ready;
    size_t count;
};

/* Each clock is read at most once per turn. */
struct loop_time {
    uint64_t turns;
    uint64_t wall_turn; /* the turn in which wall_us was read */
    uint64_t wall_us;
    const _Atomic int64_t *shift_us; /* loop_shift_wall */
    uint64_t mono_turn;              /* the turn in which mono_us was read */
    uint64_t mono_us;
};

/* Streams for which there is something to do (stream_uv.c). */
struct loop_streams {
    struct list dirty;      /* with bytes to flush */
    struct list telling;    /* with pending events (TELL_ bits) */
    struct list delivering; /* those whose events streams_deliver is handling */
    struct list dead;       /* closed ones that never had a uv handle; freed at the turn's end */
};

/* Half-open TLS streams (secure_uv.c). */
struct loop_handshakes {
    struct list all;   /* ordered by silence, longest first */
    struct list ready; /* those with a step to run */
    unsigned count;
    unsigned done; /* TLS streams after their handshake */
};

/* Streams that are closed and whose peers may still send (linger_uv.c). */
struct loop_lingering {
    struct list all; /* struct lingering, the one that ends first at the front */
    uv_timer_t timer;
    unsigned count;
    unsigned open;      /* streams with a descriptor, besides these */
    unsigned open_most; /* the largest `open` so far */
};

/* Wakes the loop: tasks were posted, ends of pipes are ready, or the loop must stop (wake_uv.c). */
struct loop_wake {
    uv_check_t check; /* after each poll */
    uv_poll_t poll;
    int fd; /* an eventfd */
    atomic_bool is_wanted, is_asleep;
    void (*on_wake)(struct loop *loop);
};

struct loop {
    uv_loop_t uv;
    uv_prepare_t turn; /* ends a turn */
    uv_idle_t again;   /* active: the next poll does not wait */
    struct loop_wake wake;

    _Atomic(struct task *) mail; /* tasks posted by any thread, newest first */
    struct task *tasks;          /* tasks taken out of `mail`, oldest first */
    struct task **tasks_end;
    atomic_bool is_stopping;
    bool is_polling; /* inside loop_poll */
    bool is_running;

    struct turn_hook *hooks;
    struct list last; /* struct last_step */
    struct list soon; /* timers that fire after the next poll */
    struct loop_streams streams;
    struct list signals;
    /* buffer for the reads of all streams; NULL until the first read */
    struct block *shared;
    struct loop_handshakes handshakes;
    struct loop_lingering lingering;
    struct loop_pipes pipes;
    struct metrics *metrics; /* TLS metrics; NULL until the first connection */

    unsigned opened;
    unsigned closing;

    struct loop_time time;
};

/* Removes a posted task that has not run yet; only on the loop's own thread. */
void loop_unpost(struct loop *loop, struct task *task);
/* Runs a loop, without hooks, until all closing handles are closed; frees the shared block. */
void loop_drain(struct loop *loop);

/* wake_uv.c: on_wake is called after the next poll, once for all calls before. On any thread, and in a signal callback. */
void wake_call(struct loop *loop);
void wake_init(struct loop *loop, void (*on_wake)(struct loop *loop));
/* The loop is about to poll. False: it must not wait. */
bool wake_sleep(struct loop *loop);
/* An event has come: from here to the next wake_sleep callers need no system call. */
void wake_up(struct loop *loop);
/* At the loop's end. */
void wake_close(struct loop *loop);

/* stream_uv.c: called at the end of a turn. */
void streams_deliver(struct loop *loop);
void streams_flush(struct loop *loop);
/* Frees the streams in `dead`; true when there were some. */
bool streams_bury(struct loop *loop);

/* A socket address of any supported family. */
struct address {
    socklen_t len;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un path;
    };
};

enum {
    ADDRESS_TEXT_MAX = 128, /* size for address_print */
    ADDRESS_HOST_MAX = 256, /* size of a host name */
    ADDRESS_LIST_MAX = 8,   /* addresses of one name that are tried */
};

/* Splits "host:port" or "[v6]:port"; false when the text has another form. */
bool address_split(const char *text, char host[ADDRESS_HOST_MAX], uint16_t *port);
/* Parses "unix:/path" or a numeric address; false when the text is a name to look up, or malformed. */
bool address_parse(const char *text, struct address *address);
bool address_is_unix(const char *text);
void address_print(const struct address *address, char text[ADDRESS_TEXT_MAX]);
/* A socket's own address, or its peer's; false: it has none. */
bool address_of(int fd, bool peer, struct address *address);

/* Resolves a name on a separate thread. on_done is called on the loop's thread, never from inside lookup_start, with
 * count > 0 addresses or a negative errno; the lookup is freed afterwards. */
struct lookup;
typedef void lookup_fn(void *owner, const struct address *list, int count);
struct lookup *lookup_start(struct loop *loop, const char *host, uint16_t port, lookup_fn *on_done,
                            void *owner);
/* on_done will not be called. The thread may outlive the loop, so a resolver that hangs delays nothing. */
void lookup_cancel(struct lookup *lookup);
/* The addresses of the last lookup of the host that succeeded in this process; returns their number, 0: none did. */
int lookup_last_good(const char *host, uint16_t port, struct address list[ADDRESS_LIST_MAX]);

enum stream_state { STREAM_CONNECTING, STREAM_OPEN, STREAM_CLOSING, STREAM_CLOSED };

/* Events that a stream reports to its owner at the end of the turn; a set of bits. */
enum { TELL_OPEN = 1, TELL_AGAIN = 2, TELL_DRAIN = 4, TELL_END = 8 };

struct connecting;
struct pipe_end;

/* The TLS of a stream (secure_uv.c). */
struct stream_tls {
    struct tls *tls;             /* NULL: no TLS */
    struct handshake *handshake; /* NULL unless the handshake is running */
    bool is_done;                /* the TLS handshake is done */
    /* a caller up the stack is passing decrypted bytes to the owner */
    bool is_reading;
};

struct stream {
    uv_poll_t poll; /* valid when there is a descriptor */
    struct loop *loop;
    const struct stream_events *events;
    void *owner;
    struct out out;
    struct receive receive;
    struct list dirty; /* in streams.dirty of the loop */
    /* in streams.telling or streams.delivering of the loop while `tell` is not 0; in streams.dead after the end */
    struct list telling;
    uint64_t active_ms;
    struct pipe_end *pipe; /* NULL: the stream has a descriptor, or is not connected */
    int fd;
    int err;              /* argument of TELL_OPEN and TELL_END */
    uint8_t state;        /* enum stream_state */
    uint8_t tell;         /* TELL_ bits */
    uint8_t subscription; /* events that uv_poll watches now */
    bool is_paused;
    /* the kernel's send buffer is full; waits until the descriptor is writable */
    bool is_blocked;
    bool is_ended;  /* on_end was called */
    bool is_broken; /* nothing can be sent any more */
    /* pending bytes were above STREAM_HIGH_WATER, and on_drain has not been called since then */
    bool was_high;
    struct timer *deadline;        /* limits how long a close waits for its flush */
    struct connecting *connecting; /* NULL once connected */
    struct stream_tls secure;
    char *local; /* own address as text; NULL until stream_local() is called */
    char peer[ADDRESS_TEXT_MAX];
};

struct stream *stream_alloc(struct loop *loop);
/* Lets libuv watch a connected descriptor. False when it cannot; fd then still belongs to the caller. */
bool stream_attach(struct stream *stream, int fd);
/* The stream becomes open: reading begins. */
void stream_opened(struct stream *stream);
/* Reports events at the end of this turn (or of the next one, if this turn is already ending). */
void stream_tell(struct stream *stream, unsigned what);
/* stream_attach and stream_opened. */
bool stream_start(struct stream *stream, int fd);
bool stream_is_reading(const struct stream *stream);
/* Calls on_end once; after an error nothing can be sent. */
void stream_end(struct stream *stream, int err);
/* Reads as long as the stream is reading and bytes come; then watches for what it needs next. */
void stream_readable(struct stream *stream);
/* Handles a read() that returned no bytes. True: try again. */
bool stream_read_failed(struct stream *stream, ssize_t got);
/* Frees the buffers and the TLS state of a closed stream. */
void stream_slim(struct stream *stream);
/* An open stream that moves to another loop ends here; its descriptor stays open. */
void stream_depart(struct stream *stream);
/* Closes the descriptor of a closed stream; the memory is freed later. */
void stream_close_descriptor(struct stream *stream);
/* Sets TCP_NODELAY and keepalive; does nothing for other families. */
void stream_set_options(int fd, uint32_t keepalive_s);

/* connect_uv.c: handles TELL_OPEN. */
void connect_tell(struct stream *stream);
void connect_free(struct connecting *connecting);

/* linger_uv.c: ends our side of a closed stream and reads until the peer has ended its side; then, or when a limit is
 * reached, calls stream_close_descriptor. False: there is nothing to wait for, and the caller must call it now. */
bool linger_begin(struct stream *stream);
/* Closes the descriptor that waits longest. False: none waits. */
bool linger_make_room(struct loop *loop);
/* A stream has got a descriptor (1), or is closed (-1). */
void linger_count(struct loop *loop, int by);
/* Frees the buffers of streams that were closed in this turn; called at its end, when no caller can be using them. */
void linger_slim(struct loop *loop);
void linger_init(struct loop *loop);

/* pipe_uv.c: streams of this process, to addresses "process:NAME". */
bool pipe_is_address(const char *address);
/* Returns 0, or a negative errno. The stream may write at once; the other side is accepted later. */
int pipe_connect(struct stream *stream, const char *address);
/* As read() and writev() of a non-blocking descriptor. */
ssize_t pipe_read(struct stream *stream, char *to, size_t room);
ssize_t pipe_write(struct stream *stream, const struct iovec *iov, size_t bytes);
/* The stream begins to wait for bytes to read, or for room to write. */
void pipe_watch(struct stream *stream);
/* Has the other side been closed? */
bool pipe_has_ended(const struct stream *stream);
/* The stream is closed: it leaves its pipe, if it has one. */
void pipe_leave(struct stream *stream);
/* Passes on what other loops have written since the last call. */
void pipes_deliver(struct loop *loop);
void pipes_init(struct loop *loop);
void pipes_fini(struct loop *loop);

/* secure_uv.c: TLS. `on_done` is called once, at the end of a turn, never from inside secure_start; after an error
 * the callee must close the stream. */
typedef void handshake_fn(void *owner, struct stream *stream, int err);
void secure_start(struct stream *stream, uint64_t timeout_ms, handshake_fn *on_done, void *owner);
/* on_done will not be called. */
void secure_stop(struct stream *stream);
/* Called when the stream's memory is freed. */
void secure_free(struct stream *stream);
/* Moves the TLS of an open stream to a stream of another loop. */
void secure_leave(struct stream *stream, struct stream_tls *to);
void secure_join(struct stream *stream, const struct stream_tls *from);
/* Aborts the streams of this owner whose handshake is running. */
void secure_abandon(struct loop *loop, const void *owner);
/* Runs some handshake steps. True: some ran, so another turn must follow without waiting. */
bool handshakes_run(struct loop *loop);
/* May one more handshake begin? If there are too many, ends the one that has been silent longest. */
bool handshakes_make_room(struct loop *loop);
/* Reads once and decrypts everything possible. False: there is no more to read now. */
bool secure_read(struct stream *stream);
/* Encrypts from the stream's out; returns the bytes to be written, or NULL when TLS has failed. */
struct out *secure_seal(struct stream *stream);
bool secure_has_input(const struct stream *stream);
size_t secure_pending(const struct stream *stream);
/* Sends the peer a close_notify. */
void secure_goodbye(struct stream *stream);
