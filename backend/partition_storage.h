/*
 * partition_storage.h - the layers between a partition's store and its commands: overlay, reader, caches, maintenance.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct backend_config;
struct partition;

/* Opens the store under `data`. False: the reason is in error[size]; `is_damaged`: damaged files are the cause. */
bool partition_storage_open(struct partition *partition, const struct backend_config *config,
                            bool *is_damaged, char *error, size_t size);
/* Makes the layers above the store, which must be open. False: system rows cannot be read. */
bool partition_storage_new(struct partition *partition, const struct backend_config *config);
/* Ends maintenance and drops cursors, which use the overlay. */
void partition_storage_stop(struct partition *partition);
/* Frees the layers and closes the store. Parts that were not made are skipped. */
void partition_storage_free(struct partition *partition);
