/*
 * local_whole.h - executes commands for all keys at all shards, correctly also while slots move from one shard to another.
 *
 *   DBSIZE ──► every shard: SCREE OWNED DBSIZE        a: the slots' sum, 17 keys     b: the slots' sum, 4 keys
 *                 ▲                                             │
 *                 └─ some milliseconds later ◄─ not every slot ─┴─ every slot was counted once ──► 21
 *
 * The shards execute such a command at slightly different times. A slot that is handed over in between is seen at two shards, so its keys
 * are counted twice, or at none, so FLUSHALL leaves its keys. So each shard's reply includes a sum over the slots that it owned (slot_sum),
 * and the command is repeated until each slot was owned by exactly one shard, at most for the time of [upstream] timeout. Later
 * requests of the client wait until then, because a FLUSHALL that is repeated would remove what they write.
 *
 * A shard that is not reachable matters only if it owns slots. Plain Redis servers, and backends without a shard map, send no such
 * sums: their replies are merged as they are.
 */
#pragma once

#include "proxy/core/merge.h"
#include "proxy/local/local.h"

/* Writes the reply to the client from the shards' replies, or sends further commands. */
typedef void whole_done_fn(struct client *client, struct request *request,
                           const struct shard_reply *replies, uint32_t count, struct reply *reply);
/* Sends argv to all shards, and calls `done` when the command has been executed once for every slot. argv must stay valid. If that
 * fails, the request is answered with an error. */
void whole_send(struct client *client, struct request *request, const struct bytes *argv,
                uint32_t argc, whole_done_fn *done);
/* Sends the command of whole_send again, after a pause. To be called in `done` only. Returns false if the time is over. */
bool whole_again(struct client *client, struct request *request);
