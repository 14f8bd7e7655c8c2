#include "backend/slots/map_check.h"

#include "backend/context/partition.h"
#include "backend/peer/peer_set.h"
#include "backend/slots/peering.h"

#include <stdio.h>

static bool is_taken(const struct map_check *check, const struct shard *shard)
{
    for (unsigned i = 0; i < check->count; i++)
        if (check->taken[i] == shard)
            return true;
    return false;
}

/* What copies of a shard need and this process does not have; NULL: nothing. */
static const char *missing(const struct backend_config *config)
{
    if (!config->replicas)
        return "replicas = yes";
    return config->durability == DURABILITY_ALWAYS ? NULL : "durability = always";
}

static bool check_copies(struct map_check *check, const struct config_snapshot *snapshot,
                         const struct shard *shard, char *error, size_t size)
{
    const char *needed = missing(&snapshot->config);
    if (needed) {
        (void)snprintf(error, size, "shards: shard %s has %zu addresses, so its copies need %s",
                       shard->name, shard->address_count, needed);
        return false;
    }
    if (is_taken(check, shard)) {
        (void)snprintf(error, size,
                       "shards: shard %s has two addresses of this process, but its copies belong "
                       "into different ones",
                       shard->name);
        return false;
    }
    check->taken[check->count++] = shard;
    return true;
}

bool map_check(struct map_check *check, const struct config_snapshot *snapshot,
               const struct partition *partition, char *error, size_t size)
{
    char address[PEER_ADDRESS_MAX + 1];
    if (!snapshot->map)
        return true;
    peering_address_by(&snapshot->config, partition, address, sizeof address);
    const struct shard *shard = peer_shard_at(snapshot->map, address);
    bool has_copies = shard && shard->address_count > 1;
    check->needs_restart |= has_copies && !partition->copies.replica;
    return !has_copies || check_copies(check, snapshot, shard, error, size);
}
