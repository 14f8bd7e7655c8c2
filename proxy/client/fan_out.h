/*
 * fan_out.h - sends a command of a local handler to shards, and passes their replies to a callback of the handler.
 *
 *   local_info ── request_fan_out(…, info_done) ──► every shard      info_done(client, request, reply) writes the reply
 */
#pragma once

#include "proxy/core/request.h"

struct keyspace;
struct node;

enum { SHARDS_ALL = -1, SHARDS_ANY = -2 };
/* Sends argv (a complete command) to the shard with this index in worker->snapshot->map, to all shards or to any one.
 * It runs in `keyspace`; NULL: the client's. */
void request_fan_out(struct request *request, struct keyspace *keyspace, int shard,
                     const struct bytes *argv, uint32_t argc, request_done_fn *done);
/* Options of request_fan_out_with. */
struct fan_out {
    struct keyspace *keyspace;
    int shard;
    unsigned lane; /* LANE_ of node.h */
    const struct bytes *argv;
    uint32_t argc;    /* at most FAN_OUT_ARGS if name_at is set */
    uint32_t name_at; /* index of the argument that becomes the shard's name; 0: none */
};
enum { FAN_OUT_ARGS = 16 };
void request_fan_out_with(struct request *request, const struct fan_out *how,
                          request_done_fn *done);
/* A command for one copy of a shard. */
struct fan_part {
    struct node *node; /* of pool->nodes, or of the copies of one of them */
    const struct bytes *argv;
    uint32_t argc;
};
/* Sends each of these commands, 65535 at most, on LANE_CONTROL. Reply i is that to parts[i]. */
void request_fan_out_to(struct request *request, const struct fan_part *parts, uint32_t count,
                        request_done_fn *done);
/* Sends each of these commands to all shards. Reply c * shards + i is that of shard i to command c. */
void request_fan_out_each(struct request *request, const struct fan_out *commands, uint32_t count,
                          request_done_fn *done);
