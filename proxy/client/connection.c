#include "proxy/client/connection.h"

#include "proxy/client/blocked.h"
#include "proxy/client/bounced.h"
#include "proxy/client/dispatch.h"
#include "proxy/client/login.h"
#include "proxy/client/memory.h"
#include "proxy/client/monitor.h"
#include "proxy/client/move.h"
#include "proxy/client/scripts.h"
#include "proxy/client/subscriptions.h"
#include "proxy/client/tracking.h"
#include "proxy/client/transaction.h"
#include "proxy/client/transaction_run.h"
#include "proxy/client/wide.h"
#include "proxy/core/hot_keys.h"
#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "shared/log.h"

#include <stdlib.h>

enum {
    ARGS_KEEP = 256, /* if the scanner has room for more arguments, it is freed */
    /* most bytes read from a client whose command waits at a backend */
    BLOCKED_BYTES_MAX = 64 * 1024,
};

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need);
static void on_end(void *owner, int err);
static void on_drain(void *owner);

static const struct stream_events events = {on_data, on_end, on_drain};

struct client *client_new(struct proxy_worker *worker, struct stream *stream, struct bytes name)
{
    struct client *client = calloc(1, sizeof(*client));
    CHECK(client);
    client->magic = CLIENT_MAGIC;
    client->worker = worker;
    client->stream = stream;
    client->id = atomic_fetch_add(&worker->proxy->next_client_id, 1);
    client->created_ms = loop_mono_ms(worker->loop);
    client->flow.window = CLIENT_WINDOW_FIRST;
    resp_scan_init(&client->scan);
    client_session_init(&client->session);
    list_init(&client->links.full);
    list_init(&client->links.rate);
    list_init(&client->links.monitor);
    list_init(&client->bounced.waiting);
    list_push(&worker->clients.all, &client->links.all);
    worker->clients.count++;
    stream_set_owner(stream, &events, client);
    login_begin(client, name);
    CHECK(client->session.keyspace);
    if (worker->memory.is_full)
        client_hold(client, HOLD_MEMORY);
    return client;
}

/* ---- events of a client ---------------------------------------------------------------------- */

static void on_answered(struct client *client, struct request *request, const char *reply)
{
    if (request->is_exec)
        transaction_executed(client, request, reply);
    if (request->is_blocking)
        blocked_answered(client);
}

static void on_left(struct client *client)
{
    struct keyspace *keyspace = client->session.keyspace;
    monitor_leave(client);
    memory_count_login(client, 0);
    client_transaction_release(client);
    blocked_leave(client);
    bounced_leave(client);
    subscriptions_clear(client);
    tracking_clear(client);
    scripts_leave(client);
    wide_leave(client);
    keyspace->clients--;
    keyspace_left(client->worker, keyspace);
    keyspace->clients++; /* client_session_fini decrements it again */
}

const struct client_events connection_events = {.answered = on_answered,
                                                .part_answered = blocked_part_answered,
                                                .wait_begun = blocked_begun,
                                                .given_back = blocked_given_back,
                                                .script_shown = monitor_show_script,
                                                .advanced = tracking_advance,
                                                .drained = transaction_go_on,
                                                .run_queued = dispatch_in_exec,
                                                .bounced = bounced_take,
                                                .followed = bounced_followed,
                                                .left = on_left};

/* CLIENT REPLY SKIP affects one command. */
static inline void step_reply_mode(struct client *client)
{
    uint8_t *wish = &client->session.reply_mode;
    if (*wish >= REPLY_MODE_SKIP_NEXT)
        *wish = *wish == REPLY_MODE_SKIP_NEXT ? REPLY_MODE_SKIP : REPLY_MODE_ON;
}

/* ---- stream events --------------------------------------------------------------------------- */

static void on_bad_frame(struct client *client)
{
    log_event(LOG_DEBUG, "protocol_error", "id=%llu address=%s reason=" LOG_QUOTED,
              (unsigned long long)client->id, stream_peer(client->stream), client->scan.error);
    client_reply_text(client, NULL, client->scan.error);
    if (!client->is_closed)
        client_end(client);
}

/* The frame is incomplete. */
static void on_partial_frame(struct client *client, size_t have, size_t *need)
{
    uint64_t limit = worker_config(client->worker)->client_query_limit_bytes;
    *need = client->scan.need;
    if (have > limit || *need > limit)
        client_kill(client, "its request exceeds client-query-limit");
}

/* Dispatches frames until they end or the client is held; returns the bytes used. */
static size_t read_requests(struct client *client, struct block *block, const char *data,
                            size_t len, size_t *need)
{
    struct proxy_worker *worker = client->worker;
    struct resp_scan *scan = &client->scan;
    uint32_t pipeline_limit = (uint32_t)worker_config(client->worker)->client_pipeline_limit;
    uint64_t taken = 0;
    size_t used = 0;
    if (client->flow.window > pipeline_limit)
        client->flow.window = pipeline_limit;
    bool is_shown = monitor_is_on(worker->proxy);
    worker_clock(worker);
    while (used < len && !client->held_by && !client->is_ending) {
        struct resp_limits limits = worker->limits;
        limits.unauthenticated = !client->session.is_authenticated;
        enum resp_result result = resp_scan(scan, &limits, data + used, len - used);
        if (result == RESP_MORE) {
            on_partial_frame(client, len - used, need);
            break;
        }
        if (result == RESP_BAD) {
            on_bad_frame(client);
            break;
        }
        const char *base = resp_scan_base(scan, data + used);
        struct frame frame = {.block = scan->is_inline ? NULL : block,
                              .data = base,
                              .len = scan->is_inline ? scan->inline_len : scan->size,
                              .base = base,
                              .args = scan->args,
                              .argc = scan->argc};
        if (frame.argc > 0) {
            worker->scratch.frame = &frame;
            bool is_done = is_shown ? monitor_dispatch(client, &frame, dispatch_frame)
                                    : dispatch_frame(client, &frame);
            worker->scratch.frame = NULL;
            if (!is_done) {
                resp_scan_keep(scan); /* the frame is dispatched again */
                break;
            }
            if (--worker->sampling.left == 0)
                hot_keys_sample(client, &frame);
            step_reply_mode(client);
            if (client->tracking)
                tracking_step(client);
            client->next.is_charged = false;
            taken++;
            client->session.keyspace->counts->requests++;
        }
        used += scan->size;
        /* the stream of a waiting client is read, to notice that it closes */
        if (client->pipeline.count >= client->flow.window && !client->is_closed &&
            !client->blocked.request)
            client_hold(client, HOLD_PIPELINE);
    }
    if (used == len && (scan->is_inline || scan->args_cap > ARGS_KEEP))
        resp_scan_reset(scan);
    metric_add(worker->metrics.process, METRIC_PROXY_REQUESTS, taken);
    metric_add(worker->metrics.process, METRIC_PROXY_BYTES_IN, used);
    if (client->session.keyspace->cell) {
        cell_add(client->session.keyspace->cell, TENANT_REQUESTS, taken);
        cell_add(client->session.keyspace->cell, TENANT_BYTES_IN, used);
    }
    return used;
}

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct client *client = owner;
    CHECK(client->magic == CLIENT_MAGIC);
    client->is_resuming = false;
    if (client->held_by == HOLD_BLOCKED && len > BLOCKED_BYTES_MAX)
        stream_pause(client->stream);
    size_t used = read_requests(client, block, data, len, need);
    if (client->is_closed || client->is_ending)
        return len;
    if (client->worker->thread.is_stopping && used > 0 &&
        !client_transaction_is_begun(&client->session.transaction))
        client->is_draining = true; /* its connection closes with the last reply (worker_run.h) */
    if (client->is_draining && !client->held_by) {
        stream_pause(client->stream);
        client_close_when_done(client);
    }
    if (!client->session.is_authenticated || client->bytes.login)
        memory_count_login(client, len - used);
    return client->is_closed ? len : used;
}

static void on_end(void *owner, int err)
{
    struct client *client = owner;
    CHECK(client->magic == CLIENT_MAGIC);
    if (err || client->blocked.request)
        client_kill(client, NULL);
    else
        client_end(client);
}

/* stream_events.on_drain: the client has read most of its replies. */
static void on_drain(void *owner)
{
    struct client *client = owner;
    CHECK(client->magic == CLIENT_MAGIC);
    client->flow.is_stalled = false;
    client_unhold(client, HOLD_OUTPUT);
}
