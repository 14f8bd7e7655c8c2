/*
 * local_tracking.c - CLIENT TRACKING, CACHING, TRACKINGINFO, GETREDIR (see proxy/client/tracking.h).
 *
 *   TRACKING ON ─► does the REDIRECT client exist? ─► RESP2: opens invalidation connections
 *     ─► TRACKING ON … at every shard ─► all have replied OK: the client tracks
 */
#include "proxy/client/tracking.h"
#include "proxy/core/worker.h"
#include "proxy/local/local.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/number.h"
#include "shared/tracking_reply.h"

#include <stdlib.h>

/* Options of one CLIENT TRACKING; kept in the request's state. */
struct wanted {
    bool is_bcast;
    bool is_optin;
    bool is_optout;
    bool is_noloop;
    bool is_redirected;
    uint64_t redirect_id;
};

/* ---- arguments ---- */

static bool parse_redirect(struct bytes text, struct wanted *wanted, struct reply *reply)
{
    int64_t id;
    if (wanted->redirect_id) { /* 0: no redirection, as in Redis */
        reply_error(reply, "ERR A client can only redirect to a single other client");
        return false;
    }
    if (!number_parse_int64(text, &id)) {
        reply_code(reply, ERR_NOT_INTEGER);
        return false;
    }
    wanted->redirect_id = (uint64_t)id;
    wanted->is_redirected = true;
    return true;
}

/* Parses the options. False: an error was replied. */
static bool parse(const struct request *request, struct wanted *wanted, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    for (uint32_t i = 3; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (bytes_is(argv[i], "redirect") && has_value) {
            if (!parse_redirect(argv[++i], wanted, reply))
                return false;
        } else if (bytes_is(argv[i], "bcast")) {
            wanted->is_bcast = true;
        } else if (bytes_is(argv[i], "optin")) {
            wanted->is_optin = true;
        } else if (bytes_is(argv[i], "optout")) {
            wanted->is_optout = true;
        } else if (bytes_is(argv[i], "noloop")) {
            wanted->is_noloop = true;
        } else if (bytes_is(argv[i], "prefix") && has_value) {
            i++;
        } else {
            reply_code(reply, ERR_SYNTAX);
            return false;
        }
    }
    return true;
}

static int by_prefix_bytes(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

/* Sets the client's options; new BCAST prefixes are added to the existing ones. */
static void adopt(struct client_tracking *tracking, const struct wanted *wanted,
                  const struct bytes *argv, uint32_t argc)
{
    tracking->client->worker->clients.tracking += !tracking->is_on;
    tracking->is_on = true;
    tracking->is_bcast = wanted->is_bcast;
    tracking->is_optin = wanted->is_optin;
    tracking->is_optout = wanted->is_optout;
    tracking->is_noloop = wanted->is_noloop;
    tracking->redirect_id = wanted->redirect_id;
    tracking->is_broken = false;
    tracking->prefixes =
        realloc(tracking->prefixes, (tracking->prefix_count + argc) * sizeof(struct bytes));
    CHECK(tracking->prefixes);
    for (uint32_t i = 3; i < argc; i++) {
        if (bytes_is(argv[i], "redirect")) {
            i++;
        } else if (bytes_is(argv[i], "prefix")) {
            struct bytes prefix = argv[++i];
            char *copy = malloc(prefix.len + 1);
            CHECK(copy);
            memcpy(copy, prefix.data, prefix.len);
            tracking->prefixes[tracking->prefix_count++] = (struct bytes){copy, prefix.len};
        }
    }
    if (wanted->is_bcast && tracking->prefix_count == 0) {
        char *empty = calloc(1, 1);
        CHECK(empty);
        tracking->prefixes[tracking->prefix_count++] = (struct bytes){empty, 0};
    }
    qsort(tracking->prefixes, tracking->prefix_count, sizeof(struct bytes), by_prefix_bytes);
}

/* ---- TRACKING ON, step by step ---- */

static void fail_tracking(struct client *client, struct reply *reply, const char *error)
{
    if (error)
        reply_error(reply, error);
    if (!client->tracking->is_on)
        tracking_clear(client);
}

/* Every shard has replied. A shard that was unreachable gets the command later, before the client's first request to
 * it; that is impossible with invalidation connections. */
static void agreed(struct client *client, struct request *request, struct reply *reply)
{
    const struct wanted *wanted = request_state(request, sizeof *wanted);
    uint32_t count = request_reply_count(request);
    bool has_invalidation = wanted->redirect_id && client->session.resp == 2;
    uint32_t failures = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct shard_reply *answer = request_reply(request, i);
        failures += answer->is_failure;
        bool may_go_on = answer->is_failure && !has_invalidation && failures < count;
        if (answer->frame.data[0] != '-' || may_go_on)
            continue;
        out_write(reply->out, answer->frame.data, answer->frame.len);
        fail_tracking(client, reply, NULL);
        return;
    }
    adopt(client->tracking, wanted, request_argv(request), request_argc(request));
    reply_ok(reply);
}

/* The invalidation connection to the shard is open, so its id is known. False: an error was replied. */
static bool has_backend_id(const struct upstream *invalidation, struct reply *reply)
{
    if (!invalidation->use.backend_id)
        reply_error(reply,
                    "ERR CLIENT TRACKING with REDIRECT needs connections to all shards, and a "
                    "shard is not reachable: try again later");
    return invalidation->use.backend_id;
}

/* Sends the client's command, with the id of the invalidation connection in place of the client's. */
static void send_on(struct request *request, struct part *part, struct upstream *dedicated,
                    const struct upstream *invalidation)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    const struct wanted *wanted = request_state(request, sizeof *wanted);
    struct bytes *words = malloc((argc + 2) * sizeof *words);
    char id[INT64_TEXT_MAX] = "";
    char text[TRACKING_NAME_MAX];
    struct bytes name = client_tracking_name(request->client, wanted->is_noloop, text);
    struct bytes invalidation_id = {
        id, invalidation ? number_format_int64(id, (int64_t)invalidation->use.backend_id) : 0};
    uint32_t count = 0;
    CHECK(words);
    for (uint32_t i = 0; i < argc; i++) {
        bool is_redirect = i >= 3 && bytes_is(argv[i], "redirect");
        if (!is_redirect || invalidation)
            words[count++] = argv[i];
        if (is_redirect && invalidation)
            words[count++] = invalidation_id;
        if (is_redirect)
            i++;
        else if (i >= 3 && bytes_is(argv[i], "prefix"))
            words[count++] = argv[++i];
    }
    if (name.len) {
        words[count++] = BYTES("NAME");
        words[count++] = name;
    }
    upstream_send_words(dedicated, part, request->client->session.keyspace, words, count);
    free(words);
}

static void ask_shards(struct client *client, struct request *request, struct reply *reply)
{
    const struct wanted *wanted = request_state(request, sizeof *wanted);
    uint32_t count = (uint32_t)client->worker->pool->count;
    bool has_invalidation = wanted->redirect_id && client->session.resp == 2;
    for (uint32_t i = 0; i < count; i++) {
        const struct upstream *invalidation =
            has_invalidation ? tracking_dedicated(client, i, true) : NULL;
        if (!tracking_dedicated(client, i, false) || (has_invalidation && !invalidation)) {
            fail_tracking(client, reply, dedicated_limit_error);
            return;
        }
        if (invalidation && !has_backend_id(invalidation, reply)) {
            fail_tracking(client, reply, NULL);
            return;
        }
    }
    request_wait_parts(request, count, agreed);
    for (uint32_t i = 0; i < count; i++) {
        struct upstream *dedicated = tracking_dedicated(client, i, false);
        send_on(request, request_part(request, i, dedicated->node), dedicated,
                has_invalidation ? tracking_dedicated(client, i, true) : NULL);
    }
}

/* Opens the invalidation connections. Their CLIENT IDs, which the dedicated connections need, come with the first
 * reply. False: dedicated-limit is reached. */
static bool open_invalidation_connections(struct client *client, struct request *request,
                                          request_done_fn *done)
{
    const struct bytes ping = BYTES("PING");
    uint32_t count = (uint32_t)client->worker->pool->count;
    for (uint32_t i = 0; i < count; i++)
        if (!tracking_dedicated(client, i, true))
            return false;
    request_wait_parts(request, count, done);
    for (uint32_t i = 0; i < count; i++) {
        struct upstream *invalidation = tracking_dedicated(client, i, true);
        upstream_send_words(invalidation, request_part(request, i, invalidation->node),
                            client->session.keyspace, &ping, 1);
    }
    return true;
}

static void turn_on(struct client *client, struct request *request, struct reply *reply)
{
    const struct wanted *wanted = request_state(request, sizeof *wanted);
    (void)tracking_of(client);
    if (!wanted->redirect_id || client->session.resp != 2)
        ask_shards(client, request, reply);
    else if (!open_invalidation_connections(client, request, ask_shards))
        fail_tracking(client, reply, dedicated_limit_error);
}

/* gather_visit_fn */
static void find_target(struct proxy_worker *worker, const void *target, struct out *out)
{
    if (tracking_target_find(worker, target))
        out_write(out, "1", 1);
}

static void found_target(struct client *client, struct request *request, struct reply *reply)
{
    bool found = false;
    for (uint32_t i = 0; i < request_gathered_count(request); i++)
        found |= request_gathered(request, i)->bytes > 0;
    if (found)
        turn_on(client, request, reply);
    else
        reply_error(reply, "ERR The client ID you want redirect to does not exist");
}

void local_client_tracking(struct client *client, struct request *request, struct reply *reply)
{
    struct bytes word = request_argv(request)[2];
    request_keep(request);
    struct wanted *wanted = request_state(request, sizeof *wanted);
    reply->out = request_reply_out(request);
    if (!parse(request, wanted, reply))
        return;
    if (bytes_is(word, "off")) {
        tracking_clear(client);
        reply_ok(reply);
    } else if (!bytes_is(word, "on")) {
        reply_code(reply, ERR_SYNTAX);
    } else {
        client_hold(client, HOLD_ORDER); /* later commands use the dedicated connections */
        struct tracking_target target = tracking_target_of(client, wanted->redirect_id);
        if (wanted->is_redirected)
            request_gather(request, find_target, &target, sizeof target, found_target);
        else
            turn_on(client, request, reply);
    }
}

/* ---- HELLO 2 of a client that redirects since RESP3 ---- */

/* What follows local_redirect. */
struct redirect_step {
    request_done_fn *done;
};

/* request_done_fn: every shard has replied to CLIENT TRACKING. */
static void redirected(struct client *client, struct request *request, struct reply *reply)
{
    const struct redirect_step *step = request_state(request, sizeof *step);
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        if (answer->frame.data[0] == '-') {
            out_write(reply->out, answer->frame.data, answer->frame.len);
            return;
        }
    }
    if (client_tracks(client) && client->tracking->is_bcast)
        client_tracking_forget_all(client);
    step->done(client, request, reply);
}

/* request_done_fn: the invalidation connections are open. */
static void redirect_shards(struct client *client, struct request *request, struct reply *reply)
{
    uint32_t count = (uint32_t)client->worker->pool->count;
    for (uint32_t i = 0; i < count; i++) {
        const struct upstream *invalidation = tracking_dedicated(client, i, true);
        if (!has_backend_id(invalidation, reply))
            return;
    }
    request_wait_parts(request, count, redirected);
    for (uint32_t i = 0; i < count; i++) {
        struct upstream *dedicated = tracking_connection(client, i);
        tracking_send_redirect(client, request_part(request, i, dedicated->node), dedicated,
                               tracking_dedicated(client, i, true));
    }
}

void local_redirect(struct client *client, struct request *request, struct reply *reply,
                    request_done_fn *done)
{
    struct redirect_step *step = request_state(request, sizeof *step);
    step->done = done;
    client_hold(client, HOLD_ORDER); /* later commands are in RESP2 */
    if (!open_invalidation_connections(client, request, redirect_shards))
        reply_error(reply, dedicated_limit_error);
}

/* ---- the others ---- */

void local_client_caching(struct client *client, struct request *request, struct reply *reply)
{
    struct client_tracking *tracking = client->tracking;
    struct bytes word = request_argv(request)[2];
    bool yes = bytes_is(word, "yes");
    const char *error = NULL;
    if (!client_tracks(client))
        error = CACHING_OFF_ERROR;
    else if (!yes && !bytes_is(word, "no"))
        error = error_text(ERR_SYNTAX);
    else if (yes && !tracking->is_optin)
        error = CACHING_YES_ERROR;
    else if (!yes && !tracking->is_optout)
        error = CACHING_NO_ERROR;
    if (error) {
        reply_error(reply, error);
        return;
    }
    tracking->caching = yes ? CACHING_YES : CACHING_NO;
    reply_ok(reply);
}

void local_client_getredir(struct client *client, struct request *request, struct reply *reply)
{
    (void)request;
    reply_int(reply, client_tracks(client) ? (int64_t)client->tracking->redirect_id : -1);
}

void local_client_trackinginfo(struct client *client, struct request *request, struct reply *reply)
{
    static const struct client_tracking none;
    const struct client_tracking *tracking = client_tracks(client) ? client->tracking : &none;
    (void)request;
    tracking_info_reply(reply,
                        &(struct tracking_info){
                            .is_on = tracking->is_on,
                            .is_bcast = tracking->is_bcast,
                            .is_optin = tracking->is_optin,
                            .is_optout = tracking->is_optout,
                            .is_noloop = tracking->is_noloop,
                            .is_caching = tracking->caching != CACHING_UNSAID,
                            .is_broken = tracking->is_broken,
                            .redirect_id = tracking->is_on ? (int64_t)tracking->redirect_id : -1,
                            .prefixes = tracking->prefixes,
                            .prefix_count = tracking->prefix_count,
                        });
}
