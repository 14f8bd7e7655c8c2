/*
 * local_config.c - CONFIG at the proxy: its own options, and behind them the backends' parameters.
 *
 *   GET pattern    own options that match, then what a shard answers (an own name hides a shard's)
 *   SET name       own option: a new snapshot for all workers; other names: every shard sets it;
 *                  what both have in common (slow log, latency): first here, then every shard
 *
 * Secrets are not shown, only that there is one. A client inside a namespace is a tenant: it sees the few parameters
 * that a shard shows to tenants, and changes nothing (CONFIG SET has CMD_OPERATOR).
 */
#include "proxy/local.h"
#include "proxy/proxy.h"
#include "proxy/worker.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_tenant(const struct client *client)
{
    return client->session.place->name.len > 0;
}

static bool is_secret(const struct option *option)
{
    return strcmp(option->unit, "password") == 0;
}

/* ---- GET ---- */

/* Adds name and value of the own options that match and were not added yet; returns how many. */
static int64_t write_own(struct client *client, struct reply *pairs, const struct bytes *patterns,
                         uint32_t count)
{
    const struct config *config = &client->worker->snapshot->config.head;
    int64_t found = 0;
    size_t cursor = 0;
    const struct option *option;
    while ((option = config_next(config, BYTES("*"), &cursor))) {
        bool matches = false;
        for (uint32_t i = 0; i < count && !matches; i++) {
            size_t from = 0;
            const struct option *match;
            while ((match = config_next(config, patterns[i], &from)) && match != option)
                continue;
            matches = match != NULL;
        }
        if (!matches)
            continue;
        char buffer[OPTION_TEXT_MAX];
        struct bytes text = config_get(config, option, buffer);
        reply_bulk_text(pairs, option->key);
        reply_bulk(pairs, is_secret(option) && text.len ? BYTES("(redacted)") : text);
        found++;
    }
    return found;
}

/* Adds a shard's pairs, but for those that an own option hides; returns how many. */
static int64_t write_shards(struct client *client, struct reply *pairs, struct bytes frame)
{
    const struct config *config = &client->worker->snapshot->config.head;
    struct resp_value head;
    struct resp_value name;
    struct resp_value value;
    size_t pos = 0;
    int64_t found = 0;
    if (!resp_value_next(frame, &pos, &head) || (head.type != '*' && head.type != '%'))
        return 0;
    for (int64_t i = head.type == '%' ? head.count : head.count / 2; i > 0; i--) {
        if (!resp_value_next(frame, &pos, &name) || !resp_value_next(frame, &pos, &value))
            break;
        if (!is_tenant(client) && config_find(config, name.text))
            continue;
        reply_bulk(pairs, name.text);
        reply_bulk(pairs, value.text);
        found++;
    }
    return found;
}

static void get_done(struct client *client, struct request *request, struct reply *reply)
{
    const struct shard_reply *answer = request_reply(request, 0);
    struct out out;
    struct reply pairs = {.out = &out, .resp = reply->resp};
    out_init(&out);
    int64_t found = is_tenant(client) ? 0
                                      : write_own(client, &pairs, request_argv(request) + 2,
                                                  request_argc(request) - 2);
    if (!answer->is_failure)
        found += write_shards(client, &pairs, answer->frame);
    reply_map(reply, found);
    out_move(reply->out, &out);
}

void local_config_get(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)reply;
    request_keep(request);
    request_fan_out(request, NULL, SHARDS_ANY, request_argv(request), request_argc(request),
                    get_done);
}

/* ---- SET ---- */

/* The name-value pairs of a SET on their way to the main thread: count, then len, bytes … */
struct pairs {
    uint32_t count;
    char bytes[];
};

static const char *take_text(const char *at, struct bytes *text)
{
    uint64_t len;
    memcpy(&len, at, sizeof len);
    *text = (struct bytes){at + sizeof len, (size_t)len};
    return at + sizeof len + len;
}

/* Sets all pairs in a copy of the config; false: reason in error[size], and which name. */
static bool apply_pairs(struct proxy_config *config, const struct pairs *pairs, struct bytes *name,
                        char *error, size_t size)
{
    const char *at = pairs->bytes;
    for (uint32_t i = 0; i < pairs->count; i++) {
        struct bytes value;
        at = take_text(at, name);
        at = take_text(at, &value);
        const struct option *option = config_find(&config->head, *name);
        if (option->reload == OPTION_RESTART) {
            (void)snprintf(error, size, "can't set immutable config");
            return false;
        }
        if (option_is_path(option)) {
            (void)snprintf(error, size, "can't set protected config");
            return false;
        }
        if (!config_set(&config->head, option, value, error, size))
            return false;
    }
    return true;
}

/* On the main thread: writes nothing, or the error to answer. */
static void set_work(struct proxy *proxy, const void *data, struct out *out)
{
    struct proxy_config config;
    struct bytes name = {"", 0};
    char error[RELOAD_TEXT_MAX];
    config_copy(&config.head, &proxy->snapshot->config.head);
    struct proxy_snapshot *snapshot = NULL;
    if (apply_pairs(&config, data, &name, error, sizeof error))
        snapshot = snapshot_with_config(proxy->snapshot, &config, error, sizeof error);
    config_fini(&config.head);
    if (snapshot)
        proxy_publish(proxy, snapshot);
    else
        out_printf(out, "ERR CONFIG SET failed (possibly related to argument '%.*s') - %s",
                   (int)name.len, name.data, error);
}

static request_done_fn set_shards_done;

/* Options that the backends have too, and that mean the same there. */
static bool is_common(struct bytes name)
{
    return bytes_is(name, "slowlog-log-slower-than") || bytes_is(name, "slowlog-max-len") ||
           bytes_is(name, "latency-monitor-threshold");
}

/* The proxy has set its own: the backends' are next. False: they have none of these. */
static bool set_common(struct request *request)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    uint32_t count = 2;
    struct bytes *words = malloc(argc * sizeof *words);
    CHECK(words);
    words[0] = argv[0];
    words[1] = argv[1];
    for (uint32_t i = 2; i < argc; i += 2) {
        if (!is_common(argv[i]))
            continue;
        words[count++] = argv[i];
        words[count++] = argv[i + 1];
    }
    if (count > 2)
        request_fan_out(request, NULL, SHARDS_ALL, words, count, set_shards_done);
    free(words);
    return count > 2;
}

static void set_published(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    if (!set_common(request))
        reply_ok(reply);
}

static void set_done(struct client *client, struct request *request, struct reply *reply)
{
    const struct out *out = request_gathered(request, 0);
    char text[RELOAD_TEXT_MAX + OPTION_TEXT_MAX] = "ERR CONFIG SET failed";
    (void)client;
    if (out->bytes == 0) {
        local_when_published(request, set_published);
        return;
    }
    if (out->bytes < sizeof text) {
        out_copy(out, text);
        text[out->bytes] = 0;
    }
    reply_error(reply, text);
}

static void set_own(struct client *client, struct request *request)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    size_t size = sizeof(struct pairs);
    for (uint32_t i = 2; i < argc; i++)
        size += sizeof(uint64_t) + argv[i].len;
    struct pairs *pairs = malloc(size);
    CHECK(pairs);
    pairs->count = (argc - 2) / 2;
    char *at = pairs->bytes;
    for (uint32_t i = 2; i < argc; i++) {
        uint64_t len = argv[i].len;
        memcpy(at, &len, sizeof len);
        memcpy(at + sizeof len, argv[i].data, argv[i].len);
        at += sizeof len + argv[i].len;
    }
    request_keep(request);
    request_on_main(request, set_work, pairs, size, set_done);
    client_hold(client, HOLD_ORDER); /* what follows finds it set */
    free(pairs);
}

static void set_shards_done(struct client *client, struct request *request, struct reply *reply)
{
    const struct shard_reply *answer = request_reply(request, 0);
    (void)client;
    for (uint32_t i = 0; i < request_reply_count(request); i++)
        if (request_reply(request, i)->frame.data[0] == '-') {
            answer = request_reply(request, i);
            break;
        }
    out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
}

void local_config_set(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    uint32_t own = 0;
    if (argc % 2 != 0) {
        reply_code(reply, ERR_SYNTAX);
        return;
    }
    for (uint32_t i = 2; i < argc; i += 2)
        own += config_find(&client->worker->snapshot->config.head, argv[i]) != NULL;
    if (own && own != (argc - 2) / 2)
        reply_error(
            reply,
            "ERR CONFIG SET failed - options of the proxy and of the backends need a command each");
    else if (own)
        set_own(client, request);
    else
        request_fan_out(request, NULL, SHARDS_ALL, argv, argc, set_shards_done);
}
