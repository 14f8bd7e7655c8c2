#include "backend/archive/archive_pack.h"

#include <zstd.h>

enum { LEVEL = 1 }; /* the fastest one: the machine has commands to run */

size_t archive_pack(struct bytes from, char *to, size_t room)
{
    size_t len = ZSTD_compress(to, room, from.data, from.len, LEVEL);
    return ZSTD_isError(len) || len >= from.len ? 0 : len;
}

bool archive_unpack(struct bytes from, char *to, size_t len)
{
    size_t got = ZSTD_decompress(to, len, from.data, from.len);
    return !ZSTD_isError(got) && got == len;
}
