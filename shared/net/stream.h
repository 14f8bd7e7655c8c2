/*
 * stream.h - one TCP or Unix connection, or one within the process; byte stream both ways, non-blocking.
 *
 *            on_data(block, data, len) ◄── reads (loop's shared block, or the stream's own partial one)
 *   owner ◄┤
 *            stream_out(stream) ──► stream_send marks it; the loop flushes once at the end of the turn
 *
 * The owner does not handle partial reads or writes: it consumes whole frames (receive.h) and appends to an out.
 *
 *   CONNECTING ──on_open(0)──► OPEN ──stream_close──► CLOSING ──(out flushed or abort)──► freed
 *        └──on_open(err)──► owner calls stream_close        OPEN ──on_end(err)──► owner calls stream_close
 *
 * After stream_close or stream_abort, no callback of this stream is called any more and the pointer is invalid.
 * Callbacks may close their own stream. Implementations: stream_uv.c | tests/sim/sim_stream.c.
 */
#pragma once

#include "shared/out.h"
#include "shared/receive.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct stream;
struct tls_context;

struct stream_events {
    /* Receives complete frames, see receive_fn. Not called while paused. */
    receive_fn *on_data;
    /* The peer closed its side (err 0) or the connection broke (negative errno). Called once. Bytes can still be
     * sent after err 0. */
    void (*on_end)(void *owner, int err);
    /* Called when stream_pending falls below STREAM_LOW_WATER after having been above STREAM_HIGH_WATER. May be
     * NULL. */
    void (*on_drain)(void *owner);
};

/* A loop's closed streams may have this many descriptors more than it had open streams at one time. */
enum { STREAM_CLOSED_SPARE = 256 };

enum { STREAM_HIGH_WATER = 1024 * 1024, STREAM_LOW_WATER = 256 * 1024 };

/* Result of a connect: 0 or a negative errno (including -ETIMEDOUT). */
typedef void stream_open_fn(void *owner, int err);
/* Connects to "host:port", "[v6]:port", "unix:/path" or "process:NAME" (process_listener_new) and sets TCP_NODELAY; the name is resolved on every call, on
 * another thread. Never fails synchronously: on_open is called later. */
struct stream *stream_connect(struct loop *loop, const char *address, uint64_t timeout_ms,
                              const struct stream_events *events, stream_open_fn *on_open,
                              void *owner);
/* Call right after stream_connect, with its address, to use TLS. on_open is called after the handshake, with -EPROTO
 * when it failed; the connect's timeout includes the handshake. */
void stream_secure(struct stream *stream, struct tls_context *context, const char *address);
/* Sets the owner of an accepted stream; on_accept must do so before it returns. */
void stream_set_owner(struct stream *stream, const struct stream_events *events, void *owner);

/* The output buffer: append, then call stream_send. */
struct out *stream_out(struct stream *stream);
/* Marks the output to be written at the end of this turn, with one writev. Cheap if it is already marked. */
void stream_send(struct stream *stream);
/* Cancels the stream_send of this turn: the output is written with the next stream_send, which must follow. */
void stream_hold(struct stream *stream);
/* Bytes appended and not yet accepted by the kernel. */
size_t stream_pending(const struct stream *stream);
/* Bytes held of an incomplete frame. */
size_t stream_held(const struct stream *stream);
/* Size of the buffer for an incomplete frame, including its free room. */
size_t stream_held_room(const struct stream *stream);
/* Has the peer closed its side, or is the connection broken? Uses a system call, so it works for a paused stream
 * too. */
bool stream_has_hung_up(const struct stream *stream);
/* Is the connection broken, so that the peer cannot receive anything? A peer that has closed its side only may still read. Uses a
 * system call. */
bool stream_is_broken(const struct stream *stream);
/* Memory that TLS uses for an open stream, besides the buffers above; 0 without TLS. */
size_t stream_tls_bytes(const struct stream *stream);
/* Sum of stream_tls_bytes over all streams of a loop. */
size_t loop_tls_bytes(const struct loop *loop);
/* Stop and start reading. Bytes that were read and not consumed are passed to on_data again after the resume (by the
 * loop, not from inside stream_resume). */
void stream_pause(struct stream *stream);
void stream_resume(struct stream *stream);
bool stream_is_paused(const struct stream *stream);
/* Peer's and own address as "host:port" or the socket's path; valid as long as the stream. */
const char *stream_peer(const struct stream *stream);
const char *stream_local(const struct stream *stream);
int stream_fd(const struct stream *stream); /* -1 when there is none; shown by CLIENT LIST */
/* Is the peer on this host: the loopback interface or a Unix socket? */
bool stream_is_local(const struct stream *stream);
/* Has the peer's certificate been verified? */
bool stream_is_verified(const struct stream *stream);
/* Does the stream use TLS? */
bool stream_is_secure(const struct stream *stream);
/* The text for an err of on_open or on_end. */
const char *stream_error(const struct stream *stream, int err);
/* Monotonic time of the last read or successful write, for idle timeouts. */
uint64_t stream_active_ms(const struct stream *stream);
/* Moves an open stream to another loop. No callback is called here any more, and the pointer is invalid. On the other loop's
 * thread on_arrive gets a stream with the same connection, with everything that was received and not consumed, or not sent
 * yet; it must set an owner, or abort the stream. Not to be called inside on_data of this stream; `to` must run until
 * on_arrive was called. */
typedef void accept_fn(void *owner, struct stream *stream);
void stream_move(struct stream *stream, struct loop *to, accept_fn *on_arrive, void *owner);
/* Closes after pending bytes were written, at most a few seconds later; then drops the rest. The peer reads all written bytes and then the
 * end: for up to a second, the descriptor stays open and what the peer sends is dropped. */
void stream_close(struct stream *stream);
/* Closes now; drops pending bytes. If the peer is sending, its connection may be reset before it has read what was written. */
void stream_abort(struct stream *stream);

/* A listening socket. Each worker's loop has one: TCP sockets share the port by SO_REUSEPORT, a Unix socket is
 * dup()ed. */
struct listener;
struct listen_options {
    const char *address; /* "host:port" (port 0: the kernel chooses), "unix:/path" */
    int backlog;
    uint32_t keepalive_s; /* TCP keepalive of accepted sockets, 0 = off */
    uint32_t unix_mode;   /* permissions of a Unix socket, e.g. 0700 */
};
/* Binds. Returns a file descriptor, or -1 and a one-line reason in error[size] ("address already in use" …). A Unix
 * socket file on which no program listens is replaced. */
int listen_bind(const struct listen_options *options, char *error, size_t size);
/* Writes the bound address of a descriptor, with the real port ("host:port"). */
void listen_address(int fd, char *text, size_t size);
/* Starts accepting on the loop; owns the descriptor. on_accept must set an owner, or abort the stream. Errors of accept,
 * such as no free descriptor, are logged at most once per second and are never fatal. */
struct listener *listener_new(struct loop *loop, int fd, const struct listen_options *options,
                              accept_fn *on_accept, void *owner);
/* New streams of the listener use TLS from now on; on_accept is called after the handshake. tls_of returns the
 * current context for each; `owner` is the owner of on_accept. */
typedef struct tls_context *listener_tls_fn(void *owner);
void listener_secure(struct listener *listener, listener_tls_fn *tls_of, uint64_t handshake_ms);
/* Stops accepting and frees the listener. */
void listener_free(struct listener *listener);

/* A listener for other loops of this process, which connect to "process:NAME". The bytes of these streams go through memory: they
 * have no descriptor, and do not break until one side closes. NAME is any text, without regard to case. */
struct process_listener;
struct process_listener *process_listener_new(struct loop *loop, const char *name,
                                              accept_fn *on_accept, void *owner);
/* Streams that it has not accepted yet are closed. NULL is allowed. */
void process_listener_free(struct process_listener *listener);
/* Is there such a listener now? May be called on any thread. */
bool process_listener_exists(const char *name);
