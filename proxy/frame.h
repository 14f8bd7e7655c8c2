/*
 * frame.h - one request as it was read: its bytes, and where its arguments lie in them.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/resp.h"

#include <stddef.h>
#include <stdint.h>

struct block;

/* One request as it was read. */
struct frame {
    struct block *block; /* holds the bytes; NULL: an inline command, they are the scanner's */
    const char *data;
    size_t len;
    const char *base; /* of the spans */
    const struct span *args;
    uint32_t argc;
};

static inline struct bytes frame_arg(const struct frame *frame, uint32_t i)
{
    return (struct bytes){frame->base + frame->args[i].at, frame->args[i].len};
}
