/*
 * archive_pack.h - the records of an archive frame are compressed by zstd before they are written.
 *
 * What a frame saves says how much work the next ones are worth:
 *
 *   keeps 80 % and more, as random bytes        the next 15 are stored as they are
 *   keeps 40 % and more, as random digits do    the next 15 are compressed without a search for what comes again, in half the time, and are some
 *                                               percent longer
 *
 * Then one is tried in full again. The reader need not know.
 */
#pragma once

#include "shared/bytes.h"

/* Compresses one frame after the other. */
struct archive_packer;
struct archive_packer *archive_packer_new(void);
void archive_packer_free(struct archive_packer *packer); /* NULL is allowed */

/* Writes the compressed bytes to `to`, which has room for `room` bytes. 0: the frame is to be stored as it is. */
size_t archive_pack(struct archive_packer *packer, struct bytes from, char *to, size_t room);
/* False: these are not the compressed form of exactly `len` bytes. */
bool archive_unpack(struct bytes from, char *to, size_t len);
