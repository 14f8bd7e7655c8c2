/*
 * shards_file.h - reads a shard map from an ini file.
 *
 *   [map]                        [shard b]
 *   epoch = 7                    slots = 5461-10922 16000
 *                                address = backend-1.backend:7401
 *
 * Every slot is given exactly once, or the file is refused with the line that is wrong. `slots` and
 * `address` may be repeated, and continued on indented lines.
 */
#pragma once

#include "shared/shard_map.h"

/* NULL: error[size] says "file:line: what was expected". The map has one reference, the caller's. */
struct shard_map *shards_load(const char *path, char *error, size_t size);
/* The same from memory; `path` only for messages. */
struct shard_map *shards_parse(const char *path, struct bytes text, char *error, size_t size);
