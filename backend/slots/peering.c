#include "backend/slots/peering.h"

#include "backend/context/cluster_clock.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/peer/messages.h"
#include "backend/peer/peer_set.h"
#include "backend/replica/replica_figures.h"
#include "backend/slots/key_arrival.h"
#include "backend/slots/slot_moves.h"
#include "backend/slots/slot_owners.h"
#include "backend/storage/orphan.h"
#include "backend/transaction/participant.h"
#include "shared/host_name.h"
#include "shared/log.h"
#include "shared/version.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    PINGS_PER_TIMEOUT = 4,
    BACKOFF_MIN_MS = 50,
    BACKOFF_MAX_MS = 5000,
    OUTSTANDING_MAX = 4096,
};

static uint64_t batch_index(void *owner)
{
    const struct partition *partition = owner;
    return partition->batch.index;
}

void peering_copies(const struct partition *partition, struct peer_copies *to)
{
    struct replica_figures figures;
    to->count = 0;
    if (!partition->copies.replica)
        return;
    replica_figures(partition->copies.replica, &figures);
    for (unsigned i = 0; i < figures.count && to->count < PEER_COPIES_MAX; i++) {
        const struct replica_figure *copy = &figures.of[i];
        if (copy->id != figures.own)
            to->of[to->count++] = (struct peer_copy){.address = peer_address_hash(copy->address),
                                                     .is_up = copy->is_up,
                                                     .applied = copy->applied};
    }
}

const char *peering_shard(const struct partition *partition)
{
    const struct shard_map *map = partition->snapshot->map;
    const char *name = slot_owners_name(partition->shards.owners);
    char address[PEER_ADDRESS_MAX + 1];
    if (!partition->copies.is_closed)
        return peer_set_shard(partition->shards.peers);
    if (*name || !map)
        return name;
    peering_address(partition, address, sizeof address);
    const struct shard *shard = peer_shard_at(map, address);
    return shard ? shard->name : name;
}

/* peer_host.copies */
static void describe_copies(void *owner, struct peer_copies *to)
{
    peering_copies(owner, to);
}

static peer_handle_fn *const handlers_of_kinds[UINT8_MAX + 1] = {
#define MESSAGE(id, name, handler, ...) [id] = handle_##handler,
#define MESSAGE_LINK(...)
#define MESSAGE_COPY(...)
#include "backend/peer/messages.def"
#undef MESSAGE
#undef MESSAGE_LINK
#undef MESSAGE_COPY
};

/* peer_requests.handle. What a leader that may have a successor says could be wrong: that it has no decision, or that a transaction had
 * its locks until now. So the connection is closed, as if the process had ended. */
static struct refusal handle_request(void *owner, struct peer_incoming *incoming,
                                     const struct peer_frame *frame)
{
    struct partition *partition = owner;
    if (partition_lease_is_over(partition)) {
        incoming->is_broken = true;
        return NO_REFUSAL;
    }
    struct refusal refusal = peer_message_refuse(incoming, frame, partition->running.busy_error);
    if (!refusal.code)
        handlers_of_kinds[frame->kind](partition, incoming, frame);
    return refusal;
}

/* peer_requests.on_closed */
static void connection_closed(void *owner, struct peer_incoming *incoming)
{
    struct partition *partition = owner;
    participant_closed(partition->shards.participant, incoming);
    key_arrivals_closed(partition->shards.strays.arrivals, incoming);
}

/* peer_host.on_new_leader. Transactions ask by themselves, because the connection of the leader before has ended. */
static void leader_heard(void *owner, const char *shard)
{
    struct partition *partition = owner;
    slot_moves_ask(partition->shards.moves, shard);
}

struct peer_set *peering_new(struct partition *partition)
{
    const struct peer_host host = {
        .loop = partition->loop,
        .metrics = partition->metrics.process,
        .links = partition->process->labelled.links,
        .thread = partition->index,
        .clock = partition->process->clock,
        .hybrid = &partition->batch.hybrid,
        .log_id = &partition->batch.log_id,
        .run_id = partition->process->run_id,
        .version = SCREE_VERSION,
        .current_index = batch_index,
        .copies = describe_copies,
        .requests = {.handle = handle_request, .on_closed = connection_closed},
        .on_new_leader = leader_heard,
        .on_accept = partition->listeners.on_accept,
        .owner = partition,
    };
    return peer_set_new(&host);
}

static int port_by(const struct backend_config *config, const struct partition *partition)
{
    int index = (int)partition->index;
    if (config->advertise_port)
        return config->advertise_port + index;
    if (config->peer_tls && config->tls_port)
        return config->tls_port + index;
    return partition->listeners.port;
}

int peering_port(const struct partition *partition)
{
    return port_by(&partition->snapshot->config, partition);
}

/* Is the advertised port the partition's own? Any other leads through a forwarder, by which connections are meant to go. */
static bool advertises_own_port(const struct partition *partition)
{
    const struct backend_config *config = &partition->snapshot->config;
    int port = peering_port(partition);
    return port == partition->listeners.port ||
           (config->tls_port && port == config->tls_port + (int)partition->index);
}

void peering_client_ports(const struct partition *partition, uint16_t *port, uint16_t *tls_port)
{
    const struct backend_config *config = &partition->snapshot->config;
    bool advertises_tls = config->port < 0 || config->peer_tls;
    int own_tls = config->tls_port ? config->tls_port + (int)partition->index : 0;
    int own = config->port < 0 ? 0 : partition->listeners.port;
    *port = (uint16_t)(advertises_tls ? own : peering_port(partition));
    *tls_port = (uint16_t)(advertises_tls ? peering_port(partition) : own_tls);
}

static void host_by(const struct backend_config *config, char *host, size_t size)
{
    char advertised[HOST_NAME_BYTES_MAX + 1];
    /* option.c refuses a host that does not fit; the machine may get a longer name later */
    bool fits = host_name_expand(bytes_of(config->advertise_host), advertised);
    (void)snprintf(host, size, "%s", fits && *advertised ? advertised : config->bind);
}

void peering_host(const struct partition *partition, char *host, size_t size)
{
    host_by(&partition->snapshot->config, host, size);
}

void peering_address_by(const struct backend_config *config, const struct partition *partition,
                        char *address, size_t size)
{
    char host[PEER_ADDRESS_MAX + 1];
    host_by(config, host, sizeof host);
    (void)snprintf(address, size, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host,
                   port_by(config, partition));
}

void peering_address(const struct partition *partition, char *address, size_t size)
{
    peering_address_by(&partition->snapshot->config, partition, address, size);
}

/* The map to put into force. One that comes while the first slots are claimed waits: else some shards would claim by the map of
 * before and others by this one, and slots would have two owners or none. */
static const struct shard_map *next_map(struct partition *partition)
{
    const struct shard_map *now = peer_set_map(partition->shards.peers);
    const struct shard_map *wish = partition->snapshot->map;
    if (wish == now || !slot_owners_is_claiming(partition->shards.owners))
        return wish;
    log_event(LOG_INFO, "map_waits", "partition=%u epoch=%" PRIu64 " claimed_by=%" PRIu64,
              partition->index, wish ? wish->epoch : 0, now->epoch);
    return now;
}

/* A partition without a place in a map has no part in the time of the cluster: it expires keys by the clock of the machine. */
static void tick_clock(struct partition *partition, const struct peer_set *peers)
{
    const struct shard_map *map = peer_set_map(peers);
    const char *own = peer_set_shard(peers);
    if (map && *own)
        cluster_clock_tick(partition->process->clock, map, bytes_of(own));
    if (!partition->shards.is_gated || cluster_clock_is_known(partition->process->clock))
        orphan_trust_clock();
}

static bool has_copy_at(const struct replica_figures *figures, const char *address)
{
    for (unsigned i = 0; i < figures->count; i++)
        if (figures->of[i].id != figures->own && strcasecmp(figures->of[i].address, address) == 0)
            return true;
    return false;
}

/* Does this copy lead a group of voters that has other copies at the addresses of the map? Which of them leads is the group's affair, not the
 * map's. */
static bool leads_group_of(const struct partition *partition, const struct shard_map *map)
{
    const char *name = slot_owners_name(partition->shards.owners);
    int shard = map ? shard_map_named(map, bytes_of(name)) : -1;
    struct replica_figures figures;
    if (shard < 0 || !partition->copies.replica || !partition->copies.lease_us)
        return false;
    replica_figures(partition->copies.replica, &figures);
    for (size_t i = 0; i < map->shards[shard].address_count; i++)
        if (has_copy_at(&figures, map->shards[shard].addresses[i]))
            return true;
    return false;
}

void peering_tick(struct partition *partition)
{
    const struct peer_set *peers = partition->shards.peers;
    if (peers)
        tick_clock(partition, peers);
    if (peers && peer_set_map(peers) != partition->snapshot->map &&
        !slot_owners_is_claiming(partition->shards.owners))
        peering_configure(partition);
}

struct peer_options peering_options(const struct partition *partition)
{
    const struct backend_config *options = &partition->snapshot->config;
    return (struct peer_options){
        .connect_timeout_ms = options->peer_timeout_ms,
        .timeout_ms = options->peer_timeout_ms,
        .ping_ms = options->peer_timeout_ms / PINGS_PER_TIMEOUT,
        .backoff_min_ms = BACKOFF_MIN_MS,
        .backoff_max_ms = BACKOFF_MAX_MS,
        .output_max = options->peer_output_limit_bytes,
        .requests_max = OUTSTANDING_MAX,
    };
}

void peering_configure(struct partition *partition)
{
    const struct config_snapshot *snapshot = partition->snapshot;
    const struct backend_config *options = &snapshot->config;
    if (partition->copies.is_closed) {
        slot_owners_reload(partition->shards.owners);
        return;
    }
    char address[PEER_ADDRESS_MAX + 1];
    uint16_t port;
    uint16_t tls_port;
    peering_address(partition, address, sizeof address);
    peering_client_ports(partition, &port, &tls_port);
    const struct shard_map *map = next_map(partition);
    const struct peer_config config = {
        .map = map,
        .old_shard = slot_owners_name(partition->shards.owners),
        .is_leaving_group = leads_group_of(partition, map),
        .address = address,
        .port = port,
        .tls_port = tls_port,
        .leadership = {partition->copies.generation, partition->copies.term},
        .secret = options->secret,
        .secret_previous = options->secret_previous,
        .tls = snapshot->peer_tls,
        .accepts_here = advertises_own_port(partition) && !partition->thread.is_draining,
        .options = peering_options(partition),
    };
    peer_set_configure(partition->shards.peers, &config);
    tick_clock(partition, partition->shards.peers); /* the only shard knows the time at once */
    slot_owners_configure(partition->shards.owners);
}
