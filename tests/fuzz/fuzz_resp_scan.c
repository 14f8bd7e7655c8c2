/*
 * fuzz_resp_scan.c - the scanner finds the same frames in a stream of requests, wherever the stream is cut.
 *
 * Input: 2 bytes that choose cuts and limits, then the stream.
 */
#include "shared/check.h"
#include "shared/resp.h"
#include "shared/table.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

/* The frames found in a stream. */
struct found {
    uint64_t frames; /* a hash of the sizes and arguments so far */
    size_t consumed;
    enum resp_result last;
    char error[128];
};

static void add(struct found *found, struct bytes bytes)
{
    uint64_t both[2] = {found->frames, hash_bytes(bytes)};
    found->frames = hash_bytes((struct bytes){(const char *)both, sizeof(both)});
}

static void add_frame(struct found *found, const struct resp_scan *scan, struct bytes data)
{
    const char *base = resp_scan_base(scan, data.data);
    size_t base_len = scan->is_inline ? scan->inline_len : scan->size;
    add(found, (struct bytes){(const char *)&scan->argc, sizeof(scan->argc)});
    for (uint32_t i = 0; i < scan->argc; i++) {
        CHECK((size_t)scan->args[i].at + scan->args[i].len + 2 <= base_len);
        add(found, (struct bytes){base + scan->args[i].at, scan->args[i].len});
    }
    CHECK(scan->size > 0 && scan->size <= data.len);
    found->consumed += scan->size;
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

/* Scans longer and longer prefixes of the stream, each in an allocation of its exact length: ASan reports reads past
 * it. */
static struct found run(struct bytes stream, const struct resp_limits *limits, uint32_t cuts)
{
    struct found found = {.last = RESP_MORE};
    struct resp_scan scan;
    resp_scan_init(&scan);
    size_t shown = 0;
    while (found.last != RESP_BAD && shown < stream.len) {
        shown = next_cut(shown, stream.len, &cuts);
        size_t len = shown - found.consumed;
        char *part = malloc(len + 1);
        memcpy(part + 1, stream.data + found.consumed, len);
        struct bytes data = {part + 1, len};
        while ((found.last = resp_scan(&scan, limits, data.data, data.len)) == RESP_FRAME) {
            size_t before = found.consumed;
            add_frame(&found, &scan, data);
            data.data += found.consumed - before;
            data.len -= found.consumed - before;
        }
        CHECK(scan.need == 0 || scan.need > data.len);
        free(part);
    }
    if (found.last == RESP_BAD)
        memcpy(found.error, scan.error, sizeof(found.error));
    resp_scan_fini(&scan);
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    if (size < 2)
        return 0;
    struct resp_limits limits = {
        .bulk_bytes_max = input[1] & 1 ? 20 : 1u << 30,
        .args_max = input[1] & 2 ? 4 : INT32_MAX,
        .inline_bytes_max = input[1] & 4 ? 16 : 65536,
        .unauthenticated = input[1] & 8,
    };
    struct bytes stream = {(const char *)input + 2, size - 2};
    struct found once = run(stream, &limits, 0);
    struct found often = run(stream, &limits, input[0] * 257u + 1);
    CHECK(once.frames == often.frames);
    CHECK(once.consumed == often.consumed);
    CHECK(once.last == often.last);
    CHECK(memcmp(once.error, often.error, sizeof(once.error)) == 0);
    return 0;
}
