#include "backend/archive/archive_pack.h"

#include "shared/check.h"

#include <stdlib.h>
#define ZSTD_STATIC_LINKING_ONLY /* for ZSTD_c_literalCompressionMode */
#include <zstd.h>

enum {
    LEVEL = 1,        /* searches what comes again: the machine has commands to run */
    FAST_LEVEL = -10, /* hardly searches */
    FAST_FROM_PERCENT = 40,
    SKIP_FROM_PERCENT = 80,
    FRAMES = 15, /* after a frame that keeps so much of its length */
};

struct archive_packer {
    ZSTD_CCtx *context;
    unsigned skips; /* frames that are stored as they are */
    unsigned fasts; /* frames that are packed with FAST_LEVEL */
};

struct archive_packer *archive_packer_new(void)
{
    struct archive_packer *packer = calloc(1, sizeof *packer);
    CHECK(packer);
    packer->context = ZSTD_createCCtx();
    CHECK(packer->context);
    /* else FAST_LEVEL would leave bytes that do not come again as they are */
    (void)ZSTD_CCtx_setParameter(packer->context, ZSTD_c_literalCompressionMode, ZSTD_ps_enable);
    return packer;
}

void archive_packer_free(struct archive_packer *packer)
{
    if (packer)
        (void)ZSTD_freeCCtx(packer->context);
    free(packer);
}

/* Returns the length, at most that of `from`, which it has if it cannot be made shorter. */
static size_t pack_at_level(struct archive_packer *packer, int level, struct bytes from, char *to,
                            size_t room)
{
    (void)ZSTD_CCtx_setParameter(packer->context, ZSTD_c_compressionLevel, level);
    size_t len = ZSTD_compress2(packer->context, to, room, from.data, from.len);
    return ZSTD_isError(len) || len > from.len ? from.len : len;
}

size_t archive_pack(struct archive_packer *packer, struct bytes from, char *to, size_t room)
{
    if (packer->skips) {
        packer->skips--;
        return 0;
    }
    bool is_fast = packer->fasts > 0;
    if (is_fast)
        packer->fasts--;
    size_t len = pack_at_level(packer, is_fast ? FAST_LEVEL : LEVEL, from, to, room);
    if (len * 100 >= from.len * SKIP_FROM_PERCENT)
        packer->skips = FRAMES;
    else if (!is_fast && len * 100 >= from.len * FAST_FROM_PERCENT)
        packer->fasts = FRAMES;
    return len < from.len ? len : 0;
}

bool archive_unpack(struct bytes from, char *to, size_t len)
{
    size_t got = ZSTD_decompress(to, len, from.data, from.len);
    return !ZSTD_isError(got) && got == len;
}
