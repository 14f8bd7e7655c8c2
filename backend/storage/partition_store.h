/*
 * partition_store.h - opening the store of a partition, for the server and for the tools that need none.
 *
 *   <data>/partition-<n> ──► options from the configuration ──► RocksDB ──► is it of our data format?
 *
 * A new store gets this program's format (encoding.h). One of a newer program is refused with a line that says so.
 */
#pragma once

#include "backend/format/encoding.h"
#include "backend/store/store.h"
#include "config/config.h"

/* Keys of system rows that are one byte. */
#define SYSTEM_HEADER "h"
#define SYSTEM_FORMAT "v"

/* The options of a partition's store, without path and filter. */
struct store_options partition_store_options(const struct backend_config *config);
/* Opens <data>/<name>; made when it is missing. NULL and a reason in error[size]. */
struct store *partition_store_open(struct store_env *env, const struct backend_config *config,
                                   const char *name, char *error, size_t size);
/* The same at a path, without a format and with nothing dropped by compaction. */
struct store *partition_store_open_raw(struct store_env *env, const struct backend_config *config,
                                       const char *path, char *error, size_t size);
/* The data format; 0: none yet. False: it cannot be read. */
bool partition_store_format(struct store *store, uint64_t *format);
