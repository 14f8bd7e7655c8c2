/*
 * arena.h - bump allocator: many small allocations, freed together.
 */
#pragma once

#include "shared/bytes.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *chunk; /* newest first */
    size_t bytes;              /* allocated since the last reset */
};

void arena_init(struct arena *arena);
/* Frees all memory. */
void arena_fini(struct arena *arena);
/* Invalidates all allocations; keeps one standard chunk and frees the other chunks. */
void arena_reset(struct arena *arena);
/* Returns 8-byte aligned memory that is not zeroed; aborts when memory is exhausted. */
void *arena_alloc(struct arena *arena, size_t size);
struct bytes arena_copy(struct arena *arena, struct bytes data);
