#include "backend/context/parameter.h"

#include "backend/context/notify_class.h"
#include "backend/context/output_limit.h"
#include "config/redis_units.h"
#include "shared/check.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdio.h>

#define ANY_SIZE (-1) /* UINT64_MAX, as an unsigned number */

/* Reasons why a parameter has only one allowed value. */
#define NO_REPLICATION "there is no replication"
#define NO_CLUSTER     "this server is not a node of a Redis Cluster"
#define NO_DEFRAG      "there is no defragmentation"
#define NO_EVICTION    "keys are never evicted"
#define NO_AOF         "there is no append-only file, the log is trimmed by itself"
#define LAZY_FREE      "deleting a key never waits until its memory is freed"
#define OWN_TIMERS     "timers have fixed periods; expire-effort sets how much is expired"
#define LISTS_ARE_ROWS "lists are stored as rows"

// clang-format off
const struct parameter parameters[] = {
    {"acl-pubsub-default", PARAMETER_WORD, "resetchannels", .words = "allchannels, resetchannels"},
    {"aclfile", PARAMETER_OWN, .initial = "aclfile"},
    {"acllog-max-len", PARAMETER_INT, "128", .min = 0, .max = INT64_MAX},
    {"active-defrag-cycle-max", PARAMETER_INT, "25", .min = 1, .max = 99, .only = NO_DEFRAG},
    {"active-defrag-cycle-min", PARAMETER_INT, "1", .min = 1, .max = 99, .only = NO_DEFRAG},
    {"active-defrag-ignore-bytes", PARAMETER_BYTES, "104857600", .min = 1, .max = INT64_MAX, .only = NO_DEFRAG},
    {"active-defrag-max-scan-fields", PARAMETER_INT, "1000", .min = 1, .max = INT64_MAX, .only = NO_DEFRAG},
    {"active-defrag-threshold-lower", PARAMETER_INT, "10", .min = 0, .max = 1000, .only = NO_DEFRAG},
    {"active-defrag-threshold-upper", PARAMETER_INT, "100", .min = 0, .max = 1000, .only = NO_DEFRAG},
    {"active-expire-effort", PARAMETER_OWN, .initial = "expire-effort"},
    {"activedefrag", PARAMETER_BOOL, .initial = "no", .only = NO_DEFRAG},
    {"activerehashing", PARAMETER_BOOL, .initial = "yes", .only = "there is no table of all keys in memory"},
    {"always-show-logo", PARAMETER_FIXED, .initial = "no"},
    {"aof-disable-auto-gc", PARAMETER_BOOL, .initial = "no", .only = NO_AOF},
    {"aof-load-truncated", PARAMETER_BOOL, .initial = "yes", .only = NO_AOF},
    {"aof-rewrite-incremental-fsync", PARAMETER_BOOL, .initial = "yes", .only = NO_AOF},
    {"aof-timestamp-enabled", PARAMETER_BOOL, .initial = "no", .only = NO_AOF},
    {"aof-use-rdb-preamble", PARAMETER_BOOL, .initial = "yes", .only = NO_AOF},
    {"aof_rewrite_cpulist", PARAMETER_FIXED, .initial = ""},
    {"appenddirname", PARAMETER_FIXED, .initial = "appendonlydir"},
    {"appendfilename", PARAMETER_FIXED, .initial = "appendonly.aof"},
    {"appendfsync", PARAMETER_OWN, .initial = "durability"},
    {"appendonly", PARAMETER_BOOL, .initial = "yes", .only = "every write is logged"},
    {"auto-aof-rewrite-min-size", PARAMETER_BYTES, "67108864", .max = INT64_MAX, .only = NO_AOF},
    {"auto-aof-rewrite-percentage", PARAMETER_INT, "100", .min = 0, .max = INT32_MAX, .only = NO_AOF},
    {"bgsave_cpulist", PARAMETER_FIXED, .initial = ""},
    {"bind", PARAMETER_OWN, .initial = "bind"},
    {"bind-source-addr", PARAMETER_TEXT, .initial = "", .only = "outgoing connections are not bound to an address"},
    {"bio_cpulist", PARAMETER_FIXED, .initial = ""},
    {"busy-reply-threshold", PARAMETER_INT, "5000", .min = 0, .max = INT64_MAX},
    {"client-output-buffer-limit", PARAMETER_LIMITS, .initial = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"},
    {"client-query-buffer-limit", PARAMETER_OWN, .initial = "client-query-limit"},
    {"cluster-allow-pubsubshard-when-down", PARAMETER_BOOL, .initial = "yes", .only = NO_CLUSTER},
    {"cluster-allow-reads-when-down", PARAMETER_BOOL, .initial = "no", .only = NO_CLUSTER},
    {"cluster-allow-replica-migration", PARAMETER_BOOL, .initial = "yes", .only = NO_CLUSTER},
    {"cluster-announce-bus-port", PARAMETER_INT, "0", .min = 0, .max = 65535, .only = NO_CLUSTER},
    {"cluster-announce-hostname", PARAMETER_TEXT, .initial = "", .only = NO_CLUSTER},
    {"cluster-announce-ip", PARAMETER_TEXT, .initial = "", .only = NO_CLUSTER},
    {"cluster-announce-port", PARAMETER_INT, "0", .min = 0, .max = 65535, .only = NO_CLUSTER},
    {"cluster-announce-tls-port", PARAMETER_INT, "0", .min = 0, .max = 65535, .only = NO_CLUSTER},
    {"cluster-config-file", PARAMETER_FIXED, .initial = "nodes.conf"},
    {"cluster-enabled", PARAMETER_FIXED, .initial = "no"},
    {"cluster-link-sendbuf-limit", PARAMETER_BYTES, "0", .max = ANY_SIZE, .only = NO_CLUSTER},
    {"cluster-migration-barrier", PARAMETER_INT, "1", .min = 0, .max = INT32_MAX, .only = NO_CLUSTER},
    {"cluster-node-timeout", PARAMETER_INT, "15000", .min = 0, .max = INT64_MAX, .only = NO_CLUSTER},
    {"cluster-port", PARAMETER_FIXED, .initial = "0"},
    {"cluster-preferred-endpoint-type", PARAMETER_WORD, "ip", .words = "ip, hostname, unknown-endpoint", .only = NO_CLUSTER},
    {"cluster-replica-no-failover", PARAMETER_BOOL, .initial = "no", .only = NO_CLUSTER},
    {"cluster-replica-validity-factor", PARAMETER_INT, "10", .min = 0, .max = INT32_MAX, .only = NO_CLUSTER},
    {"cluster-require-full-coverage", PARAMETER_BOOL, .initial = "yes", .only = NO_CLUSTER},
    {"cluster-slave-no-failover", PARAMETER_ALIAS, .initial = "cluster-replica-no-failover"},
    {"cluster-slave-validity-factor", PARAMETER_ALIAS, .initial = "cluster-replica-validity-factor"},
    {"commandlog-execution-slower-than", PARAMETER_ALIAS, .initial = "slowlog-log-slower-than"},
    {"commandlog-large-reply-max-len", PARAMETER_INT, "128", .min = 0, .max = INT64_MAX},
    {"commandlog-large-request-max-len", PARAMETER_INT, "128", .min = 0, .max = INT64_MAX},
    {"commandlog-reply-larger-than", PARAMETER_INT, "1048576", .min = -1, .max = INT64_MAX},
    {"commandlog-request-larger-than", PARAMETER_INT, "1048576", .min = -1, .max = INT64_MAX},
    {"commandlog-slow-execution-max-len", PARAMETER_ALIAS, .initial = "slowlog-max-len"},
    {"crash-log-enabled", PARAMETER_BOOL, .initial = "yes", .only = "a crash is always reported in the log"},
    {"crash-memcheck-enabled", PARAMETER_BOOL, .initial = "no", .only = "crashes are recorded by the system, see coredumpctl"},
    {"daemonize", PARAMETER_FIXED, .initial = "no"},
    {"databases", PARAMETER_OWN, .initial = "databases"},
    {"dbfilename", PARAMETER_FIXED, .initial = "dump.rdb"},
    {"dir", PARAMETER_OWN, .initial = "data"},
    {"disable-thp", PARAMETER_FIXED, .initial = "yes"},
    {"dynamic-hz", PARAMETER_BOOL, .initial = "no", .only = OWN_TIMERS},
    {"enable-debug-command", PARAMETER_FIXED, .initial = "yes"},
    {"enable-module-command", PARAMETER_FIXED, .initial = "no"},
    {"enable-protected-configs", PARAMETER_FIXED, .initial = "no"},
    {"hash-max-listpack-entries", PARAMETER_INT, "512", .min = 0, .max = INT64_MAX},
    {"hash-max-listpack-value", PARAMETER_BYTES, "64", .max = INT64_MAX},
    {"hash-max-ziplist-entries", PARAMETER_ALIAS, .initial = "hash-max-listpack-entries"},
    {"hash-max-ziplist-value", PARAMETER_ALIAS, .initial = "hash-max-listpack-value"},
    {"hll-sparse-max-bytes", PARAMETER_BYTES, "3000", .max = INT64_MAX},
    {"hz", PARAMETER_INT, "10", .min = 0, .max = INT32_MAX, .only = OWN_TIMERS},
    {"ignore-warnings", PARAMETER_TEXT, .initial = "", .only = "there are no warnings that prevent a start"},
    {"io-threads", PARAMETER_FIXED, .initial = "1"},
    {"io-threads-do-reads", PARAMETER_FIXED, .initial = "no"},
    {"jemalloc-bg-thread", PARAMETER_BOOL, .initial = "yes", .only = "a thread of jemalloc always returns free memory"},
    {"latency-monitor-threshold", PARAMETER_INT, "0", .min = 0, .max = INT64_MAX},
    {"latency-tracking", PARAMETER_BOOL, .initial = "yes"},
    {"latency-tracking-info-percentiles", PARAMETER_PERCENTILES, .initial = "50 99 99.9"},
    {"lazyfree-lazy-eviction", PARAMETER_BOOL, .initial = "no", .only = NO_EVICTION},
    {"lazyfree-lazy-expire", PARAMETER_BOOL, .initial = "yes", .only = LAZY_FREE},
    {"lazyfree-lazy-server-del", PARAMETER_BOOL, .initial = "yes", .only = LAZY_FREE},
    {"lazyfree-lazy-user-del", PARAMETER_BOOL, .initial = "yes", .only = LAZY_FREE},
    {"lazyfree-lazy-user-flush", PARAMETER_BOOL, .initial = "yes", .only = LAZY_FREE},
    {"lfu-decay-time", PARAMETER_INT, "1", .min = 0, .max = INT32_MAX, .only = NO_EVICTION},
    {"lfu-log-factor", PARAMETER_INT, "10", .min = 0, .max = INT32_MAX, .only = NO_EVICTION},
    {"list-compress-depth", PARAMETER_INT, "0", .min = 0, .max = INT32_MAX, .only = LISTS_ARE_ROWS},
    {"list-max-listpack-size", PARAMETER_INT, "-2", .min = INT32_MIN, .max = INT32_MAX, .only = LISTS_ARE_ROWS},
    {"list-max-ziplist-size", PARAMETER_ALIAS, .initial = "list-max-listpack-size"},
    {"logfile", PARAMETER_OWN, .initial = "log-file"},
    {"loglevel", PARAMETER_OWN, .initial = "log-level"},
    {"lua-time-limit", PARAMETER_ALIAS, .initial = "busy-reply-threshold"},
    {"masterauth", PARAMETER_TEXT, .initial = "", .only = NO_REPLICATION},
    {"masteruser", PARAMETER_TEXT, .initial = "", .only = NO_REPLICATION},
    {"maxclients", PARAMETER_OWN, .initial = "maxclients"},
    {"maxmemory", PARAMETER_BYTES, "0", .max = ANY_SIZE},
    {"maxmemory-clients", PARAMETER_BYTES, "0", .max = INT64_MAX, .takes_percent = true, .only = "each client is limited by client-output-limit and client-query-limit; a proxy has memory-limit"},
    {"maxmemory-eviction-tenacity", PARAMETER_INT, "10", .min = 0, .max = 100, .only = NO_EVICTION},
    {"maxmemory-policy", PARAMETER_WORD, "noeviction", .only = NO_EVICTION, .words = "volatile-lru, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction"},
    {"maxmemory-samples", PARAMETER_INT, "5", .min = 1, .max = INT32_MAX, .only = NO_EVICTION},
    {"min-replicas-max-lag", PARAMETER_INT, "10", .min = 0, .max = INT32_MAX, .only = NO_REPLICATION},
    {"min-replicas-to-write", PARAMETER_INT, "0", .min = 0, .max = INT32_MAX, .only = "there are no replicas"},
    {"min-slaves-max-lag", PARAMETER_ALIAS, .initial = "min-replicas-max-lag"},
    {"min-slaves-to-write", PARAMETER_ALIAS, .initial = "min-replicas-to-write"},
    {"no-appendfsync-on-rewrite", PARAMETER_BOOL, .initial = "no", .only = NO_AOF},
    {"notify-keyspace-events", PARAMETER_EVENTS, .initial = ""},
    {"oom-score-adj", PARAMETER_WORD, "no", .only = "set OOMScoreAdjust in the systemd unit", .words = "no, yes, relative, absolute"},
    {"oom-score-adj-values", PARAMETER_TEXT, .initial = "0 200 800", .only = "set OOMScoreAdjust in the systemd unit"},
    {"pidfile", PARAMETER_FIXED, .initial = ""},
    {"port", PARAMETER_OWN, .initial = "port"},
    {"proc-title-template", PARAMETER_TEXT, .initial = "", .only = "the title of the process does not change"},
    {"propagation-error-behavior", PARAMETER_WORD, "ignore", .words = "ignore, panic, panic-on-replicas", .only = NO_REPLICATION},
    {"protected-mode", PARAMETER_BOOL, .initial = "yes"},
    {"proto-max-bulk-len", PARAMETER_OWN, .initial = "proto-max-bulk-len"},
    {"rdb-del-sync-files", PARAMETER_BOOL, .initial = "no", .only = NO_REPLICATION},
    {"rdb-save-incremental-fsync", PARAMETER_BOOL, .initial = "yes", .only = "snapshots are always written in steps"},
    {"rdbchecksum", PARAMETER_FIXED, .initial = "yes"},
    {"rdbcompression", PARAMETER_BOOL, .initial = "yes", .only = "payloads and snapshots are always compressed"},
    {"repl-backlog-size", PARAMETER_BYTES, "1048576", .min = 1, .max = INT64_MAX, .only = NO_REPLICATION},
    {"repl-backlog-ttl", PARAMETER_INT, "3600", .min = 0, .max = INT64_MAX, .only = NO_REPLICATION},
    {"repl-disable-tcp-nodelay", PARAMETER_BOOL, .initial = "no", .only = NO_REPLICATION},
    {"repl-diskless-load", PARAMETER_WORD, "disabled", .words = "disabled, on-empty-db, swapdb", .only = NO_REPLICATION},
    {"repl-diskless-sync", PARAMETER_BOOL, .initial = "yes", .only = NO_REPLICATION},
    {"repl-diskless-sync-delay", PARAMETER_INT, "5", .min = 0, .max = INT32_MAX, .only = NO_REPLICATION},
    {"repl-diskless-sync-max-replicas", PARAMETER_INT, "0", .min = 0, .max = INT32_MAX, .only = NO_REPLICATION},
    {"repl-ping-replica-period", PARAMETER_INT, "10", .min = 1, .max = INT32_MAX, .only = NO_REPLICATION},
    {"repl-ping-slave-period", PARAMETER_ALIAS, .initial = "repl-ping-replica-period"},
    {"repl-timeout", PARAMETER_INT, "60", .min = 1, .max = INT32_MAX, .only = NO_REPLICATION},
    {"replica-announce-ip", PARAMETER_TEXT, .initial = "", .only = NO_REPLICATION},
    {"replica-announce-port", PARAMETER_INT, "0", .min = 0, .max = 65535, .only = NO_REPLICATION},
    {"replica-announced", PARAMETER_BOOL, .initial = "yes", .only = NO_REPLICATION},
    {"replica-ignore-disk-write-errors", PARAMETER_BOOL, .initial = "no", .only = NO_REPLICATION},
    {"replica-ignore-maxmemory", PARAMETER_BOOL, .initial = "yes", .only = NO_REPLICATION},
    {"replica-lazy-flush", PARAMETER_BOOL, .initial = "no", .only = NO_REPLICATION},
    {"replica-priority", PARAMETER_INT, "100", .min = 0, .max = INT32_MAX, .only = NO_REPLICATION},
    {"replica-read-only", PARAMETER_BOOL, .initial = "yes", .only = NO_REPLICATION},
    {"replica-serve-stale-data", PARAMETER_BOOL, .initial = "yes", .only = NO_REPLICATION},
    {"replicaof", PARAMETER_FIXED, .initial = ""},
    {"requirepass", PARAMETER_OWN, .initial = "requirepass"},
    {"sanitize-dump-payload", PARAMETER_WORD, "yes", .words = "no, yes, clients", .only = "payloads are always checked"},
    {"save", PARAMETER_TEXT, .initial = "", .only = "every write is logged; snapshots are made by BGSAVE and SCREE BACKUP only"},
    {"server_cpulist", PARAMETER_FIXED, .initial = ""},
    {"set-max-intset-entries", PARAMETER_INT, "512", .min = 0, .max = INT64_MAX},
    {"set-max-listpack-entries", PARAMETER_INT, "0", .min = 0, .max = INT64_MAX},
    {"set-max-listpack-value", PARAMETER_BYTES, "64", .max = INT64_MAX},
    {"set-proc-title", PARAMETER_FIXED, .initial = "yes"},
    {"shutdown-on-sigint", PARAMETER_WORD, "default", .words = "default, save, nosave, now, force", .only = "a signal stops the server after all writes in flight"},
    {"shutdown-on-sigterm", PARAMETER_WORD, "default", .words = "default, save, nosave, now, force", .only = "a signal stops the server after all writes in flight"},
    {"shutdown-timeout", PARAMETER_INT, "10", .min = 0, .max = INT32_MAX, .only = "there are no replicas to wait for"},
    {"slave-announce-ip", PARAMETER_ALIAS, .initial = "replica-announce-ip"},
    {"slave-announce-port", PARAMETER_ALIAS, .initial = "replica-announce-port"},
    {"slave-ignore-maxmemory", PARAMETER_ALIAS, .initial = "replica-ignore-maxmemory"},
    {"slave-lazy-flush", PARAMETER_ALIAS, .initial = "replica-lazy-flush"},
    {"slave-priority", PARAMETER_ALIAS, .initial = "replica-priority"},
    {"slave-read-only", PARAMETER_ALIAS, .initial = "replica-read-only"},
    {"slave-serve-stale-data", PARAMETER_ALIAS, .initial = "replica-serve-stale-data"},
    {"slaveof", PARAMETER_ALIAS, .initial = "replicaof"},
    {"slowlog-log-slower-than", PARAMETER_INT, "10000", .min = -1, .max = INT64_MAX},
    {"slowlog-max-len", PARAMETER_INT, "128", .min = 0, .max = INT64_MAX},
    {"socket-mark-id", PARAMETER_FIXED, .initial = "0"},
    {"stop-writes-on-bgsave-error", PARAMETER_BOOL, .initial = "no", .only = "every write is logged, so a failed snapshot does not stop writes"},
    {"stream-node-max-bytes", PARAMETER_BYTES, "4096", .max = INT64_MAX},
    {"stream-node-max-entries", PARAMETER_INT, "100", .min = 0, .max = INT64_MAX},
    {"supervised", PARAMETER_FIXED, .initial = "no"},
    {"syslog-enabled", PARAMETER_FIXED, .initial = "no"},
    {"syslog-facility", PARAMETER_FIXED, .initial = "local0"},
    {"syslog-ident", PARAMETER_FIXED, .initial = "redis"},
    {"tcp-backlog", PARAMETER_OWN, .initial = "tcp-backlog"},
    {"tcp-keepalive", PARAMETER_OWN, .initial = "tcp-keepalive"},
    {"timeout", PARAMETER_OWN, .initial = "idle-timeout"},
    {"tls-port", PARAMETER_OWN, .initial = "tls-port"},
    {"tracking-table-max-keys", PARAMETER_INT, "1000000", .min = 0, .max = INT64_MAX},
    {"unixsocket", PARAMETER_OWN, .initial = "unix-socket"},
    {"unixsocketperm", PARAMETER_FIXED, .initial = "0"},
    {"zset-max-listpack-entries", PARAMETER_INT, "128", .min = 0, .max = INT64_MAX},
    {"zset-max-listpack-value", PARAMETER_BYTES, "64", .max = INT64_MAX},
    {"zset-max-ziplist-entries", PARAMETER_ALIAS, .initial = "zset-max-listpack-entries"},
    {"zset-max-ziplist-value", PARAMETER_ALIAS, .initial = "zset-max-listpack-value"},
};
// clang-format on

const size_t parameters_count = sizeof parameters / sizeof parameters[0];
_Static_assert(sizeof parameters / sizeof parameters[0] <= PARAMETER_MAX, "PARAMETER_MAX");

static int name_compare(struct bytes name, const char *row)
{
    size_t len = strlen(row);
    int order = strncasecmp(name.data, row, name.len < len ? name.len : len);
    return order ? order : (name.len > len) - (name.len < len);
}

const struct parameter *parameter_find(struct bytes name)
{
    size_t low = 0;
    size_t high = parameters_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = name_compare(name, parameters[middle].name);
        if (order == 0) {
            const struct parameter *found = &parameters[middle];
            return found->kind == PARAMETER_ALIAS ? parameter_find(bytes_of(found->initial))
                                                  : found;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

bool parameter_is_public(const struct parameter *parameter)
{
    static const char *const also[] = {"appendonly", "databases", "proto-max-bulk-len", "save"};
    for (size_t i = 0; i < sizeof also / sizeof also[0]; i++)
        if (strcmp(parameter->name, also[i]) == 0)
            return true;
    switch (parameter->kind) {
    case PARAMETER_INT:
    case PARAMETER_BYTES:
    case PARAMETER_BOOL:
    case PARAMETER_WORD:
    case PARAMETER_EVENTS:
    case PARAMETER_FIXED:
        return true;
    case PARAMETER_ALIAS:
        return parameter_is_public(parameter_find(bytes_of(parameter->initial)));
    case PARAMETER_TEXT:
    case PARAMETER_PERCENTILES:
    case PARAMETER_LIMITS:
    case PARAMETER_OWN:
        break;
    }
    return false;
}

static bool is_one_of(struct bytes value, const char *words)
{
    while (*words) {
        size_t len = strcspn(words, ",");
        if (len == value.len && strncasecmp(words, value.data, len) == 0)
            return true;
        words += len;
        words += strspn(words, ", ");
    }
    return false;
}

static bool check_int(const struct parameter *parameter, struct bytes value, char *error,
                      size_t size)
{
    int64_t number;
    if (!number_parse_int64(value, &number)) {
        (void)snprintf(error, size, "argument couldn't be parsed into an integer");
        return false;
    }
    if (number >= parameter->min && number <= parameter->max)
        return true;
    (void)snprintf(error, size, "argument must be between %" PRId64 " and %" PRId64 " inclusive",
                   parameter->min, parameter->max);
    return false;
}

static bool check_bytes(const struct parameter *parameter, struct bytes value, char *error,
                        size_t size)
{
    uint64_t bytes;
    uint64_t min = (uint64_t)parameter->min;
    uint64_t max = (uint64_t)parameter->max;
    const char *refused = NULL;
    if (parameter->takes_percent)
        refused = redis_refuse_percent(value);
    else if (!redis_bytes(value, &bytes))
        refused = "argument must be a memory value";
    if (refused) {
        (void)snprintf(error, size, "%s", refused);
        return false;
    }
    if (parameter->takes_percent)
        return true;
    if (bytes >= min && bytes <= max)
        return true;
    (void)snprintf(error, size, "argument must be between %" PRIu64 " and %" PRIu64 " inclusive",
                   min, max);
    return false;
}

static bool check_percentiles(const struct parameter *parameter, struct bytes value, char *error,
                              size_t size)
{
    while (value.len) {
        const char *space = memchr(value.data, ' ', value.len);
        struct bytes word = {value.data, space ? (size_t)(space - value.data) : value.len};
        double number;
        if (!number_parse_double(word, &number)) {
            (void)snprintf(error, size, "Invalid %s parameters", parameter->name);
            return false;
        }
        if (number < 0 || number > 100) {
            (void)snprintf(error, size, "%s parameters should sit between [0.0,100.0]",
                           parameter->name);
            return false;
        }
        size_t len = word.len + (space != NULL);
        value = (struct bytes){value.data + len, value.len - len};
    }
    return true;
}

/* Does the value have the right form? */
static bool check_form(const struct parameter *parameter, struct bytes value, char *error,
                       size_t size)
{
    unsigned classes;
    struct output_limit limits[OUTPUT_CLASSES] = {0};
    const char *reason;
    switch (parameter->kind) {
    case PARAMETER_INT:
        return check_int(parameter, value, error, size);
    case PARAMETER_BYTES:
        return check_bytes(parameter, value, error, size);
    case PARAMETER_BOOL:
        if (is_one_of(value, "yes, no"))
            return true;
        (void)snprintf(error, size, "argument must be 'yes' or 'no'");
        return false;
    case PARAMETER_WORD:
        if (is_one_of(value, parameter->words))
            return true;
        (void)snprintf(error, size, "argument(s) must be one of the following: %s",
                       parameter->words);
        return false;
    case PARAMETER_TEXT:
        return true;
    case PARAMETER_EVENTS:
        if (notify_parse(value, &classes))
            return true;
        (void)snprintf(error, size, "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.");
        return false;
    case PARAMETER_PERCENTILES:
        return check_percentiles(parameter, value, error, size);
    case PARAMETER_LIMITS:
        if (output_limits_parse(value, limits, &reason))
            return true;
        (void)snprintf(error, size, "%s", reason);
        return false;
    case PARAMETER_FIXED:
        (void)snprintf(error, size, "can't set immutable config");
        return false;
    case PARAMETER_ALIAS:
    case PARAMETER_OWN:
        break;
    }
    CHECK(parameter->kind != PARAMETER_ALIAS);
    CHECK(parameter->kind != PARAMETER_OWN);
    return false;
}

static bool is_initial(const struct parameter *parameter, struct bytes value)
{
    uint64_t number;
    uint64_t initial;
    if (parameter->kind != PARAMETER_BYTES)
        return bytes_is(value, parameter->initial);
    return redis_bytes(value, &number) && redis_bytes(bytes_of(parameter->initial), &initial) &&
           number == initial;
}

bool parameter_check(const struct parameter *parameter, struct bytes value, char *error,
                     size_t size)
{
    if (!check_form(parameter, value, error, size))
        return false;
    if (!parameter->only || is_initial(parameter, value))
        return true;
    (void)snprintf(error, size, "only '%s' is possible: %s", parameter->initial, parameter->only);
    return false;
}
