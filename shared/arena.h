/*
 * arena.h - bump allocator: many small allocations, freed together.
 */
#pragma once

#include "shared/bytes.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *chunk; /* newest first */
    size_t bytes;              /* handed out since the last reset */
};

void arena_init(struct arena *arena);
/* Gives everything back to the system. */
void arena_fini(struct arena *arena);
/* Forgets all allocations; keeps one standard chunk, gives the rest back. */
void arena_reset(struct arena *arena);
/* 8-byte aligned, not zeroed; aborts when memory is out. */
void *arena_alloc(struct arena *arena, size_t size);
struct bytes arena_copy(struct arena *arena, struct bytes data);
