/*
 * address_uv.c - converts addresses between text and struct sockaddr.
 */
#include "shared/net/net_uv.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char unix_prefix[] = "unix:";

bool address_is_unix(const char *text)
{
    return strncmp(text, unix_prefix, sizeof(unix_prefix) - 1) == 0;
}

static bool port_parse(const char *text, uint16_t *port)
{
    unsigned value = 0;
    size_t len = strlen(text);
    if (len == 0 || len > 5)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    *port = (uint16_t)value;
    return value <= UINT16_MAX;
}

bool address_split(const char *text, char host[ADDRESS_HOST_MAX], uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    if (!colon || !port_parse(colon + 1, port))
        return false;
    size_t len = (size_t)(colon - text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    } else if (memchr(text, ':', len)) {
        return false;
    }
    if (len >= ADDRESS_HOST_MAX)
        return false;
    memcpy(host, text, len);
    host[len] = '\0';
    return true;
}

static bool unix_parse(const char *path, struct address *address)
{
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof(address->path.sun_path))
        return false;
    address->path.sun_family = AF_UNIX;
    memcpy(address->path.sun_path, path, len + 1);
    address->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
    return true;
}

bool address_parse(const char *text, struct address *address)
{
    memset(address, 0, sizeof(*address));
    if (address_is_unix(text))
        return unix_parse(text + sizeof(unix_prefix) - 1, address);
    char host[ADDRESS_HOST_MAX];
    uint16_t port;
    if (!address_split(text, host, &port))
        return false;
    if (inet_pton(AF_INET, host, &address->v4.sin_addr) == 1) {
        address->v4.sin_family = AF_INET;
        address->v4.sin_port = htons(port);
        address->len = sizeof(address->v4);
        return true;
    }
    if (inet_pton(AF_INET6, host, &address->v6.sin6_addr) == 1) {
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = htons(port);
        address->len = sizeof(address->v6);
        return true;
    }
    return false;
}

/* Prints the IPv4 peer of a dual-stack socket as an IPv4 address. */
static void v6_print(const struct address *address, char text[ADDRESS_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN] = "";
    unsigned port = ntohs(address->v6.sin6_port);
    const struct in6_addr *ip = &address->v6.sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(ip)) {
        inet_ntop(AF_INET, &ip->s6_addr[12], host, sizeof(host));
        (void)snprintf(text, ADDRESS_TEXT_MAX, "%s:%u", host, port);
    } else {
        inet_ntop(AF_INET6, ip, host, sizeof(host));
        (void)snprintf(text, ADDRESS_TEXT_MAX, "[%s]:%u", host, port);
    }
}

void address_print(const struct address *address, char text[ADDRESS_TEXT_MAX])
{
    text[0] = '\0';
    if (address->any.sa_family == AF_INET) {
        char host[INET_ADDRSTRLEN] = "";
        inet_ntop(AF_INET, &address->v4.sin_addr, host, sizeof(host));
        (void)snprintf(text, ADDRESS_TEXT_MAX, "%s:%u", host, ntohs(address->v4.sin_port));
    } else if (address->any.sa_family == AF_INET6) {
        v6_print(address, text);
    } else if (address->any.sa_family == AF_UNIX) {
        size_t start = offsetof(struct sockaddr_un, sun_path);
        size_t len = address->len > start ? address->len - start : 0;
        (void)snprintf(text, ADDRESS_TEXT_MAX, "%.*s", (int)strnlen(address->path.sun_path, len),
                       address->path.sun_path);
    }
}

bool address_of(int fd, bool peer, struct address *address)
{
    memset(address, 0, sizeof(*address));
    address->len = sizeof(*address) - offsetof(struct address, any);
    int err = peer ? getpeername(fd, &address->any, &address->len)
                   : getsockname(fd, &address->any, &address->len);
    return err == 0;
}
