/*
 * peering.h - configures a partition's links to the other partitions of the shard map (backend/peer/).
 */
#pragma once

#include "backend/peer/link.h"

#include <stddef.h>
#include <stdint.h>

struct backend_config;
struct partition;
struct peer_set;

/* Of connections to other partitions. */
struct peer_options peering_options(const struct partition *partition);
/* The other copies of the partition's shard, as far as it has heard of them. */
void peering_copies(const struct partition *partition, struct peer_copies *to);
struct peer_set *peering_new(struct partition *partition);
/* Applies map, secret, TLS and limits of the snapshot; called when the port is known. */
void peering_configure(struct partition *partition);
/* Puts a map into force that had to wait while the first slots were claimed; called several times a second. */
void peering_tick(struct partition *partition);
/* The shard that the partition is a copy of, empty: none. A copy that does not lead has no place among the shards: the name is that of its
 * data, and of the map if these have none yet. */
const char *peering_shard(const struct partition *partition);
/* The host at which others reach the partition: advertise-host (shared/host_name.h), or bind. */
void peering_host(const struct partition *partition, char *host, size_t size);
/* The address at which others reach the partition: advertise-host and advertise-port, or its listen address. */
void peering_address(const struct partition *partition, char *address, size_t size);
/* The same by these options. Any thread: the partition's own ones are read only by its thread. */
void peering_address_by(const struct backend_config *config, const struct partition *partition,
                        char *address, size_t size);
int peering_port(const struct partition *partition);
/* The ports at which clients without and with TLS reach the partition; 0: none. advertise-port is the port of the connections
 * that the shard map's address stands for; the port of the others is as configured. */
void peering_client_ports(const struct partition *partition, uint16_t *port, uint16_t *tls_port);
