#include "shared/net/http_connections.h"

#include "shared/check.h"

#include <stdlib.h>
#include <string.h>

enum { SECOND_US = 1000 * 1000 };

/* The address to count by: for IPv6 its /64, because one owner usually has a whole /64. */
static struct in6_addr address_of(const struct sockaddr *peer)
{
    struct in6_addr address = {0};
    if (peer->sa_family == AF_INET) {
        address.s6_addr[10] = address.s6_addr[11] = 0xff;
        memcpy(&address.s6_addr[12], &((const struct sockaddr_in *)peer)->sin_addr, 4);
    } else if (peer->sa_family == AF_INET6) {
        address = ((const struct sockaddr_in6 *)peer)->sin6_addr;
        if (!IN6_IS_ADDR_V4MAPPED(&address))
            memset(&address.s6_addr[8], 0, 8);
    }
    return address;
}

static bool is_from(const struct http_connection *connection, const struct in6_addr *address)
{
    return !address || memcmp(&connection->address, address, sizeof *address) == 0;
}

static void shut(struct http_connection *connection)
{
    connection->is_shut = true;
    (void)shutdown(connection->fd, SHUT_RDWR);
}

/* When there are more than `max` connections from `address` (NULL: from all), disconnects the one that has waited
 * longest for a request; if none waits, the one with the oldest answer. The newest connection, the last in the list,
 * is never chosen. */
static void evict_connection(struct http_connections *all, const struct in6_addr *address,
                             unsigned max)
{
    struct http_connection *waiting = NULL;
    struct http_connection *answered = NULL;
    unsigned count = 0;
    for (struct http_connection *one = all->first; one; one = one->next) {
        if (one->is_shut || !is_from(one, address))
            continue;
        count++;
        if (one->is_answered && !answered)
            answered = one;
        if (!one->is_answered && !waiting)
            waiting = one;
    }
    if (count > max)
        shut(waiting && waiting->next ? waiting : answered ? answered : waiting);
}

static void append_connection(struct http_connections *all, struct http_connection *connection)
{
    struct http_connection **end = &all->first;
    while (*end)
        end = &(*end)->next;
    connection->next = NULL;
    *end = connection;
}

static void detach_out(struct http_connections *all, const struct http_connection *connection)
{
    struct http_connection **at = &all->first;
    while (*at != connection)
        at = &(*at)->next;
    *at = connection->next;
}

struct http_connection *http_connection_open(struct http_connections *all, int fd,
                                             const struct sockaddr *peer, uint64_t now_us)
{
    struct http_connection *connection = calloc(1, sizeof *connection);
    CHECK(connection);
    connection->fd = fd;
    connection->address = address_of(peer);
    connection->until_us = now_us + HTTP_REQUEST_S * SECOND_US;
    append_connection(all, connection);
    evict_connection(all, &connection->address, HTTP_ADDRESS_MAX);
    evict_connection(all, NULL, HTTP_CONNECTIONS_MAX);
    return connection;
}

static void restart(struct http_connections *all, struct http_connection *connection,
                    bool is_answered, uint64_t until_us)
{
    connection->is_answered = is_answered;
    connection->until_us = until_us;
    detach_out(all, connection);
    append_connection(all, connection);
}

void http_connection_answer(struct http_connections *all, struct http_connection *connection,
                            uint64_t now_us)
{
    restart(all, connection, true, now_us + HTTP_ANSWER_S * SECOND_US);
}

void http_connection_wait(struct http_connections *all, struct http_connection *connection,
                          uint64_t now_us)
{
    restart(all, connection, false, now_us + HTTP_REQUEST_S * SECOND_US);
}

void http_connection_close(struct http_connections *all, struct http_connection *connection)
{
    detach_out(all, connection);
    free(connection);
}

void http_connections_expire(struct http_connections *all, uint64_t now_us)
{
    for (struct http_connection *one = all->first; one; one = one->next)
        if (!one->is_shut && one->until_us <= now_us)
            shut(one);
}
