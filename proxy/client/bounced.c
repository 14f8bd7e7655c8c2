#include "proxy/client/bounced.h"

#include "proxy/client/blocked.h"
#include "proxy/client/tracking.h"
#include "proxy/client/transaction.h"
#include "proxy/core/node.h"
#include "proxy/core/proxy.h"
#include "proxy/core/request.h"
#include "proxy/core/route.h"
#include "proxy/core/routes.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { FORGET_MS = 10 * 1000, ERROR_MAX = 512, BEHINDS_MAX = 16 };

static const char LEFT_MAP[] = "TRYAGAIN the request's shard was removed while it waited";

/* How the request was sent. */
enum sent_on {
    SENT_SHARED,    /* on a shared connection */
    SENT_ALONE,     /* on a connection of its own, with SCREE ACROSS */
    SENT_TRACKING,  /* on the connection of a client that tracks */
    SENT_DEDICATED, /* on the connection that watches keys */
    SENT_WATCH,     /* likewise, and it is the WATCH that made this connection */
    SENT_WAIT,      /* as a command that waits */
};

/* A part that has bounced and was not sent again yet. */
struct bounced {
    struct list link;
    struct part *part; /* linked */
    struct block *block;
    struct bounce bounce; /* texts in `block` */
    struct node *node;    /* of the shard that has bounced it; with a reference */
    uint64_t version;     /* the map must have these routes */
    enum sent_on sent_on;
    unsigned lane;
    uint64_t patience_ms; /* of the connection, if it was its own */
    /* client->bounced.flight in which it has bounced again; 0: it was not sent again */
    uint64_t flight;
    size_t bytes; /* counted in worker->memory.copied */
};

/* Where a bounced request goes. */
struct target {
    const struct command *command; /* the last one */
    uint32_t shard;
    bool has_keys;
    bool is_on_several; /* the keys are on several shards */
    bool is_across;     /* it has SCREE ACROSS */
    bool is_valid;      /* all requests are commands */
    bool only_prepares; /* those before the last one prepare the connection for it */
};

/* ---- answering ------------------------------------------------------------------------------- */

/* Answers a part that was not sent again with an error. */
static void refuse_bounced(struct part *part, const char *text)
{
    metric_add(part->request->worker->metrics.process, METRIC_PROXY_BOUNCES_REFUSED, 1);
    part_failed(part, text);
    part_unlinked(part);
}

static void fail_after_hops(struct part *part, const struct node *node, const struct bounce *bounce)
{
    char text[ERROR_MAX];
    (void)snprintf(text, sizeof text,
                   "TRYAGAIN slot %u: the request was sent to %u shards, and the last one, '%s', "
                   "says that shard '%.*s' owns the slot (epoch %" PRIu64 ")",
                   bounce->slot, BOUNCE_HOPS_MAX + 1u, node->name, (int)bounce->shard.len,
                   bounce->shard.data, bounce->epoch);
    refuse_bounced(part, text);
}

static void bounced_free(struct proxy_worker *worker, struct bounced *entry)
{
    worker->memory.copied -= entry->bytes;
    list_remove(&entry->link);
    block_unref(entry->block);
    node_unref(entry->node);
    free(entry);
}

/* ---- routing --------------------------------------------------------------------------------- */

/* The command after its prefixes; NULL: unknown. */
static const struct command *skip_prefixes(const struct bytes **argv, uint32_t *argc,
                                           struct target *target)
{
    const struct command *command = command_find_argv(*argv, *argc);
    while (command && command->traits & TRAIT_PREFIX && *argc > command_prefix_argc(command)) {
        target->is_across |= bytes_is((*argv)[1], "across");
        *argv += command_prefix_argc(command);
        *argc -= command_prefix_argc(command);
        command = command_find_argv(*argv, *argc);
    }
    return command;
}

/* Adds the keys of a command. *is_written: the target is the shard of a key that is written. */
static void add_target_keys(const struct route_rules *rules, const struct bytes *argv,
                            uint32_t argc, struct target *target, bool *is_written)
{
    struct key_list keys;
    keys_list_init(&keys);
    (void)keys_find(target->command, argv, argc, &keys);
    for (uint32_t i = 0; i < keys.count; i++) {
        uint32_t shard = shard_map_find(rules->map, route_slot(rules, argv[keys.refs[i].index]));
        bool is_first_write = !*is_written && key_is_written(&keys.refs[i]);
        target->is_on_several |= target->has_keys && shard != target->shard;
        if (!target->has_keys || is_first_write)
            target->shard = shard;
        target->has_keys = true;
        *is_written |= is_first_write;
    }
    keys_list_fini(&keys);
}

/* Does a backend add such a request before the client's (CLIENT CACHING, SCRIPT LOAD)? */
static bool prepares(struct bytes word)
{
    return bytes_is(word, "client") || bytes_is(word, "script");
}

static bool is_watch(const struct part *part)
{
    return part->request->command == command_find(BYTES("watch"));
}

/* The shard in the map in force that has the node's name, perhaps at another address; -1: it was removed. */
static int shard_named(const struct proxy_worker *worker, const struct node *node)
{
    return shard_map_named(worker->snapshot->map, bytes_of(node->name));
}

/* Reads the requests of the bounce, and finds the shard by the map in force. */
static struct target find_bounce_target(const struct proxy_worker *worker,
                                        const struct keyspace *keyspace,
                                        const struct bounce *bounce)
{
    static const struct resp_limits no_limits = {
        .bulk_bytes_max = UINT32_MAX, .args_max = INT32_MAX, .inline_bytes_max = 1024};
    struct route_rules rules = {.map = worker->snapshot->map, .entry = keyspace->entry};
    struct target target = {
        .shard = shard_map_find(rules.map, bounce->slot), .is_valid = true, .only_prepares = true};
    struct bytes rest = bounce->requests;
    bool is_written = false;
    struct resp_scan scan;
    resp_scan_init(&scan);
    while (rest.len) {
        CHECK(resp_scan(&scan, &no_limits, rest.data, rest.len) == RESP_FRAME);
        struct bytes *words = malloc(scan.argc * sizeof *words);
        CHECK(words);
        for (uint32_t i = 0; i < scan.argc; i++)
            words[i] = (struct bytes){rest.data + scan.args[i].at, scan.args[i].len};
        const struct bytes *argv = words;
        uint32_t argc = scan.argc;
        target.command = skip_prefixes(&argv, &argc, &target);
        target.is_valid &= target.command && command_arity_ok(target.command, argc);
        if (target.is_valid)
            add_target_keys(&rules, argv, argc, &target, &is_written);
        target.only_prepares &= rest.len == scan.size || prepares(argv[0]);
        free(words);
        rest = (struct bytes){rest.data + scan.size, rest.len - scan.size};
    }
    resp_scan_fini(&scan);
    return target;
}

/* May the request's keys be on several shards? */
static bool may_be_across(const struct proxy_worker *worker, const struct bounced *entry,
                          const struct target *target)
{
    return worker_config(worker)->cross_slot == CROSS_SLOT_ANY ||
           (target->command->route == ROUTE_SPLIT && !entry->part->request->is_exec);
}

/* The connection of a client that tracks, or that watches keys, to the shard. NULL: it has none. */
static struct upstream *own_connection(struct client *client, const struct bounced *entry,
                                       uint32_t shard)
{
    struct upstream *dedicated = client->session.transaction.dedicated;
    if (client_tracks(client) && entry->sent_on != SENT_SHARED)
        return tracking_connection(client, shard);
    if (entry->sent_on == SENT_DEDICATED && dedicated &&
        dedicated->node == client->worker->pool->nodes[shard])
        return dedicated;
    return NULL;
}

/* A connection on which the request may wait. */
static struct upstream *patient_connection(const struct client *client, const struct bounced *entry,
                                           const struct target *target)
{
    const struct request *request = entry->part->request;
    struct upstream *upstream =
        pool_patient(client->worker->pool, target->shard, client, request->resp);
    if (upstream->use.is_single_use) /* as much as requests of LANE_WAITING have */
        upstream->use.patience_ms = worker_config(client->worker)->upstream_timeout_ms;
    return upstream;
}

/* A connection of its own, on which it need not wait for another request. */
static struct upstream *lone_connection(const struct client *client, const struct bounced *entry,
                                        const struct target *target)
{
    struct upstream *upstream = pool_across_at_once(client->worker->pool, target->shard, client,
                                                    entry->part->request->resp);
    upstream->use.patience_ms = entry->lane == LANE_SCRIPT
                                    ? worker_config(client->worker)->upstream_timeout_ms
                                    : entry->patience_ms;
    return upstream;
}

/* The connection on which the request is sent again. NULL: another one is in use. */
static struct upstream *choose_upstream(struct client *client, const struct bounced *entry,
                                        const struct target *target)
{
    struct pool *pool = client->worker->pool;
    const struct request *request = entry->part->request;
    struct upstream *own = own_connection(client, entry, target->shard);
    bool waits = entry->bounce.why == BOUNCE_WAITS;
    bool is_passed = entry->part->behinds >= BEHINDS_MAX; /* too many before it have left */
    bool is_alone = entry->sent_on == SENT_ALONE || target->is_on_several || waits || is_passed;
    bool is_busy = client->bounced.in_flight > 0;
    if (is_alone && !own && is_busy)
        return NULL;
    if (waits && !own)
        return patient_connection(client, entry, target);
    if (is_alone && !own)
        return lone_connection(client, entry, target);
    struct upstream *upstream =
        own ? own : pool_pick(pool, target->shard, entry->lane, request->resp);
    bool must_wait = is_alone || client->bounced.drains || client->bounced.upstream != upstream;
    return is_busy && must_wait ? NULL : upstream;
}

/* ---- sending again --------------------------------------------------------------------------- */

static void begin_flight(struct client *client, struct upstream *upstream)
{
    struct client_bounced *bounced = &client->bounced;
    if (bounced->in_flight++ == 0) {
        bounced->flight++;
        bounced->drains = false;
    }
    bounced->upstream = upstream;
}

/* Sends the requests; the shard may be down, and the part fail. */
static void send_bounced(struct client *client, struct bounced *entry, struct upstream *upstream,
                         struct keyspace *keyspace, bool adds_across)
{
    struct part *part = entry->part;
    struct request *request = part->request;
    bool selects = request->is_exec && request->exec.has_db;
    part->kind = PART_FOLLOWED;
    part->resend_bytes = 0;
    begin_flight(client, upstream);
    request->linked++; /* so that the request stays while this function runs */
    upstream_send_bounced(upstream, part, keyspace, &entry->bounce, entry->block, adds_across);
    bool is_sent = part->upstream == upstream;
    if (!is_sent)
        client->bounced.in_flight--;
    else if (selects)
        upstream_forget_keyspace(upstream);
    part_unlinked(part);
    part_unlinked(part); /* the entry's link */
}

/* A WATCH goes on a new dedicated connection to the shard. NULL: the client does not watch any more. */
static struct upstream *move_watch(struct client *client, const struct target *target)
{
    return client->session.transaction.dedicated ? NULL
                                                 : transaction_watch_again(client, target->shard);
}

static void answer(struct part *part, const char *reply)
{
    part_answered(part, NULL, reply, strlen(reply));
}

/* Sends a WATCH again. */
static void watch_again(struct client *client, struct bounced *entry, struct keyspace *keyspace,
                        const struct target *target)
{
    struct upstream *dedicated = client->session.transaction.dedicated;
    bool is_first = entry->sent_on == SENT_WATCH;
    if (is_first ? !client->session.transaction.moves_watch : !dedicated) {
        answer(entry->part,
               "+OK\r\n"); /* EXEC or UNWATCH was sent behind it: EXEC fails at the old shard */
        return;
    }
    bool is_any = worker_config(client->worker)->cross_slot == CROSS_SLOT_ANY;
    bool is_across = target->is_on_several ||
                     (!is_first && dedicated->node != client->worker->pool->nodes[target->shard]);
    if (is_across && !is_any) {
        refuse_bounced(entry->part, error_text(ERR_CROSSSLOT));
        return;
    }
    struct upstream *upstream = is_first ? move_watch(client, target) : dedicated;
    if (!upstream) {
        refuse_bounced(entry->part,
                       "ERR WATCH could not follow its key to another shard: try again");
        return;
    }
    client->session.transaction.watches_across |= is_across;
    send_bounced(client, entry, upstream, keyspace, is_across && !target->is_across);
}

/* Lets a blocking command wait at the shard that has its keys now. */
static void wait_again(struct client *client, struct bounced *entry, struct keyspace *keyspace,
                       const struct target *target)
{
    struct part *part = entry->part;
    const char *null = part->request->resp == 3 ? "_\r\n" : "*-1\r\n";
    const struct bounce *bounce = &entry->bounce;
    struct frame frame = {
        .data = bounce->requests.data, .len = bounce->requests.len, .argc = bounce->argc};
    if (client->blocked.has_parts) {
        answer(part, null); /* the search begins again */
    } else if (client->blocked.unblock) {
        answer(part, client->blocked.unblock == UNBLOCK_ERROR
                         ? "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"
                         : null);
    } else if (target->is_on_several) {
        blocked_begin_again(client, &frame);
    } else {
        blocked_round_over(client);
        part->request->linked--; /* the entry's link */
        wait_table_send(pool_waits(client->worker->pool, target->shard), part, keyspace, &frame);
    }
}

/* Sends the client's oldest bounced request again. False: it must wait for those before it. */
static bool send_again(struct client *client, struct bounced *entry)
{
    struct proxy_worker *worker = client->worker;
    struct keyspace *keyspace =
        keyspaces_get(&worker->keyspaces, entry->bounce.space, entry->bounce.db);
    struct target target = find_bounce_target(worker, keyspace, &entry->bounce);
    int sender = shard_named(worker, entry->node);
    bool returns = !target.has_keys && entry->bounce.why != BOUNCE_OWNER;
    bool has_no_shard =
        returns && sender < 0; /* another shard may have its own part of the request */
    if (returns && sender >= 0)
        target.shard = (uint32_t)sender;
    bool watches = is_watch(entry->part);
    bool adds_across = target.is_on_several && !target.is_across;
    struct upstream *upstream = NULL;
    bool goes = true;
    if (entry->sent_on == SENT_WAIT || watches)
        goes = client->bounced.in_flight == 0;
    else if (!has_no_shard && (!adds_across || may_be_across(worker, entry, &target)))
        goes = (upstream = choose_upstream(client, entry, &target)) != NULL;
    if (goes)
        list_remove(&entry->link);
    if (goes && entry->sent_on == SENT_WAIT)
        wait_again(client, entry, keyspace, &target);
    else if (goes && watches)
        watch_again(client, entry, keyspace, &target);
    else if (goes && !upstream)
        refuse_bounced(entry->part, has_no_shard ? LEFT_MAP : error_text(ERR_CROSSSLOT));
    else if (goes)
        send_bounced(client, entry, upstream, keyspace, adds_across);
    if (goes)
        bounced_free(worker, entry);
    keyspace_unref(&worker->keyspaces, keyspace);
    return goes;
}

static void go_on(struct client *client)
{
    const struct proxy_worker *worker = client->worker;
    while (!client->is_closed && !list_empty(&client->bounced.waiting)) {
        struct bounced *entry = container_of(client->bounced.waiting.next, struct bounced, link);
        bool is_new = entry->version > worker->snapshot->routes_version;
        if ((is_new && !worker->thread.is_stopping) || !send_again(client, entry))
            return;
    }
}

void bounced_followed(struct client *client)
{
    CHECK(client->bounced.in_flight > 0);
    client->bounced.in_flight--;
    go_on(client);
}

void bounced_updated(struct proxy_worker *worker)
{
    client_each(worker, go_on);
}

/* ---- taking a request back ------------------------------------------------------------------- */

/* A shard that was removed from the map is not believed: the present owner is asked. */
static void learn(struct proxy_worker *worker, const struct node *node, const struct bounce *bounce,
                  uint64_t *version)
{
    struct proxy *proxy = worker->proxy;
    const struct route_source source = {.map = worker->snapshot->map,
                                        .shard = node->is_removed ? SHARD_NONE : node->index};
    if (routes_learn(proxy->routes.learned, &source, bounce, version) ||
        *version > worker->snapshot->routes_version)
        if (!atomic_exchange(&proxy->routes.is_posted, true))
            loop_post(proxy->loop, &proxy->routes.task);
}

/* How the part was sent on this connection, which it has left. */
static enum sent_on how_sent(struct client *client, struct upstream *upstream)
{
    struct client_transaction *transaction = &client->session.transaction;
    if (upstream->waits)
        return SENT_WAIT;
    if (upstream->use.is_single_use)
        return SENT_ALONE;
    if (upstream->use.is_kept && transaction->dedicated != upstream)
        return SENT_TRACKING;
    return upstream->use.is_private ? SENT_DEDICATED : SENT_SHARED;
}

/* Records how the bounced WATCH will be sent again. If it was the first one on its dedicated connection, releases the connection, because
 * the client watches nothing yet. */
static void leave_watching(struct client *client, struct upstream *upstream, struct bounced *entry)
{
    struct client_transaction *transaction = &client->session.transaction;
    if (transaction->dedicated != upstream || transaction->watches != 1) {
        entry->sent_on = transaction->dedicated == upstream ? SENT_DEDICATED : SENT_WATCH;
        return;
    }
    client_transaction_release(client);
    transaction->moves_watch = true;
    entry->sent_on = SENT_WATCH;
}

/* A part that bounces again goes before those that were not sent again since, but behind those that were in flight with it. */
static void enlist_bounced(struct client *client, struct bounced *entry)
{
    struct list *at = client->bounced.waiting.next;
    while (at != &client->bounced.waiting &&
           (!entry->flight || container_of(at, struct bounced, link)->flight == entry->flight))
        at = at->next;
    list_push(at, &entry->link);
}

static void keep_bounced(struct client *client, struct upstream *upstream, struct part *part,
                         struct block *block, const struct bounce *bounce)
{
    bool is_again = part->kind == PART_FOLLOWED;
    struct proxy_worker *worker = client->worker;
    struct bounced *entry = calloc(1, sizeof *entry);
    CHECK(entry);
    *entry =
        (struct bounced){.part = part,
                         .block = block_ref(block),
                         .node = node_ref(upstream->node),
                         .bounce = *bounce,
                         .sent_on = how_sent(client, upstream),
                         .lane = upstream->lane,
                         .patience_ms = upstream->use.is_single_use ? upstream->use.patience_ms : 0,
                         .flight = is_again ? client->bounced.flight : 0,
                         .bytes = sizeof *entry + bounce->requests.len};
    worker->memory.copied += entry->bytes;
    if (bounce->why == BOUNCE_OWNER)
        learn(worker, upstream->node, bounce, &entry->version);
    if (is_watch(part))
        leave_watching(client, upstream, entry);
    if (entry->sent_on == SENT_WAIT)
        client->blocked.has_bounced = client->blocked.has_parts;
    client->label = LABEL_BOUNCED;
    enlist_bounced(client, entry);
}

/* Is it the request that was sent? Those that the proxy has made itself, in a search over shards, are not sent again (wait_again); others that
 * it has made, such as DBSIZE for a RANDOMKEY, have no keys, and bounce only to the shard itself. */
static bool is_expected(const struct upstream *upstream, const struct part *part,
                        const struct bounce *bounce)
{
    const struct proxy_worker *worker = upstream->worker;
    const struct target target = find_bounce_target(worker, worker->home, bounce);
    bool is_wait = upstream->waits != NULL;
    if (is_wait && bounce->count != 1)
        return false;
    if (is_wait && part->request->client->blocked.has_parts)
        return true;
    bool is_same = target.command == part->request->command;
    bool comes_back = bounce->why != BOUNCE_OWNER && !target.has_keys;
    return target.is_valid &&
           (is_same || (comes_back && shard_named(worker, upstream->node) >= 0)) &&
           (target.only_prepares || part->request->is_exec);
}

void bounced_take(struct upstream *upstream, struct part *part, struct block *block,
                  const struct bounce *bounce)
{
    struct proxy_worker *worker = upstream->worker;
    struct request *request = part->request;
    struct client *client = request->client;
    const struct upstream_use *use = &upstream->use;
    bool is_exec = request->is_exec;
    bool is_hop = bounce->why == BOUNCE_OWNER;
    metric_add(worker->metrics.process, METRIC_PROXY_BOUNCES, is_hop);
    metric_add(worker->metrics.process, METRIC_PROXY_BOUNCED, is_hop && part->hops == 0);
    if (client && part->kind == PART_FOLLOWED)
        client->bounced.in_flight--;
    part->upstream = NULL;
    if (is_hop) /* else it has come to the right shard */
        part->hops++;
    if (bounce->why == BOUNCE_BEHIND && part->behinds < BEHINDS_MAX)
        part->behinds++;
    bool needs_map = is_hop && worker->thread.is_stopping; /* no new one comes any more */
    if (!client || needs_map || !is_expected(upstream, part, bounce))
        refuse_bounced(part, bounce->why == BOUNCE_OWNER
                                 ? "TRYAGAIN the slot belongs to another shard now"
                                 : "TRYAGAIN the request had to wait for another one");
    else if (part->hops > BOUNCE_HOPS_MAX)
        fail_after_hops(part, upstream->node, bounce);
    else
        keep_bounced(client, upstream, part, block, bounce);
    if (is_exec && use->is_private && !use->is_single_use && !use->client)
        upstream_release(upstream, false);
    if (client)
        go_on(client);
}

void bounced_leave(struct client *client)
{
    while (!list_empty(&client->bounced.waiting)) {
        struct bounced *entry = container_of(client->bounced.waiting.next, struct bounced, link);
        struct part *part = entry->part;
        bounced_free(client->worker, entry);
        part_failed(part, "ERR the client has left");
        part_unlinked(part);
    }
}

/* ---- shards that are not reachable ----------------------------------------------------------- */

void bounced_slow(struct proxy_worker *worker)
{
    struct pool *pool = worker->pool;
    uint64_t now_ms = loop_mono_ms(worker->loop);
    for (size_t i = 0; i < pool->count; i++) {
        struct node *node = pool->nodes[i];
        bool is_down = node_is_down(node);
        node->down_ms = !is_down ? 0 : node->down_ms ? node->down_ms : now_ms;
        if (!is_down || now_ms < node->down_ms + FORGET_MS)
            continue;
        node->down_ms = now_ms;
        if (routes_forget(worker->proxy->routes.learned, bytes_of(node->name)) &&
            !atomic_exchange(&worker->proxy->routes.is_posted, true))
            loop_post(worker->proxy->loop, &worker->proxy->routes.task);
    }
}
