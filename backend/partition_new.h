/*
 * partition_new.h - makes a partition of what the rooms below offer, takes clients, stops it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct loop;
struct partition;
struct process;
struct stream;
struct tls_context;

/* Opens the partition's store under `data`/partition-<index> and makes everything but the listeners. Runs on the
 * calling thread; the loop must exist. NULL and a reason in error[size]. */
struct partition *partition_new(struct process *process, uint32_t index, struct loop *loop,
                                char *error, size_t size);
/* listener_tls_fn of listeners.tls; the owner is the partition. */
struct tls_context *partition_tls(void *owner);
/* accept_fn: a stream becomes a client; the owner is the partition. */
void partition_accept(void *owner, struct stream *stream);
/* Stops reading, answers what was read, commits, closes every session; then calls on_stopped. */
void partition_stop(struct partition *partition, void (*on_stopped)(void *owner), void *owner);
/* After it has stopped, or when it never ran. Closes the store. */
void partition_free(struct partition *partition);
