#include "backend/storage/copied_batch.h"

#include <inttypes.h>
#include <stdio.h>

bool copied_batch_fits(uint64_t bytes, char *error, size_t size)
{
    if (bytes <= COPIED_BATCH_MAX)
        return true;
    (void)snprintf(error, size,
                   "a batch of %" PRIu64
                   " bytes exceeds the maximum of 2 GiB of a shard with copies: write less at once",
                   bytes);
    return false;
}
