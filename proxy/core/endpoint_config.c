#include "proxy/core/endpoint_config.h"

#include "shared/check.h"

#include <stdio.h>
#include <string.h>

/* Redis' parameters. `key`: the proxy's option with this meaning; NULL: the value is derived from the listen addresses
 * and cannot be set. */
static const struct {
    const char *name;
    const char *key;
} NAMES[] = {
    {"acl-pubsub-default", "acl-pubsub-default"},
    {"aclfile", "aclfile"},
    {"acllog-max-len", "acllog-max-len"},
    {"bind", NULL},
    {"client-query-buffer-limit", "client-query-limit"},
    {"commandlog-execution-slower-than", "slowlog-log-slower-than"},
    {"commandlog-large-reply-max-len", "commandlog-large-reply-max-len"},
    {"commandlog-large-request-max-len", "commandlog-large-request-max-len"},
    {"commandlog-reply-larger-than", "commandlog-reply-larger-than"},
    {"commandlog-request-larger-than", "commandlog-request-larger-than"},
    {"commandlog-slow-execution-max-len", "slowlog-max-len"},
    {"latency-monitor-threshold", "latency-monitor-threshold"},
    {"logfile", "log-file"},
    {"loglevel", "log-level"},
    {"maxclients", "maxclients"},
    {"maxmemory-clients", "memory-limit"},
    {"port", NULL},
    {"protected-mode", "protected-mode"},
    {"proto-max-bulk-len", "proto-max-bulk-len"},
    {"slowlog-log-slower-than", "slowlog-log-slower-than"},
    {"slowlog-max-len", "slowlog-max-len"},
    {"tcp-backlog", "tcp-backlog"},
    {"tcp-keepalive", "tcp-keepalive"},
    {"timeout", "idle-timeout"},
    {"tls-port", NULL},
    {"unixsocket", NULL},
    {"unixsocketperm", "unix-mode"},
};

enum { NAME_COUNT = sizeof NAMES / sizeof NAMES[0] };

const char *endpoint_name_next(size_t *cursor)
{
    return *cursor < NAME_COUNT ? NAMES[(*cursor)++].name : NULL;
}

static int find_name(struct bytes name)
{
    for (int i = 0; i < NAME_COUNT; i++)
        if (bytes_is(name, NAMES[i].name))
            return i;
    return -1;
}

bool endpoint_has(struct bytes name)
{
    return find_name(name) >= 0;
}

/* ---- addresses ---- */

/* The first port in a list of addresses. */
static struct bytes first_port(const char *list)
{
    struct bytes rest = bytes_of(list);
    struct bytes word;
    while (word_next(&rest, &word)) {
        const char *colon = memrchr(word.data, ':', word.len);
        if (colon && !memchr(word.data, '/', word.len))
            return (struct bytes){colon + 1, (size_t)(word.data + word.len - colon - 1)};
    }
    return BYTES("0");
}

/* Writes the hosts of a list, or (is_unix) its first path. */
static void print_hosts(const char *list, bool is_unix, struct out *out)
{
    static const char UNIX[] = "unix:";
    struct bytes rest = bytes_of(list);
    struct bytes word;
    bool is_first = true;
    while (word_next(&rest, &word)) {
        const char *colon = memrchr(word.data, ':', word.len);
        bool is_path = memchr(word.data, '/', word.len);
        if (is_unix != is_path || !colon || (is_unix && !is_first))
            continue;
        struct bytes part = {word.data, (size_t)(colon - word.data)};
        if (is_path)
            part = (struct bytes){word.data + sizeof UNIX - 1, word.len - (sizeof UNIX - 1)};
        else if (part.len > 2 && part.data[0] == '[')
            part = (struct bytes){part.data + 1, part.len - 2};
        if (!is_first)
            out_write(out, " ", 1);
        out_write(out, part.data, part.len);
        is_first = false;
    }
}

/* ---- values ---- */

void endpoint_print(const struct proxy_config *config, const char *name, struct out *out)
{
    int row = find_name(bytes_of(name));
    char buffer[OPTION_TEXT_MAX];
    struct bytes text = {"", 0};
    CHECK(row >= 0);
    if (NAMES[row].key)
        text =
            redis_option_text(config_find(&config->head, bytes_of(NAMES[row].key)), config, buffer);
    else if (strcmp(name, "port") == 0)
        text = first_port(config->listen);
    else if (strcmp(name, "tls-port") == 0)
        text = first_port(config->tls_listen);
    else
        print_hosts(config->listen, strcmp(name, "unixsocket") == 0, out);
    out_write(out, text.data, text.len);
}

const struct option *endpoint_option(const struct config *config, struct bytes name)
{
    int row = find_name(name);
    if (row < 0)
        return config_find(config, name);
    return NAMES[row].key ? config_find(config, bytes_of(NAMES[row].key)) : NULL;
}

/* Is the value of maxmemory-clients, which may be a percentage in Redis, a size? */
static bool is_size(struct bytes value, char *reason, size_t size)
{
    const char *refused = redis_refuse_percent(value);
    if (!refused && redis_is_percent(value))
        refused = "a percentage of maxmemory is not possible: this is the proxy's memory-limit";
    if (refused)
        (void)snprintf(reason, size, "%s", refused);
    return !refused;
}

bool endpoint_set(struct config *config, struct bytes name, struct bytes value, char *reason,
                  size_t size)
{
    const struct option *option = endpoint_option(config, name);
    CHECK(option);
    if (bytes_is(name, "maxmemory-clients") && !is_size(value, reason, size))
        return false;
    if (endpoint_has(name))
        return redis_option_set(option, config, value, reason, size);
    return config_set(config, option, value, reason, size);
}
