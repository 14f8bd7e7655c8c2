/*
 * live_cluster.h - copies a running Redis Cluster: one live copy (live.h) for each of its masters.
 *
 *   master of 0-5460      ─► thread ─► spool SESSION.1 ─► thread: batches, row scree-copy:live:SESSION.1 ─┐
 *   master of 5461-10922  ─► thread ─► spool SESSION.2 ─► thread: batches, row scree-copy:live:SESSION.2 ─┼─► target
 *   master of 10923-16383 ─► thread ─► spool SESSION.3 ─► thread: batches, row scree-copy:live:SESSION.3 ─┘
 *   main thread: asks one master after the other for its slots, shows progress
 *
 * 1. A source is known by its slots: after a failover another node has them, and its history goes on (live_find.h).
 * 2. The first rows are written in one transaction, when all full copies have been received: all sources have a row, or none.
 * 3. Keys of a slot that moves come as DEL by one stream and as RESTORE by another one, without order. So a command with a key of another
 *    master's slots ends the copy, and so does a master that says that its slots are others: a slot that moves to a node that is not copied
 *    is in no other stream. An open slot is enough: its keys leave before it does. Each master is asked again at the end.
 * 4. A copy that is to end follows all sources until each has been silent; then each master is asked how much it has sent, by the address
 *    of its stream, and the target must reach that before this connection breaks: another one may have another history.
 * 5. Libraries of functions come from the first source only: each master has the same ones.
 */
#pragma once

#include "backend/live/live.h"

enum { CLUSTER_MASTERS_MAX = 500 };

enum copy_exit cluster_run(const struct copy_options *options);
