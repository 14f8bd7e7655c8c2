#include "backend/slots/cluster_nodes.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/context/stats.h"
#include "backend/dispatch/cluster_gate.h"
#include "backend/peer/peer_set.h"
#include "backend/replica/replica_figures.h"
#include "backend/session/session.h"
#include "backend/slots/cluster_heard.h"
#include "backend/slots/peering.h"
#include "backend/slots/slot_owners.h"
#include "backend/slots/slot_table.h"
#include "backend/storage/storage.h"
#include "shared/check.h"
#include "shared/clock.h"

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

/* Of a shard whose leader is not known; this partition, at `own`, does not lead it. */
static const char *first_other(const struct shard *shard, const char *own)
{
    size_t i = 0;
    while (i + 1 < shard->address_count && strcasecmp(shard->addresses[i], own) == 0)
        i++;
    return shard->addresses[i];
}

/* A copy that does not lead has no links, and knows of another shard what its leader has said; so does one that has begun to lead, until its
 * own link to the shard was up. NULL: it knows more by itself. */
static const struct heard_shard *heard_from_leader(const struct call *call, const char *shard)
{
    const struct partition *partition = call->partition;
    const struct peer_link *link = peer_set_find(partition->shards.peers, bytes_of(shard));
    return link && link->connects ? NULL : cluster_heard_of(partition->copies.heard, shard);
}

static const char *leader_known(const struct call *call, const struct shard *shard)
{
    const struct heard_shard *heard = heard_from_leader(call, shard->name);
    for (size_t i = 0; heard && i < shard->address_count; i++)
        if (strcasecmp(shard->addresses[i], heard->leader) == 0)
            return shard->addresses[i];
    return peer_set_leader(call->partition->shards.peers, shard);
}

/* Where the leader of a shard is; `own`: room for this partition's address. */
static const char *address_of_leader(const struct call *call, const struct shard *shard,
                                     char own[PEER_ADDRESS_MAX + 1])
{
    const struct partition *partition = call->partition;
    bool is_own = strcmp(shard->name, slot_owners_name(partition->shards.owners)) == 0;
    if (shard->address_count == 1 || !is_own)
        return leader_known(call, shard);
    peering_address(partition, own, PEER_ADDRESS_MAX + 1);
    if (!partition->copies.is_closed)
        return own;
    return *partition->copies.leader ? partition->copies.leader : first_other(shard, own);
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
    const char **names;                 /* of the nodes' shards */
    const char *own;                    /* the shard that this partition is; empty: none */
    char address[PEER_ADDRESS_MAX + 1]; /* of this partition */
    struct replica_figures copies;      /* of the own shard; count 0: it has one copy */
    size_t nodes_max;                   /* room for nodes and names */
    uint32_t runs;                      /* upper limit of their number */
    uint32_t outsiders;                 /* runs whose shards are not in the map */
};

static uint64_t wall_ms(const struct call *call, uint64_t mono_ms)
{
    return call->now_ms - (loop_mono_ms(call->partition->loop) - mono_ms);
}

static struct cluster_node *add_node(struct making *making, const char *shard)
{
    CHECK(making->view->node_count < making->nodes_max);
    uint32_t index = making->view->node_count++;
    struct cluster_node *node = &making->view->nodes[index];
    making->names[index] = shard;
    *node = (struct cluster_node){.master = CLUSTER_NO_MASTER, .first_run = CLUSTER_NO_RUN};
    return node;
}

static void set_own_node(const struct making *making, struct cluster_node *node)
{
    const struct partition *partition = making->call->partition;
    uint16_t port;
    uint16_t tls_port;
    node->is_self = true;
    if (!node->port)
        cluster_node_at(node, making->address);
    peering_client_ports(partition, &port, &tls_port);
    choose_port(making->call, port, tls_port, node);
    bool has_data = !partition->copies.is_closed || partition->copies.may_read;
    if (making->copies.count && has_data)
        node->offset = storage_committed(partition->storage);
}

/* ---- masters ---- */

/* What is known of another shard. */
struct shard_known {
    bool is_lost;
    uint64_t offset, heard_ms;
    const struct peer_copies *copies; /* NULL: nothing */
};

static struct shard_known known_by_link(const struct call *call, const char *shard)
{
    const struct peer_link *link = peer_set_find(call->partition->shards.peers, bytes_of(shard));
    if (!link)
        return (struct shard_known){.is_lost = true};
    return (struct shard_known){
        .is_lost = link->state != PEER_LINK_UP,
        .offset = link->peer.log_index,
        .heard_ms = link->silence.heard_ms ? wall_ms(call, link->silence.heard_ms) : 0,
        .copies = &link->peer.copies,
    };
}

/* Nothing was heard: it is not known to be lost. */
static struct shard_known known_of(const struct call *call, const char *shard)
{
    const struct heard_shard *heard = heard_from_leader(call, shard);
    if (heard)
        return (struct shard_known){heard->is_lost, heard->offset, heard->heard_ms, &heard->copies};
    if (call->partition->copies.is_closed)
        return (struct shard_known){.is_lost = false};
    return known_by_link(call, shard);
}

static void set_link_state(const struct call *call, const char *shard, struct cluster_node *node)
{
    const struct shard_known known = known_of(call, shard);
    node->is_lost = known.is_lost;
    node->heard_ms = known.heard_ms;
    if (known.copies && known.copies->count)
        node->offset = known.offset;
}

static uint32_t add_master(struct making *making, const char *shard)
{
    struct cluster_node found;
    struct cluster_node *node = add_node(making, shard);
    uint32_t index = making->view->node_count - 1;
    if (cluster_nodes_find(making->call, shard, &found)) {
        memcpy(node->host, found.host, sizeof node->host);
        node->port = found.port;
    }
    cluster_node_id(shard, node->id);
    if (strcmp(shard, making->own) != 0)
        set_link_state(making->call, shard, node);
    else if (!making->call->partition->copies.is_closed)
        set_own_node(making, node);
    return index;
}

/* ---- replicas ---- */

static const struct replica_figure *figure_at(const struct replica_figures *figures,
                                              const char *address)
{
    for (unsigned i = 0; i < figures->count; i++)
        if (strcasecmp(figures->of[i].address, address) == 0)
            return &figures->of[i];
    return NULL;
}

/* A copy of the own shard, by what copies say to each other. Those that do not lead hear only from the leader how far the others are. */
static void set_own_copy(const struct making *making, const char *address,
                         struct cluster_node *node)
{
    const struct replica_figure *figure = figure_at(&making->copies, address);
    const struct heard_shard *heard =
        cluster_heard_of(making->call->partition->copies.heard, making->own);
    const struct peer_copy *copy = heard ? peer_copies_find(&heard->copies, address) : NULL;
    uint64_t now_us = clock_boot_us();
    node->has_failed = !figure || !figure->is_up;
    node->offset = figure ? figure->applied : 0;
    if (copy && copy->applied > node->offset)
        node->offset = copy->applied;
    if (figure && figure->heard_us && figure->heard_us <= now_us)
        node->heard_ms = making->call->now_ms - (now_us - figure->heard_us) / 1000;
}

static void set_copy(const struct call *call, const char *shard, const char *address,
                     struct cluster_node *node)
{
    const struct shard_known known = known_of(call, shard);
    const struct peer_copy *copy = known.copies ? peer_copies_find(known.copies, address) : NULL;
    node->is_lost = known.is_lost || !copy;
    node->has_failed = copy && !copy->is_up;
    node->offset = copy ? copy->applied : 0;
    node->heard_ms = copy ? known.heard_ms : 0;
}

static struct cluster_node *add_replica(struct making *making, uint32_t master, const char *shard,
                                        const char *address)
{
    struct cluster_node *node = add_node(making, shard);
    node->master = master;
    cluster_node_at(node, address);
    cluster_copy_id(shard, address, node->id);
    return node;
}

/* Also a copy that the map does not have, or not yet. */
static void add_own_replica(struct making *making, uint32_t master, const char *shard,
                            const char *address)
{
    struct cluster_node *node = add_replica(making, master, shard, address);
    if (strcasecmp(address, making->address) == 0)
        set_own_node(making, node);
    else
        set_own_copy(making, address, node);
}

/* Is the shard the one of this partition, which does not lead it? */
static bool is_own_copy(const struct making *making, const char *shard)
{
    return making->call->partition->copies.is_closed && strcmp(shard, making->own) == 0;
}

static void add_replicas(struct making *making, uint32_t master, const struct shard *shard,
                         const char *leader)
{
    bool is_own = strcmp(shard->name, making->own) == 0;
    bool must_add_self =
        is_own_copy(making, shard->name) && strcasecmp(leader, making->address) != 0;
    for (size_t i = 0; i < shard->address_count; i++) {
        const char *address = shard->addresses[i];
        if (strcasecmp(address, leader) == 0)
            continue;
        must_add_self &= strcasecmp(address, making->address) != 0;
        if (is_own)
            add_own_replica(making, master, shard->name, address);
        else
            set_copy(making->call, shard->name, address,
                     add_replica(making, master, shard->name, address));
    }
    if (must_add_self)
        add_own_replica(making, master, shard->name, making->address);
}

static void add_shard_nodes(struct making *making, const struct shard *shard)
{
    char own[PEER_ADDRESS_MAX + 1];
    const char *leader = address_of_leader(making->call, shard, own);
    uint32_t index = add_master(making, shard->name);
    struct cluster_node *node = &making->view->nodes[index];
    if (shard->address_count > 1)
        cluster_copy_id(shard->name, leader, node->id);
    if (is_own_copy(making, shard->name) && strcasecmp(leader, making->address) == 0) {
        set_own_node(making, node); /* it was elected, and serves soon */
    } else if (is_own_copy(making, shard->name)) {
        set_own_copy(making, leader, node);
        node->is_lost = node->has_failed || !*making->call->partition->copies.leader;
        node->has_failed = false;
    }
    add_replicas(making, index, shard, leader);
}

/* ---- slots ---- */

/* The node that owns the slots of a shard; -1: there is none. */
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
    uint32_t index = found < 0 ? add_master(making, run->shard) : (uint32_t)found;
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

/* Room for the nodes of all addresses of the map, of one leader for each shard that the map does not name (it has dropped it, or not got it
 * yet), of shards that are not in the map, and of this partition. */
static size_t nodes_max(const struct making *making, const struct shard_map *map)
{
    size_t count = making->outsiders + 2;
    for (size_t i = 0; i < map->shard_count; i++)
        count += map->shards[i].address_count + 1;
    return count;
}

static void begin_view(struct making *making, const struct shard_map *map)
{
    struct call *call = making->call;
    const struct metrics *metrics = call->partition->metrics.process;
    slot_owners_each_run(call->partition->shards.owners, count_owner_run, making);
    size_t limit = nodes_max(making, map);
    making->nodes_max = limit;
    *making->view = (struct cluster_view){
        .nodes = arena_alloc(call->arena, limit * sizeof *making->view->nodes),
        .runs = arena_alloc(call->arena, (making->runs + 1) * sizeof *making->view->runs),
        .messages_sent = stats_metric(metrics, METRIC_BACKEND_PEER_REQUESTS),
        .messages_received = stats_metric(metrics, METRIC_BACKEND_PEER_REQUESTS_IN),
    };
    making->names = (const char **)arena_alloc(call->arena, limit * sizeof *making->names);
    peering_address(call->partition, making->address, sizeof making->address);
    making->own = peering_shard(call->partition);
    if (call->partition->copies.replica)
        replica_figures(call->partition->copies.replica, &making->copies);
}

void cluster_nodes_view(struct call *call, struct cluster_view *view)
{
    struct making making = {.call = call, .view = view};
    if (!cluster_client(call->session)) {
        view_alone(call, view);
        return;
    }
    const struct shard_map *map = map_of(call);
    begin_view(&making, map);
    if (!*making.own)
        (void)add_master(&making, "");
    for (size_t i = 0; i < map->shard_count; i++)
        add_shard_nodes(&making, &map->shards[i]);
    slot_owners_each_run(call->partition->shards.owners, add_run, &making);
    add_moves(&making);
}

void cluster_nodes_own_id(struct call *call, char id[CLUSTER_ID_LEN + 1])
{
    struct cluster_view view;
    cluster_nodes_view(call, &view);
    for (uint32_t i = 0; i < view.node_count; i++)
        if (view.nodes[i].is_self)
            memcpy(id, view.nodes[i].id, sizeof view.nodes[i].id);
}

void cluster_nodes_shard_id(struct call *call, char id[CLUSTER_ID_LEN + 1])
{
    if (cluster_client(call->session))
        cluster_node_id(peering_shard(call->partition), id);
    else
        cluster_nodes_own_id(call, id);
}
