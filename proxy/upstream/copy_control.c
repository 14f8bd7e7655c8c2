#include "proxy/upstream/copy_control.h"

#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream_inner.h"

enum { PATIENCE_MS = 5000 };

static void forget_switch(struct upstream *upstream, struct keyspace *keyspace)
{
    (void)upstream;
    (void)keyspace;
}

static bool pass_reply(struct upstream *upstream, struct part *part, struct bytes frame)
{
    (void)upstream;
    (void)part;
    (void)frame;
    return false;
}

static struct part *fail_left(struct upstream *upstream, struct part *parts)
{
    (void)upstream;
    return parts;
}

static bool on_control_tick(struct upstream *upstream, uint64_t now_ms)
{
    const struct part *first = upstream->queue.first;
    if (upstream->life.is_closed || !first)
        return false;
    if (part_age_ms(first, (uint32_t)now_ms) >= PATIENCE_MS)
        upstream_lost(upstream, "no reply within 5 seconds");
    return upstream->queue.first;
}

static const struct upstream_events control_events = {
    .switched = forget_switch,
    .reply = pass_reply,
    .left = fail_left,
    .tick = on_control_tick,
};

struct upstream *copy_control(struct pool *pool, struct node *copy)
{
    struct upstream *upstream = copy->shared[LANE_CONTROL][0];
    if (!upstream) {
        upstream = pool_make(pool, copy, LANE_CONTROL, 2);
        upstream->use.events = &control_events;
    }
    if (upstream->state == UPSTREAM_DOWN)
        upstream_open(upstream, UPSTREAM_OPENING);
    return upstream;
}
