/*
 * refuse.h - refuses an accepted connection with an error. Inline, so that simulated streams use it too.
 */
#pragma once

#include "shared/net/stream.h"

static inline size_t refuse_data(void *owner, struct block *block, const char *data, size_t len,
                                 size_t *need)
{
    (void)owner;
    (void)block;
    (void)data;
    (void)need;
    return len;
}

static inline void refuse_end(void *owner, int err)
{
    (void)owner;
    (void)err;
}

/* Closes the stream when the error in its output was written; what the peer sends is ignored. To be called instead of
 * stream_set_owner. */
static inline void refuse_stream(struct stream *stream)
{
    static const struct stream_events events = {.on_data = refuse_data, .on_end = refuse_end};
    stream_set_owner(stream, &events, NULL);
    stream_close(stream);
}
