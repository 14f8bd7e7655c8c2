/*
 * fuzz_bounce.c - bounces from backends: any bytes are read within their bounds, and one that is accepted has valid texts, and
 * as many requests as it says.
 *
 * Input: the frame.
 */
#include "shared/bounce.h"
#include "shared/check.h"
#include "shared/resp.h"
#include "shared/shard_map.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check_inside(struct bytes text, const char *data, size_t size)
{
    CHECK(!text.len || (text.data >= data && text.data + text.len <= data + size));
}

static uint32_t count_requests(const struct bounce *bounce)
{
    struct bytes rest = bounce->requests;
    struct resp_skip skip = {0};
    uint32_t count = 0;
    while (rest.len && resp_skip(&skip, rest.data, rest.len) == RESP_FRAME) {
        rest = (struct bytes){rest.data + skip.size, rest.len - skip.size};
        count++;
    }
    CHECK(rest.len == 0);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct bounce bounce;
    char *data = malloc(size + 1);
    CHECK(data);
    memcpy(data, input, size);
    char *exact = realloc(data, size ? size : 1); /* so that a byte too far is noticed */
    CHECK(exact);
    if (bounce_read((struct bytes){exact, size}, &bounce)) {
        CHECK(bounce.first <= bounce.slot && bounce.slot <= bounce.last);
        CHECK(bounce.last < SLOT_COUNT && bounce.epoch > 0 && shard_name_valid(bounce.shard));
        check_inside(bounce.shard, exact, size);
        check_inside(bounce.address, exact, size);
        check_inside(bounce.space, exact, size);
        check_inside(bounce.command, exact, size);
        CHECK(count_requests(&bounce) == bounce.count && bounce.argc > 0);
    }
    free(exact);
    return 0;
}
