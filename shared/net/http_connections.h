/*
 * http_connections.h - limits connections of the admin port, in number and in time.
 *
 *   opened ──► waiting for a request ──► being answered ──► waiting for the next request …
 *                 at most REQUEST_S,       at most ANSWER_S,
 *                 even if bytes trickle    even if read slowly
 *
 * A new connection is never refused. When its address, or all addresses together, have too many, the connection that
 * has waited longest for a request is disconnected; if all are being answered, the one with the oldest answer. A
 * health check sends its request with its first packet, so it is served even while another client, perhaps at the
 * same address, holds all allowed connections.
 *
 * Disconnecting is shutdown(2) only: the owner then reads the end of the stream and calls http_connection_close.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    HTTP_CONNECTIONS_MAX = 64,
    HTTP_ADDRESS_MAX = 16, /* per IPv4 address or IPv6 /64 */
    HTTP_REQUEST_S = 10,
    HTTP_ANSWER_S = 30,
};

struct http_connection {
    struct http_connection *next;
    struct in6_addr address; /* IPv4: mapped; IPv6: its /64 */
    uint64_t until_us;
    int fd;
    bool is_answered; /* a reply is being sent */
    bool is_shut;
};

/* Ordered by when they began to wait or to be answered, oldest first. */
struct http_connections {
    struct http_connection *first;
};

/* Adds a connection from `peer`. `fd` is borrowed until http_connection_close. */
struct http_connection *http_connection_open(struct http_connections *all, int fd,
                                             const struct sockaddr *peer, uint64_t now_us);
/* The request is complete; its reply must now be read in time. */
void http_connection_answer(struct http_connections *all, struct http_connection *connection,
                            uint64_t now_us);
/* The reply was sent; the next request must now arrive in time. */
void http_connection_wait(struct http_connections *all, struct http_connection *connection,
                          uint64_t now_us);
/* Removes and frees the connection. */
void http_connection_close(struct http_connections *all, struct http_connection *connection);
/* Disconnects the connections that have exceeded their time. */
void http_connections_expire(struct http_connections *all, uint64_t now_us);
