/*
 * slot_copy.h - for a backup of some slots: replaces the copied files of a partition by a store with only the rows of these slots.
 *
 *   cut (files of the whole store) ─► opened, rows of the slots ─► import.h ─► a new store ─► takes the place of the cut
 */
#pragma once

#include "backend/backup/disk_file.h"
#include "config/config.h"

struct store_env;

/* Replaces the store in directory `cut` by one with its FUNCTION libraries and the rows of each slot for which wanted[slot] is true.
 * Runs on a worker thread. Returns false and a reason on failure. */
bool slot_copy(struct store_env *env, const struct backend_config *config, const char *cut,
               const bool *wanted, struct disk_progress *progress, char *error, size_t size);
