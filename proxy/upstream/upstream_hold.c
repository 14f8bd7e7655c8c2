/*
 * upstream_hold.c - while a shard restarts, its requests wait instead of failing.
 *
 *   the connection is lost, or cannot be opened ──► HOLDING: requests are queued, the proxy connects every HOLD_RETRY_MS
 *                                                      ├── the shard is back ──► they are sent, in order
 *                                                      └── after `hold` ──► DOWN: they fail, and so do new ones, at once
 *
 * (1) Only requests of which nothing was sent are held. A request that was in flight when the connection broke may have been
 *     executed, so it fails with an error that says so.
 * (2) The time of `hold` belongs to the shard: it begins when the worker first loses it, and ends when one connection is up.
 *     So while a shard is down for long, clients wait once and not for each request.
 * (3) queue-limit bounds the bytes that are held on a connection; at the limit the clients that send to it are not read
 *     (HOLD_UPSTREAM).
 * (4) A shard that is stopped in an orderly way first sends a push frame (shared/stopping.h), and answers all requests that it receives
 *     until the proxy closes the connection. New requests use a new connection, which cannot be opened and so is HOLDING.
 * (5) If another copy of the shard leads, all connections go to its address (node_retarget): what is in flight fails, what is held is
 *     sent there. A copy that stops in an orderly way answers what is in flight. Requests for a copy that says that it does not lead
 *     wait: `hold`, at least LEADER_MS, once in an outage.
 * (6) No request waits for a shard that accepts connections but is silent, refuses the greeting or does not send RESP.
 */
#include "proxy/core/proxy_metrics.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream_inner.h"

#include "shared/log.h"
#include "shared/shard_map.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    ADDRESS_MAX = 512,
    LEADER_MS = 4000, /* copies that have started ask each other, and vote */
};

bool upstream_may_hold(const struct upstream *upstream)
{
    struct node_outage *outage = &upstream->node->outage;
    uint64_t now_ms = loop_mono_ms(upstream->worker->loop);
    if (upstream->lane == LANE_CONTROL || upstream->use.subscriber || upstream->use.is_copy)
        return false;
    if (!outage->hold_until_ms)
        outage->hold_until_ms = now_ms + upstream_config(upstream)->upstream_hold_ms;
    return now_ms < outage->hold_until_ms;
}

void upstream_hold_for_leader(const struct upstream *upstream)
{
    struct node_outage *outage = &upstream->node->outage;
    uint64_t hold_ms = upstream_config(upstream)->upstream_hold_ms;
    uint64_t until_ms =
        loop_mono_ms(upstream->worker->loop) + (hold_ms > LEADER_MS ? hold_ms : LEADER_MS);
    if (!hold_ms || outage->is_leaderless)
        return;
    outage->is_leaderless = true;
    if (until_ms > outage->hold_until_ms)
        outage->hold_until_ms = until_ms;
}

/* Removes the parts of the greeting, which is written anew for the next connection. */
static void drop_greeting(struct upstream *upstream)
{
    struct part *part;
    while ((part = upstream->queue.first) && part->is_greeting) {
        upstream_pop(upstream, part);
        part_unlinked(part);
    }
}

bool upstream_hold_unsent(struct upstream *upstream, const char *reason)
{
    bool is_passing = upstream->use.is_private || upstream->life.is_draining;
    if (upstream->state != UPSTREAM_OPENING || !upstream_may_hold(upstream))
        return false;
    drop_greeting(upstream);
    if (is_passing && !upstream->queue.first)
        return false;
    upstream_opened(upstream);
    if (upstream->stream)
        stream_abort(upstream->stream);
    upstream->stream = NULL;
    upstream->life.is_open = false;
    out_clear(&upstream->unsent.greeting);
    upstream_down(upstream, reason);
    return true;
}

void upstream_hold_end(struct upstream *upstream, bool is_sent)
{
    struct metric_cell *cell = upstream->node->cell;
    uint32_t now_ms = worker_now_ms(upstream->worker);
    upstream->life.is_holding = false;
    uint32_t way_ms = upstream->out ? upstream_way_ms(upstream->out->bytes) : 0;
    for (struct part *part = upstream->queue.first; part; part = part->next) {
        int64_t age_ms = part_age_ms(part, now_ms);
        if (part_is_request(part)) {
            cell_add(cell, is_sent ? SHARD_HELD : SHARD_HELD_FAILED, 1);
            cell_add(cell, SHARD_HELD_MS, (uint64_t)(age_ms > 0 ? age_ms : 0));
        }
        part->sent_ms = now_ms + way_ms;
    }
}

void upstream_end_backoff(struct upstream *upstream)
{
    upstream->failure.retry_at_ms = 0;
    if (upstream->state == UPSTREAM_DOWN && !upstream->use.subscriber)
        upstream->state = UPSTREAM_IDLE;
}

void upstream_hold_over(struct upstream *upstream)
{
    const struct pool *pool = upstream->worker->pool;
    if (!upstream->node->outage.hold_until_ms)
        return;
    upstream->node->outage = (struct node_outage){0};
    for (struct list *link = pool->upstreams.next; link != &pool->upstreams; link = link->next) {
        struct upstream *other = container_of(link, struct upstream, links.pool);
        if (other->node != upstream->node || other->life.is_closed || other == upstream)
            continue;
        upstream_end_backoff(other);
    }
}

void upstream_hold_tick(struct upstream *upstream, uint64_t now_ms)
{
    char reason[sizeof upstream->failure.reason];
    if (now_ms < upstream->node->outage.hold_until_ms ||
        upstream->node->outage.hold_until_ms == 0) {
        if (now_ms >= upstream->failure.retry_at_ms)
            upstream_open(upstream, UPSTREAM_OPENING);
        return;
    }
    (void)snprintf(reason, sizeof reason, "%s", upstream->failure.reason);
    upstream_lost(upstream, reason);
}

/* ---- silent shards --------------------------------------------------------------------------- */

/* Describes a request that a shard did not answer in time; sent to all workers. */
struct silence {
    char shard[SHARD_NAME_MAX + 1];
    char address[ADDRESS_MAX];
    uint32_t since_ms; /* when it was sent; low bits of the loop's time */
    uint32_t lasted_ms;
};

static bool is_to(const struct upstream *upstream, const struct silence *silence)
{
    return !upstream->life.is_closed && strcmp(upstream->node->name, silence->shard) == 0 &&
           strcmp(upstream->node->address, silence->address) == 0;
}

/* Has the worker received anything from the shard since then? */
static bool has_heard(const struct pool *pool, const struct silence *silence)
{
    for (const struct list *link = pool->upstreams.next; link != &pool->upstreams;
         link = link->next) {
        const struct upstream *upstream = container_of(link, struct upstream, links.pool);
        if (is_to(upstream, silence) && upstream->life.is_open && !upstream->reading.is_fresh &&
            (int32_t)(upstream->reading.heard_ms - silence->since_ms) > 0)
            return true;
    }
    return false;
}

/* gather_visit_fn: fails the worker's requests in flight at the shard, unless the worker has received anything from it since. */
static void end_silent(struct proxy_worker *worker, const void *data, struct out *out)
{
    const struct silence *silence = data;
    const struct pool *pool = worker->pool;
    char reason[64];
    (void)out;
    if (!pool->nodes || has_heard(pool, silence))
        return;
    (void)snprintf(reason, sizeof reason, "silent for %" PRIu32 " ms", silence->lasted_ms);
    for (struct list *link = pool->upstreams.next; link != &pool->upstreams; link = link->next) {
        struct upstream *upstream = container_of(link, struct upstream, links.pool);
        bool waits_long = (upstream->use.is_single_use && upstream->use.patience_ms) ||
                          upstream->lane == LANE_SCRIPT || upstream->lane == LANE_WAITING ||
                          upstream->life.is_replaced;
        if (!is_to(upstream, silence))
            continue;
        upstream->node->outage.is_silent = true;
        node_hold_no_more(upstream->node);
        if (upstream->state == UPSTREAM_UP && upstream->queue.first && !waits_long)
            upstream_lost(upstream, reason);
    }
}

/* request_done_fn */
static void silence_told(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)request;
    (void)reply;
}

/* Describes the oldest request of the connection. */
static void describe_silence(const struct upstream *upstream, struct silence *silence)
{
    const struct node *node = upstream->node;
    *silence = (struct silence){.since_ms = upstream->queue.first->sent_ms};
    (void)snprintf(silence->shard, sizeof silence->shard, "%s", node->name);
    (void)snprintf(silence->address, sizeof silence->address, "%s", node->address);
}

bool upstream_is_heard(const struct upstream *upstream)
{
    struct silence silence;
    describe_silence(upstream, &silence);
    return has_heard(upstream->worker->pool, &silence);
}

void upstream_silent(struct upstream *upstream, uint64_t timeout_ms)
{
    struct proxy_worker *worker = upstream->worker;
    const struct node *node = upstream->node;
    char reason[64];
    struct silence silence;
    describe_silence(upstream, &silence);
    silence.lasted_ms = (uint32_t)timeout_ms;
    bool is_news = !node->outage.is_silent && !has_heard(worker->pool, &silence);
    (void)snprintf(reason, sizeof reason, "silent for %" PRIu64 " ms", timeout_ms);
    if (is_news)
        end_silent(worker, &silence, NULL);
    if (upstream->state == UPSTREAM_UP)
        upstream_lost(upstream, reason);
    if (is_news && !worker->thread.is_stopping)
        request_gather(request_internal(worker), end_silent, &silence, sizeof silence,
                       silence_told);
}

/* ---- shards that stop ------------------------------------------------------------------------ */

bool upstream_is_stopping(const struct upstream *upstream)
{
    return upstream->life.is_draining && !upstream->node->is_removed;
}

void upstream_hold_stopping(struct upstream *upstream)
{
    struct node_outage *outage = &upstream->node->outage;
    if (!outage->is_restarting && !upstream->use.is_copy) {
        outage->is_restarting = true;
        outage->hold_until_ms = 0;
        (void)upstream_may_hold(upstream);
        log_event(LOG_INFO, "upstream_stopping", "shard=%s address=%s", upstream->node->name,
                  upstream->node->address);
    }
    upstream_replace(upstream);
}

/* ---- another copy of the shard leads ---------------------------------------------------------- */

static const char other_leads[] = "another copy of the shard leads now";

static bool is_left_alone(const struct upstream *upstream)
{
    return upstream->life.is_closed ||
           (upstream->life.is_draining && upstream->state == UPSTREAM_UP);
}

static void leave_old_leader(struct upstream *upstream)
{
    if (!is_left_alone(upstream) && (upstream->stream || upstream->state == UPSTREAM_OPENING))
        upstream_lost(upstream, other_leads);
}

static void go_to_leader(struct upstream *upstream)
{
    if (is_left_alone(upstream) || upstream->stream)
        return; /* it was opened since then, to the new address */
    upstream->failure.retry_at_ms = 0;
    if (upstream->state == UPSTREAM_HOLDING)
        upstream_open(upstream, UPSTREAM_OPENING);
    else
        upstream_end_backoff(upstream);
}

static void for_each_of_node(const struct pool *pool, const struct node *node,
                             void (*fn)(struct upstream *upstream))
{
    const struct list *last = pool->upstreams.prev; /* those behind it are new */
    bool is_last = list_empty(&pool->upstreams);
    for (struct list *link = pool->upstreams.next; !is_last; link = link->next) {
        struct upstream *upstream = container_of(link, struct upstream, links.pool);
        is_last = link == last;
        if (upstream->node == node)
            fn(upstream);
    }
}

/* First all connections to the old leader end: a client that goes on when its request has failed must not send on one of these. */
void node_retarget(const struct pool *pool, struct node *node, const char *address)
{
    free(node->address);
    node->address = strdup(address);
    CHECK(node->address);
    node->outage = (struct node_outage){0};
    node->down_ms = 0;
    node->said_busy = false;
    for_each_of_node(pool, node, leave_old_leader);
    for_each_of_node(pool, node, go_to_leader);
}
