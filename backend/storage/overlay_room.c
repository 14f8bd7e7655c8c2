/*
 * overlay_room.c - how many bytes the write buffers hold, and which writers have to wait for room.
 *
 *   small values   count for all writers: overlay_common_bytes, overlay_is_behind
 *   big values     count only for requests that bring another big one (overlay_has_big), up to BIG_BYTES_MAX
 */
#include "backend/storage/overlay_inner.h"
#include "config/memory_plan.h"

enum { BIG_BUFFERS = 64 };

static size_t big_bytes(const struct overlay *overlay)
{
    return overlay->buffers[0].big_bytes + overlay->buffers[1].big_bytes;
}

/* Are big values so few that small writers need not wait for them? In proportion to a buffer, so that a small `memory` holds. */
static bool are_big_few(const struct overlay *overlay)
{
    size_t most = overlay->buffer_bytes < BIG_BYTES_MAX / BIG_BUFFERS
                      ? overlay->buffer_bytes * BIG_BUFFERS
                      : BIG_BYTES_MAX;
    return big_bytes(overlay) <= most;
}

/* Bytes of the buffer for which all writers wait. */
static size_t common_bytes(const struct overlay *overlay, const struct write_buffer *buffer)
{
    return buffer->arena.bytes - (are_big_few(overlay) ? buffer->big_bytes : 0);
}

size_t overlay_bytes(const struct overlay *overlay)
{
    return overlay->active->arena.bytes - overlay->batch->bytes_from;
}

size_t overlay_common_bytes(const struct overlay *overlay)
{
    const struct batch *batch = overlay->batch;
    return overlay_bytes(overlay) -
           (are_big_few(overlay) ? overlay->active->big_bytes - batch->big_from : 0);
}

/* Does the immutable buffer have more than both buffers may have, because a command wrote very many rows? */
static bool is_immutable_over(const struct overlay *overlay)
{
    return overlay->immutable &&
           common_bytes(overlay, overlay->immutable) > WRITE_BUFFERS * overlay->buffer_bytes;
}

bool overlay_has_big(const struct overlay *overlay, size_t limit)
{
    size_t open = overlay->active->big_bytes - overlay->batch->big_from;
    return (overlay_is_due(overlay) && open > limit) ||
           (overlay->immutable && big_bytes(overlay) > limit) || is_immutable_over(overlay);
}

bool overlay_is_behind(const struct overlay *overlay, size_t applied_bytes, unsigned percent)
{
    if (!overlay->immutable)
        return false;
    double immutable = (double)common_bytes(overlay, overlay->immutable);
    double most = WRITE_BUFFERS * (double)overlay->buffer_bytes - immutable;
    if (most < (double)overlay->buffer_bytes)
        most = (double)overlay->buffer_bytes;
    double share = (double)applied_bytes / ((double)overlay->immutable->arena.bytes + 1);
    return (double)common_bytes(overlay, overlay->active) > most / 2 * (1 + share) * percent / 100;
}
