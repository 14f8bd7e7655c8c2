/*
 * archive_pack.h - the records of an archive frame are compressed by zstd before they are written.
 */
#pragma once

#include "shared/bytes.h"

/* Writes the compressed bytes to `to`, which has room for `room` bytes. 0: they would not be fewer. */
size_t archive_pack(struct bytes from, char *to, size_t room);
/* False: these are not the compressed form of exactly `len` bytes. */
bool archive_unpack(struct bytes from, char *to, size_t len);
