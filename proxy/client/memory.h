/*
 * memory.h - limits of the memory that clients hold.
 *
 *   all buffers of the proxy > memory-limit     reading stops until a quarter is free; clients that hung up
 *                                               are closed, then those that hold most, one by one; /readyz fails
 *   a namespace's clients > its memory-limit    its client that holds most is closed
 *   connections without a login > login-memory  the one of them that holds most is closed
 *   a login that does not come                  closed after login-timeout
 *
 * While the proxy reads from no client, unread replies shrink as clients read them: a client with unread replies is closed
 * after a second. Incomplete requests cannot shrink: a client with an incomplete request is closed at once.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct client;
struct keyspace;
struct proxy_worker;

/* Memory of one client, as CLIENT LIST shows it. Bytes. */
struct client_memory {
    size_t query;    /* requests that were read and not yet executed */
    size_t room;     /* free space in the query buffer */
    size_t argv;     /* the scanner's table of arguments, and the text of an inline command */
    size_t replies;  /* unread by the client, or waiting for replies before them */
    size_t queue;    /* transaction queue */
    size_t channels; /* subscriptions, and messages that wait for a confirmation */
    size_t total;    /* sum of the above and of the structs of the connection */
};
/* The CLIENT LIST or CLIENT INFO that the client itself has sent, and whose reply is being made; NULL: none. */
const struct request *client_line_request(const struct client *client);
void client_memory(const struct client *client, struct client_memory *memory);

/* Called at every tick while memory is full, and once a second. */
void memory_check(struct proxy_worker *worker);
/* Once a second: limits of namespaces, login-timeout. */
void memory_slow(struct proxy_worker *worker);
/* Counts the `held` bytes of the client's incomplete request. Called after its bytes were processed, and when it leaves.
 * May close clients without a login, also this one. */
void memory_count_login(struct client *client, size_t held);
/* Bytes that TLS buffers may take at most. Without this bound, silent TLS connections alone could reach memory-limit. */
uint64_t memory_tls_share(const struct proxy_worker *worker);
/* To be called when the last client of the keyspace's namespace has left this worker: sets the namespace's memory here to 0. */
void memory_space_left(const struct keyspace *keyspace);
/* To be called when the worker ends: it no longer counts as full. */
void memory_stop(struct proxy_worker *worker);
