/*
 * cluster.c - CLUSTER: a partition appears as a cluster of one node that owns all slots, so that cluster-aware
 * clients can connect to it directly.
 */
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/space.h"
#include "backend/partition/handlers.h"
#include "backend/partition/peering.h"
#include "backend/partition/session.h"
#include "shared/cluster_reply.h"
#include "shared/command_reply.h"
#include "shared/slot.h"

#include <stdio.h>

static struct cluster_node backend_node(const struct call *call)
{
    const struct partition *partition = call->partition;
    struct cluster_node node = {.port = partition->listeners.port};
    (void)snprintf(node.id, sizeof node.id, "%.38s%02x", partition->process->run_id,
                   partition->index);
    const struct backend_config *config = &partition->snapshot->config;
    cluster_node_at(&node, stream_local(call->session->stream));
    if (*config->advertise_host || config->advertise_port)
        node.port = peering_port(partition);
    if (*config->advertise_host)
        peering_host(partition, node.host, sizeof node.host);
    return node;
}

void cmd_cluster_myid(struct call *call)
{
    struct cluster_node node = backend_node(call);
    reply_bulk_text(&call->reply, node.id);
}

void cmd_cluster_keyslot(struct call *call)
{
    struct bytes key = call->argv[2];
    reply_int(&call->reply, slot_rule_slot(call->slot_rule, key));
}

void cmd_cluster_info(struct call *call)
{
    struct cluster_node node = backend_node(call);
    cluster_reply_info(&call->reply, &node);
}

void cmd_cluster_nodes(struct call *call)
{
    struct cluster_node node = backend_node(call);
    cluster_reply_nodes(&call->reply, &node);
}

void cmd_cluster_slots(struct call *call)
{
    struct cluster_node node = backend_node(call);
    cluster_reply_slots(&call->reply, &node);
}

void cmd_cluster_shards(struct call *call)
{
    struct cluster_node node = backend_node(call);
    cluster_reply_shards(&call->reply, &node);
}

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
