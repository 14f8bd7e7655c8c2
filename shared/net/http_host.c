#include "shared/net/http_host.h"

#include "shared/bytes.h"
#include "shared/glob.h"

#include <arpa/inet.h>
#include <stdio.h>

enum { NAME_MAX_BYTES = 256 };

/* The name without port, brackets, and the final dot of a fully qualified name; empty: malformed. */
static struct bytes name_of(const char *host)
{
    const char *bracket = host[0] == '[' ? strchr(host, ']') : NULL;
    if (bracket)
        return (struct bytes){host + 1, (size_t)(bracket - host) - 1};
    struct bytes name = {host, strcspn(host, ":")};
    if (name.len > 1 && name.data[name.len - 1] == '.')
        name.len--;
    return name;
}

static bool is_ip(const char *host, struct bytes name)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (name.len >= sizeof text)
        return false;
    (void)snprintf(text, sizeof text, "%.*s", (int)name.len, name.data);
    return inet_pton(host[0] == '[' ? AF_INET6 : AF_INET, text, &address) == 1;
}

bool http_host_is_ours(const char *host, const char *names)
{
    if (!host)
        return true;
    struct bytes name = name_of(host);
    if (name.len == 0 || name.len >= NAME_MAX_BYTES)
        return false;
    if (is_ip(host, name) || bytes_is(name, "localhost"))
        return true;
    for (const char *at = names; *(at += strspn(at, " ")); at += strcspn(at, " "))
        if (glob_match_nocase((struct bytes){at, strcspn(at, " ")}, name))
            return true;
    return false;
}
