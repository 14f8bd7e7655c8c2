#include "shared/cluster_reply.h"

#include "shared/check.h"
#include "shared/digest.h"
#include "shared/slot.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the view ---- */

void cluster_node_id(const char *shard, char id[CLUSTER_ID_LEN + 1])
{
    char text[512];
    int len = snprintf(text, sizeof text, "shard %s", shard);
    sha1_hex((struct bytes){text, (size_t)len}, id);
    id[CLUSTER_ID_LEN] = 0;
}

void cluster_copy_id(const char *shard, const char *address, char id[CLUSTER_ID_LEN + 1])
{
    char text[512];
    int len = snprintf(text, sizeof text, "shard %s copy %s", shard, address);
    for (char *at = text; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    sha1_hex((struct bytes){text, (size_t)len}, id);
    id[CLUSTER_ID_LEN] = 0;
}

void cluster_node_at(struct cluster_node *node, const char *address)
{
    const char *colon = strrchr(address, ':');
    if (*address == '/' || !colon)
        return;
    bool is_v6 = *address == '[';
    int len = (int)(colon - address) - 2 * is_v6;
    (void)snprintf(node->host, sizeof node->host, "%.*s", len, address + is_v6);
    node->port = (int)strtol(colon + 1, NULL, 10);
}

void cluster_view_add(struct cluster_view *view, uint32_t node, uint16_t first, uint16_t last)
{
    struct cluster_run *before = view->run_count ? &view->runs[view->run_count - 1] : NULL;
    struct cluster_node *owner = &view->nodes[node];
    if (before && before->node == node && before->last + 1 == first) {
        before->last = last;
        return;
    }
    uint32_t index = view->run_count++;
    view->runs[index] =
        (struct cluster_run){.first = first, .last = last, .node = node, .next = CLUSTER_NO_RUN};
    if (owner->first_run == CLUSTER_NO_RUN)
        owner->first_run = index;
    else
        view->runs[owner->last_run].next = index;
    owner->last_run = index;
}

void cluster_view_alone(struct cluster_view *view, struct cluster_node *node,
                        struct cluster_run *run)
{
    node->is_self = true;
    node->master = CLUSTER_NO_MASTER;
    node->first_run = CLUSTER_NO_RUN;
    *view =
        (struct cluster_view){.nodes = node, .node_count = 1, .runs = run, .epoch = node->epoch};
    cluster_view_add(view, 0, 0, SLOT_COUNT - 1);
}

/* The next run after *index (before the first call: CLUSTER_NO_RUN) of a node. */
static const struct cluster_run *next_run_of(const struct cluster_view *view,
                                             const struct cluster_node *node,
                                             const struct cluster_run *run)
{
    uint32_t index = run ? run->next : node->first_run;
    return index == CLUSTER_NO_RUN ? NULL : &view->runs[index];
}

static const struct cluster_node *self_of(const struct cluster_view *view)
{
    for (uint32_t i = 0; i < view->node_count; i++)
        if (view->nodes[i].is_self)
            return &view->nodes[i];
    return &view->nodes[0];
}

static bool is_replica(const struct cluster_node *node)
{
    return node->master != CLUSTER_NO_MASTER;
}

/* The next replica after `index`, of the same master, or of `index` itself if that is one; 0: there is no other. */
static uint32_t next_replica(const struct cluster_view *view, uint32_t index)
{
    uint32_t master = is_replica(&view->nodes[index]) ? view->nodes[index].master : index;
    uint32_t next = index + 1;
    return next < view->node_count && view->nodes[next].master == master ? next : 0;
}

static uint64_t node_epoch(const struct cluster_view *view, const struct cluster_node *node)
{
    return is_replica(node) ? view->nodes[node->master].epoch : node->epoch;
}

/* ---- INFO ---- */

void cluster_reply_info(struct reply *reply, const struct cluster_view *view)
{
    char text[768];
    unsigned slots = 0;
    unsigned lost = 0;
    unsigned owners = 0;
    for (uint32_t i = 0; i < view->run_count; i++) {
        unsigned count = view->runs[i].last - view->runs[i].first + 1u;
        slots += count;
        lost += view->nodes[view->runs[i].node].is_lost ? count : 0;
    }
    for (uint32_t i = 0; i < view->node_count; i++)
        owners += view->nodes[i].first_run != CLUSTER_NO_RUN;
    int len = snprintf(text, sizeof text,
                       "cluster_state:%s\r\n"
                       "cluster_slots_assigned:%u\r\n"
                       "cluster_slots_ok:%u\r\n"
                       "cluster_slots_pfail:%u\r\n"
                       "cluster_slots_fail:0\r\n"
                       "cluster_known_nodes:%u\r\n"
                       "cluster_size:%u\r\n"
                       "cluster_current_epoch:%" PRIu64 "\r\n"
                       "cluster_my_epoch:%" PRIu64 "\r\n"
                       "cluster_stats_messages_sent:%" PRIu64 "\r\n"
                       "cluster_stats_messages_received:%" PRIu64 "\r\n"
                       "total_cluster_links_buffer_limit_exceeded:0\r\n",
                       slots ? "ok" : "fail", slots, slots - lost, lost, view->node_count, owners,
                       view->epoch, node_epoch(view, self_of(view)), view->messages_sent,
                       view->messages_received);
    reply_verbatim(reply, "txt", (struct bytes){text, (size_t)len});
}

/* ---- NODES ---- */

static void print_runs(const struct cluster_view *view, const struct cluster_node *node,
                       struct out *out)
{
    const struct cluster_run *run = NULL;
    while ((run = next_run_of(view, node, run)))
        if (run->first == run->last)
            out_printf(out, " %u", run->first);
        else
            out_printf(out, " %u-%u", run->first, run->last);
}

static void print_moves(const struct cluster_view *view, struct out *out)
{
    for (uint32_t i = 0; i < view->move_count; i++) {
        const struct cluster_move *move = &view->moves[i];
        out_printf(out, " [%u-%s-%s]", move->slot, move->is_leaving ? ">" : "<",
                   view->nodes[move->node].id);
    }
}

static const char *failure_flag(const struct cluster_node *node)
{
    if (node->has_failed)
        return ",fail";
    return node->is_lost ? ",fail?" : "";
}

/* A line of CLUSTER NODES, without its end. */
static void print_node(const struct cluster_view *view, const struct cluster_node *node,
                       struct out *out)
{
    bool is_away = node->is_lost || node->has_failed;
    out_printf(out, "%s %s:%d@%d %s%s%s%s %s 0 %" PRIu64 " %" PRIu64 " %s", node->id, node->host,
               node->port, node->port, node->is_self ? "myself," : "",
               is_replica(node) ? "slave" : "master", failure_flag(node),
               node->port ? "" : ",noaddr", is_replica(node) ? view->nodes[node->master].id : "-",
               node->heard_ms, node_epoch(view, node), is_away ? "disconnected" : "connected");
    print_runs(view, node, out);
    if (node->is_self && !is_replica(node))
        print_moves(view, out);
}

static void print_node_line(const struct cluster_view *view, const struct cluster_node *node,
                            struct out *out)
{
    print_node(view, node, out);
    out_printf(out, "\n");
}

void cluster_reply_nodes(struct reply *reply, const struct cluster_view *view)
{
    struct out out;
    out_init(&out);
    for (uint32_t i = 0; i < view->node_count; i++)
        print_node_line(view, &view->nodes[i], &out);
    reply_verbatim_out(reply, "txt", &out);
}

/* ---- SLOTS ---- */

/* Can clients connect to the node? A client that came over a Unix socket gets an empty host. */
static bool is_reachable(const struct cluster_node *node)
{
    return node->port != 0 || node->is_self;
}

/* As in Redis, clients are shown a replica that has data and has not failed. */
static bool replica_has_data(const struct cluster_node *node)
{
    return !node->has_failed && node->offset && is_reachable(node);
}

static void reply_slots_node(struct reply *reply, const struct cluster_node *node)
{
    reply_array(reply, 4);
    reply_bulk_text(reply, node->host);
    reply_int(reply, node->port);
    reply_bulk_text(reply, node->id);
    reply_map(reply, 0);
}

static void reply_slots_run(struct reply *reply, const struct cluster_view *view,
                            const struct cluster_run *run)
{
    int64_t replicas = 0;
    for (uint32_t i = run->node; (i = next_replica(view, i));)
        replicas += replica_has_data(&view->nodes[i]);
    reply_array(reply, 3 + replicas);
    reply_int(reply, run->first);
    reply_int(reply, run->last);
    reply_slots_node(reply, &view->nodes[run->node]);
    for (uint32_t i = run->node; (i = next_replica(view, i));)
        if (replica_has_data(&view->nodes[i]))
            reply_slots_node(reply, &view->nodes[i]);
}

void cluster_reply_slots(struct reply *reply, const struct cluster_view *view)
{
    int64_t count = 0;
    for (uint32_t i = 0; i < view->run_count; i++)
        count += is_reachable(&view->nodes[view->runs[i].node]);
    reply_array(reply, count);
    for (uint32_t i = 0; i < view->run_count; i++)
        if (is_reachable(&view->nodes[view->runs[i].node]))
            reply_slots_run(reply, view, &view->runs[i]);
}

/* ---- SHARDS ---- */

static const char *node_health(const struct cluster_node *node)
{
    if (node->has_failed)
        return "fail";
    return is_replica(node) && !node->offset ? "loading" : "online";
}

static void reply_shards_node(struct reply *reply, const struct cluster_node *node)
{
    reply_map(reply, 7);
    reply_pair_text(reply, "id", node->id);
    reply_pair_int(reply, "port", node->port);
    reply_pair_text(reply, "ip", node->host);
    reply_pair_text(reply, "endpoint", node->host);
    reply_pair_text(reply, "role", is_replica(node) ? "replica" : "master");
    reply_pair_int(reply, "replication-offset", (int64_t)node->offset);
    reply_pair_text(reply, "health", node_health(node));
}

static void reply_shard(struct reply *reply, const struct cluster_view *view, uint32_t index)
{
    const struct cluster_node *node = &view->nodes[index];
    const struct cluster_run *run = NULL;
    int64_t numbers = 0;
    int64_t nodes = 1;
    while ((run = next_run_of(view, node, run)))
        numbers += 2;
    for (uint32_t i = index; (i = next_replica(view, i));)
        nodes++;
    reply_map(reply, 2);
    reply_bulk_text(reply, "slots");
    reply_array(reply, numbers);
    while ((run = next_run_of(view, node, run))) {
        reply_int(reply, run->first);
        reply_int(reply, run->last);
    }
    reply_bulk_text(reply, "nodes");
    reply_array(reply, nodes);
    reply_shards_node(reply, node);
    for (uint32_t i = index; (i = next_replica(view, i));)
        reply_shards_node(reply, &view->nodes[i]);
}

static bool is_listed_master(const struct cluster_node *node)
{
    return !is_replica(node) && is_reachable(node);
}

void cluster_reply_shards(struct reply *reply, const struct cluster_view *view)
{
    int64_t count = 0;
    for (uint32_t i = 0; i < view->node_count; i++)
        count += is_listed_master(&view->nodes[i]);
    reply_array(reply, count);
    for (uint32_t i = 0; i < view->node_count; i++)
        if (is_listed_master(&view->nodes[i]))
            reply_shard(reply, view, i);
}

/* ---- the others ---- */

/* NULL: there is no node with this id, and the error was replied. */
static const struct cluster_node *node_with_id(struct reply *reply, const struct cluster_view *view,
                                               struct bytes id)
{
    for (uint32_t i = 0; i < view->node_count; i++)
        if (bytes_equal(bytes_of(view->nodes[i].id), id))
            return &view->nodes[i];
    reply_errorf(reply, "ERR Unknown node %.*s", (int)(id.len < 128 ? id.len : 128), id.data);
    return NULL;
}

static void reply_node_line(struct reply *reply, const struct cluster_view *view,
                            const struct cluster_node *node)
{
    enum { LINE_MAX = CLUSTER_HOST_MAX + 2 * CLUSTER_ID_LEN + 256 }; /* a replica has no slots */
    char line[LINE_MAX];
    struct out out;
    out_init(&out);
    print_node(view, node, &out);
    CHECK(out.bytes <= sizeof line);
    out_copy(&out, line);
    reply_bulk(reply, (struct bytes){line, out.bytes});
    out_clear(&out);
}

static void list_replicas(struct reply *reply, const struct cluster_view *view, uint32_t master)
{
    int64_t count = 0;
    for (uint32_t i = master; (i = next_replica(view, i));)
        count++;
    reply_array(reply, count);
    for (uint32_t i = master; (i = next_replica(view, i));)
        reply_node_line(reply, view, &view->nodes[i]);
}

void cluster_reply_replicas(struct reply *reply, const struct cluster_view *view, struct bytes id)
{
    const struct cluster_node *node = node_with_id(reply, view, id);
    if (node && is_replica(node))
        reply_error(reply, "ERR The specified node is not a master");
    else if (node)
        list_replicas(reply, view, (uint32_t)(node - view->nodes));
}

void cluster_reply_failure_reports(struct reply *reply, const struct cluster_view *view,
                                   struct bytes id)
{
    if (node_with_id(reply, view, id))
        reply_int(reply, 0);
}

void cluster_reply_link(struct reply *reply, const struct cluster_link *link)
{
    reply_map(reply, 6);
    reply_pair_text(reply, "direction", link->is_from ? "from" : "to");
    reply_pair_text(reply, "node", link->node);
    reply_pair_int(reply, "create-time", (int64_t)link->since_ms);
    reply_pair_text(reply, "events", link->unsent ? "rw" : "r");
    reply_pair_int(reply, "send-buffer-allocated", (int64_t)link->unsent);
    reply_pair_int(reply, "send-buffer-used", (int64_t)link->unsent);
}
