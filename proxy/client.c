#include "proxy/client.h"

#include "proxy/blocked.h"
#include "proxy/local/local.h"
#include "proxy/memory.h"
#include "proxy/monitor.h"
#include "proxy/proxy.h"
#include "proxy/rate.h"
#include "proxy/rate_limiter.h"
#include "proxy/request.h"
#include "proxy/scripts.h"
#include "proxy/slow_log.h"
#include "proxy/subscriptions.h"
#include "proxy/take.h"
#include "proxy/tracking.h"
#include "proxy/transaction.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "proxy/worker.h"
#include "shared/check.h"
#include "shared/log.h"

#include <stdlib.h>

enum { ARGS_KEEP = 256 }; /* arguments: room for more is given back */

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need);
static void on_end(void *owner, int err);
static void on_drain(void *owner);

static const struct stream_events events = {on_data, on_end, on_drain};

enum {
    WINDOW_FIRST = 16,
    OUTPUT_SHARE = 4,              /* 1/4 of client-output-limit unread: the client waits */
    BLOCKED_BYTES_MAX = 64 * 1024, /* read ahead of a client whose command waits at a backend */
    LOGIN_OUTPUT_MAX = 64 * 1024,  /* unread replies of a client without a login */
};

static const struct proxy_config *config_of(const struct client *client)
{
    return &client->worker->snapshot->config;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct client *client_new(struct proxy_worker *worker, struct stream *stream, struct bytes name)
{
    struct client *client = calloc(1, sizeof(*client));
    CHECK(client);
    client->magic = CLIENT_MAGIC;
    client->worker = worker;
    client->stream = stream;
    client->id = atomic_fetch_add(&worker->proxy->next_client_id, 1);
    client->created_ms = loop_mono_ms(worker->loop);
    client->window = WINDOW_FIRST;
    resp_scan_init(&client->scan);
    client_session_init(&client->session);
    list_init(&client->full_link);
    list_init(&client->rate_link);
    list_init(&client->monitor);
    list_push(&worker->clients.all, &client->link);
    worker->clients.count++;
    stream_set_owner(stream, &events, client);
    local_welcome(client, name);
    CHECK(client->session.place);
    if (worker->memory.is_full)
        client_hold(client, HOLD_MEMORY);
    return client;
}

struct client_iter {
    struct client_iter *outer;
    struct list *next;
};

void client_each(struct proxy_worker *worker, client_fn *each)
{
    struct client_iter iter = {.outer = worker->clients.iters};
    worker->clients.iters = &iter;
    for (struct list *link = worker->clients.all.next; link != &worker->clients.all;
         link = iter.next) {
        iter.next = link->next;
        each(container_of(link, struct client, link));
    }
    worker->clients.iters = iter.outer;
}

/* The client is about to leave worker->clients.all: iterations that are under way skip it. */
static void skip_in_iterations(struct proxy_worker *worker, const struct client *client)
{
    for (struct client_iter *iter = worker->clients.iters; iter; iter = iter->outer)
        if (iter->next == &client->link)
            iter->next = client->link.next;
}

/* Its requests go on without it; their replies are dropped. */
static void leave_requests(struct client *client)
{
    while (client->pipeline.front) {
        struct request *request =
            container_of(pipeline_pop(&client->pipeline), struct request, link);
        request->client = NULL;
        request->is_queued = false;
        if (!request->is_async)
            request_release(request);
    }
    client->kept_bytes = 0;
}

/* A client has left the place. */
static void leave_place(struct proxy_worker *worker, struct place *place)
{
    if (place->clients > 0)
        return;
    memory_space_left(place);
    local_place_left(worker, place);
}

/* The stream is closed or aborted already. */
static void client_leave(struct client *client)
{
    struct proxy_worker *worker = client->worker;
    struct place *place = client->session.place;
    CHECK(!client->is_closed);
    client->is_closed = true;
    client->is_ending = true;
    client->stream = NULL;
    list_remove(&client->full_link);
    list_remove(&client->rate_link);
    monitor_leave(client);
    skip_in_iterations(worker, client);
    list_remove(&client->link);
    list_push(&worker->clients.closed, &client->link);
    worker->clients.count--;
    worker->clients.paused -= (client->held_by & HOLD_PAUSED) != 0;
    worker->memory.copied -= client->copied;
    client->copied = 0;
    memory_count_login(client, 0);
    client_transaction_release(client);
    leave_requests(client);
    blocked_leave(client);
    subscriptions_clear(client);
    tracking_clear(client);
    scripts_leave(client);
    place->clients--;
    leave_place(worker, place);
    place->clients++; /* client_session_fini decrements it */
    atomic_fetch_sub(&worker->proxy->clients, 1);
}

void client_free(struct client *client)
{
    CHECK(client->magic == CLIENT_MAGIC);
    CHECK(client->is_closed);
    list_remove(&client->link);
    resp_scan_fini(&client->scan);
    client_channels_free(client);
    client_session_fini(&client->session, &client->worker->places);
    client->magic = 0;
    free(client);
}

void client_kill(struct client *client, const char *reason)
{
    if (client->is_closed)
        return;
    if (reason) {
        metric_add(client->worker->metrics.process, METRIC_PROXY_CLIENTS_DISCONNECTED, 1);
        log_event(LOG_WARN, "client_cut", "id=%llu address=%s reason=" LOG_QUOTED,
                  (unsigned long long)client->id, stream_peer(client->stream), reason);
    }
    stream_abort(client->stream);
    client_leave(client);
}

/* Closes it when it is owed nothing more. */
static void close_when_done(struct client *client)
{
    if (client->pipeline.count > 0 || client->is_closed)
        return;
    stream_close(client->stream);
    client_leave(client);
}

void client_end(struct client *client)
{
    client->is_ending = true;
    close_when_done(client);
}

void client_drain(struct client *client)
{
    client->is_draining = true;
    (void)blocked_unblock(client, true); /* answers at once what was not sent: that may close it */
    if (client->is_closed || client->held_by || client->is_resuming)
        return; /* frames wait to be taken */
    stream_pause(client->stream);
    close_when_done(client);
}

void client_move(struct client *client, struct bytes name, uint8_t db)
{
    struct proxy_worker *worker = client->worker;
    struct client_session *session = &client->session;
    struct place *before = session->place ? place_ref(session->place) : NULL;
    struct place *place = places_get(&worker->places, name, db);
    if (before && !bytes_equal(before->name, name)) {
        subscriptions_clear(client);
        tracking_clear(client);
    }
    rate_leave(client);
    client_session_move(session, &worker->places, place);
    place_unref(&worker->places, place);
    if (before)
        leave_place(worker, before);
    place_unref(&worker->places, before);
}

/* ---- holding --------------------------------------------------------------------------------- */

void client_hold(struct client *client, uint16_t why)
{
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
    if (client->is_closed || client->held_by || !was_held)
        return;
    client->is_resuming = stream_held(client->stream) > 0;
    if (client->is_draining && !client->is_resuming) {
        close_when_done(client);
        return;
    }
    stream_pause(client->stream); /* it may have been read from under HOLD_BLOCKED */
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

/* Which of a shard's connections the command goes on. */
static unsigned lane_of(const struct client *client, const struct command *command)
{
    const struct client_transaction *transaction = &client->session.transaction;
    bool is_transaction = command->route == ROUTE_TRANSACTION;
    if (client_tracks(client))
        return LANE_NORMAL;
    if (command->flags & CMD_ALLOW_BUSY && command->route == ROUTE_ALL_SHARDS)
        return LANE_CONTROL;
    if (command->flags & CMD_SCRIPT || (is_transaction && transaction->has_script))
        return LANE_SCRIPT;
    return command->flags & CMD_LONG ? LANE_LONG : LANE_NORMAL;
}

uint32_t client_label(const struct client *client, const struct command *command)
{
    const struct proxy_worker *worker = client->worker;
    return (worker->label.generation + worker->label.replaced) << LABEL_GENERATION_SHIFT |
           (client->session.resp == 3 ? LABEL_RESP3 : 0) |
           (client_tracks(client) || client->session.transaction.dedicated ? LABEL_DEDICATED : 0) |
           (lane_of(client, command) & LABEL_LANE);
}

struct upstream *client_upstream(struct client *client, uint32_t shard,
                                 const struct command *command)
{
    struct pool *pool = client->worker->pool;
    struct upstream *dedicated = client->session.transaction.dedicated;
    uint8_t resp = client->session.resp;
    if (dedicated && dedicated->node == pool->nodes[shard]) {
        if (dedicated->resp != resp)
            upstream_hello(dedicated, resp);
        return dedicated;
    }
    if (client_tracks(client))
        return tracking_upstream(client, shard);
    return pool_pick(pool, shard, lane_of(client, command), resp);
}

/* ---- replies --------------------------------------------------------------------------------- */

size_t client_owed_bytes(const struct client *client)
{
    return stream_pending(client->stream) + client->kept_bytes +
           client_transaction_bytes(&client->session.transaction);
}

static inline void client_add(struct client *client, size_t len)
{
    client->copied += len;
    client->worker->memory.copied += len;
}

void client_count(struct client *client)
{
    size_t owed = client_owed_bytes(client);
    if (client->copied <= owed)
        return;
    client->worker->memory.copied -= client->copied - owed;
    client->copied = owed;
}

/* A reply left: the window grows while it is what holds the client, and replies like the last one would
 * stay within the client's share. */
static void widen(struct client *client)
{
    const struct proxy_config *config = config_of(client);
    uint64_t share = config->client_output_limit_bytes / OUTPUT_SHARE;
    if (client->window < (uint32_t)config->client_pipeline_limit &&
        client->window * client->reply_bytes < share)
        client->window++;
    if (client->pipeline.count <= client->window / 2)
        client_unhold(client, HOLD_PIPELINE);
}

/* The pipeline has moved: what waited for that may go on. */
static void look_again(struct client *client)
{
    if ((client->held_by & HOLD_ORDER) && client->pipeline.count == 0 && transaction_go_on(client))
        client_unhold(client, HOLD_ORDER);
    if (client->held_by & HOLD_PIPELINE)
        widen(client);
    bool is_drained = client->is_draining && !client->held_by && !client->is_resuming;
    if (client->is_ending || is_drained)
        close_when_done(client);
}

/* It reads slower than replies come: takes nothing more from it until it has caught up. */
static void hold_output(struct client *client, size_t unread)
{
    client_hold(client, HOLD_OUTPUT);
    client->unread = unread;
    client->window = client->window / 2 > WINDOW_FIRST ? client->window / 2 : WINDOW_FIRST;
}

void client_look_stalled(struct client *client)
{
    if (!(client->held_by & HOLD_OUTPUT))
        return;
    size_t unread = stream_pending(client->stream);
    if (unread == client->unread) {
        client->is_stalled = true;
        client_unhold(client, HOLD_OUTPUT);
    }
    client->unread = unread;
}

static inline bool is_behind(const struct client *client, size_t pending)
{
    return pending > STREAM_HIGH_WATER &&
           pending > config_of(client)->client_output_limit_bytes / OUTPUT_SHARE;
}

static inline bool is_over_limit(const struct client *client, size_t pending)
{
    uint64_t limit = client->session.is_authenticated ? config_of(client)->client_output_limit_bytes
                                                      : LOGIN_OUTPUT_MAX;
    return pending + client->kept_bytes > limit;
}

/* Sends every reply whose turn has come. */
static void client_advance(struct client *client)
{
    struct out *out = stream_out(client->stream);
    while (client->pipeline.front) {
        struct request *request = container_of(client->pipeline.front, struct request, link);
        if (!request->is_ready)
            break;
        (void)pipeline_pop(&client->pipeline);
        request->is_queued = false;
        client->kept_bytes -= request_kept_bytes(request);
        if (!request->is_silent)
            request_move_kept(request, out);
        request_release(request);
    }
    if (client->tracking)
        tracking_advance(client);
    stream_send(client->stream);
    if (is_over_limit(client, out->bytes)) {
        client_kill(client, "unread replies exceed client-output-limit");
        return;
    }
    if (is_behind(client, out->bytes) && !client->is_stalled && !(client->held_by & HOLD_OUTPUT))
        hold_output(client, out->bytes);
    if (client->held_by || client->is_ending || client->is_draining)
        look_again(client);
}

static void count_output(struct client *client, size_t len)
{
    struct metric_cell *cell = client->session.place->cell;
    metric_add(client->worker->metrics.process, METRIC_PROXY_BYTES_OUT, len);
    if (cell)
        cell_add(cell, TENANT_BYTES_OUT, len);
}

void client_answer(struct client *client, struct request *request, struct block *block,
                   const char *data, size_t len)
{
    bool is_error = len > 0 && data[0] == '-';
    slow_log_look(client, request, is_error);
    if (request->is_exec)
        transaction_executed(client, request, data);
    if (request->is_blocking)
        blocked_answered(client);
    if (request->is_silent)
        len = 0;
    client->reply_bytes = len;
    if (client->session.place->rate_limiter)
        rate_limiter_charge_reply(client->session.place->rate_limiter,
                                  loop_mono_ms(client->worker->loop), len);
    if (len <= OUT_COPY_MAX)
        client_add(client, len);
    count_output(client, len);
    if (client->pipeline.front == &request->link) {
        struct out *out = stream_out(client->stream);
        if (block)
            out_write_block(out, block, data, len);
        else
            out_write(out, data, len);
        (void)pipeline_pop(&client->pipeline);
        request->is_queued = false;
        request_release(request);
        client_advance(client);
        return;
    }
    if (len)
        request_keep_reply(request, block, data, len);
    request->is_ready = true;
    client->kept_bytes += len;
    if (is_over_limit(client, stream_pending(client->stream)))
        client_kill(client, "unread replies exceed client-output-limit");
}

void client_ready(struct client *client, struct request *request)
{
    CHECK(!request->is_ready);
    slow_log_look(client, request, request_is_error(request));
    if (request->is_silent && request->kept == KEPT_OUT)
        out_clear(&request->kept_out);
    request->is_ready = true;
    size_t kept = request_kept_bytes(request);
    client->kept_bytes += kept;
    client_add(client, kept);
    count_output(client, kept);
    if (client->pipeline.front == &request->link)
        client_advance(client);
    else if (is_over_limit(client, stream_pending(client->stream)))
        client_kill(client, "unread replies exceed client-output-limit");
}

void client_push(struct client *client, struct block *block, const char *data, size_t len)
{
    struct client_channels *channels = client->channels;
    bool waits = channels && channels->is_changing;
    struct out *out = waits ? &channels->waiting : stream_out(client->stream);
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
    if (waits)
        return;
    stream_send(client->stream);
    if (is_over_limit(client, out->bytes))
        client_kill(client, "unread messages exceed client-output-limit");
}

struct request *client_new_request(struct client *client, const struct command *command)
{
    struct request *request = request_new(client->worker, command);
    uint8_t wish = client->session.reply_wish;
    request->client = client;
    request->resp = client->session.resp;
    request->is_queued = true;
    request->is_silent = wish == REPLY_WISH_OFF || wish == REPLY_WISH_SKIP;
    slow_log_remember(request, client->worker->scratch.taken);
    pipeline_push(&client->pipeline, &request->link);
    return request;
}

struct request *client_begin_reply(struct client *client, const struct command *command,
                                   struct reply *reply)
{
    struct request *request = client_new_request(client, command);
    *reply = (struct reply){.out = request_reply_out(request), .resp = request->resp};
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

/* CLIENT REPLY SKIP holds for one command. */
static inline void step_reply_wish(struct client *client)
{
    uint8_t *wish = &client->session.reply_wish;
    if (*wish >= REPLY_WISH_SKIP_NEXT)
        *wish = *wish == REPLY_WISH_SKIP_NEXT ? REPLY_WISH_SKIP : REPLY_WISH_ON;
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

/* The frame that has begun is not complete. */
static void on_partial_frame(struct client *client, size_t have, size_t *need)
{
    uint64_t limit = config_of(client)->client_query_limit_bytes;
    *need = client->scan.need;
    if (have > limit || *need > limit)
        client_kill(client, "its request exceeds client-query-limit");
}

/* Takes frames until they end or something holds the client; returns the bytes used. */
static size_t read_requests(struct client *client, struct block *block, const char *data,
                            size_t len, size_t *need)
{
    struct proxy_worker *worker = client->worker;
    struct resp_scan *scan = &client->scan;
    uint32_t pipeline_limit = (uint32_t)config_of(client)->client_pipeline_limit;
    uint64_t taken = 0;
    size_t used = 0;
    if (client->window > pipeline_limit)
        client->window = pipeline_limit;
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
            worker->scratch.taken = &frame;
            bool is_taken =
                is_shown ? monitor_take(client, &frame, client_take) : client_take(client, &frame);
            worker->scratch.taken = NULL;
            if (!is_taken)
                break;
            if (--worker->sampling.left == 0)
                local_hotkeys_sample(client, &frame);
            step_reply_wish(client);
            if (client->tracking)
                tracking_step(client);
            client->is_charged = false;
            taken++;
            ++*client->session.place->requests;
        }
        used += scan->size;
        if (client->pipeline.count >= client->window && !client->is_closed &&
            !client->blocked) /* one that waits is read from, to see it leave */
            client_hold(client, HOLD_PIPELINE);
    }
    if (used == len && (scan->is_inline || scan->args_cap > ARGS_KEEP))
        resp_scan_reset(scan);
    metric_add(worker->metrics.process, METRIC_PROXY_REQUESTS, taken);
    metric_add(worker->metrics.process, METRIC_PROXY_BYTES_IN, used);
    if (client->session.place->cell) {
        cell_add(client->session.place->cell, TENANT_REQUESTS, taken);
        cell_add(client->session.place->cell, TENANT_BYTES_IN, used);
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
    if (client->is_draining && !client->held_by) {
        stream_pause(client->stream);
        close_when_done(client);
    }
    if (!client->session.is_authenticated || client->login_bytes)
        memory_count_login(client, len - used);
    return client->is_closed ? len : used;
}

static void on_end(void *owner, int err)
{
    struct client *client = owner;
    CHECK(client->magic == CLIENT_MAGIC);
    if (err || client->blocked)
        client_kill(client, NULL);
    else
        client_end(client);
}

/* It has read what was pending. */
static void on_drain(void *owner)
{
    struct client *client = owner;
    CHECK(client->magic == CLIENT_MAGIC);
    client->is_stalled = false;
    client_unhold(client, HOLD_OUTPUT);
}
