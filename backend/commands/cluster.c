/*
 * cluster.c - CLUSTER: a partition of a shard map shows itself and the other shards as nodes of a cluster, to clients that connect
 * directly. Without a map it is the only node, which owns all slots.
 */
#include "backend/context/partition.h"
#include "backend/dispatch/cluster_gate.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/space.h"
#include "backend/peer/peer_set.h"
#include "backend/session/session.h"
#include "backend/slots/cluster_nodes.h"
#include "shared/command/command_reply.h"
#include "shared/slot.h"

static struct cluster_view nodes_view(struct call *call)
{
    struct cluster_view view;
    cluster_nodes_view(call, &view);
    return view;
}

void cmd_cluster_myid(struct call *call)
{
    char id[CLUSTER_ID_LEN + 1];
    cluster_nodes_own_id(call, id);
    reply_bulk_text(&call->reply, id);
}

void cmd_cluster_myshardid(struct call *call)
{
    char id[CLUSTER_ID_LEN + 1];
    cluster_nodes_shard_id(call, id);
    reply_bulk_text(&call->reply, id);
}

void cmd_cluster_keyslot(struct call *call)
{
    struct bytes key = call->argv[2];
    reply_int(&call->reply, slot_rule_slot(call->slot_rule, key));
}

void cmd_cluster_info(struct call *call)
{
    const struct cluster_view view = nodes_view(call);
    cluster_reply_info(&call->reply, &view);
}

void cmd_cluster_nodes(struct call *call)
{
    const struct cluster_view view = nodes_view(call);
    cluster_reply_nodes(&call->reply, &view);
}

void cmd_cluster_slots(struct call *call)
{
    const struct cluster_view view = nodes_view(call);
    cluster_reply_slots(&call->reply, &view);
}

void cmd_cluster_shards(struct call *call)
{
    const struct cluster_view view = nodes_view(call);
    cluster_reply_shards(&call->reply, &view);
}

void cmd_cluster_replicas(struct call *call)
{
    const struct cluster_view view = nodes_view(call);
    cluster_reply_replicas(&call->reply, &view, call->argv[2]);
}

void cmd_cluster_slaves(struct call *call)
{
    cmd_cluster_replicas(call);
}

void cmd_cluster_count_failure_reports(struct call *call)
{
    const struct cluster_view view = nodes_view(call);
    cluster_reply_failure_reports(&call->reply, &view, call->argv[2]);
}

/* ---- LINKS ---- */

/* The elements of the reply; `call` NULL: they are only counted. */
struct links_reply {
    struct call *call;
    int64_t count;
};

static void add_link(struct links_reply *links, const char *shard, const struct stream *stream,
                     uint64_t since_ms, bool is_from)
{
    struct call *call = links->call;
    char id[CLUSTER_ID_LEN + 1];
    links->count++;
    if (!call)
        return;
    cluster_node_id(shard, id);
    const struct cluster_link link = {
        .node = id,
        .is_from = is_from,
        .since_ms = call->now_ms - (loop_mono_ms(call->partition->loop) - since_ms),
        .unsent = stream_pending(stream),
    };
    cluster_reply_link(&call->reply, &link);
}

/* peer_link_fn */
static void add_outgoing(void *owner, const struct peer_link *link)
{
    add_link(owner, link->shard, link->stream, link->since_ms, false);
}

/* peer_incoming_fn */
static void add_incoming(void *owner, const struct peer_incoming *incoming)
{
    add_link(owner, incoming->peer.shard, incoming->stream, incoming->since_ms, true);
}

void cmd_cluster_links(struct call *call)
{
    const struct peer_set *peers = call->partition->shards.peers;
    struct links_reply counted = {0};
    struct links_reply shown = {.call = call};
    peer_set_each(peers, add_outgoing, add_incoming, &counted);
    reply_array(&call->reply, counted.count);
    peer_set_each(peers, add_outgoing, add_incoming, &shown);
}

/* ---- keys of a slot ---- */

void cmd_cluster_countkeysinslot(struct call *call)
{
    int64_t slot;
    if (!call_int64(call, 2, &slot))
        return;
    if (slot < 0 || slot >= SLOT_COUNT)
        call_error_text(call, "ERR Invalid slot");
    else
        reply_int(&call->reply,
                  (int64_t)space_slot_keys(call->partition->spaces, call->space, (uint16_t)slot));
}

/* Limits *count to the number of keys in the slot. Expired keys that still exist are skipped, so their number is
 * only known after an iteration. */
static bool count_slot_keys(struct call *call, uint16_t slot, int64_t *count)
{
    struct key_iter it;
    int64_t found = 0;
    key_iter_init(call, call->space, slot, (struct bytes){NULL, 0}, &it);
    while (found < *count && key_iter_next(&it) && it.slot == slot)
        found++;
    *count = found;
    return key_iter_fini(&it);
}

void cmd_cluster_getkeysinslot(struct call *call)
{
    int64_t slot;
    int64_t count;
    struct key_iter it;
    if (!call_int64(call, 2, &slot) || !call_int64(call, 3, &count))
        return;
    if (slot < 0 || slot >= SLOT_COUNT || count < 0) {
        call_error_text(call, "ERR Invalid slot or number of keys");
        return;
    }
    if (!count_slot_keys(call, (uint16_t)slot, &count))
        return;
    reply_array(&call->reply, count);
    key_iter_init(call, call->space, (uint16_t)slot, (struct bytes){NULL, 0}, &it);
    for (; count > 0 && key_iter_next(&it); count--)
        reply_bulk(&call->reply, it.key);
    (void)key_iter_fini(&it);
}

void cmd_cluster_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}
