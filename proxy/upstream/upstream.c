#include "proxy/upstream/upstream.h"

#include "proxy/core/client.h"
#include "proxy/core/events.h"
#include "proxy/core/proxy.h"
#include "proxy/core/proxy_metrics.h"
#include "proxy/core/share_limits.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream_inner.h"
#include "shared/backoff.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LATE_MS =
        200, /* when a reply takes longer, a PING tests whether the shard runs a slow script */
    SPARE_MS = 30 * 1000, /* after this time an unused private connection is closed */
    SCRIPT_FACTOR = 2,    /* upstream-timeout of scripts is longer by this factor */
    /* a shard that was silent must answer the greeting of a new connection within this time */
    SILENT_GREETING_MS = 500,
    /* a silent connection with subscriptions or waits gets a PING after this time */
    LISTEN_PROBE_MS = 10 * 1000,
    HOLD_RETRY_MS = 100, /* longest wait between attempts to connect while requests are held */
    OPENINGS_MAX = 32,   /* private connections to one shard that are opened at the same time */
    /* a command that may wait longer has no deadline, as times have 32 bits */
    PATIENCE_MS_MAX = 1 << 30,
};

static void on_end(void *owner, int err);
static void on_drain(void *owner);
static void on_open(void *owner, int err);

static const struct stream_events events = {upstream_read, on_end, on_drain};

/* ---- create and free ------------------------------------------------------------------------- */

struct upstream *upstream_new(struct proxy_worker *worker, struct node *node, unsigned lane,
                              uint8_t resp)
{
    struct upstream *upstream = calloc(1, sizeof(*upstream));
    CHECK(upstream);
    upstream->magic = UPSTREAM_MAGIC;
    upstream->state = UPSTREAM_IDLE;
    upstream->resp = resp;
    upstream->lane = (uint8_t)lane;
    upstream->worker = worker;
    upstream->node = node_ref(node);
    upstream->use.is_copy = node->is_copy;
    upstream->use.is_fresh = node->is_copy && worker->pool->reads_fresh;
    out_init(&upstream->unsent.greeting);
    out_init(&upstream->unsent.early);
    out_init(&upstream->resend.frames);
    list_init(&upstream->links.spare);
    list_init(&upstream->links.opening);
    list_init(&upstream->links.kept);
    list_push(&worker->pool->upstreams, &upstream->links.pool);
    return upstream;
}

void upstream_free(struct upstream *upstream)
{
    CHECK(upstream->magic == UPSTREAM_MAGIC);
    CHECK(upstream->life.is_closed);
    CHECK(!upstream->stream && !upstream->queue.first);
    list_remove(&upstream->links.pool);
    if (events_of(upstream)->freed)
        events_of(upstream)->freed(upstream);
    wait_table_free(upstream->waits);
    upstream_room_fini(upstream);
    node_unref(upstream->node);
    upstream->magic = 0;
    free(upstream);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Do clients share it, so that no request may wait on it? */
static bool is_line(const struct upstream *upstream)
{
    return !upstream->use.is_private && !upstream->use.is_copy && !upstream->use.subscriber &&
           !upstream->waits && upstream->lane != LANE_CONTROL && upstream->lane != LANE_WAITING;
}

/* The first commands of a connection, sent before all requests. */
static void write_greeting(struct upstream *upstream)
{
    const char *secret = upstream_config(upstream)->upstream_secret;
    struct out *out = &upstream->unsent.greeting;
    upstream->life.has_authenticated = *secret;
    upstream->session_id = upstream->queue.answered = upstream->queue.seen = 0;
    upstream->queue.seens = 0;
    if (*secret) {
        greeting_write(&upstream->greeting, out, secret,
                       upstream_config(upstream)->upstream_secret_previous);
        for (unsigned i = 0; i < upstream->greeting.auths_left; i++)
            upstream_push_own(upstream, PART_AUTH);
        upstream_push_own(upstream, PART_SELF);
        upstream->greetings = (uint8_t)(upstream->greeting.auths_left + 1);
        upstream_write_words(out, (const char *const[]){"SCREE", "BOUNCES"}, 2);
        upstream_push_own(upstream, PART_PROBE);
        if (is_line(upstream)) { /* a shard of an older version refuses it: requests wait there */
            upstream_write_words(out, (const char *const[]){"SCREE", "BOUNCES", "WAITING"}, 3);
            upstream_push_own(upstream, PART_PROBE);
        }
        if (!upstream->use.subscriber) { /* this one gets messages until the shard closes it */
            upstream_write_words(out, (const char *const[]){"SCREE", "STOPS"}, 2);
            upstream_push_own(upstream, PART_PROBE);
        }
        upstream_tell_slots(upstream, out);
        upstream->limits_version = 0;
    }
    if (upstream->use.is_copy) {
        if (upstream->use.is_fresh) /* a backend that does not know this word serves no reads */
            upstream_write_words(out, (const char *const[]){"SCREE", "SELF", "FRESH"}, 3);
        else
            upstream_write_words(out, (const char *const[]){"READONLY"}, 1);
        upstream_push_own(upstream, PART_PROBE);
    }
    if (upstream->resp == 3) {
        upstream_write_words(out, (const char *const[]){"HELLO", "3"}, 2);
        upstream->greetings++;
        upstream_push_own(upstream, PART_GREETING);
    }
    if (upstream->use.is_private) {
        upstream_write_words(out, (const char *const[]){"CLIENT", "ID"}, 2);
        upstream_push_own(upstream, PART_ID);
    }
}

static void upstream_connect(struct upstream *upstream)
{
    upstream->life.is_opening = upstream->use.is_private;
    upstream->node->openings += upstream->life.is_opening;
    upstream->stream = stream_connect(upstream->worker->loop, upstream->node->address,
                                      upstream_config(upstream)->upstream_connect_timeout_ms,
                                      &events, on_open, upstream);
    struct tls_context *tls = upstream->worker->snapshot->upstream_tls;
    if (tls && strncmp(upstream->node->address, "unix:", 5) != 0)
        stream_secure(upstream->stream, tls, upstream->node->address);
    out_move(stream_out(upstream->stream), &upstream->unsent.greeting);
}

void upstream_opened(struct upstream *upstream)
{
    struct node *node = upstream->node;
    list_remove(&upstream->links.opening);
    if (!upstream->life.is_opening)
        return;
    upstream->life.is_opening = false;
    node->openings--;
    struct list *next = list_pop(&node->waiting_to_open);
    if (next)
        upstream_connect(container_of(next, struct upstream, links.opening));
}

/* Writes the greeting before the requests that wait for the connection. */
static void greet(struct upstream *upstream)
{
    struct upstream_queue *queue = &upstream->queue;
    struct upstream_queue unsent = *queue;
    uint32_t generation = upstream->generation;
    *queue = (struct upstream_queue){0};
    write_greeting(upstream);
    for (struct part *part = queue->first; part; part = part->next)
        part->is_greeting = true;
    if (!unsent.first)
        return;
    upstream->generation = generation; /* the requests may include SCREE SLOTS of an older map */
    if (queue->last)
        queue->last->next = unsent.first;
    else
        *queue = (struct upstream_queue){.first = unsent.first, .undecided = unsent.undecided};
    queue->last = unsent.last;
    queue->in_flight += unsent.in_flight;
}

void upstream_open(struct upstream *upstream, enum upstream_state state)
{
    bool is_first = upstream->state != UPSTREAM_HOLDING;
    CHECK(!upstream->stream && (!upstream->queue.first || !is_first));
    upstream->state = (uint8_t)state;
    upstream->life.is_open = false;
    upstream->reading.is_fresh = true;
    upstream->reading.is_dropping = false;
    upstream->greetings = 0;
    upstream->reading.skip = (struct resp_skip){0};
    upstream->out = &upstream->unsent.early;
    if (is_first)
        upstream_set_keyspace(upstream, upstream->worker->home);
    greet(upstream);
    proxy_worker_need_tick(upstream->worker);
    if (upstream->use.is_private && upstream->node->openings >= OPENINGS_MAX)
        list_push(&upstream->node->waiting_to_open, &upstream->links.opening);
    else
        upstream_connect(upstream);
}

static void note_up(const struct upstream *upstream)
{
    if (!upstream->use.is_copy)
        events_note(upstream->worker->proxy->events, EVENT_SHARD_UP,
                    loop_wall_ms(upstream->worker->loop), upstream->node->name,
                    upstream->node->address);
}

void upstream_up(struct upstream *upstream)
{
    if (upstream->failure.count > 0) {
        log_event(LOG_INFO, "upstream_up", "shard=%s address=%s", upstream->node->name,
                  upstream->node->address);
        note_up(upstream);
    }
    upstream->failure.count = 0;
    upstream_hold_over(upstream);
    if (upstream->life.is_holding)
        upstream_hold_end(upstream, true);
    cell_add(upstream->node->cell, SHARD_CONNECTS, 1);
    upstream->state = UPSTREAM_UP;
    upstream->out = stream_out(upstream->stream);
    out_move(upstream->out, &upstream->unsent.early);
    if (events_of(upstream)->up)
        events_of(upstream)->up(upstream);
    if (upstream->waits)
        wait_table_up(upstream);
    stream_send(upstream->stream);
}

/* ---- connection loss ------------------------------------------------------------------------- */

static void note_down(const struct upstream *upstream)
{
    char text[EVENT_TEXT_MAX];
    (void)snprintf(text, sizeof text, "%s: %s", upstream->node->address, upstream->failure.reason);
    events_note(upstream->worker->proxy->events, EVENT_SHARD_DOWN,
                loop_wall_ms(upstream->worker->loop), upstream->node->name, text);
}

void upstream_down(struct upstream *upstream, const char *reason)
{
    const struct proxy_config *config = upstream_config(upstream);
    bool was_down = upstream->failure.count > 0;
    bool holds = upstream_may_hold(upstream);
    upstream->state = holds ? UPSTREAM_HOLDING : UPSTREAM_DOWN;
    upstream->life.is_holding = holds;
    upstream->out = holds ? &upstream->unsent.early : NULL;
    upstream->failure.count++;
    uint64_t wait_ms = backoff_ms(upstream->failure.count, config->upstream_backoff_min_ms,
                                  config->upstream_backoff_max_ms);
    if (holds && wait_ms > HOLD_RETRY_MS)
        wait_ms = HOLD_RETRY_MS;
    upstream->failure.retry_at_ms = loop_mono_ms(upstream->worker->loop) + wait_ms;
    (void)snprintf(upstream->failure.reason, sizeof(upstream->failure.reason), "%s", reason);
    metric_add(upstream->worker->metrics.process, METRIC_PROXY_UPSTREAM_FAILURES, 1);
    if (!upstream->use.is_copy) /* it would be counted as one of the shard */
        cell_add(upstream->node->cell, SHARD_FAILURES, 1);
    bool is_news = !was_down && !upstream->use.is_private;
    log_event(is_news ? LOG_WARN : LOG_DEBUG, "upstream_down",
              "shard=%s address=%s reason=" LOG_QUOTED, upstream->node->name,
              upstream->node->address, reason);
    if (is_news && !upstream->use.is_copy)
        note_down(upstream);
    proxy_worker_need_tick(upstream->worker);
}

struct part *upstream_cut(struct upstream *upstream)
{
    struct part *parts = upstream->queue.first;
    upstream_opened(upstream);
    upstream->queue.first = upstream->queue.last = upstream->queue.undecided = NULL;
    upstream->queue.in_flight = 0;
    upstream->queue.seen = upstream->queue.seens = 0;
    upstream->queue.has_bounced = false;
    if (upstream->stream)
        stream_abort(upstream->stream);
    upstream->stream = NULL;
    upstream->out = NULL;
    upstream->life.is_open = false;
    out_clear(&upstream->unsent.greeting);
    out_clear(&upstream->unsent.early);
    upstream_forget(&upstream->reading.switch_error);
    upstream_forget(&upstream->reading.block_error);
    upstream_set_keyspace(upstream, NULL);
    return parts;
}

/* Sends the reads in `part`'s list again on a new connection. */
static void upstream_resend(struct upstream *upstream, struct part *part, struct out *frames,
                            struct keyspace *keyspace)
{
    upstream_open(upstream, UPSTREAM_OPENING);
    while (part) {
        struct part *next = part->next;
        part->resend_bytes = 0;
        part->request->linked--;
        if (!upstream_begin(upstream, part, keyspace))
            CHECK(!"an opening connection takes frames");
        upstream_push(upstream, part);
        part = next;
    }
    out_move(upstream->out, frames);
}

void upstream_lost(struct upstream *upstream, const char *reason)
{
    if (upstream_hold_unsent(upstream, reason))
        return;
    if (upstream->life.is_holding)
        upstream_hold_end(upstream, false);
    bool was_idle = upstream->state == UPSTREAM_UP && !upstream->queue.first &&
                    !upstream->reading.is_fresh &&
                    !upstream->use.subscriber /* a subscription connection is never idle */ &&
                    !wait_table_is_used(upstream->waits);
    const char *what = upstream->state == UPSTREAM_UP ? LOST_IN_FLIGHT : NOT_REACHABLE;
    struct part *again = NULL;
    if (upstream->resend.is_unproven && !upstream->use.is_private && !upstream->life.is_draining)
        upstream_collect_resend(upstream, &again);
    struct part *parts = upstream_cut(upstream);
    struct out frames = upstream->resend.frames;
    struct keyspace *keyspace = upstream->resend.keyspace;
    out_init(&upstream->resend.frames);
    upstream->resend.keyspace = NULL;
    upstream->resend.is_unproven = false;

    if (!upstream->use.is_copy)
        script_notes_clear(&upstream->worker->script_notes);
    upstream->worker->ephemeral.keep_again |= !upstream->use.is_private && !upstream->use.is_copy;
    if (events_of(upstream)->lost)
        events_of(upstream)->lost(upstream);
    if (upstream->use.is_private || upstream->life.is_draining) {
        upstream_close(upstream, reason);
    } else if (was_idle || again) {
        upstream->state = UPSTREAM_IDLE;
        upstream->failure.count = 0;
        if (again)
            upstream_resend(upstream, again, &frames, keyspace);
    } else {
        upstream_down(upstream, reason);
    }
    out_clear(&frames);
    keyspace_unref(&upstream->worker->keyspaces, keyspace);
    upstream_fail_all(upstream, parts, what, reason);
    if (upstream->waits)
        wait_table_lost(upstream, what, reason);
    upstream_wake_clients(upstream);
}

void upstream_end_dedicated(struct upstream *upstream)
{
    struct keyspace *keyspace = upstream->use.dedicated;
    if (keyspace) {
        upstream->use.dedicated = NULL;
        share_give_back_dedicated(upstream->worker, keyspace->share);
        if (keyspace->cell)
            cell_add(keyspace->cell, TENANT_DEDICATED, (uint64_t)-1);
        keyspace_unref(&upstream->worker->keyspaces, keyspace);
    }
    if (upstream->use.across) {
        fair_queue_give_back(&upstream->node->across, upstream->use.across);
        upstream->use.across = NULL;
        pool_wake_across(upstream->worker->pool, upstream->node);
    }
}

void upstream_close(struct upstream *upstream, const char *reason)
{
    if (upstream->life.is_closed)
        return;
    upstream->life.is_closed = true;
    upstream->worker->pool->has_closed = true;
    upstream->state = UPSTREAM_DOWN;
    (void)snprintf(upstream->failure.reason, sizeof(upstream->failure.reason), "%s", reason);
    list_remove(&upstream->links.spare);
    upstream_end_dedicated(upstream);
    upstream_drop_resend(upstream);
    struct part *parts = upstream_cut(upstream);
    if (events_of(upstream)->closed)
        events_of(upstream)->closed(upstream, reason);
    upstream->use.client = NULL;
    upstream_fail_all(upstream, parts, LOST_IN_FLIGHT, reason);
    if (upstream->waits)
        wait_table_lost(upstream, LOST_IN_FLIGHT, reason);
    upstream_wake_clients(upstream);
}

void upstream_close_if_drained(struct upstream *upstream)
{
    if (upstream->life.is_draining && !upstream->queue.first &&
        !wait_table_is_used(upstream->waits))
        upstream_close(upstream, upstream->node->is_removed ? "the shard is no longer in the map"
                                                            : "the shard stops");
}

void upstream_drain(struct upstream *upstream)
{
    upstream->life.is_draining = true;
    list_remove(&upstream->links.spare);
    upstream_close_if_drained(upstream);
}

/* ---- stream events --------------------------------------------------------------------------- */

static void on_open(void *owner, int err)
{
    struct upstream *upstream = owner;
    CHECK(upstream->magic == UPSTREAM_MAGIC);
    if (err) {
        upstream_lost(upstream, stream_error(upstream->stream, err));
        return;
    }
    upstream->life.is_open = true;
    upstream->reading.heard_ms = worker_now_ms(upstream->worker);
    if (upstream->greetings == 0)
        upstream_up(upstream);
    else
        stream_send(upstream->stream);
}

static void on_end(void *owner, int err)
{
    struct upstream *upstream = owner;
    CHECK(upstream->magic == UPSTREAM_MAGIC);
    upstream_lost(upstream, err ? stream_error(upstream->stream, err) : "closed by the backend");
}

static void on_drain(void *owner)
{
    upstream_resume_next(owner);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static void time_out(struct upstream *upstream, struct part *part, uint64_t timeout_ms)
{
    char what[64];
    if (!part_is_request(part) || part->is_answered)
        return;
    struct client *followed = part->kind == PART_FOLLOWED ? part->request->client : NULL;
    part->is_answered = true;
    part->kind =
        PART_REQUEST; /* the client no longer waits for it, and may be freed before its late reply */
    (void)snprintf(what, sizeof(what), "no reply within %" PRIu64 " ms", timeout_ms);
    metric_add(upstream->worker->metrics.process, METRIC_PROXY_UPSTREAM_TIMEOUTS, 1);
    cell_add(upstream->node->cell, SHARD_TIMEOUTS, 1);
    upstream_fail(upstream, part, what, "");
    if (followed)
        upstream->worker->client_events->followed(followed);
}

static bool is_shared(const struct upstream *upstream)
{
    return upstream->node->shared[upstream->lane][upstream->resp == 3] == upstream &&
           upstream->lane != LANE_CONTROL;
}

/* Fails the requests that were sent `timeout_ms` ago. If nothing came over the connection for as long, new requests are sent on
 * another one if the shard has answered a PING since; else all requests to the shard fail. */
static void time_out_parts(struct upstream *upstream, uint32_t now_ms, uint64_t timeout_ms)
{
    bool is_silent = now_ms - upstream->reading.heard_ms >= timeout_ms;
    for (struct part *part;
         (part = upstream->queue.undecided) && part_age_ms(part, now_ms) >= (int64_t)timeout_ms;) {
        upstream->queue.undecided = part->next;
        time_out(upstream, part, timeout_ms);
        if (upstream->life.is_closed)
            return;
    }
    if (!is_silent || !upstream->queue.first || upstream->queue.first == upstream->queue.undecided)
        return;
    if (is_shared(upstream) && upstream_is_heard(upstream))
        upstream_replace(upstream); /* the shard works: one command keeps this connection */
    else
        upstream_silent(upstream, timeout_ms);
}

/* How long replies may take. */
static uint64_t timeout_of(const struct upstream *upstream)
{
    uint64_t timeout_ms = upstream_config(upstream)->upstream_timeout_ms;
    if (upstream->lane == LANE_SCRIPT || upstream->lane == LANE_WAITING ||
        upstream->life.is_replaced)
        /* until a script counts as slow, the shard sends neither BUSY nor a reply */
        timeout_ms *= SCRIPT_FACTOR;
    if (!upstream->use.is_single_use || upstream->state != UPSTREAM_UP)
        return timeout_ms;
    bool is_forever = upstream->use.patience_ms > PATIENCE_MS_MAX;
    return is_forever ? WAIT_FOREVER : upstream->use.patience_ms + timeout_ms;
}

static bool is_late(const struct upstream *upstream, uint32_t now_ms)
{
    uint64_t patience_ms = upstream->use.is_single_use ? upstream->use.patience_ms : 0;
    return upstream->queue.first && upstream->life.is_open && patience_ms <= PATIENCE_MS_MAX &&
           part_age_ms(upstream->queue.first, now_ms) >= (int64_t)(LATE_MS + patience_ms);
}

/* The shard accepts the connection, but does not answer the greeting. */
static bool opens_too_long(const struct upstream *upstream, uint32_t now_ms, uint64_t timeout_ms)
{
    const struct part *first = upstream->queue.first;
    if (upstream->node->outage.is_silent && timeout_ms > SILENT_GREETING_MS)
        timeout_ms = SILENT_GREETING_MS;
    return upstream->state != UPSTREAM_UP && first && first->is_greeting &&
           part_age_ms(first, now_ms) >= (int64_t)timeout_ms;
}

struct upstream *upstream_control(struct upstream *upstream)
{
    struct node *node = upstream->node;
    struct upstream *control = node->shared[LANE_CONTROL][0];
    if (!control)
        control = pool_make(upstream->worker->pool, node, LANE_CONTROL, 2);
    if (control->state == UPSTREAM_IDLE)
        upstream_open(control, UPSTREAM_OPENING);
    return control;
}

/* If a reply is late, sends a PING on the control connection, where no request waits before it. A shard that runs a slow
 * script answers BUSY. */
static void ask_busy(struct upstream *upstream, uint32_t now_ms)
{
    struct node *node = upstream->node;
    if (!is_late(upstream, now_ms) || upstream->lane == LANE_CONTROL ||
        now_ms - node->asked_ms < LATE_MS || node->is_removed)
        return;
    node->asked_ms = now_ms;
    struct upstream *control = upstream_control(upstream);
    if (control->out && !control->queue.in_flight)
        upstream_send_own(control, PART_PROBE, "PING");
}

/* If the reply to the oldest request is late, asks the shard to end the requests of clients that have disconnected, with or
 * without a deadline. */
static void look_left(struct upstream *upstream, uint32_t now_ms)
{
    const struct part *first = upstream->queue.first;
    if (!first || !upstream->life.is_open || part_age_ms(first, now_ms) < LATE_MS ||
        now_ms - upstream->queue.left_ms < LATE_MS)
        return;
    upstream->queue.left_ms = now_ms;
    upstream_end_left(upstream);
}

void upstream_replace(struct upstream *upstream)
{
    struct node *node = upstream->node;
    struct upstream **shared = &node->shared[upstream->lane][upstream->resp == 3];
    if (*shared == upstream) {
        *shared = NULL;
        upstream->worker->label.replaced++;
        upstream->life.is_replaced = true;
    } else if (node->waits == upstream) {
        node->waits = NULL;
    }
    upstream_drain(upstream);
}

/* The shard runs a slow script: new requests are sent on a new connection, where they get BUSY at once. */
static void replace_late(struct upstream *upstream, uint32_t now_ms)
{
    if (is_shared(upstream) && is_late(upstream, now_ms))
        upstream_replace(upstream);
}

/* The shard runs a slow command, which may be the first of the queue and gets its reply when it ends. Those behind it are not even
 * read by the shard until then. */
static void time_out_behind(struct upstream *upstream, uint32_t now_ms, uint64_t timeout_ms)
{
    struct part *part = upstream->queue.first ? upstream->queue.first->next : NULL;
    while (part && part_age_ms(part, now_ms) >= (int64_t)timeout_ms) {
        struct part *next = part->next;
        time_out(upstream, part, timeout_ms);
        if (upstream->life.is_closed)
            return;
        part = next;
    }
}

/* Waits have no deadline, so a PING after them detects a shard that hangs. */
static void probe_waits(struct upstream *upstream)
{
    if (upstream->state == UPSTREAM_UP && !upstream->queue.first &&
        wait_table_wants_probe(upstream->waits))
        upstream_send_own(upstream, PART_PROBE, "PING");
}

bool upstream_tick(struct upstream *upstream, uint64_t now_ms)
{
    if (upstream->use.is_copy)
        return upstream->use.events->tick(upstream, now_ms);
    uint64_t timeout_ms = timeout_of(upstream);
    uint32_t now = (uint32_t)now_ms;
    ask_busy(upstream, now);
    look_left(upstream, now);
    if (node_is_busy(upstream->node, now) && upstream->state == UPSTREAM_UP &&
        !upstream->life.is_closed) {
        replace_late(upstream, now);
        if (timeout_ms != WAIT_FOREVER)
            time_out_behind(upstream, now, timeout_ms);
        return true;
    }
    if (upstream->use.unblock && upstream->queue.first && !upstream->life.is_closed &&
        events_of(upstream)->unblock)
        events_of(upstream)->unblock(upstream);
    if (upstream->waits)
        probe_waits(upstream);
    if (upstream->life.is_closed || timeout_ms == WAIT_FOREVER)
        return !upstream->life.is_closed &&
               (upstream->use.unblock ||
                (upstream->queue.first && !upstream->queue.first->request->client));
    if (upstream->state == UPSTREAM_HOLDING) {
        upstream_hold_tick(upstream, now_ms);
        return true;
    }
    if (upstream->state == UPSTREAM_DOWN) {
        if (now_ms >= upstream->failure.retry_at_ms)
            upstream_open(upstream, UPSTREAM_RETRYING);
        return true;
    }
    if (opens_too_long(upstream, now, timeout_ms)) {
        node_hold_no_more(upstream->node);
        upstream_lost(upstream, "the greeting was not answered in time");
        return true;
    }
    if (upstream->state == UPSTREAM_UP)
        time_out_parts(upstream, now, timeout_ms);
    return upstream->queue.first ||
           (upstream->state != UPSTREAM_UP && upstream->state != UPSTREAM_IDLE);
}

void upstream_slow(struct upstream *upstream, uint64_t now_ms)
{
    uint64_t keepalive_ms = upstream_config(upstream)->upstream_keepalive_ms;
    bool listens = upstream->use.subscriber || wait_table_is_used(upstream->waits);
    if (listens && (!keepalive_ms || keepalive_ms > LISTEN_PROBE_MS))
        keepalive_ms = LISTEN_PROBE_MS;
    if (upstream->life.is_closed || upstream->state != UPSTREAM_UP || upstream->queue.first)
        return;
    uint32_t silent_ms = (uint32_t)now_ms - upstream->reading.heard_ms;
    if (upstream->use.is_private && !upstream->use.client && silent_ms >= SPARE_MS)
        upstream_close(upstream, "not used");
    else if (keepalive_ms && silent_ms >= keepalive_ms)
        upstream_send_own(upstream, PART_PROBE, "PING");
}

const char *upstream_state_name(const struct upstream *upstream)
{
    static const char *const names[] = {
        [UPSTREAM_IDLE] = "idle", [UPSTREAM_OPENING] = "opening",
        [UPSTREAM_UP] = "up",     [UPSTREAM_HOLDING] = "holding",
        [UPSTREAM_DOWN] = "down", [UPSTREAM_RETRYING] = "retrying",
    };
    return names[upstream->state];
}
