/*
 * arena.h - bump allocator: many small allocations, freed together, or back to a mark.
 *
 *   arena_mark ─► allocations for one key, path or item ─► arena_release: these are freed, the older ones stay
 *
 * An arena may have a meter, which counts the bytes of its chunks: not each allocation costs something, only each chunk.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>

struct arena_chunk;

/* Bytes of chunks. on_max is called when they exceed `max`; it raises `max`, and may set `is_over`, which the arena's users read:
 * an allocation never fails. on_work is told of work that allocates nothing, and may set `is_over` too. */
struct arena_meter {
    size_t held;
    size_t max;
    bool is_over;
    void (*on_max)(struct arena_meter *meter);
    void (*on_work)(struct arena_meter *meter, size_t work); /* in units of 10 ns */
};

struct arena {
    struct arena_chunk *chunk; /* newest first, but a big one is behind the newest */
    size_t bytes;              /* allocated since the last reset */
    uint64_t chunks;           /* made since the last reset: the newest has this number */
    struct arena_meter *meter; /* NULL: none */
};

/* A state to which arena_release returns. */
struct arena_mark {
    struct arena_chunk *chunk;
    size_t used;
    size_t bytes;
    uint64_t chunks;
};

void arena_init(struct arena *arena);
/* Frees all memory. */
void arena_fini(struct arena *arena);
/* Invalidates all allocations; keeps one standard chunk and frees the other chunks. */
void arena_reset(struct arena *arena);
struct arena_mark arena_mark(const struct arena *arena);
/* Frees what was allocated since the mark. The arena may not have been reset since. */
void arena_release(struct arena *arena, const struct arena_mark *mark);
/* Returns 8-byte aligned memory that is not zeroed; aborts when memory is exhausted. */
void *arena_alloc(struct arena *arena, size_t size);
/* Keeps the allocation that has these bytes when the arena frees it, until arena_unshare. NULL: it is not here, has no chunk of its own, or is
 * more than twice as big: the part is all that is counted. Takes time for each chunk, so it is for big values. Both on one thread, that
 * which frees the arena's memory. */
struct arena_chunk *arena_share(const struct arena *arena, struct bytes part);
void arena_unshare(struct arena_chunk *chunk);
/* Long computations on data in an arena ask this now and then, with their work since the last time, in units of 10 ns: false: stop, the
 * result is not needed any more. */
static inline bool arena_goes_on(const struct arena *arena, size_t work)
{
    if (!arena->meter)
        return true;
    arena->meter->on_work(arena->meter, work);
    return !arena->meter->is_over;
}
struct bytes arena_copy(struct arena *arena, struct bytes data);
