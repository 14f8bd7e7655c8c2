/*
 * http_connections.h - which connections of the admin port may stay: so many at a time, and each for a bounded time.
 *
 *   opened ──► waiting for a request ──► being answered ──► waiting for the next request …
 *                 REQUEST_S, however          ANSWER_S, however
 *                 its bytes trickle in        slowly it is read
 *
 * A new connection is never refused. When its address, or all addresses together, have too many, the one that has
 * waited longest for a request is disconnected, or if all are being answered, the oldest answer. A health check sends
 * its request with its first packet, so it is served although another client, even at the same address, holds all
 * connections that are allowed.
 *
 * A disconnected one is only shut down here: its owner sees the end of the stream and calls http_connection_close.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    HTTP_CONNECTIONS_MAX = 64,
    HTTP_ADDRESS_MAX = 16, /* of one IPv4 address or one /64 of IPv6 */
    HTTP_REQUEST_S = 10,
    HTTP_ANSWER_S = 30,
};

struct http_connection {
    struct http_connection *next;
    struct in6_addr address; /* IPv4: mapped; IPv6: its /64 */
    uint64_t until_us;
    int fd;
    bool is_answered; /* an answer is on its way */
    bool is_shut;
};

/* Ordered by when they began to wait or to be answered, oldest first. */
struct http_connections {
    struct http_connection *first;
};

/* A connection from `peer` began. `fd` is borrowed until http_connection_close. */
struct http_connection *http_connection_open(struct http_connections *all, int fd,
                                             const struct sockaddr *peer, uint64_t now_us);
/* Its request is complete, the answer is to be read from now on. */
void http_connection_answer(struct http_connections *all, struct http_connection *connection,
                            uint64_t now_us);
/* Its answer was sent: it may send another request. */
void http_connection_wait(struct http_connections *all, struct http_connection *connection,
                          uint64_t now_us);
/* Frees it. */
void http_connection_close(struct http_connections *all, struct http_connection *connection);
/* Disconnects those whose time is over. */
void http_connections_expire(struct http_connections *all, uint64_t now_us);
