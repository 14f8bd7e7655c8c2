/*
 * stream.h - one TCP or Unix connection, byte stream both ways, non-blocking.
 *
 *            on_data(block, data, len) ◄── reads (loop's shared block, or the stream's own partial one)
 *   owner ◄┤
 *            stream_out(stream) ──► stream_send marks it; the loop flushes once at the end of the turn
 *
 * The owner never sees partial reads or writes: it consumes whole frames (receive.h) and appends to an out.
 *
 *   CONNECTING ──on_open(0)──► OPEN ──stream_close──► CLOSING ──(out flushed or abort)──► freed
 *        └──on_open(err)──► owner calls stream_close        OPEN ──on_end(err)──► owner calls stream_close
 *
 * After stream_close / stream_abort returns no callback of this stream comes any more and the pointer is dead.
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
    /* Complete frames in, see receive_fn. Not called while paused. */
    receive_fn *on_data;
    /* The peer closed its side (err 0) or the connection broke (negative errno). Comes once. Bytes may
     * still be sent after err 0. */
    void (*on_end)(void *owner, int err);
    /* stream_pending fell below STREAM_LOW_WATER after having been above STREAM_HIGH_WATER. May be NULL. */
    void (*on_drain)(void *owner);
};

enum { STREAM_HIGH_WATER = 1024 * 1024, STREAM_LOW_WATER = 256 * 1024 };

/* Says how a connect ended: 0 or negative errno (also -ETIMEDOUT). */
typedef void stream_open_fn(void *owner, int err);
/* Connects to "host:port", "[v6]:port" or "unix:/path"; the name is resolved anew on every call, off the loop.
 * TCP_NODELAY is set. Never fails synchronously: on_open is called later. */
struct stream *stream_connect(struct loop *loop, const char *address, uint64_t timeout_ms,
                              const struct stream_events *events, stream_open_fn *on_open,
                              void *owner);
/* Right after stream_connect, with its address: the stream speaks TLS. on_open comes after the handshake, -EPROTO when
 * it failed; its time is part of the connect's. */
void stream_secure(struct stream *stream, struct tls_context *context, const char *address);
/* The owner of an accepted stream: set in on_accept before anything arrives. */
void stream_set_owner(struct stream *stream, const struct stream_events *events, void *owner);

/* Append here, then stream_send. */
struct out *stream_out(struct stream *stream);
/* Marks the out for flushing at the end of this loop turn: one writev. Cheap when already marked. */
void stream_send(struct stream *stream);
/* Bytes appended and not yet taken by the kernel. */
size_t stream_pending(const struct stream *stream);
/* Bytes of an incomplete frame held. */
size_t stream_held(const struct stream *stream);
/* Size of the buffer that holds them, with its free space. */
size_t stream_held_room(const struct stream *stream);
/* Has the peer closed its side, or is the connection broken? Asks the kernel, so it works for a paused stream too. */
bool stream_has_hung_up(const struct stream *stream);
/* What TLS holds for an open stream beside those; 0: it is plain. */
size_t stream_tls_bytes(const struct stream *stream);
/* The same of all streams of a loop. */
size_t loop_tls_bytes(const struct loop *loop);
/* Stops and starts reading; bytes that were read and not consumed are presented again on resume
 * (from the loop, not from inside stream_resume). */
void stream_pause(struct stream *stream);
void stream_resume(struct stream *stream);
bool stream_is_paused(const struct stream *stream);
/* Peer and own address as "host:port" or the socket's path; texts live as long as the stream. */
const char *stream_peer(const struct stream *stream);
const char *stream_local(const struct stream *stream);
int stream_fd(const struct stream *stream); /* -1 when there is none; for CLIENT LIST */
/* Is the peer on this host: the loopback interface or a Unix socket? */
bool stream_is_local(const struct stream *stream);
/* Has the peer shown a certificate that we trust? */
bool stream_is_verified(const struct stream *stream);
/* What an err of on_open or on_end means, in words. */
const char *stream_error(const struct stream *stream, int err);
/* Monotonic time of the last read or successful write, for idle timeouts. */
uint64_t stream_active_ms(const struct stream *stream);
/* Closes after what is pending was written (at most a few seconds, then drops it). */
void stream_close(struct stream *stream);
/* Closes now; pending bytes are dropped. */
void stream_abort(struct stream *stream);

/* Listening. One listen socket per worker loop: TCP uses SO_REUSEPORT, a Unix socket is shared (dup). */
struct listener;
struct listen_options {
    const char *address; /* "host:port" (port 0: the kernel chooses), "unix:/path" */
    int backlog;
    uint32_t keepalive_s; /* TCP keepalive of accepted sockets, 0 = off */
    uint32_t unix_mode;   /* permissions of a Unix socket, e.g. 0700 */
};
/* Binds: returns a file descriptor, or -1 and a one-line reason in error[size] ("address already in use" …).
 * A stale Unix socket file nobody listens on is replaced. */
int listen_bind(const struct listen_options *options, char *error, size_t size);
/* The bound address ("host:port" with the real port) of a descriptor. */
void listen_address(int fd, char *text, size_t size);
typedef void accept_fn(void *owner, struct stream *stream);
/* Starts accepting on the loop; takes the descriptor. on_accept must set an owner, or abort the stream. */
struct listener *listener_new(struct loop *loop, int fd, const struct listen_options *options,
                              accept_fn *on_accept, void *owner);
/* Its streams speak TLS from now on; on_accept comes after the handshake. tls_of gives each the context in force;
 * `owner` is that of on_accept. */
typedef struct tls_context *listener_tls_fn(void *owner);
void listener_secure(struct listener *listener, listener_tls_fn *tls_of, uint64_t handshake_ms);
/* Stops accepting and frees. */
void listener_free(struct listener *listener);
/* Descriptor exhaustion and the like are logged once a second, never fatal. */
