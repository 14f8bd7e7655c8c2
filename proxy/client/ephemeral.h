/*
 * ephemeral.h - ephemeral namespaces: their data is dropped some time after their last client has left.
 *
 *   last client of this worker leaves ──► leaving list ──ephemeral-after──► SCREE DROP to every shard
 *                                                                              1: dropped  0: used since, wait again
 *   it has clients ──► SCREE KEEP to every shard from time to time, so that shards do not drop it
 *
 * The shards decide, since only they see the commands of all proxies: SCREE DROP deletes a namespace only if it had no
 * command for ephemeral-after, and no SCREE KEEP is in force. SCREE KEEP is in force for the sender's ephemeral-after,
 * since proxies may be configured differently. A proxy repeats it three times in that time, and within a second after it
 * has lost a connection to a shard.
 */
#pragma once

struct keyspace;
struct proxy_worker;

/* The last client of this worker has left the namespace; if it is ephemeral, its data is dropped some time later. */
void ephemeral_left(struct proxy_worker *worker, struct keyspace *keyspace);
/* Once a second: keeps or drops ephemeral namespaces. */
void ephemeral_slow(struct proxy_worker *worker);
/* The worker stops: forgets which namespaces it would drop. */
void ephemeral_stop(struct proxy_worker *worker);
