/*
 * copied_batch.h - the longest batch that a shard with copies writes: a longer one could not be sent to the others (replica_message.h), and
 * they would wait for it for ever.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COPIED_BATCH_MAX ((uint64_t)2 << 30)

/* False: the batch of so many bytes is too long, with the reason in error[size]. */
bool copied_batch_fits(uint64_t bytes, char *error, size_t size);
