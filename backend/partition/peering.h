/*
 * peering.h - a partition's links to the other partitions of the shard map: made with its options (backend/peer/).
 */
#pragma once

#include <stddef.h>

struct partition;
struct peer_set;

struct peer_set *peering_new(struct partition *partition);
/* Takes over map, secret, TLS and limits of the partition's snapshot, once its port is known. */
void peering_configure(struct partition *partition);
/* The address under which others reach the partition: advertise-host and advertise-port, or what it listens on. */
void peering_address(const struct partition *partition, char *address, size_t size);
int peering_port(const struct partition *partition);
