/*
 * frame.h - one request as it was read: its bytes and the spans of its arguments.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/resp.h"

#include <stddef.h>
#include <stdint.h>

struct block;

struct frame {
    /* holds the bytes; NULL: an inline command, whose bytes belong to the scanner */
    struct block *block;
    const char *data;
    size_t len;
    const char *base; /* start of the spans */
    const struct span *args;
    uint32_t argc;
};

static inline struct bytes frame_arg(const struct frame *frame, uint32_t i)
{
    return (struct bytes){frame->base + frame->args[i].at, frame->args[i].len};
}
