/*
 * memory.h - what clients hold, and what happens when it is too much.
 *
 *   all buffers of the proxy > memory-limit     no client is read from until a quarter of it is free; whoever hung up
 *                                               is closed, then those who hold most, one after another; /readyz says so
 *   a namespace's clients > its memory-limit    its client that holds most is closed
 *   connections without a login > login-memory  the one of them that holds most is closed
 *   a login that does not come                  closed after login-timeout
 *
 * Reading nothing helps against replies that are not read yet, but a request that is half sent stays as it is: its
 * client is closed at once, one with unread replies after a second in which it may read them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct client;
struct place;
struct proxy_worker;

/* Bytes of one client, as CLIENT LIST shows them. */
struct client_memory {
    size_t query;    /* of requests that were read and not taken */
    size_t room;     /* free behind them */
    size_t argv;     /* the scanner's table of arguments, an inline command's text */
    size_t replies;  /* not read yet, or not their turn yet */
    size_t queue;    /* between MULTI and EXEC */
    size_t channels; /* subscriptions, and messages that wait for their turn */
    size_t total;    /* with what the connection itself costs */
};
void client_memory(const struct client *client, struct client_memory *memory);

/* While memory is full, and once a second. */
void memory_check(struct proxy_worker *worker);
/* Once a second: limits of namespaces, logins that did not come. */
void memory_slow(struct proxy_worker *worker);
/* A client has read, or left: `held` bytes of it wait for the rest of a request. May close clients without a login, also
 * this one. */
void memory_count_login(struct client *client, size_t held);
/* Room that TLS may take: were it more, all clients could be held at memory-limit by connections that are silent. */
uint64_t memory_tls_share(const struct proxy_worker *worker);
/* The last client of a namespace has left the worker. */
void memory_space_left(const struct place *place);
/* The worker ends. */
void memory_stop(struct proxy_worker *worker);
