#include "backend/archive/archive_pack.h"

#include "shared/check.h"

#include <stdlib.h>
#include <zstd.h>

enum {
    LEVEL =
        1, /* the fastest one that makes texts of random letters shorter: the machine has commands to run */
    SKIP_FROM_PERCENT = 80,
    SKIPS = 15,
};

struct archive_packer {
    ZSTD_CCtx *context;
    unsigned skips; /* frames that are stored as they are */
};

struct archive_packer *archive_packer_new(void)
{
    struct archive_packer *packer = calloc(1, sizeof *packer);
    CHECK(packer);
    packer->context = ZSTD_createCCtx();
    CHECK(packer->context);
    return packer;
}

void archive_packer_free(struct archive_packer *packer)
{
    if (packer)
        (void)ZSTD_freeCCtx(packer->context);
    free(packer);
}

size_t archive_pack(struct archive_packer *packer, struct bytes from, char *to, size_t room)
{
    if (packer->skips) {
        packer->skips--;
        return 0;
    }
    size_t len = ZSTD_compressCCtx(packer->context, to, room, from.data, from.len, LEVEL);
    if (ZSTD_isError(len) || len > from.len)
        len = from.len;
    if (len * 100 >= from.len * SKIP_FROM_PERCENT)
        packer->skips = SKIPS;
    return len < from.len ? len : 0;
}

bool archive_unpack(struct bytes from, char *to, size_t len)
{
    size_t got = ZSTD_decompress(to, len, from.data, from.len);
    return !ZSTD_isError(got) && got == len;
}
