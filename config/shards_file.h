/*
 * shards_file.h - reads a shard map from an ini file.
 *
 *   [map]                        [shard b]
 *   epoch = 7                    slots = 5461-10922 16000
 *                                address = backend-1.backend:7401 backend-2.backend:7411
 *
 * A shard has one address, or up to SHARD_ADDRESSES_MAX: those of its copies, the serving one first.
 * Every slot must be assigned exactly once. An error names the file and the line. `slots` and `address` may occur
 * several times in a section, and may continue on indented lines.
 */
#pragma once

#include "shared/shard_map.h"

/* NULL: error[size] says "file:line: what was expected". The map has one reference, the caller's. `in_force` (NULL: none) is
 * the map that it will replace: a lower epoch is refused, and also an equal one if a slot has another shard. */
struct shard_map *shards_load(const char *path, const struct shard_map *in_force, char *error,
                              size_t size);
/* Like shards_load, for a text in memory that replaces no map; `path` is only used in messages. */
struct shard_map *shards_parse(const char *path, struct bytes text, char *error, size_t size);
