#include "proxy/client/tracking.h"

#include "proxy/client/subscriptions.h"
#include "proxy/client/watch_lost.h"
#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/check.h"
#include "shared/number.h"
#include "shared/resp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* As in Redis, the null has the format of the tracking client's protocol, even when the target of REDIRECT speaks
 * another one. */
static const char forget_all_resp2[] = ">2\r\n$10\r\ninvalidate\r\n$-1\r\n";
static const char forget_all[] = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

static void on_invalidation(struct upstream *dedicated, struct block *block, const char *data,
                            size_t len);
static void on_tracking_closed(struct upstream *dedicated, const char *reason);
static void deliver_invalidation(struct client *client, struct block *block, const char *data,
                                 size_t len);

static const struct upstream_events dedicated_events = {.push = on_invalidation,
                                                        .closed = on_tracking_closed};

/* ---- dedicated connections ---------------------------------------------------------------------------------- */

static struct upstream *find_dedicated(const struct client_tracking *tracking,
                                       const struct node *node, bool is_invalidation)
{
    for (struct list *link = tracking->dedicated_connections.next;
         link != &tracking->dedicated_connections; link = link->next) {
        struct upstream *dedicated = container_of(link, struct upstream, links.kept);
        if (dedicated->node == node && dedicated->use.is_invalidation == is_invalidation)
            return dedicated;
    }
    return NULL;
}

struct upstream *tracking_dedicated(struct client *client, uint32_t shard, bool is_invalidation)
{
    struct client_tracking *tracking = client->tracking;
    struct pool *pool = client->worker->pool;
    struct upstream *dedicated = find_dedicated(tracking, pool->nodes[shard], is_invalidation);
    if (dedicated)
        return dedicated;
    dedicated =
        pool_dedicated(client, shard, is_invalidation ? 3 : client->session.resp, tracking->is_on);
    if (!dedicated)
        return NULL;
    dedicated->use.is_kept = true;
    dedicated->use.events = &dedicated_events;
    dedicated->use.is_invalidation = is_invalidation;
    dedicated->use.client = client;
    list_push(&tracking->dedicated_connections, &dedicated->links.kept);
    return dedicated;
}

struct client_tracking *tracking_of(struct client *client)
{
    if (!client->tracking) {
        client->tracking = calloc(1, sizeof *client->tracking);
        CHECK(client->tracking);
        client->tracking->client = client;
        list_init(&client->tracking->dedicated_connections);
        out_init(&client->tracking->held[0].frames);
        out_init(&client->tracking->held[1].frames);
    }
    return client->tracking;
}

static void drop_dedicated(struct upstream *dedicated)
{
    list_remove(&dedicated->links.kept);
    dedicated->use.client = NULL;
    dedicated->use.events = NULL;
    dedicated->use.is_kept = false;
    upstream_drain(dedicated);
}

static void drop_dedicated_connections(struct client_tracking *tracking)
{
    while (!list_empty(&tracking->dedicated_connections))
        drop_dedicated(
            container_of(tracking->dedicated_connections.next, struct upstream, links.kept));
}

static bool has_dedicated(const struct client_tracking *tracking, const struct upstream *dedicated)
{
    return dedicated && (find_dedicated(tracking, dedicated->node, false) == dedicated);
}

struct bytes client_tracking_name(const struct client *client, bool is_noloop,
                                  char to[TRACKING_NAME_MAX])
{
    const struct proxy_worker *worker = client->worker;
    if (!is_noloop || !*worker_config(worker)->upstream_secret)
        return (struct bytes){0};
    int len = snprintf(to, TRACKING_NAME_MAX, "%s/%" PRIu64, worker->proxy->run_id, client->id);
    CHECK(len < TRACKING_NAME_MAX);
    return (struct bytes){to, (size_t)len};
}

/* Words of CLIENT TRACKING ON with the client's options; heap. `name`: see client_tracking_name. `redirect`: an id; empty: none. */
static struct bytes *tracking_words(const struct client_tracking *tracking, struct bytes name,
                                    struct bytes redirect, uint32_t *words_count)
{
    uint32_t count = 0;
    struct bytes *words = malloc((12 + 2 * tracking->prefix_count) * sizeof *words);
    CHECK(words);
    words[count++] = BYTES("CLIENT");
    words[count++] = BYTES("TRACKING");
    words[count++] = BYTES("ON");
    if (tracking->is_bcast)
        words[count++] = BYTES("BCAST");
    if (tracking->is_optin)
        words[count++] = BYTES("OPTIN");
    if (tracking->is_optout)
        words[count++] = BYTES("OPTOUT");
    if (tracking->is_noloop)
        words[count++] = BYTES("NOLOOP");
    if (name.len) {
        words[count++] = BYTES("NAME");
        words[count++] = name;
    }
    for (uint32_t i = 0; i < tracking->prefix_count; i++) {
        words[count++] = BYTES("PREFIX");
        words[count++] = tracking->prefixes[i];
    }
    if (redirect.len) {
        words[count++] = BYTES("REDIRECT");
        words[count++] = redirect;
    }
    *words_count = count;
    return words;
}

/* Sends CLIENT TRACKING ON with the client's options on a new dedicated connection. */
static void write_tracking_on(struct upstream *dedicated, const struct client_tracking *tracking)
{
    char text[TRACKING_NAME_MAX];
    uint32_t count;
    struct bytes name = client_tracking_name(tracking->client, tracking->is_noloop, text);
    struct bytes *words = tracking_words(tracking, name, (struct bytes){0}, &count);
    upstream_precede(dedicated, tracking->client->session.keyspace, words, count);
    free(words);
}

void tracking_send_redirect(struct client *client, struct part *part, struct upstream *dedicated,
                            const struct upstream *invalidation)
{
    const struct bytes off[] = {BYTES("CLIENT"), BYTES("TRACKING"), BYTES("OFF")};
    char text[TRACKING_NAME_MAX];
    char id[INT64_TEXT_MAX];
    uint32_t count;
    struct bytes name = client_tracking_name(client, client->tracking->is_noloop, text);
    struct bytes redirect = {id, number_format_int64(id, (int64_t)invalidation->use.backend_id)};
    struct bytes *words = tracking_words(client->tracking, name, redirect, &count);
    if (client->tracking->is_bcast) /* its prefixes would overlap with themselves */
        upstream_precede(dedicated, client->session.keyspace, off, 3);
    upstream_send_words(dedicated, part, client->session.keyspace, words, count);
    free(words);
}

static void write_caching(struct upstream *dedicated, struct client_tracking *tracking)
{
    const struct bytes words[] = {BYTES("CLIENT"), BYTES("CACHING"),
                                  tracking->caching == CACHING_YES ? BYTES("YES") : BYTES("NO")};
    upstream_precede(dedicated, tracking->client->session.keyspace, words, 3);
}

struct upstream *tracking_connection(struct client *client, uint32_t shard)
{
    struct client_tracking *tracking = client->tracking;
    struct upstream *dedicated =
        find_dedicated(tracking, client->worker->pool->nodes[shard], false);
    if (dedicated)
        return dedicated;
    dedicated = tracking_dedicated(client, shard, false);
    write_tracking_on(dedicated, tracking);
    return dedicated;
}

struct upstream *tracking_upstream(struct client *client, uint32_t shard)
{
    struct client_tracking *tracking = client->tracking;
    struct upstream *dedicated = tracking_connection(client, shard);
    if (dedicated->resp != client->session.resp)
        upstream_hello(dedicated, client->session.resp);
    if (tracking->caching)
        write_caching(dedicated, tracking);
    return dedicated;
}

bool tracking_needs_redirect(const struct client *client, uint8_t resp)
{
    if (resp != 2 || !client_tracks(client) || !client->tracking->redirect_id)
        return false;
    const struct list *dedicated_connections = &client->tracking->dedicated_connections;
    for (const struct list *link = dedicated_connections->next; link != dedicated_connections;
         link = link->next)
        if (container_of(link, struct upstream, links.kept)->use.is_invalidation)
            return false;
    return true;
}

void tracking_step(struct client *client)
{
    /* CLIENT CACHING applies to the command after it */
    if (client->last_command->id != COMMAND_client_caching && !client->session.transaction.is_open)
        client->tracking->caching = CACHING_UNSAID;
}

size_t tracking_bytes(const struct client *client)
{
    const struct client_tracking *tracking = client->tracking;
    if (!tracking)
        return 0;
    size_t bytes =
        sizeof *tracking + tracking->held[0].frames.bytes + tracking->held[1].frames.bytes;
    for (uint32_t i = 0; i < tracking->prefix_count; i++)
        bytes += sizeof *tracking->prefixes + tracking->prefixes[i].len;
    return bytes;
}

void tracking_clear(struct client *client)
{
    struct client_tracking *tracking = client->tracking;
    if (!tracking)
        return;
    if (has_dedicated(tracking, client->session.transaction.dedicated))
        watch_connection_lost(client, client->session.transaction.dedicated,
                              "the client has turned tracking off");
    client->tracking = NULL;
    client->worker->clients.tracking -= tracking->is_on;
    drop_dedicated_connections(tracking);
    for (uint32_t i = 0; i < tracking->prefix_count; i++)
        free((char *)tracking->prefixes[i].data);
    free(tracking->prefixes);
    out_clear(&tracking->held[0].frames);
    out_clear(&tracking->held[1].frames);
    free(tracking);
}

static void on_tracking_closed(struct upstream *dedicated, const char *reason)
{
    struct client *client = dedicated->use.client;
    struct client_tracking *tracking = client->tracking;
    if (client->session.transaction.dedicated == dedicated)
        watch_connection_lost(client, dedicated, reason);
    bool has_invalidation = find_dedicated(tracking, dedicated->node, true);
    list_remove(&dedicated->links.kept);
    if (has_invalidation && tracking->is_on)
        client_kill(client, "a connection that receives its invalidations was lost");
    /* a connection that was never open has lost no invalidation */
    else if (tracking->is_on && !dedicated->reading.is_fresh)
        deliver_invalidation(client, NULL, forget_all, sizeof forget_all - 1);
}

/* ---- new maps, periodic work ----------------------------------------------------------------- */

/* Opens the missing connections of a client that tracks with BCAST: every shard must send invalidations. */
static void listen_everywhere(struct client *client)
{
    for (uint32_t i = 0;
         client_tracks(client) && client->tracking->is_bcast && i < client->worker->pool->count;
         i++)
        (void)tracking_connection(client, i);
}

static void reloaded(struct client *client)
{
    struct client_tracking *tracking = client->tracking;
    bool has_invalidation = false;
    if (!client_tracks(client))
        return;
    for (struct list *link = tracking->dedicated_connections.next;
         link != &tracking->dedicated_connections;) {
        struct upstream *dedicated = container_of(link, struct upstream, links.kept);
        link = link->next;
        has_invalidation |= dedicated->use.is_invalidation;
        if (dedicated->node->is_removed && client->session.transaction.dedicated != dedicated)
            drop_dedicated(dedicated);
    }
    if (has_invalidation) {
        client_kill(client, "the shard map has changed, and invalidations of a RESP2 client with "
                            "REDIRECT are bound to the shards of the old map");
        return;
    }
    listen_everywhere(client);
    deliver_invalidation(client, NULL, forget_all, sizeof forget_all - 1);
}

void tracking_reloaded(struct proxy_worker *worker)
{
    client_each(worker, reloaded);
}

void tracking_slow(struct proxy_worker *worker)
{
    client_each(worker, listen_everywhere);
}

/* ---- delivering invalidations ---------------------------------------------------------------- */

static struct client *find_client(struct proxy_worker *worker, uint64_t id)
{
    for (struct list *link = worker->clients.all.next; link != &worker->clients.all;
         link = link->next) {
        struct client *client = container_of(link, struct client, links.all);
        if (client->id == id)
            return client;
    }
    return NULL;
}

/* The second element of an invalidation: the array of keys, or null. */
static struct bytes keys_of(const char *data, size_t len)
{
    struct bytes frame = {data, len};
    struct resp_value value;
    size_t pos = 0;
    (void)resp_value_next(frame, &pos, &value);
    (void)resp_value_next(frame, &pos, &value);
    return (struct bytes){data + pos, len - pos};
}

/* A RESP2 client gets an invalidation as a message, and only if it has subscriptions. */
static void push_invalidation(struct client *target, const char *data, size_t len)
{
    static const char head[] = ">3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n";
    if (target->session.resp == 3) {
        client_push(target, NULL, data, len);
        return;
    }
    if (client_subscriptions(target) == 0)
        return;
    struct bytes keys = keys_of(data, len);
    size_t head_len = sizeof head - 1;
    char *frame = malloc(head_len + keys.len);
    CHECK(frame);
    memcpy(frame, head, head_len);
    memcpy(frame + head_len, keys.data, keys.len);
    client_push(target, NULL, frame, head_len + keys.len);
    free(frame);
}

static void redirect_broken(struct client *client)
{
    char frame[80];
    int len = snprintf(frame, sizeof frame, ">2\r\n$21\r\ntracking-redir-broken\r\n:%llu\r\n",
                       (unsigned long long)client->tracking->redirect_id);
    client->tracking->is_broken = true;
    if (client->session.resp == 3)
        client_push(client, NULL, frame, (size_t)len);
}

struct tracking_target tracking_target_of(const struct client *client, uint64_t id)
{
    struct bytes space = client->session.keyspace->name;
    struct tracking_target target = {.id = id, .space_len = (uint32_t)space.len};
    CHECK(space.len <= sizeof target.space);
    memcpy(target.space, space.data, space.len);
    return target;
}

struct client *tracking_target_find(struct proxy_worker *worker,
                                    const struct tracking_target *target)
{
    struct client *client = find_client(worker, target->id);
    struct bytes space = {target->space, target->space_len};
    return client && bytes_equal(client->session.keyspace->name, space) ? client : NULL;
}

/* An invalidation for a client of another worker. */
struct redirected {
    struct tracking_target target;
    size_t len;
    char frame[];
};

/* gather_visit_fn */
static void visit_target(struct proxy_worker *worker, const void *data, struct out *out)
{
    const struct redirected *redirected = data;
    struct client *target = tracking_target_find(worker, &redirected->target);
    if (!target)
        return;
    push_invalidation(target, redirected->frame, redirected->len);
    out_write(out, "1", 1);
}

/* request_done_fn: if no worker has the target, the redirection is broken. */
static void visited(struct client *none, struct request *request, struct reply *reply)
{
    const uint64_t *tracker_id = request_state(request, sizeof *tracker_id);
    bool found = false;
    (void)none;
    (void)reply;
    for (uint32_t i = 0; i < request_gathered_count(request); i++)
        found |= request_gathered(request, i)->bytes > 0;
    struct client *client = found ? NULL : find_client(request->worker, *tracker_id);
    if (client && client_tracks(client))
        redirect_broken(client);
}

static void redirect(struct client *client, const char *data, size_t len)
{
    struct tracking_target wanted = tracking_target_of(client, client->tracking->redirect_id);
    struct client *target = tracking_target_find(client->worker, &wanted);
    if (target) {
        push_invalidation(target, data, len);
        return;
    }
    struct redirected *redirected = malloc(sizeof *redirected + len);
    CHECK(redirected);
    *redirected = (struct redirected){.target = wanted, .len = len};
    memcpy(redirected->frame, data, len);
    struct request *request = request_internal(client->worker);
    *(uint64_t *)request_state(request, sizeof(uint64_t)) = client->id;
    request_gather(request, visit_target, redirected, sizeof *redirected + len, visited);
    free(redirected);
}

static void push_or_hold(struct client *client, struct block *block, const char *data, size_t len)
{
    struct held_pushes *held = client->tracking->held;
    const struct pipeline *pipeline = &client->pipeline;
    if (pipeline->count == 0 || client->blocked.request) {
        client_push(client, block, data, len);
        return;
    }
    if (held->frames.bytes)
        held++;
    held->until = pipeline->popped + pipeline->count;
    out_write(&held->frames, data, len);
    if (held->frames.bytes > client->worker->snapshot->config.client_output_limit_bytes)
        client_kill(client, "unread messages exceed client-output-limit");
}

void tracking_advance(struct client *client)
{
    struct held_pushes *held = client->tracking->held;
    while (held[0].frames.bytes && client->pipeline.popped >= held[0].until) {
        out_move(client->held_pushes ? client->held_pushes : stream_out(client->stream),
                 &held[0].frames);
        out_move(&held[0].frames, &held[1].frames);
        held[0].until = held[1].until;
    }
}

static void deliver_invalidation(struct client *client, struct block *block, const char *data,
                                 size_t len)
{
    static const char name[] = "$10\r\ninvalidate\r\n";
    if (!client_tracks(client) || len < 4 + sizeof name ||
        memcmp(data + 4, name, sizeof name - 1) != 0)
        return;
    bool is_resp2_null = client->session.resp == 2 && data[len - 3] == '_';
    if (client->tracking->redirect_id && is_resp2_null)
        redirect(client, forget_all_resp2, sizeof forget_all_resp2 - 1);
    else if (client->tracking->redirect_id)
        redirect(client, data, len);
    else if (client->session.resp == 3)
        push_or_hold(client, block, data, len);
}

void client_tracking_forget_all(struct client *client)
{
    deliver_invalidation(client, NULL, forget_all, sizeof forget_all - 1);
}

static void on_invalidation(struct upstream *dedicated, struct block *block, const char *data,
                            size_t len)
{
    deliver_invalidation(dedicated->use.client, block, data, len);
}
