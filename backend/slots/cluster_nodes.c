#include "backend/slots/cluster_nodes.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/context/stats.h"
#include "backend/dispatch/cluster_gate.h"
#include "backend/peer/peer_set.h"
#include "backend/session/session.h"
#include "backend/slots/peering.h"
#include "backend/slots/slot_owners.h"
#include "backend/slots/slot_table.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- one node ---- */

static bool uses_tls(const struct call *call)
{
    return call->session && stream_is_secure(call->session->stream);
}

/* Replaces the port of the map by the one for this client, if it is known. */
static void choose_port(const struct call *call, uint16_t port, uint16_t tls_port,
                        struct cluster_node *node)
{
    uint16_t own = uses_tls(call) ? tls_port : port;
    if (own)
        node->port = own;
}

/* Of a copy that does not lead: the newest one. */
static const struct shard_map *map_of(const struct call *call)
{
    if (call->partition->copies.is_closed)
        return call->partition->snapshot->map;
    return peer_set_map(call->partition->shards.peers);
}

/* Where the leader of a shard is; `own`: room for this partition's address. */
static const char *address_of_leader(const struct call *call, const struct shard *shard,
                                     char own[PEER_ADDRESS_MAX + 1])
{
    const struct partition *partition = call->partition;
    bool is_own = strcmp(shard->name, slot_owners_name(partition->shards.owners)) == 0;
    if (shard->address_count == 1 || !is_own)
        return peer_set_leader(partition->shards.peers, shard);
    if (partition->copies.is_closed)
        return *partition->copies.leader ? partition->copies.leader : shard->addresses[0];
    peering_address(partition, own, PEER_ADDRESS_MAX + 1);
    return own;
}

bool cluster_nodes_find(const struct call *call, const char *shard, struct cluster_node *node)
{
    char own[PEER_ADDRESS_MAX + 1];
    const char *address = NULL;
    const struct shard_map *map = map_of(call);
    const struct peer_link *link = peer_set_find(call->partition->shards.peers, bytes_of(shard));
    int index = map ? shard_map_named(map, bytes_of(shard)) : -1;
    *node = (struct cluster_node){0};
    if (index >= 0)
        address = address_of_leader(call, &map->shards[index], own);
    else if (link) /* it was removed from the map, and gives its slots away */
        address = link->address;
    if (!address)
        return false;
    cluster_node_at(node, address);
    if (link && strcasecmp(link->address, address) == 0)
        choose_port(call, link->peer.port, link->peer.tls_port, node);
    return true;
}

void cluster_nodes_self(struct call *call, struct cluster_node *node)
{
    const struct partition *partition = call->partition;
    const struct backend_config *config = &partition->snapshot->config;
    *node = (struct cluster_node){.port = partition->listeners.port};
    (void)snprintf(node->id, sizeof node->id, "%.38s%02x", partition->process->run_id,
                   partition->index);
    cluster_node_at(node, stream_local(call->session->stream));
    if (*config->advertise_host || config->advertise_port)
        node->port = peering_port(partition);
    if (*config->advertise_host)
        peering_host(partition, node->host, sizeof node->host);
}

/* ---- all nodes ---- */

/* The view that is being made. */
struct making {
    struct call *call;
    struct cluster_view *view;
    const char **names; /* of the nodes */
    uint32_t runs;      /* upper limit of their number */
    uint32_t outsiders; /* runs whose shards are not in the map */
};

/* The shard that this partition is; empty: the map does not have it. */
static const char *own_shard(const struct call *call)
{
    return peer_set_shard(call->partition->shards.peers);
}

static void set_link_state(const struct call *call, const char *shard, struct cluster_node *node)
{
    const struct peer_link *link = peer_set_find(call->partition->shards.peers, bytes_of(shard));
    uint64_t mono_ms = loop_mono_ms(call->partition->loop);
    node->is_lost = !node->is_self && !call->partition->copies.is_closed &&
                    (!link || link->state != PEER_LINK_UP);
    if (link && link->heard_ms)
        node->heard_ms = call->now_ms - (mono_ms - link->heard_ms);
}

static uint32_t add_node(struct making *making, const char *shard)
{
    struct call *call = making->call;
    uint32_t index = making->view->node_count++;
    struct cluster_node *node = &making->view->nodes[index];
    char address[PEER_ADDRESS_MAX + 1];
    uint16_t port;
    uint16_t tls_port;
    bool is_known = cluster_nodes_find(call, shard, node);
    making->names[index] = shard;
    node->first_run = CLUSTER_NO_RUN;
    node->is_self = strcmp(shard, own_shard(call)) == 0;
    cluster_node_id(shard, node->id);
    set_link_state(call, shard, node);
    if (!node->is_self)
        return index;
    if (!is_known) {
        peering_address(call->partition, address, sizeof address);
        cluster_node_at(node, address);
    }
    peering_client_ports(call->partition, &port, &tls_port);
    choose_port(call, port, tls_port, node);
    return index;
}

/* The node of a shard; -1: there is none. */
static int64_t node_named(const struct making *making, const char *shard)
{
    for (uint32_t i = 0; i < making->view->node_count; i++)
        if (strcmp(making->names[i], shard) == 0)
            return i;
    return -1;
}

/* slot_run_fn */
static void count_owner_run(void *owner, const struct slot_run *run)
{
    struct making *making = owner;
    making->runs++;
    making->outsiders += shard_map_named(map_of(making->call), bytes_of(run->shard)) < 0;
}

/* slot_run_fn */
static void add_run(void *owner, const struct slot_run *run)
{
    struct making *making = owner;
    struct cluster_view *view = making->view;
    int64_t found = node_named(making, run->shard);
    uint32_t index = found < 0 ? add_node(making, run->shard) : (uint32_t)found;
    struct cluster_node *node = &view->nodes[index];
    cluster_view_add(view, index, (uint16_t)run->first, (uint16_t)run->last);
    node->epoch = run->epoch > node->epoch ? run->epoch : node->epoch;
    view->epoch = run->epoch > view->epoch ? run->epoch : view->epoch;
}

static bool is_leaving(const struct slot_record *record)
{
    return record->state == SLOT_EXPORTING || record->state == SLOT_FROZEN;
}

static bool is_moving(const struct slot_record *record)
{
    return is_leaving(record) || record->state == SLOT_IMPORTING || record->state == SLOT_STAGED;
}

static void add_moves(struct making *making)
{
    const struct slot_table *table = making->call->partition->shards.slots;
    uint32_t count = 0;
    uint32_t shown = 0;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        count += is_moving(slot_table_get(table, (uint16_t)slot));
    struct cluster_move *moves = arena_alloc(making->call->arena, (count + 1) * sizeof *moves);
    for (unsigned slot = 0; slot < SLOT_COUNT && count; slot++) {
        const struct slot_record *record = slot_table_get(table, (uint16_t)slot);
        int64_t node = is_moving(record) ? node_named(making, record->peer) : -1;
        if (node >= 0)
            moves[shown++] = (struct cluster_move){
                .slot = (uint16_t)slot, .is_leaving = is_leaving(record), .node = (uint32_t)node};
    }
    making->view->moves = moves;
    making->view->move_count = shown;
}

static void view_alone(struct call *call, struct cluster_view *view)
{
    struct cluster_node *node = arena_alloc(call->arena, sizeof *node);
    struct cluster_run *run = arena_alloc(call->arena, sizeof *run);
    cluster_nodes_self(call, node);
    cluster_view_alone(view, node, run);
}

void cluster_nodes_view(struct call *call, struct cluster_view *view)
{
    struct making making = {.call = call, .view = view};
    const struct slot_owners *owners = call->partition->shards.owners;
    const struct metrics *metrics = call->partition->metrics.process;
    if (!cluster_client(call->session)) {
        view_alone(call, view);
        return;
    }
    slot_owners_each_run(owners, count_owner_run, &making);
    const struct shard_map *map = map_of(call);
    size_t limit = map->shard_count + making.outsiders + 1;
    *view = (struct cluster_view){
        .nodes = arena_alloc(call->arena, limit * sizeof *view->nodes),
        .runs = arena_alloc(call->arena, (making.runs + 1) * sizeof *view->runs),
        .messages_sent = stats_metric(metrics, METRIC_BACKEND_PEER_REQUESTS),
        .messages_received = stats_metric(metrics, METRIC_BACKEND_PEER_REQUESTS_IN),
    };
    making.names = (const char **)arena_alloc(call->arena, limit * sizeof *making.names);
    if (!*own_shard(call))
        (void)add_node(&making, "");
    for (size_t i = 0; i < map->shard_count; i++)
        (void)add_node(&making, map->shards[i].name);
    slot_owners_each_run(owners, add_run, &making);
    add_moves(&making);
}
