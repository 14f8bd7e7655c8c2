/*
 * local_config.c - CONFIG at the proxy: parameters about clients, options of the proxy, and parameters of the shards.
 *
 *   GET pattern    matching names of endpoint_config.h and options of the proxy, then the other parameters of the shards
 *   SET name …     all or none, as in Redis:
 *                     proxy's values are checked on a copy ─► SCREE OPTIONS VERSION at every shard (is it reachable?)
 *                     ─► SCREE OPTIONS SET of the rest with a higher version, durable at every shard
 *                     ─► proxy's values: a new snapshot for all workers
 *                  (plain Redis servers get CONFIG GET and CONFIG SET)
 *                  options that proxy and shards have (slow log, latency) are set in both
 *
 * Secrets are shown as stars. A client in a namespace sees the few parameters that shards show to clients in namespaces,
 * and cannot change any (CONFIG SET has CMD_OPERATOR).
 */
#include "proxy/client/fan_out.h"
#include "proxy/core/endpoint_config.h"
#include "proxy/core/node.h"
#include "proxy/core/own_calls.h"
#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "proxy/local/local.h"
#include "proxy/local/shards_config.h"
#include "shared/clock.h"
#include "shared/glob.h"
#include "shared/number.h"
#include "shared/option_version.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_tenant(const struct client *client)
{
    return client->session.keyspace->name.len > 0;
}

static bool is_secret(const struct option *option)
{
    return strcmp(option->unit, "password") == 0;
}

/* True when the proxy itself has this parameter. */
static bool is_own(const struct client *client, struct bytes name)
{
    return endpoint_has(name) || config_find(&client->worker->snapshot->config.head, name);
}

/* ---- GET ---- */

/* Adds the matching parameters of endpoint_config.h; returns the number of pairs. */
static int64_t write_endpoint(struct client *client, struct reply *pairs, struct globs *patterns)
{
    int64_t found = 0;
    size_t cursor = 0;
    const char *name;
    while ((name = endpoint_name_next(&cursor))) {
        if (!globs_fit(patterns, bytes_of(name)))
            continue;
        struct out value;
        out_init(&value);
        endpoint_print(&client->worker->snapshot->config, name, &value);
        reply_bulk_text(pairs, name);
        reply_bulk_begin(pairs, (int64_t)value.bytes);
        out_move(pairs->out, &value);
        reply_bulk_end(pairs);
        found++;
    }
    return found;
}

/* Adds the matching options of the proxy that endpoint_config.h does not cover; returns the number of pairs. */
static int64_t write_own(struct client *client, struct reply *pairs, struct globs *patterns)
{
    const struct config *config = &client->worker->snapshot->config.head;
    int64_t found = 0;
    size_t cursor = 0;
    const struct option *option;
    while ((option = config_next(config, BYTES("*"), &cursor))) {
        if (endpoint_has(bytes_of(option->key)) || !globs_fit(patterns, bytes_of(option->key)))
            continue;
        char buffer[OPTION_TEXT_MAX];
        struct bytes text = config_get(config, option, buffer);
        reply_bulk_text(pairs, option->key);
        reply_bulk(pairs, is_secret(option) && text.len ? BYTES("(redacted)") : text);
        found++;
    }
    return found;
}

/* Adds what the proxy itself has; returns the number of pairs. */
static int64_t write_proxys(struct client *client, const struct request *request,
                            struct reply *pairs)
{
    struct arena arena;
    arena_init(&arena);
    struct globs *patterns =
        globs_new(&arena, request_argv(request) + 2, request_argc(request) - 2, true);
    int64_t found = write_endpoint(client, pairs, patterns) + write_own(client, pairs, patterns);
    arena_fini(&arena);
    return found;
}

static void get_done(struct client *client, struct request *request, struct reply *reply)
{
    struct out out;
    struct reply pairs = {.out = &out, .resp = reply->resp};
    int64_t found = 0;
    out_init(&out);
    if (!is_tenant(client))
        found = write_proxys(client, request, &pairs);
    int64_t shared =
        shards_config_write(client, request, is_tenant(client) ? NULL : is_own, reply, &pairs);
    if (shared < 0) {
        out_clear(&out);
        return;
    }
    reply_map(reply, found + shared);
    out_move(reply->out, &out);
}

void local_config_get(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    bool is_of_all = !is_tenant(client);
    for (uint32_t i = 2; i < argc; i++)
        if (!glob_is_bounded(argv[i])) {
            reply_errorf(reply, "ERR pattern is longer than %d bytes", GLOB_PATTERN_MAX);
            return;
        }
    request_keep(request);
    /* A control connection is in no namespace, so a shard shows it everything. A tenant asks one shard in its namespace. */
    const struct fan_out how = {.shard = is_of_all ? SHARDS_ALL : SHARDS_ANY,
                                .lane = is_of_all ? LANE_CONTROL : LANE_NORMAL,
                                .argv = argv,
                                .argc = argc};
    request_fan_out_with(request, &how, get_done);
}

/* ---- SET: which names are the proxy's, which the shards' ---- */

/* Options of the proxy that backends have too, with the same meaning. */
static bool is_shared_parameter(struct bytes name)
{
    static const char PREFIX[] = "commandlog-";
    enum { PREFIX_LEN = sizeof PREFIX - 1 };
    return bytes_is(name, "slowlog-log-slower-than") || bytes_is(name, "slowlog-max-len") ||
           bytes_is(name, "latency-monitor-threshold") ||
           (name.len > PREFIX_LEN && strncasecmp(name.data, PREFIX, PREFIX_LEN) == 0);
}

static bool is_for_shards(const struct client *client, struct bytes name)
{
    return is_shared_parameter(name) || !is_own(client, name);
}

static void reply_set_failed(struct reply *reply, struct bytes name, const char *reason)
{
    reply_errorf(reply, "ERR CONFIG SET failed (possibly related to argument '%.*s') - %s",
                 (int)name.len, name.data, reason);
}

static bool same_name(struct bytes a, struct bytes b)
{
    return a.len == b.len && strncasecmp(a.data, b.data, a.len) == 0;
}

/* Redis' error for a parameter that cannot be set; NULL: it can be, or the shards decide. */
static const char *why_not(const struct client *client, const struct bytes *argv, uint32_t at)
{
    const struct config *config = &client->worker->snapshot->config.head;
    if (is_own(client, argv[at])) {
        const struct option *option = endpoint_option(config, argv[at]);
        if (!option || option->reload == OPTION_RESTART)
            return "can't set immutable config";
        if (option_is_path(option))
            return "can't set protected config";
    }
    for (uint32_t i = 2; i < at; i += 2)
        if (same_name(argv[i], argv[at]))
            return "duplicate parameter";
    return NULL;
}

/* ---- SET: own values ---- */

/* The proxy's pairs in the message to the main thread: count, then len, bytes … */
struct pairs {
    uint32_t count;
    bool is_final; /* publish them; else they are only checked */
    char bytes[];
};

static const char *unpack_text(const char *at, struct bytes *text)
{
    uint64_t len;
    memcpy(&len, at, sizeof len);
    *text = (struct bytes){at + sizeof len, (size_t)len};
    return at + sizeof len + len;
}

static char *pack_text(char *at, struct bytes text)
{
    uint64_t len = text.len;
    memcpy(at, &len, sizeof len);
    memcpy(at + sizeof len, text.data, text.len);
    return at + sizeof len + text.len;
}

/* Sets all pairs in a copy of the configuration. False: reason in error[size], and the name. */
static bool apply_pairs(struct proxy_config *config, const struct pairs *pairs, struct bytes *name,
                        char *error, size_t size)
{
    const char *at = pairs->bytes;
    for (uint32_t i = 0; i < pairs->count; i++) {
        struct bytes value;
        at = unpack_text(at, name);
        at = unpack_text(at, &value);
        if (!endpoint_set(&config->head, *name, value, error, size))
            return false;
    }
    return true;
}

/* On the main thread: writes the error, or nothing. */
static void set_work(struct proxy *proxy, const void *data, struct out *out)
{
    const struct pairs *pairs = data;
    struct proxy_config config;
    struct bytes name = {"", 0};
    char error[RELOAD_TEXT_MAX];
    config_copy(&config.head, &proxy->snapshot->config.head);
    struct proxy_snapshot *snapshot = NULL;
    if (apply_pairs(&config, pairs, &name, error, sizeof error))
        snapshot = snapshot_with_config(proxy->snapshot, &config, error, sizeof error);
    config_fini(&config.head);
    if (!snapshot)
        out_printf(out, "ERR CONFIG SET failed (possibly related to argument '%.*s') - %s",
                   (int)name.len, name.data, error);
    else if (pairs->is_final)
        proxy->calls->publish(proxy, snapshot);
    else
        snapshot_unref(snapshot);
}

/* Sends the proxy's pairs to the main thread, which checks or publishes them. */
static void send_own(struct client *client, struct request *request, bool is_final,
                     request_done_fn *done)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    size_t size = sizeof(struct pairs);
    for (uint32_t i = 2; i < argc; i++)
        size += sizeof(uint64_t) + argv[i].len;
    struct pairs *pairs = malloc(size);
    CHECK(pairs);
    *pairs = (struct pairs){.is_final = is_final};
    char *at = pairs->bytes;
    for (uint32_t i = 2; i < argc; i += 2) {
        if (!is_own(client, argv[i]))
            continue;
        at = pack_text(pack_text(at, argv[i]), argv[i + 1]);
        pairs->count++;
    }
    request_on_main(request, set_work, pairs, size, done);
    free(pairs);
}

/* ---- SET, step by step ---- */

/* Whether the command has parameters of the proxy (own), and parameters of the shards. */
struct set_state {
    bool has_own;
    bool has_shards;
};

static void published(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)request;
    reply_ok(reply);
}

/* Replies the main thread's error. False: there is none. */
static bool reply_main_error(struct request *request, struct reply *reply)
{
    const struct out *out = request_gathered(request, 0);
    char text[RELOAD_TEXT_MAX + OPTION_TEXT_MAX] = "ERR CONFIG SET failed";
    if (out->bytes == 0)
        return false;
    if (out->bytes < sizeof text) {
        out_copy(out, text);
        text[out->bytes] = 0;
    }
    reply_error(reply, text);
    return true;
}

static void own_set(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    if (!reply_main_error(request, reply))
        local_when_published(request, published);
}

/* Replies the first error of a shard. False: there is none. */
static bool reply_shard_error(struct request *request, struct reply *reply)
{
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        if (answer->frame.data[0] != '-' && answer->frame.data[0] != '!')
            continue;
        out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
        return true;
    }
    return false;
}

static void shards_set(struct client *client, struct request *request, struct reply *reply)
{
    const struct set_state *state = request_state(request, sizeof *state);
    if (reply_shard_error(request, reply))
        return;
    if (state->has_own)
        send_own(client, request, true, own_set);
    else
        reply_ok(reply);
}

/* The words of a command with the names of the shards' parameters, and their values; to be freed. */
struct words {
    struct bytes *items;
    uint32_t count;
};

static struct words words_of(struct client *client, struct request *request,
                             const struct bytes *first, uint32_t first_count, bool has_values)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    struct words words = {.count = first_count};
    words.items = malloc((first_count + argc) * sizeof *words.items);
    CHECK(words.items);
    memcpy(words.items, first, first_count * sizeof *first);
    for (uint32_t i = 2; i < argc; i += 2) {
        if (!is_for_shards(client, argv[i]))
            continue;
        words.items[words.count++] = argv[i];
        if (has_values)
            words.items[words.count++] = argv[i + 1];
    }
    return words;
}

static void send_words(struct client *client, struct request *request, const struct bytes *first,
                       uint32_t first_count, bool has_values, request_done_fn *done)
{
    struct words words = words_of(client, request, first, first_count, has_values);
    request_fan_out(request, NULL, SHARDS_ALL, words.items, words.count, done);
    free(words.items);
}

/* The highest version that a shard has replied. */
static uint64_t highest_version(const struct request *request)
{
    int64_t highest = 0;
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        struct resp_value value;
        size_t at = 0;
        if (resp_value_next(request_reply(request, i)->frame, &at, &value) && value.type == ':' &&
            value.count > highest)
            highest = value.count;
    }
    return (uint64_t)highest;
}

/* If a shard cannot be reached, the command fails before any shard was changed. */
static void shards_reached(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes plain[] = {BYTES("CONFIG"), BYTES("SET")};
    char text[INT64_TEXT_MAX];
    if (reply_shard_error(request, reply))
        return;
    if (!local_has_backends(client)) {
        send_words(client, request, plain, 2, true, shards_set);
        return;
    }
    uint64_t version = option_version_after(highest_version(request), clock_wall_us());
    const struct bytes first[] = {BYTES("SCREE"),
                                  BYTES("OPTIONS"),
                                  BYTES("SET"),
                                  {text, number_format_int64(text, (int64_t)version)}};
    send_words(client, request, first, 4, true, shards_set);
}

static void reach_shards(struct client *client, struct request *request)
{
    const struct bytes plain[] = {BYTES("CONFIG"), BYTES("GET")};
    const struct bytes version[] = {BYTES("SCREE"), BYTES("OPTIONS"), BYTES("VERSION")};
    if (local_has_backends(client))
        request_fan_out(request, NULL, SHARDS_ALL, version, 3, shards_reached);
    else
        send_words(client, request, plain, 2, false, shards_reached);
}

static void own_tried(struct client *client, struct request *request, struct reply *reply)
{
    if (!reply_main_error(request, reply))
        reach_shards(client, request);
}

void local_config_set(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    struct set_state wanted = {0};
    if (argc % 2 != 0) {
        reply_code(reply, ERR_SYNTAX);
        return;
    }
    for (uint32_t i = 2; i < argc; i += 2) {
        const char *reason = why_not(client, argv, i);
        if (reason) {
            reply_set_failed(reply, argv[i], reason);
            return;
        }
        wanted.has_own |= is_own(client, argv[i]);
        wanted.has_shards |= is_for_shards(client, argv[i]);
    }
    request_keep(request);
    *(struct set_state *)request_state(request, sizeof wanted) = wanted;
    if (!wanted.has_own)
        reach_shards(client, request);
    else if (wanted.has_shards)
        send_own(client, request, false, own_tried);
    else
        send_own(client, request, true, own_set);
    client_hold(client, HOLD_ORDER); /* later commands of the client see the new values */
}

/* ---- RESETSTAT ---- */

static void stats_reset(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        if (answer->is_failure || answer->frame.data[0] == '-') {
            out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
            return;
        }
    }
    reply_ok(reply);
}

void local_config_resetstat(struct client *client, struct request *request, struct reply *reply)
{
    (void)reply;
    own_calls_reset(client->worker->proxy->labelled.own);
    request_fan_out(request, NULL, SHARDS_ALL, request_argv(request), request_argc(request),
                    stats_reset);
}
