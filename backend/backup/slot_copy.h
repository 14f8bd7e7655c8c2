/*
 * slot_copy.h - makes the cut of a partition smaller: for a backup of some slots, it becomes a store with only their rows.
 *
 *   cut (files of the whole store) ─► opened, rows of the slots ─► import.h ─► a new store ─► takes the place of the cut
 */
#pragma once

#include "backend/backup/disk_file.h"
#include "config/config.h"

struct store_env;

/* Replaces the store in directory `cut` by one with the rows of the slots with wanted[slot], and its functions. On a worker's thread. False
 * and a reason. */
bool slot_copy(struct store_env *env, const struct backend_config *config, const char *cut,
               const bool *wanted, struct disk_progress *progress, char *error, size_t size);
