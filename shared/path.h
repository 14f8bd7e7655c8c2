/*
 * path.h - directories: make, sync, measure, give to another user, remove.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Makes the directory and its missing parents, each durably. False and a one-line reason in error[size]: it failed, or
 * a file has the name. */
bool path_make(const char *path, char *error, size_t size);
/* Bytes of the regular files in the directory whose names end in `suffix` ("" = all). */
uint64_t path_bytes(const char *path, const char *suffix);
/* Free bytes that we may use on the path's file system; 0 when unknown. */
uint64_t path_free_bytes(const char *path);
/* Size of the path's file system; 0 when unknown. */
uint64_t path_total_bytes(const char *path);
/* Syncs the directory, so that names in it are durable. */
bool path_sync(const char *path);
/* Removes a file, or a directory with its content. True also when it does not exist. False: errno. */
bool path_remove(const char *path);
bool path_exists(const char *path);
/* The user and group of the path or, if it does not exist, of its nearest parent that does. */
void path_owner(const char *path, uid_t *user, gid_t *group);
/* Gives a file, or a directory with its content, to the user and group. False: errno. */
bool path_give(const char *path, uid_t user, gid_t group);
