#include "proxy/core/client.h"

#include "proxy/core/own_calls.h"
#include "proxy/core/proxy.h"
#include "proxy/core/rate_limiter.h"
#include "proxy/core/slow_log.h"
#include "shared/log.h"

#include <stdlib.h>

enum {
    OUTPUT_SHARE = 4,             /* the client waits when 1/4 of client-output-limit is unread */
    LOGIN_OUTPUT_MAX = 64 * 1024, /* unread replies of a client without a login */
};

/* ---- close and free -------------------------------------------------------------------------- */

void client_walk_begin(struct proxy_worker *worker, struct client_walk *walk)
{
    walk->next = worker->clients.all.next;
    list_init(&walk->link);
    list_push(&worker->clients.walks, &walk->link);
}

struct client *client_walk_next(struct proxy_worker *worker, struct client_walk *walk)
{
    struct list *link = walk->next;
    if (link == &worker->clients.all) {
        list_remove(&walk->link);
        return NULL;
    }
    walk->next = link->next;
    return container_of(link, struct client, links.all);
}

void client_each(struct proxy_worker *worker, client_fn *each)
{
    struct client_walk walk;
    struct client *client;
    client_walk_begin(worker, &walk);
    while ((client = client_walk_next(worker, &walk)))
        each(client);
}

/* The client leaves worker->clients.all: walks that are under way skip it. */
static void skip_in_walks(struct proxy_worker *worker, const struct client *client)
{
    struct list *walks = &worker->clients.walks;
    for (struct list *at = walks->next; at != walks; at = at->next) {
        struct client_walk *walk = container_of(at, struct client_walk, link);
        if (walk->next == &client->links.all)
            walk->next = client->links.all.next;
    }
}

/* Abandons the client's requests: they still run, unless they last for long (upstream_left.c), and their replies are discarded. */
static void leave_requests(struct client *client)
{
    if (client->pipeline.front)
        proxy_worker_need_tick(client->worker); /* shards may have to end them */
    while (client->pipeline.front) {
        struct request *request =
            container_of(pipeline_pop(&client->pipeline), struct request, link);
        request->client = NULL;
        request->progress.is_queued = false;
        if (request->head.data)
            request_drop_head(request);
        if (!request->progress.is_async)
            request_release(request);
    }
    client->bytes.kept = 0;
}

/* Called after the stream was closed or aborted. */
static void client_leave(struct client *client)
{
    struct proxy_worker *worker = client->worker;
    CHECK(!client->is_closed);
    client->is_closed = true;
    client->is_ending = true;
    client->stream = NULL;
    list_remove(&client->links.full);
    list_remove(&client->links.rate);
    skip_in_walks(worker, client);
    list_remove(&client->links.all);
    list_push(&worker->clients.closed, &client->links.all);
    worker->clients.count--;
    worker->clients.paused -= (client->held_by & HOLD_PAUSED) != 0;
    worker->memory.copied -= client->bytes.copied;
    client->bytes.copied = 0;
    leave_requests(client);
    worker->client_events->left(client);
    atomic_fetch_sub(&worker->proxy->clients, 1);
}

void client_free(struct client *client)
{
    CHECK(client->magic == CLIENT_MAGIC);
    CHECK(client->is_closed);
    list_remove(&client->links.all);
    resp_scan_fini(&client->scan);
    client_session_fini(&client->session, &client->worker->keyspaces);
    client->magic = 0;
    free(client);
}

void client_kill(struct client *client, const char *reason)
{
    if (client->is_closed)
        return;
    if (reason) {
        metric_add(client->worker->metrics.process, METRIC_PROXY_CLIENTS_DISCONNECTED, 1);
        log_event(LOG_WARN, "client_disconnected", "id=%llu address=%s reason=" LOG_QUOTED,
                  (unsigned long long)client->id, stream_peer(client->stream), reason);
    }
    stream_abort(client->stream);
    client_leave(client);
}

void client_close_when_done(struct client *client)
{
    if (client->pipeline.count > 0 || client->is_closed)
        return;
    stream_close(client->stream);
    client_leave(client);
}

void client_end(struct client *client)
{
    client->is_ending = true;
    client_close_when_done(client);
}

void client_drain(struct client *client)
{
    client->is_draining = true;
    if (client->is_closed || client->held_by || client->is_resuming)
        return; /* the client still has frames to be dispatched */
    stream_pause(client->stream);
    client_close_when_done(client);
}

/* ---- holding --------------------------------------------------------------------------------- */

void client_hold(struct client *client, uint16_t why)
{
    if (client->is_closed)
        return; /* it runs no more requests, and has no stream */
    if (why & HOLD_PAUSED && !(client->held_by & HOLD_PAUSED))
        client->worker->clients.paused++;
    client->held_by |= why;
    if (client->held_by != HOLD_BLOCKED)
        stream_pause(client->stream);
}

void client_unhold(struct client *client, uint16_t why)
{
    bool was_held = client->held_by;
    if (client->held_by & why & HOLD_PAUSED && !client->is_closed)
        client->worker->clients.paused--;
    client->held_by &= (uint16_t)~why;
    bool is_in_order = client->held_by == HOLD_ORDER && client->pipeline.count == 0;
    if (!client->is_closed && is_in_order && client->worker->client_events->drained(client))
        client->held_by &= (uint16_t)~HOLD_ORDER;
    if (client->is_closed || client->held_by || !was_held)
        return;
    client->is_resuming = stream_held(client->stream) > 0;
    if (client->is_draining && !client->is_resuming) {
        client_close_when_done(client);
        return;
    }
    stream_pause(
        client
            ->stream); /* under HOLD_BLOCKED the stream may be running; only a paused stream can be resumed */
    stream_resume(client->stream);
}

bool client_may_send(struct client *client, uint32_t label)
{
    if (client->pipeline.count == 0)
        client->label = label;
    if (client->label == label)
        return true;
    client_hold(client, HOLD_ORDER);
    return false;
}

/* ---- replies --------------------------------------------------------------------------------- */

size_t client_owed_bytes(const struct client *client)
{
    return stream_pending(client->stream) + client->bytes.kept + client->bytes.prepared +
           client_transaction_bytes(&client->session.transaction);
}

static inline void client_add(struct client *client, size_t len)
{
    client->bytes.copied += len;
    client->worker->memory.copied += len;
}

void client_count(struct client *client)
{
    size_t owed = client_owed_bytes(client);
    if (client->bytes.copied <= owed)
        return;
    client->worker->memory.copied -= client->bytes.copied - owed;
    client->bytes.copied = owed;
}

/* A reply has left: widens the window if it held the client, as long as a window of such replies stays within the
 * client's share of output memory. */
static void widen(struct client *client)
{
    const struct proxy_config *config = worker_config(client->worker);
    uint64_t share = config->client_output_limit_bytes / OUTPUT_SHARE;
    if (client->flow.window < (uint32_t)config->client_pipeline_limit &&
        client->flow.window * client->flow.reply_bytes < share)
        client->flow.window++;
    if (client->pipeline.count <= client->flow.window / 2)
        client_unhold(client, HOLD_PIPELINE);
}

/* The pipeline has become shorter: resumes or closes the client if it waited for that. */
static void look_again(struct client *client)
{
    if ((client->held_by & HOLD_ORDER) && client->pipeline.count == 0 &&
        client->worker->client_events->drained(client))
        client_unhold(client, HOLD_ORDER);
    if (client->held_by & HOLD_PIPELINE)
        widen(client);
    bool is_drained = client->is_draining && !client->held_by && !client->is_resuming;
    if (client->is_ending || is_drained)
        client_close_when_done(client);
}

/* The client reads more slowly than replies come: reads nothing more from it until it has caught up. */
static void hold_output(struct client *client, size_t unread)
{
    client_hold(client, HOLD_OUTPUT);
    client->flow.unread = unread;
    client->flow.window = client->flow.window / 2 > CLIENT_WINDOW_FIRST ? client->flow.window / 2
                                                                        : CLIENT_WINDOW_FIRST;
}

void client_look_stalled(struct client *client)
{
    if (!(client->held_by & HOLD_OUTPUT))
        return;
    size_t unread = stream_pending(client->stream);
    if (unread == client->flow.unread) {
        client->flow.is_stalled = true;
        client_unhold(client, HOLD_OUTPUT);
    }
    client->flow.unread = unread;
}

static inline bool is_behind(const struct client *client, size_t pending)
{
    return pending > STREAM_HIGH_WATER &&
           pending > worker_config(client->worker)->client_output_limit_bytes / OUTPUT_SHARE;
}

static inline bool is_over_limit(const struct client *client, size_t pending)
{
    uint64_t limit = client->session.is_authenticated
                         ? worker_config(client->worker)->client_output_limit_bytes
                         : LOGIN_OUTPUT_MAX;
    return pending + client->bytes.kept > limit;
}

/* Sends the complete replies at the front of the pipeline. */
static void client_advance(struct client *client)
{
    struct out *out = stream_out(client->stream);
    while (client->pipeline.front) {
        struct request *request = container_of(client->pipeline.front, struct request, link);
        if (!request->progress.is_ready)
            break;
        (void)pipeline_pop(&client->pipeline);
        request->progress.is_queued = false;
        client->bytes.kept -= request_kept_bytes(request);
        if (!request->is_silent)
            request_move_kept(request, out);
        request_release(request);
    }
    if (client->tracking)
        client->worker->client_events->advanced(client);
    stream_send(client->stream);
    if (is_over_limit(client, out->bytes)) {
        client_kill(client, "unread replies exceed client-output-limit");
        return;
    }
    if (is_behind(client, out->bytes) && !client->flow.is_stalled &&
        !(client->held_by & HOLD_OUTPUT))
        hold_output(client, out->bytes);
    if (client->held_by || client->is_ending || client->is_draining)
        look_again(client);
}

static void count_output(struct client *client, size_t len)
{
    struct metric_cell *cell = client->session.keyspace->cell;
    metric_add(client->worker->metrics.process, METRIC_PROXY_BYTES_OUT, len);
    if (cell)
        cell_add(cell, TENANT_BYTES_OUT, len);
}

void client_answer(struct client *client, struct request *request, struct block *block,
                   const char *data, size_t len)
{
    slow_log_look(client, request, (struct bytes){data, len}, len);
    if (request->is_exec || request->is_blocking)
        client->worker->client_events->answered(client, request, data);
    if (request->is_silent)
        len = 0;
    client->flow.reply_bytes = len;
    if (client->session.keyspace->rate_limiter)
        rate_limiter_charge_reply(client->session.keyspace->rate_limiter,
                                  loop_mono_ms(client->worker->loop), len);
    if (len <= OUT_COPY_MAX)
        client_add(client, len);
    count_output(client, len);
    if (client->pipeline.front == &request->link) {
        struct out *out = stream_out(client->stream);
        if (block)
            out_write_run(out, block, data, len);
        else
            out_write(out, data, len);
        (void)pipeline_pop(&client->pipeline);
        request->progress.is_queued = false;
        request_release(request);
        client_advance(client);
        return;
    }
    if (len)
        request_keep_reply(request, block, data, len);
    request->progress.is_ready = true;
    client->bytes.kept += len;
    if (is_over_limit(client, stream_pending(client->stream)))
        client_kill(client, "unread replies exceed client-output-limit");
}

void client_ready(struct client *client, struct request *request)
{
    CHECK(!request->progress.is_ready);
    size_t reply_bytes;
    struct bytes head = request_reply_head(request, &reply_bytes);
    slow_log_look(client, request, head, reply_bytes);
    if (request->is_silent && request->kept == KEPT_OUT)
        out_clear(&request->kept_out);
    request->progress.is_ready = true;
    size_t kept = request_kept_bytes(request);
    client->bytes.kept += kept;
    client_add(client, kept);
    count_output(client, request->is_silent ? 0 : reply_bytes);
    if (client->pipeline.front == &request->link)
        client_advance(client);
    else if (is_over_limit(client, stream_pending(client->stream)))
        client_kill(client, "unread replies exceed client-output-limit");
}

void client_push(struct client *client, struct block *block, const char *data, size_t len)
{
    bool waits = client->held_pushes;
    struct out *out = waits ? client->held_pushes : stream_out(client->stream);
    if (client->session.resp == 2 && *data == '>') {
        out_write(out, "*", 1);
        data++;
        len--;
    }
    if (block)
        out_write_block(out, block, data, len);
    else
        out_write(out, data, len);
    count_output(client, len);
    if (!waits)
        stream_send(client->stream);
    if (is_over_limit(client, out->bytes))
        client_kill(client, "unread messages exceed client-output-limit");
}

struct request *client_new_request(struct client *client, const struct command *command)
{
    struct request *request = request_new(client->worker, command);
    uint8_t wish = client->session.reply_mode;
    request->client = client;
    request->resp = client->session.resp;
    request->progress.is_queued = true;
    request->is_silent = wish == REPLY_MODE_OFF || wish == REPLY_MODE_SKIP;
    slow_log_remember(request, client->worker->scratch.frame);
    pipeline_push(&client->pipeline, &request->link);
    return request;
}

struct request *client_begin_reply(struct client *client, const struct command *command,
                                   struct reply *reply)
{
    struct request *request = client_new_request(client, command);
    request->count.own = OWN_REPLY;
    *reply = (struct reply){.out = request_reply_out(request), .resp = request->resp};
    return request;
}

struct request *client_begin_element(struct client *client, const struct command *command,
                                     struct reply *reply)
{
    struct request *request = client_begin_reply(client, command, reply);
    request->count.own = OWN_NOT;
    return request;
}

void client_reply_text(struct client *client, const struct command *command, const char *error)
{
    struct reply reply;
    struct request *request = client_begin_reply(client, command, &reply);
    metric_add(client->worker->metrics.process, METRIC_PROXY_ERRORS, 1);
    reply_error(&reply, error);
    client_ready(client, request);
}

void client_reply_code(struct client *client, const struct command *command, enum error error)
{
    client_reply_text(client, command, error_text(error));
}

void client_reply_status(struct client *client, const struct command *command, const char *status)
{
    struct reply reply;
    struct request *request = client_begin_reply(client, command, &reply);
    reply_status(&reply, status);
    client_ready(client, request);
}

void client_reply_unknown(struct client *client, const struct frame *frame)
{
    struct reply reply;
    struct request *request = client_begin_reply(client, NULL, &reply);
    const struct bytes *argv = argv_of(client->worker, frame);
    const struct command *container = command_find(argv[0]);
    metric_add(client->worker->metrics.process, METRIC_PROXY_ERRORS, 1);
    if (container && command_has_subs(container) && frame->argc > 1)
        command_error_unknown_sub(&reply, container, argv[1]);
    else
        command_error_unknown(&reply, argv, frame->argc);
    client_ready(client, request);
}

void client_reply_denied(struct client *client, const struct command *command)
{
    char text[128];
    (void)snprintf(text, sizeof(text), "ERR command '%s' is not available through the proxy",
                   command_full_name(command));
    client_reply_text(client, command, text);
}
