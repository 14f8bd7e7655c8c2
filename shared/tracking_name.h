/*
 * tracking_name.h - the name by which all shards know that connections belong to the same tracking client of a proxy.
 *
 *   proxy ──CLIENT TRACKING ON NOLOOP NAME run-id/client──► each shard
 *   shard a: EXEC on the client's connection ──PREPARE, by run-id/client──► shard b: no invalidation for the client of this name
 */
#pragma once

enum { TRACKING_NAME_MAX = 64 };
