/*
 * upstream_room.c - when the output of a connection is full, the clients that send to it take turns by namespace.
 *
 *   more than queue-limit bytes are unsent ─► a client that sends is held: fair_queue.h, by namespace
 *   less than half of them                 ─► the next client is resumed, and sends until the output is full again
 *
 * (1) One client is resumed in a turn of the loop. So a namespace with one small request waits for one turn of each other
 *     namespace, and not for all that they have to send.
 * (2) While clients wait, others wait behind them, even if there is room: it is for those that were there first.
 * (3) A client that was resumed, and found no room before it sent anything, is the first of its namespace again.
 */
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream_inner.h"

#include "proxy/core/client.h"

static bool has_waiting(const struct upstream *upstream)
{
    return upstream->room.waiting && upstream->room.waiting->levels_used;
}

void upstream_hold_client(struct upstream *upstream, struct client *client)
{
    struct upstream_room *room = &upstream->room;
    bool is_first = client->id == room->next_id && !room->has_sent;
    if (!room->waiting) {
        room->waiting = malloc(sizeof *room->waiting);
        CHECK(room->waiting);
        fair_queue_init(room->waiting);
    }
    list_remove(&client->links.full);
    struct fair_group *group = fair_queue_group(room->waiting, client->session.keyspace->name);
    fair_queue_wait(room->waiting, group, &client->links.full, is_first);
    upstream->worker->pool->has_full = true;
    client_hold(client, HOLD_UPSTREAM);
}

bool upstream_is_full(struct upstream *upstream, struct client *client)
{
    struct upstream_room *room = &upstream->room;
    if (!upstream->out)
        return false;
    bool is_next = client->id == room->next_id;
    bool is_over = upstream->out->bytes > upstream_config(upstream)->upstream_queue_limit_bytes;
    if (!is_over && (is_next || !has_waiting(upstream))) {
        room->has_sent |= is_next;
        return false;
    }
    upstream_hold_client(upstream, client);
    return true;
}

static bool is_drained(const struct upstream *upstream)
{
    uint64_t limit = upstream_config(upstream)->upstream_queue_limit_bytes;
    bool is_low = !upstream->out || upstream->out->bytes <= limit / 2;
    return is_low && wait_table_has_room(upstream);
}

static struct client *next_client(struct upstream *upstream)
{
    const struct fair_limit all = {.count = UINT32_MAX, .percent = 100};
    struct list *link = fair_queue_next(upstream->room.waiting, all);
    return link ? container_of(link, struct client, links.full) : NULL;
}

void upstream_resume_next(struct upstream *upstream)
{
    struct upstream_room *room = &upstream->room;
    struct client *client = NULL;
    if (has_waiting(upstream) && is_drained(upstream))
        client = next_client(upstream);
    upstream->worker->pool->has_full |= has_waiting(upstream);
    if (!client)
        return;
    room->next_id = client->id;
    room->has_sent = false;
    client_unhold(client, HOLD_UPSTREAM);
}

void upstream_wake_clients(struct upstream *upstream)
{
    if (!upstream->room.waiting)
        return;
    for (struct client *client; (client = next_client(upstream));)
        client_unhold(client, HOLD_UPSTREAM);
}

void upstream_room_fini(struct upstream *upstream)
{
    if (!upstream->room.waiting)
        return;
    fair_queue_fini(upstream->room.waiting);
    free(upstream->room.waiting);
}
