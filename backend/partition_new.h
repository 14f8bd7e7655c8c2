/*
 * partition_new.h - makes a partition of the parts in the rooms below, and frees it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;
struct partition;
struct process;

/* Opens the partition's store under `data`/partition-<index> and makes everything but the listeners. Runs on the
 * calling thread; the loop must exist. NULL and a reason in error[size]; `is_damaged`: its files are the cause, so another
 * attempt cannot succeed. */
struct partition *partition_new(struct process *process, uint32_t index, struct loop *loop,
                                bool *is_damaged, char *error, size_t size);
/* Frees a partition that has stopped or never ran, and closes its store. */
void partition_free(struct partition *partition);
