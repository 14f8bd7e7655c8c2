/*
 * partition_commit.h - what a partition does when a batch is closed, durable or failed (callbacks of commit.h).
 *
 *   open batch ──on_close──► its last rows: counters, header ──on_commit──► held replies are sent
 *                                                                    └─ failed: memory is read from the store again
 */
#pragma once

#include <stdbool.h>

struct partition;

/* Reads index and version of the last durable batch. False: its row cannot be read. */
bool partition_read_header(struct partition *partition);
/* Makes partition->commit, with the durability that the snapshot names. */
void partition_commit_init(struct partition *partition);
