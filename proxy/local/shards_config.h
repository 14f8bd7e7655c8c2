/*
 * shards_config.h - CONFIG GET of all shards in one reply, which shows where shards have different values.
 *
 *   CONFIG SET maxmemory 1gb ── a shard fails in the middle: the client gets an error
 *   CONFIG GET maxmemory     ── ERR … different values: "1073741824" at a, "0" at b
 *   CONFIG GET max*          ── maxmemory: "1073741824" at a, "0" at b
 *
 * Options that belong to one machine (paths, and those that need a restart) are shown as the first shard has them.
 */
#pragma once

#include "proxy/core/client.h"
#include "proxy/core/request.h"

/* Does the proxy itself answer for this option? */
typedef bool own_option_fn(const struct client *client, struct bytes name);

/* After CONFIG GET at all shards: adds their pairs, without those of the proxy (`is_own`; NULL: it has none), and returns
 * their number. A negative number: an option that the command names has different values, and the error is in `reply`. */
int64_t shards_config_write(struct client *client, struct request *request, own_option_fn *is_own,
                            struct reply *reply, struct reply *pairs);
