/*
 * copies.h - the copies of a shard, as the one that serves lists them, as JSON.
 *
 *   SCREE REPLICAS of each shard with several addresses (survey.h) ─► "copies": {"leader":…, "members":[…]} of the shard
 *   what each copy says of itself (zones.h) ──► "zone" of each member
 */
#pragma once

#include "shared/json_writer.h"

struct zones;

/* Adds the member "copies" of a shard; null: it has one copy, or has not said more. `reply` is the reply to SCREE REPLICAS; it may be NULL. */
void copies_write(struct json_writer *json, const char *reply, struct zones *zones);
