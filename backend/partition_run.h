/*
 * partition_run.h - accepts clients of a partition, ends the turns of its loop, and stops it.
 */
#pragma once

#include <stdbool.h>

struct partition;
struct stream;
struct tls_context;

/* listener_tls_fn of listeners.tls; the owner is the partition. */
struct tls_context *partition_tls(void *owner);
/* accept_fn: a stream becomes a client; the owner is the partition. */
void partition_accept(void *owner, struct stream *stream);
/* turn_hook_fn; the owner is the partition. */
bool partition_end_turn(void *owner);
/* Stops reading, replies to requests that were read, commits, closes all sessions; then calls on_stopped. */
void partition_stop(struct partition *partition, void (*on_stopped)(void *owner), void *owner);
/* Closes sessions, peers and listeners at once, and frees the replica, whose loop must have ended. */
void partition_close(struct partition *partition);
