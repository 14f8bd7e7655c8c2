/*
 * overlay_share.c - big values that a reply refers to after their command: no copy of 200 MB while all other clients wait.
 *
 *   write buffer ─ row ─► value in a chunk of its own (arena.h) ◄─┬─ replies: it stays until the last one is sent, and
 *   reader ─ fetch ─────► value pinned in the store ◄─────────────┘  until its buffer is empty, or its fetch forgotten
 *
 * What stays is the whole value, and replies count only their part. So a part of less than half of the value is copied: else replies
 * of 1 MB could keep values of 512 MB.
 */
#include "backend/storage/overlay_inner.h"
#include "backend/storage/reader.h"

static void release_chunk(void *owner)
{
    arena_unshare(owner);
}

static void release_fetched(void *owner)
{
    reader_unshare(owner);
}

struct overlay_share overlay_share(const struct overlay *overlay, struct bytes value)
{
    struct arena_chunk *chunk = NULL;
    struct reader_share *fetched = NULL;
    if (value.len < BIG_VALUE_BYTES)
        return (struct overlay_share){0};
    for (int i = 0; i < 2 && !chunk; i++)
        chunk = arena_share(&overlay->buffers[i].arena, value);
    if (!chunk && overlay->view)
        chunk = arena_share(&overlay->view->written.arena, value);
    if (!chunk && overlay->view)
        chunk = arena_share(&overlay->view->borrowed.arena, value);
    if (chunk)
        return (struct overlay_share){release_chunk, chunk};
    if (overlay->reader)
        fetched = reader_share(overlay->reader, value);
    return (struct overlay_share){fetched ? release_fetched : NULL, fetched};
}
