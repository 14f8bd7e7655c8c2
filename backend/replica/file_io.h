/*
 * file_io.h - reads and writes at a place of a file, whole: interrupted and short calls go on.
 */
#pragma once

#include "shared/bytes.h"

#include <stdint.h>

/* False: errno. */
bool file_write_at(int fd, struct bytes data, uint64_t at);
/* Reads *len bytes, and sets *len to how many the file had, which are fewer if it ends. False: errno says why. */
bool file_read_at(int fd, char *to, size_t *len, uint64_t at);
