/*
 * partition_store.h - opens the WAL and the store of a partition, for the server and for offline tools.
 *
 *   <data>/partition-<n> ──► options from the configuration ──► WAL and RocksDB ──► checks the data format
 *
 * A new store gets the current format (encoding.h). A store of a newer format is refused with an error that says so. One of several
 * copies is opened as it is, even if it has lost records (storage_has_lost): nothing is appended to its log here.
 */
#pragma once

#include "backend/format/encoding.h"
#include "backend/storage/storage.h"
#include "config/config.h"
#include "config/memory_plan.h"

/* Keys of system rows that are one byte. */
#define SYSTEM_HEADER "h"
#define SYSTEM_FORMAT "v"
#define SYSTEM_LOG_ID "l"
#define SYSTEM_RANKS  "r" /* rank_rebuild.h; empty: there are no rank trees of older programs */

/* The options of a partition's store, without path and filter. */
struct store_options partition_store_options(const struct backend_config *config,
                                             const struct memory_plan *memory);
/* Opens <data>/<name>; created if it is missing. NULL and the reason in error[size]. */
struct storage *partition_store_open(struct store_env *env, const struct backend_config *config,
                                     const char *name, char *error, size_t size);
/* Opens a store at a path, without checking the format, and without dropping orphans in compaction. Refused on a full disk, where the tables
 * would lack the rows of the log. */
struct storage *partition_store_open_raw(struct store_env *env, const struct backend_config *config,
                                         const char *path, char *error, size_t size);
/* The data format; 0: none yet. False: it cannot be read. */
bool partition_store_format(struct store *store, uint64_t *format);
/* The name of the log whose batches made the store, a random number; 0: none yet. False: it cannot be read. A log gets another name when
 * batches that were readable may be gone: in a restored store, after its damage, and when a copy is forced to go on without the others. So with its name an index means one batch. */
bool partition_store_log_id(struct store *store, uint64_t *id);
/* A random name. */
uint64_t partition_store_new_log_id(void);
/* Gives the log of a restored store another name; if the store was one of several copies, it is a store of its own now. False and
 * the reason in error[size]. */
bool partition_store_rename_log(struct storage *storage, char *error, size_t size);
