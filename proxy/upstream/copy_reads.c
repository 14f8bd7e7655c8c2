#include "proxy/upstream/copy_reads.h"

#include "proxy/core/client.h"
#include "proxy/core/proxy_metrics.h"
#include "proxy/upstream/near_copies.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream_inner.h"

#include "shared/error_code.h"
#include "shared/shard_map.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    REFUSED_MS = 250,
    /* A short read takes less. One that waits longer is sent to the leader, as a copy may stand still. */
    SILENT_MS = 500,
    /* So long a copy that was silent gets no reads: each would wait for it again. */
    AWAY_MS = 5000,
};

/* For a PART_SWITCH in flight. */
struct kept_switch {
    struct list link;          /* in kept.switches */
    struct keyspace *keyspace; /* with a reference */
};

/* ---- what is kept ---------------------------------------------------------------------------- */

static void set_kept_keyspace(struct upstream *upstream, struct keyspace *keyspace)
{
    struct keyspace *before = upstream->kept.keyspace;
    upstream->kept.keyspace = keyspace;
    keyspace_unref(&upstream->worker->keyspaces, before);
}

/* The session begins in the keyspace of the connection; NULL: a PART_SWITCH will come before the first read. */
static void on_copy_up(struct upstream *upstream)
{
    set_kept_keyspace(upstream, upstream->keyspace ? keyspace_ref(upstream->keyspace) : NULL);
}

static void on_switched(struct upstream *upstream, struct keyspace *keyspace)
{
    struct kept_switch *kept = calloc(1, sizeof *kept);
    CHECK(kept);
    kept->keyspace = keyspace_ref(keyspace);
    list_push(&upstream->kept.switches, &kept->link);
}

/* The oldest PART_SWITCH has left the queue: the next reads are of its keyspace. */
static void pass_switch(struct upstream *upstream)
{
    struct list *link = list_pop(&upstream->kept.switches);
    CHECK(link);
    struct kept_switch *kept = container_of(link, struct kept_switch, link);
    set_kept_keyspace(upstream, kept->keyspace);
    free(kept);
}

static void forget_kept_reads(struct upstream *upstream)
{
    out_clear(&upstream->kept.frames);
    set_kept_keyspace(upstream, NULL);
}

/* Removes the first frame of those that are kept. */
static struct out cut_kept_frame(struct upstream *upstream, const struct part *part)
{
    struct out frame = upstream->kept.frames;
    out_init(&upstream->kept.frames);
    out_cut(&frame, part->resend_bytes, &upstream->kept.frames);
    return frame;
}

/* ---- going on at the leader ------------------------------------------------------------------ */

static void fail_at_home(struct part *part)
{
    part_failed(part, "TRYAGAIN the shard is no longer in the map");
    part_unlinked(part);
}

/* The part keeps its link while this runs. */
static void send_kept(struct upstream *leader, struct part *part, struct keyspace *keyspace,
                      struct out *frame)
{
    struct out *out = upstream_begin(leader, part, keyspace);
    if (!out) {
        part_unlinked(part); /* it has failed */
        return;
    }
    out_move(out, frame);
    upstream_commit(leader, part);
    part->request->linked--;
}

/* A read that has left the queue: its frame is the first of those that are kept. */
static void send_to_leader(struct upstream *upstream, struct part *part)
{
    const struct proxy_worker *worker = upstream->worker;
    struct out frame = cut_kept_frame(upstream, part);
    int shard = shard_map_named(worker->snapshot->map, bytes_of(upstream->node->name));
    part->resend_bytes = 0;
    metric_add(worker->metrics.process, METRIC_PROXY_COPY_READS_LEFT, 1);
    if (shard < 0)
        fail_at_home(part);
    else
        send_kept(pool_pick(worker->pool, (uint32_t)shard, upstream->lane, part->request->resp),
                  part, upstream->kept.keyspace, &frame);
    out_clear(&frame);
}

/* ---- replies --------------------------------------------------------------------------------- */

/* Errors of the command itself, or of its keys, say nothing about the copy. */
static bool is_own_error(struct bytes frame)
{
    return error_has_code(frame, "ERR") || error_has_code(frame, "WRONGTYPE") ||
           error_has_code(frame, "LOCKED");
}

static void note_copy_refusal(struct upstream *upstream, struct bytes frame)
{
    if (frame.data[0] == '!') /* perhaps a bounce: slots must be sent before the next read */
        upstream_note_bounce(upstream);
    else if (upstream->reading.switch_error || !is_own_error(frame))
        upstream->node->refused_until_ms = loop_mono_ms(upstream->worker->loop) + REFUSED_MS;
}

static void drop_kept_frame(struct upstream *upstream, struct part *part)
{
    out_consume(&upstream->kept.frames, part->resend_bytes);
    part->resend_bytes = 0;
    metric_add(upstream->worker->metrics.process, METRIC_PROXY_COPY_READS, 1);
}

static bool on_copy_reply(struct upstream *upstream, struct part *part, struct bytes frame)
{
    if (frame.data[0] == '>' || !part)
        return false;
    if (part->kind == PART_SWITCH)
        pass_switch(upstream);
    if (part->kind != PART_REQUEST)
        return false;
    if (frame.data[0] != '-' && frame.data[0] != '!' && !upstream->reading.switch_error) {
        drop_kept_frame(upstream, part);
        return false;
    }
    note_copy_refusal(upstream, frame);
    upstream_pop(upstream, part);
    send_to_leader(upstream, part);
    return true;
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct part *on_copy_left(struct upstream *upstream, struct part *parts)
{
    struct part *others = NULL;
    struct part **end = &others;
    while (parts) {
        struct part *part = parts;
        parts = part->next;
        part->next = NULL;
        if (part->kind == PART_SWITCH)
            pass_switch(upstream);
        if (part->kind == PART_REQUEST) {
            send_to_leader(upstream, part);
            continue;
        }
        *end = part;
        end = &part->next;
    }
    /* A connection that drains is closed when it is lost, before its parts leave: they need what is kept. */
    if (!upstream->life.is_closed)
        forget_kept_reads(upstream);
    return others;
}

static void on_copy_freed(struct upstream *upstream)
{
    forget_kept_reads(upstream);
}

/* Long commands get the time that they get at the leader, and so does a greeting. */
static uint64_t copy_patience_ms(const struct upstream *upstream)
{
    uint64_t timeout_ms = upstream_config(upstream)->upstream_timeout_ms;
    bool is_short = upstream->state == UPSTREAM_UP && upstream->lane == LANE_NORMAL;
    return is_short && timeout_ms > SILENT_MS ? SILENT_MS : timeout_ms;
}

/* Has nothing come while its oldest read waits? Behind many others, or in a long reply, a read may wait as long as at the leader. */
static bool is_silent(const struct upstream *upstream, uint32_t now_ms)
{
    const struct part *first = upstream->queue.first;
    uint64_t wait_ms = copy_patience_ms(upstream);
    if (upstream->state == UPSTREAM_UP && now_ms - upstream->reading.heard_ms < wait_ms)
        wait_ms = upstream_config(upstream)->upstream_timeout_ms;
    return first && part_age_ms(first, now_ms) >= (int64_t)wait_ms;
}

static void leave_silent(struct upstream *upstream, uint64_t now_ms)
{
    char reason[64];
    int64_t age_ms = part_age_ms(upstream->queue.first, (uint32_t)now_ms);
    (void)snprintf(reason, sizeof reason, "no reply for %" PRId64 " ms", age_ms);
    upstream->node->refused_until_ms = now_ms + AWAY_MS;
    upstream_lost(upstream, reason);
}

static bool on_copy_tick(struct upstream *upstream, uint64_t now_ms)
{
    if (upstream->life.is_closed || upstream->state == UPSTREAM_IDLE)
        return false;
    if (upstream->state == UPSTREAM_DOWN && now_ms >= upstream->failure.retry_at_ms)
        upstream_open(upstream, UPSTREAM_RETRYING);
    else if (is_silent(upstream, (uint32_t)now_ms))
        leave_silent(upstream, now_ms);
    return upstream->state != UPSTREAM_UP || upstream->queue.first;
}

static const struct upstream_events copy_events = {
    .up = on_copy_up,
    .freed = on_copy_freed,
    .switched = on_switched,
    .reply = on_copy_reply,
    .left = on_copy_left,
    .tick = on_copy_tick,
};

/* ---- choosing -------------------------------------------------------------------------------- */

static bool may_read(const struct upstream *upstream)
{
    return upstream->state == UPSTREAM_UP && !upstream->life.is_closed &&
           upstream->kept.frames.bytes <= upstream_config(upstream)->upstream_queue_limit_bytes &&
           loop_mono_ms(upstream->worker->loop) >= upstream->node->refused_until_ms;
}

/* The connection to this copy; it is being opened if it was not open. */
static struct upstream *connection_to(struct pool *pool, struct node *copy, unsigned lane,
                                      uint8_t resp)
{
    struct upstream *upstream = copy->shared[lane][resp == 3];
    if (!upstream) {
        upstream = pool_make(pool, copy, lane, resp);
        upstream->use.events = &copy_events;
        out_init(&upstream->kept.frames);
        list_init(&upstream->kept.switches);
    }
    if (upstream->state == UPSTREAM_IDLE)
        upstream_open(upstream, UPSTREAM_OPENING);
    return upstream;
}

/* A part of a shard's copies, which are equal: those of the proxy's zone, or the others. */
struct equal_copies {
    struct node **nodes;
    uint32_t count;
    bool has_leader; /* the leader has its share of the reads, too */
};

/* Each client reads at one of them. Fresh reads are shared out evenly, and the leader is one of the copies. */
static bool is_leaders_client(const struct client *client, const struct equal_copies *copies)
{
    return copies->has_leader && client->id % (copies->count + 1) == copies->count;
}

/* NULL: none of them may be read from. */
static struct upstream *pick_equal(const struct client *client, const struct equal_copies *copies,
                                   unsigned lane)
{
    struct pool *pool = client->worker->pool;
    for (uint32_t i = 0; i < copies->count; i++) {
        struct node *copy = copies->nodes[(client->id + i) % copies->count];
        struct upstream *upstream = connection_to(pool, copy, lane, client->session.resp);
        if (may_read(upstream))
            return upstream;
    }
    return NULL;
}

/* A read that leaves the proxy's zone. */
static struct upstream *pick_far(const struct client *client, const struct node_copies *copies,
                                 unsigned lane)
{
    const struct pool *pool = client->worker->pool;
    const struct equal_copies far = {.nodes = copies->nodes + copies->near_count,
                                     .count = copies->count - copies->near_count,
                                     .has_leader = pool->reads_fresh};
    return is_leaders_client(client, &far) ? NULL : pick_equal(client, &far, lane);
}

struct upstream *copy_reads_pick(const struct client *client, uint32_t shard, unsigned lane)
{
    struct pool *pool = client->worker->pool;
    near_copies_update(pool);
    const struct node_copies *copies = &pool->nodes[shard]->copies;
    const struct equal_copies near = {.nodes = copies->nodes,
                                      .count = copies->near_count,
                                      .has_leader = pool->reads_fresh && copies->is_leader_near};
    if (is_leaders_client(client, &near))
        return NULL;
    struct upstream *upstream = pick_equal(client, &near, lane);
    if (upstream || copies->is_leader_near)
        return upstream;
    return pick_far(client, copies, lane);
}

void copy_reads_send(struct upstream *upstream, struct part *part, struct keyspace *keyspace,
                     const struct frame *frame)
{
    struct out *kept = &upstream->kept.frames;
    size_t before = kept->bytes;
    struct out *out = upstream_begin(upstream, part, keyspace);
    CHECK(out); /* it is up */
    upstream_write_frame(upstream, part, kept, frame);
    part->resend_bytes = (uint32_t)(kept->bytes - before);
    upstream_write_frame(upstream, part, out, frame);
    upstream_commit(upstream, part);
    if (!upstream->node->is_near && *upstream->worker->pool->zone)
        metric_add(upstream->worker->metrics.process, METRIC_PROXY_READS_OTHER_ZONE, 1);
}
