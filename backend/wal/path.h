/*
 * path.h - directories: make, sync, measure, remove.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes the directory and its missing parents, each durable in its parent. False and a one-line
 * reason in error[size] when that fails or something else is in the way. */
bool path_make(const char *path, char *error, size_t size);
/* Bytes of the regular files in the directory whose names end in `suffix` ("" = all). */
uint64_t path_bytes(const char *path, const char *suffix);
/* Bytes free for us on the path's file system; 0 when unknown. */
uint64_t path_free_bytes(const char *path);
/* Makes the names in the directory durable. */
bool path_sync(const char *path);
/* Removes a file, or a directory with all it holds; what is not there is removed already. False: errno. */
bool path_remove(const char *path);
bool path_exists(const char *path);
