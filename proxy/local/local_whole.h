/*
 * local_whole.h - commands for all keys of all shards, while slots may be moving from one shard to another.
 *
 *   DBSIZE ──► every shard: SCREE OWNED DBSIZE        a: the slots' sum, 17 keys     b: the slots' sum, 4 keys
 *                 ▲                                             │
 *                 └─ some milliseconds later ◄─ not every slot ─┴─ every slot was counted once ──► 21
 *
 * A slot that is handed over while the shards execute such a command could be at no shard, or at two: its keys would be counted
 * twice, or a FLUSHALL would leave them. So each shard says with its reply which slots it owned (slot_sum), and the command is
 * repeated until each slot was owned by one shard, at most for the time of [upstream] timeout. Later requests of the client
 * wait until then, because a FLUSHALL that is repeated would remove what they write.
 *
 * A shard that is not reachable matters only if it owns slots. Plain Redis servers, and backends without a shard map, do not say
 * which slots they own: their replies count as they are.
 */
#pragma once

#include "proxy/local/local.h"
#include "proxy/merge.h"

/* Writes the reply to the client from the shards' replies, or sends further commands. */
typedef void whole_done_fn(struct client *client, struct request *request,
                           const struct shard_reply *replies, uint32_t count, struct reply *reply);
/* Sends argv to all shards, and calls the function when it has reached every slot. argv must stay valid. If that fails, the
 * request is answered with an error. */
void whole_send(struct client *client, struct request *request, const struct bytes *argv,
                uint32_t argc, whole_done_fn *done);
/* Sends the command of whole_send again, after some time. Only in `done`. False: it takes too long already. */
bool whole_again(struct client *client, struct request *request);
