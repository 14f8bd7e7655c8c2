/*
 * peering.h - configures a partition's links to the other partitions of the shard map (backend/peer/).
 */
#pragma once

#include <stddef.h>

struct partition;
struct peer_set;

struct peer_set *peering_new(struct partition *partition);
/* Applies map, secret, TLS and limits of the snapshot; called when the port is known. */
void peering_configure(struct partition *partition);
/* The host at which others reach the partition: advertise-host (shared/host_name.h), or bind. */
void peering_host(const struct partition *partition, char *host, size_t size);
/* The address at which others reach the partition: advertise-host and advertise-port, or its listen address. */
void peering_address(const struct partition *partition, char *address, size_t size);
int peering_port(const struct partition *partition);
