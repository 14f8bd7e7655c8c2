/*
 * zones.h - the zone of each copy of a shard, as the copy says.
 *
 *   [backend] zone ─► SCREE SELF ─► leaders.h ─► zones_put (main thread) ─► version ─► near_copies.h (workers)
 *
 * Any thread. A copy whose zone is not known yet counts as one of another zone.
 */
#pragma once

#include "shared/zone.h"

#include <stdint.h>

struct zones;

struct zones *zones_new(void);
void zones_free(struct zones *zones);
/* The copy at the address is in this zone; "": in none, or it is not watched any more. */
void zones_put(struct zones *zones, const char *address, const char *zone);
/* The zone of the copy at the address; "": not known, or it has none. */
void zones_get(struct zones *zones, struct bytes address, char to[ZONE_NAME_MAX + 1]);
/* Counts changes; at least 1. */
uint64_t zones_version(const struct zones *zones);
