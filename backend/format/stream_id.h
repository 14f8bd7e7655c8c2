/*
 * stream_id.h - ids of stream entries: their order, as 16 bytes that sort in it, and as the text "ms-seq".
 */
#pragma once

#include "backend/format/encoding.h"

static const struct stream_id STREAM_ID_MIN = {0, 0};
static const struct stream_id STREAM_ID_MAX = {UINT64_MAX, UINT64_MAX};

enum { STREAM_ID_BYTES = 16, STREAM_ID_TEXT_MAX = 42 };

static inline int stream_id_compare(struct stream_id a, struct stream_id b)
{
    if (a.ms != b.ms)
        return a.ms < b.ms ? -1 : 1;
    return (a.seq > b.seq) - (a.seq < b.seq);
}
static inline bool stream_id_is_zero(struct stream_id id)
{
    return id.ms == 0 && id.seq == 0;
}

/* Writes "ms-seq" without a zero byte; returns the length. to: STREAM_ID_TEXT_MAX. */
size_t stream_id_format(char *to, struct stream_id id);
struct bytes stream_id_encode(char to[STREAM_ID_BYTES], struct stream_id id);
bool stream_id_decode(struct bytes row, struct stream_id *id);
