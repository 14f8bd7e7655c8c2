#include "proxy/client/memory.h"

#include "proxy/client/subscriptions.h"
#include "proxy/client/tracking.h"
#include "proxy/core/client.h"
#include "proxy/core/events.h"
#include "proxy/core/login_rules.h"
#include "proxy/core/proxy.h"
#include "proxy/core/request.h"
#include "proxy/core/share_limits.h"
#include "proxy/core/worker.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CUT_AFTER_MS =
        1000, /* while memory is full: time for clients to read replies before some are closed */
    CUT_BYTES_MIN = 16 * 1024, /* a client that holds less is not closed */
    CUTS_MAX = 16,             /* clients closed in one turn */
    LOGIN_SHARE = 4,           /* login-memory is at most a quarter of memory-limit */
    SPACE_SHARE = 2,           /* default limit of a namespace: half of the proxy's */
};

/* ---- memory of a client ------------------------------------------------------------------------ */

static size_t text_size(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

const struct request *client_line_request(const struct client *client)
{
    struct pipeline_link *last = client->pipeline.back;
    const struct request *request = last ? container_of(last, struct request, link) : NULL;
    return request && request->head.shows_clients ? request : NULL;
}

void client_memory(const struct client *client, struct client_memory *memory)
{
    const struct client_session *session = &client->session;
    const struct stream *stream = client->stream;
    size_t names = text_size(session->name) + text_size(session->user_name) +
                   text_size(session->lib_name) + text_size(session->lib_version);
    const struct request *own = client_line_request(client);
    *memory = (struct client_memory){
        .query = stream_held(stream) + (own ? own->head.frame_bytes : 0),
        .room = stream_held_room(stream) - stream_held(stream),
        .argv = client->scan.args_cap * sizeof *client->scan.args + client->scan.inline_len,
        .replies = stream_pending(stream) + client->bytes.kept,
        .queue = client_transaction_bytes(&session->transaction),
        .channels = client_channel_bytes(client) + tracking_bytes(client),
    };
    memory->total = sizeof *client + stream_tls_bytes(stream) + names + memory->query +
                    memory->room + memory->argv + memory->replies + memory->queue +
                    memory->channels;
}

static size_t total_of(const struct client *client)
{
    struct client_memory memory;
    client_memory(client, &memory);
    return memory.total;
}

/* ---- logins ------------------------------------------------------------------------------------ */

static uint64_t login_memory(const struct proxy_worker *worker)
{
    const struct proxy_config *config = &worker->snapshot->config;
    uint64_t share = config->memory_limit_bytes / LOGIN_SHARE;
    return config->login_memory_bytes < share ? config->login_memory_bytes : share;
}

static struct client *greediest_without_login(struct proxy_worker *worker)
{
    struct client *greediest = NULL;
    for (struct list *link = worker->clients.all.next; link != &worker->clients.all;
         link = link->next) {
        struct client *client = container_of(link, struct client, links.all);
        if (client->bytes.login > (greediest ? greediest->bytes.login : 0))
            greediest = client;
    }
    return greediest;
}

void memory_count_login(struct client *client, size_t held)
{
    struct proxy_worker *worker = client->worker;
    struct proxy *proxy = worker->proxy;
    bool counts = !client->is_closed && !client->session.is_authenticated;
    size_t bytes = counts && held ? sizeof *client + held + held / 2 : 0;
    struct client *greediest;
    atomic_fetch_add(&proxy->memory.login_used,
                     bytes - client->bytes.login); /* a decrease wraps around */
    client->bytes.login = bytes;
    if (!counts)
        return;
    while (atomic_load(&proxy->memory.login_used) > login_memory(worker) &&
           (greediest = greediest_without_login(worker)))
        client_kill(greediest, "requests of clients without a login exceed login-memory");
}

/* client_fn */
static void check_login(struct client *client)
{
    const struct proxy_worker *worker = client->worker;
    uint64_t timeout_ms = worker->snapshot->config.login_timeout_ms;
    uint64_t age_ms = loop_mono_ms(worker->loop) - client->created_ms;
    char text[128];
    if (!client->is_ending && login_is_needed(worker->snapshot) && shares_refuse(client, age_ms)) {
        client_reply_text(client, NULL, maxclients_error);
        if (!client->is_closed)
            client_end(client);
        return;
    }
    if (client->session.is_authenticated || client->is_ending || !timeout_ms || age_ms < timeout_ms)
        return;
    (void)snprintf(text, sizeof text,
                   "ERR no login within %" PRIu64 " ms (login-timeout), the connection is closed",
                   timeout_ms);
    client_reply_text(client, NULL, text);
    if (!client->is_closed)
        client_end(client);
}

/* ---- namespaces -------------------------------------------------------------------------------- */

static uint64_t space_limit(const struct client *client)
{
    const struct keyspace *keyspace = client->session.keyspace;
    uint64_t limit = client->worker->snapshot->config.memory_limit_bytes;
    if (!keyspace->entry)
        return UINT64_MAX;
    return keyspace->entry->memory_limit_bytes ? keyspace->entry->memory_limit_bytes
                                               : limit / SPACE_SHARE;
}

void memory_space_left(const struct keyspace *keyspace)
{
    if (keyspace->cell)
        cell_set(keyspace->cell, TENANT_MEMORY, 0);
}

/* client_fn */
static void forget_space(struct client *client)
{
    memory_space_left(client->session.keyspace);
}

/* client_fn */
static void add_to_space(struct client *client)
{
    if (client->session.keyspace->cell)
        cell_add(client->session.keyspace->cell, TENANT_MEMORY, total_of(client));
}

/* A client that holds enough memory to be closed for it. */
struct holder {
    struct client *client;
    size_t total;
};

static int compare_holders(const void *a, const void *b)
{
    const struct holder *left = a;
    const struct holder *right = b;
    return (left->total < right->total) - (left->total > right->total);
}

/* The clients that hold CUT_BYTES_MIN or more, those with most first, on the heap: of the namespace `space`; NULL: of all. One list serves for
 * all clients that will be closed, because there may be thousands. */
static struct holder *list_holders(struct proxy_worker *worker, const struct bytes *space,
                                   size_t *count)
{
    struct holder *holders = calloc(worker->clients.count + 1, sizeof *holders);
    CHECK(holders);
    *count = 0;
    for (struct list *link = worker->clients.all.next; link != &worker->clients.all;
         link = link->next) {
        struct client *client = container_of(link, struct client, links.all);
        size_t total = total_of(client);
        if (total >= CUT_BYTES_MIN &&
            (!space || bytes_equal(client->session.keyspace->name, *space)))
            holders[(*count)++] = (struct holder){client, total};
    }
    qsort(holders, *count, sizeof *holders, compare_holders);
    return holders;
}

/* Bytes held by the namespace's clients in all workers. */
static uint64_t space_memory(const struct client *client)
{
    uint64_t sums[LABEL_WORDS_MAX];
    struct bytes name = client->session.keyspace->name;
    struct proxy_metrics *labelled = &client->worker->proxy->labelled;
    return labels_find(labelled->spaces, name, sums) ? sums[TENANT_MEMORY] : 0;
}

/* Closes the clients of a namespace that hold most, until it is below its limit. */
static void cut_space(struct proxy_worker *worker, struct bytes name, struct metric_cell *cell,
                      uint64_t excess)
{
    size_t count;
    struct holder *holders = list_holders(worker, &name, &count);
    for (size_t i = 0; i < count && excess; i++) {
        uint64_t held = holders[i].total;
        uint64_t own = atomic_load_explicit(&cell->words[TENANT_MEMORY], memory_order_relaxed);
        cell_set(cell, TENANT_MEMORY, own > held ? own - held : 0);
        excess -= held < excess ? held : excess;
        client_kill(
            holders[i].client,
            "the memory-limit of its namespace is reached, and this client holds the most memory");
    }
    free(holders);
}

/* client_fn: closes clients if the namespace of this one is above its limit. Clients that hold little are skipped. */
static void check_space(struct client *client)
{
    struct metric_cell *cell = client->session.keyspace->cell;
    uint64_t limit = space_limit(client);
    if (!cell || limit == UINT64_MAX || total_of(client) < CUT_BYTES_MIN)
        return;
    uint64_t used = space_memory(client);
    if (used > limit)
        cut_space(client->worker, client->session.keyspace->name, cell, used - limit);
}

void memory_slow(struct proxy_worker *worker)
{
    client_each(worker, check_login);
    client_each(worker, forget_space);
    client_each(worker, add_to_space);
    client_each(worker, check_space);
}

/* ---- the whole proxy --------------------------------------------------------------------------------- */

uint64_t memory_tls_share(const struct proxy_worker *worker)
{
    return worker->snapshot->config.memory_limit_bytes / 2;
}

static uint64_t publish_usage(struct proxy_worker *worker)
{
    uint64_t tls = loop_tls_bytes(worker->loop);
    uint64_t share = memory_tls_share(worker) / worker->proxy->worker_count;
    if (tls > share)
        tls = share; /* possible after memory-limit was lowered */
    uint64_t used = block_bytes_total() + worker->memory.copied + tls;
    uint64_t change = used - worker->memory.published; /* a decrease wraps around */
    worker->memory.published = used;
    return atomic_fetch_add(&worker->proxy->memory.used, change) + change;
}

/* client_fn */
static void hold_client(struct client *client)
{
    client_hold(client, HOLD_MEMORY);
}

/* client_fn */
static void release_client(struct client *client)
{
    client_unhold(client, HOLD_MEMORY);
}

/* client_fn: while the stream is paused, only this check notices that the client has closed it. */
static void close_hung_up(struct client *client)
{
    if (client->held_by & HOLD_MEMORY && client->pipeline.count == 0 &&
        stream_has_hung_up(client->stream))
        client_kill(client, NULL);
}

static void set_full(struct proxy_worker *worker, bool is_full)
{
    worker->memory.is_full = is_full;
    worker->memory.full_ms = loop_mono_ms(worker->loop);
    if (is_full)
        atomic_fetch_add(&worker->proxy->memory.workers_full, 1);
    else
        atomic_fetch_sub(&worker->proxy->memory.workers_full, 1);
}

static void begin_full(struct proxy_worker *worker, uint64_t used, uint64_t limit)
{
    log_event(LOG_WARN, "memory_full", "used=%" PRIu64 " limit=%" PRIu64, used, limit);
    events_note(
        worker->proxy->events, EVENT_MEMORY_FULL, loop_wall_ms(worker->loop), "",
        "memory-limit is reached: the proxy reads from no client until a quarter of it is free");
    set_full(worker, true);
    client_each(worker, hold_client);
    client_each(worker, close_hung_up);
    proxy_worker_need_tick(worker);
}

/* Closes the clients that hold most, until this worker's share of the excess is free. CLIENT NO-EVICT has no effect:
 * with it a client could stop the proxy. */
static void kill_greediest(struct proxy_worker *worker, uint64_t used, uint64_t limit)
{
    uint64_t excess = used > limit / 4 * 3 ? used - limit / 4 * 3 : 0;
    double share = used ? (double)worker->memory.published / (double)used : 0;
    int64_t left = (int64_t)((double)excess * share);
    uint64_t since_ms = loop_mono_ms(worker->loop) - worker->memory.full_ms;
    bool may_wait = since_ms < CUT_AFTER_MS;
    if (!may_wait) {
        worker->memory.full_ms = loop_mono_ms(worker->loop);
        client_each(worker, close_hung_up);
    }
    size_t count;
    struct holder *holders = list_holders(worker, NULL, &count);
    for (size_t i = 0; i < count && i < CUTS_MAX && left > 0; i++) {
        struct client_memory memory;
        client_memory(holders[i].client, &memory);
        bool is_stuck = memory.query + memory.room > memory.total / 2;
        if (may_wait && !is_stuck)
            break;
        left -= (int64_t)memory.total;
        client_kill(holders[i].client,
                    is_stuck
                        ? "memory-limit is reached, and the incomplete request of this client is "
                          "the longest"
                        : "memory-limit is reached, and this client has the most unread replies");
    }
    free(holders);
}

void memory_check(struct proxy_worker *worker)
{
    uint64_t limit = worker->snapshot->config.memory_limit_bytes;
    uint64_t used = publish_usage(worker);
    if (used > limit || worker->memory.is_full) {
        block_cache_decay();
        client_each(worker, client_count);
        used = publish_usage(worker);
    }
    if (!worker->memory.is_full && used > limit) {
        begin_full(worker, used, limit);
    } else if (worker->memory.is_full && used < limit / 4 * 3) {
        set_full(worker, false);
        client_each(worker, release_client);
    } else if (worker->memory.is_full) {
        kill_greediest(worker, used, limit);
    }
}

void memory_stop(struct proxy_worker *worker)
{
    if (worker->memory.is_full)
        set_full(worker, false);
}
