/*
 * frame.h - one request as it was read: its bytes and the spans of its arguments.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/check.h"
#include "shared/resp.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* The bytes behind the header "*n\r\n". */
static inline struct bytes frame_arguments(const struct frame *frame)
{
    const char *line_end = memchr(frame->data, '\n', frame->len);
    CHECK(line_end);
    size_t header = (size_t)(line_end + 1 - frame->data);
    return (struct bytes){frame->data + header, frame->len - header};
}

static inline struct bytes frame_arg(const struct frame *frame, uint32_t i)
{
    return (struct bytes){frame->base + frame->args[i].at, frame->args[i].len};
}
