/*
 * pushed.h - the file PUSHED, in which config/push says up to when an object store has everything of backup-dir, or of archive-dir.
 *
 *   until-s 1796000299      Unix time; 1: no push has copied everything yet
 *   all-s 1796000294        of no interest here
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* 0: there is no such file, so the directory is not pushed; or it cannot be read. An empty path has none. */
uint64_t pushed_until_s(const char *dir);
/* Is this the name of the file, or of the one that is about to replace it? */
bool pushed_is_own(const char *name);
