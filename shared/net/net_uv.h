/*
 * net_uv.h - what the files of the libuv interface share; nobody else includes it.
 *
 * One turn of a loop, all on one thread:
 *
 *   poll ─► callbacks of descriptors, timers, mail (collect)
 *        ─► streams_deliver: what streams have to tell (opened, resumed, drained, ended)  ◄─┐ again while
 *        ─► turn hooks, until none returns true                                            ─┘ it made news
 *        ─► streams_flush: one writev per stream that has bytes
 *        ─► handshakes_run: a few steps of those that are due
 *        ─► poll: waits, unless the flush left something to tell, or there was a handshake
 *
 * Everything after the callbacks runs in a uv_prepare, the last thing libuv calls before it polls.
 * Memory of a handle goes back in libuv's close callback and nowhere else; `closing` counts those
 * still to come, `opened` what users have not closed yet.
 */
#pragma once

#include "shared/block.h"
#include "shared/list.h"
#include "shared/net/loop.h"
#include "shared/net/stream.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <uv.h>

struct loop {
    uv_loop_t uv;
    uv_prepare_t turn; /* ends a turn */
    uv_idle_t again;   /* active: the next poll does not wait */
    uv_async_t wake;   /* there is mail, or the loop shall stop */

    _Atomic(struct task *) mail; /* from any thread, newest first */
    struct task *tasks;          /* taken out of mail, oldest first */
    struct task **tasks_end;
    atomic_bool is_stopping;
    bool is_polling; /* inside loop_poll */
    bool is_running;

    struct turn_hook *hooks;
    struct list dirty;   /* streams with bytes to flush */
    struct list telling; /* streams with something to tell */
    struct list dead;    /* closed streams that never had a uv handle; freed at the turn's end */
    struct list signals;
    struct block *shared;         /* reads of all streams go here; NULL until the first */
    struct list handshakes;       /* TLS, half-open; secure_uv.c */
    struct list handshakes_ready; /* those with something to do */
    unsigned handshake_count;
    unsigned secured_count;  /* streams that speak TLS, handshakes done */
    struct metrics *metrics; /* of TLS; NULL until the first connection */

    unsigned opened;
    unsigned closing;

    uint64_t turns;
    uint64_t wall_turn; /* the turn wall_us was taken in */
    uint64_t wall_us;
    uint64_t mono_turn; /* the same for mono_us */
    uint64_t mono_us;
};

/* Takes back a task that was posted and has not run; the loop's own thread only. */
void loop_unpost(struct loop *loop, struct task *task);
/* Runs a loop without hooks until all that is closing is closed; gives back the shared block. */
void loop_drain(struct loop *loop);

/* stream_uv.c, called at the end of a turn. */
void streams_deliver(struct loop *loop);
void streams_flush(struct loop *loop);
/* Frees the dead; true when there were some. */
bool streams_bury(struct loop *loop);

/* A socket address of any family we speak. */
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
    ADDRESS_TEXT_MAX = 128, /* of address_print */
    ADDRESS_HOST_MAX = 256, /* of a host's name */
    ADDRESS_LIST_MAX = 8,   /* addresses of one name that are tried */
};

/* "host:port" or "[v6]:port" in two parts; false: it is neither. */
bool address_split(const char *text, char host[ADDRESS_HOST_MAX], uint16_t *port);
/* "unix:/path" or a numeric address; false: a name that must be looked up, or nonsense. */
bool address_parse(const char *text, struct address *address);
bool address_is_unix(const char *text);
void address_print(const struct address *address, char text[ADDRESS_TEXT_MAX]);
/* Of a socket: its own (or the peer's) address; false: it has none. */
bool address_of(int fd, bool peer, struct address *address);

/* Resolves a name on a thread of its own. on_done comes on the loop's thread, never from inside
 * lookup_start, with count > 0 addresses or a negative errno; after it the lookup is gone. */
struct lookup;
typedef void lookup_fn(void *owner, const struct address *list, int count);
struct lookup *lookup_start(struct loop *loop, const char *host, uint16_t port, lookup_fn *on_done,
                            void *owner);
/* on_done will not come. The thread may outlive the loop: a resolver that hangs delays nobody. */
void lookup_cancel(struct lookup *lookup);

enum stream_state { STREAM_CONNECTING, STREAM_OPEN, STREAM_CLOSING, STREAM_CLOSED };

/* What a stream has to tell its owner at the end of the turn, a set of bits. */
enum { TELL_OPEN = 1, TELL_AGAIN = 2, TELL_DRAIN = 4, TELL_END = 8 };

struct connecting;

struct stream {
    uv_poll_t poll; /* valid when has_poll */
    struct loop *loop;
    const struct stream_events *events;
    void *owner;
    struct out out;
    struct receive receive;
    struct list dirty;   /* in loop->dirty */
    struct list telling; /* in loop->telling while `tell` is not 0; in loop->dead after the end */
    uint64_t active_ms;
    int fd;
    int err;              /* of TELL_OPEN and TELL_END */
    uint8_t state;        /* enum stream_state */
    uint8_t tell;         /* TELL_ bits */
    uint8_t subscription; /* events that uv_poll watches now */
    bool has_poll;
    bool is_paused;
    bool is_blocked;        /* the kernel took no more; waits until it is writable */
    bool is_ended;          /* on_end was called */
    bool is_broken;         /* nothing can be sent any more */
    bool is_secured;        /* the TLS handshake is done */
    bool is_taking;         /* decrypted bytes are being taken, below on the stack */
    bool was_high;          /* above STREAM_HIGH_WATER, and on_drain has not been called since */
    struct timer *deadline; /* of a close that waits for its flush */
    struct connecting *connecting; /* until it is open */
    struct tls *tls;               /* NULL: plain */
    struct handshake *handshake;   /* while it lasts */
    char *local;                   /* text; NULL until somebody asks */
    char peer[ADDRESS_TEXT_MAX];
};

struct stream *stream_alloc(struct loop *loop);
/* Takes a connected descriptor for libuv to watch. False when it cannot; fd stays the caller's. */
bool stream_attach(struct stream *stream, int fd);
/* It is open: reading begins. */
void stream_opened(struct stream *stream);
/* Tells at the end of this turn (or of the next, when this one is ending). */
void stream_tell(struct stream *stream, unsigned what);
/* Both. */
bool stream_start(struct stream *stream, int fd);
bool stream_is_reading(const struct stream *stream);
/* Says the end once; after an error nothing can be sent. */
void stream_end(struct stream *stream, int err);
/* After a read() that gave nothing. True: it may be tried again. */
bool stream_read_failed(struct stream *stream, ssize_t got);
/* TCP_NODELAY and keepalive; other families: nothing. */
void stream_set_options(int fd, uint32_t keepalive_s);

/* connect_uv.c: TELL_OPEN was due. */
void connect_tell(struct stream *stream);
void connect_free(struct connecting *connecting);

/* secure_uv.c: TLS. `on_done` comes once, at a turn's end, never from inside secure_start; with an err the stream is
 * to be closed. */
typedef void handshake_fn(void *owner, struct stream *stream, int err);
void secure_start(struct stream *stream, uint64_t timeout_ms, handshake_fn *on_done, void *owner);
/* on_done will not come. */
void secure_stop(struct stream *stream);
/* With the stream's memory. */
void secure_free(struct stream *stream);
/* Aborts the handshakes of this owner. */
void secure_abandon(struct loop *loop, const void *owner);
/* Some steps of handshakes. True: there were some; what they opened, and the others, want another turn. */
bool handshakes_run(struct loop *loop);
/* May one more begin? The one that has been silent longest may have to go. */
bool handshakes_make_room(struct loop *loop);
/* One read, and all that can be decrypted. False: there is no more to read now. */
bool secure_read(struct stream *stream);
/* Encrypts from the stream's out; what is to be written, NULL: TLS has failed. */
struct out *secure_seal(struct stream *stream);
bool secure_has_input(const struct stream *stream);
size_t secure_pending(const struct stream *stream);
/* Tells the peer that nothing more comes. */
void secure_goodbye(struct stream *stream);
