/*
 * memory.h - how much memory clients hold, and which are closed at a limit.
 *
 *   all buffers of the proxy > memory-limit     no client is read from until a quarter of it is free; clients that hung up
 *                                               are closed, then those that hold most, one by one; /readyz fails
 *   a namespace's clients > its memory-limit    its client that holds most is closed
 *   connections without a login > login-memory  the one of them that holds most is closed
 *   a login that does not come                  closed after login-timeout
 *
 * While no client is read from, unread replies shrink as clients read them, so such a client has a second before it is
 * closed. A request that is half sent cannot shrink, so its client is closed at once.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct client;
struct keyspace;
struct proxy_worker;

/* Bytes of one client, as CLIENT LIST shows them. */
struct client_memory {
    size_t query;    /* of requests that were read but not yet executed */
    size_t room;     /* free space in their buffer */
    size_t argv;     /* the scanner's table of arguments, an inline command's text */
    size_t replies;  /* not yet read by the client, or waiting for replies before them */
    size_t queue;    /* between MULTI and EXEC */
    size_t channels; /* subscriptions, and messages that wait for their turn */
    size_t total;    /* with what the connection itself costs */
};
void client_memory(const struct client *client, struct client_memory *memory);

/* While memory is full, and once a second. */
void memory_check(struct proxy_worker *worker);
/* Once a second: limits of namespaces, logins that did not come. */
void memory_slow(struct proxy_worker *worker);
/* Called after a client's bytes were processed, and when it leaves: `held` bytes of it wait for the rest of a request. May
 * close clients without a login, also this one. */
void memory_count_login(struct client *client, size_t held);
/* Bytes that TLS buffers may take at most. Without this bound, silent TLS connections alone could reach memory-limit. */
uint64_t memory_tls_share(const struct proxy_worker *worker);
/* The last client of a namespace has left the worker. */
void memory_space_left(const struct keyspace *keyspace);
/* The worker ends. */
void memory_stop(struct proxy_worker *worker);
