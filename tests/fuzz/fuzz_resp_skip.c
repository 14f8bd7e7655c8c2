/*
 * fuzz_resp_skip.c - the skipper finds the same frame ends in a stream of replies, wherever the stream is cut, and
 * reading the elements of a frame never leaves the frame.
 *
 * Input: 1 byte that chooses cuts, then the stream.
 */
#include "shared/check.h"
#include "shared/resp.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum { FRAMES_MAX = 1000 };

struct found {
    size_t ends[FRAMES_MAX]; /* offset of each frame's end in the stream */
    size_t count;
    enum resp_result last;
};

static void walk(struct bytes frame)
{
    size_t pos = 0;
    struct resp_value value;
    while (resp_value_next(frame, &pos, &value))
        CHECK(pos <= frame.len);
    size_t end = 0;
    CHECK(resp_value_skip(frame, &end));
    CHECK(end == frame.len);
}

/* The next 1 to 9 bytes of the stream; without cuts all remaining bytes. */
static size_t next_cut(size_t shown, size_t len, uint32_t *cuts)
{
    if (*cuts == 0)
        return len;
    *cuts = *cuts * 1103515245 + 12345;
    size_t next = shown + (*cuts >> 16) % 9 + 1;
    return next < len ? next : len;
}

/* Skips longer and longer prefixes of the stream, each in an allocation of its exact length: ASan reports reads past
 * it. */
static void run(struct bytes stream, uint32_t cuts, struct found *found)
{
    *found = (struct found){.last = RESP_MORE};
    struct resp_skip skip = {0};
    size_t shown = 0;
    size_t start = 0;
    while (found->last != RESP_BAD && shown < stream.len && found->count < FRAMES_MAX) {
        shown = next_cut(shown, stream.len, &cuts);
        size_t len = shown - start;
        char *part = malloc(len + 1);
        memcpy(part + 1, stream.data + start, len);
        const char *data = part + 1;
        while (found->count < FRAMES_MAX &&
               (found->last = resp_skip(&skip, data, len)) == RESP_FRAME) {
            CHECK(skip.first == *data);
            walk((struct bytes){data, skip.size});
            data += skip.size;
            len -= skip.size;
            start += skip.size;
            found->ends[found->count++] = start;
        }
        CHECK(skip.need == 0 || skip.need > len);
        free(part);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static struct found once;
    static struct found often;
    if (size < 1)
        return 0;
    struct bytes stream = {(const char *)input + 1, size - 1};
    run(stream, 0, &once);
    run(stream, input[0] * 257u + 1, &often);
    CHECK(once.count == often.count);
    CHECK(memcmp(once.ends, often.ends, once.count * sizeof(*once.ends)) == 0);
    CHECK(once.last == often.last || once.count == FRAMES_MAX);

    size_t pos = 0; /* also reads the elements of bytes that are no frame */
    struct resp_value value;
    while (resp_value_next(stream, &pos, &value))
        CHECK(pos <= stream.len);
    return 0;
}
