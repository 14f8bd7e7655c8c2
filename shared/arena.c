#include "shared/arena.h"

#include "shared/check.h"

#include <stdlib.h>

enum { CHUNK_SIZE = 16 * 1024 }; /* room of a standard chunk */

struct arena_chunk {
    struct arena_chunk *next;
    size_t size; /* bytes of data[] */
    size_t used;
    _Alignas(8) char data[];
};

void arena_init(struct arena *arena)
{
    *arena = (struct arena){0};
}

static void free_chunks(struct arena_chunk *chunk)
{
    while (chunk) {
        struct arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
}

void arena_fini(struct arena *arena)
{
    free_chunks(arena->chunk);
    arena_init(arena);
}

void arena_reset(struct arena *arena)
{
    struct arena_chunk *keep = NULL;
    struct arena_chunk **link = &arena->chunk;
    while (*link && (*link)->size != CHUNK_SIZE)
        link = &(*link)->next;
    if (*link) {
        keep = *link;
        *link = keep->next;
        keep->next = NULL;
        keep->used = 0;
    }
    free_chunks(arena->chunk);
    *arena = (struct arena){.chunk = keep};
}

/* Adds a chunk with room for `size` bytes. A big chunk is inserted after the newest one, so that the newest stays in
 * use. */
static struct arena_chunk *chunk_new(struct arena *arena, size_t size)
{
    size_t room = size > CHUNK_SIZE / 4 ? size : CHUNK_SIZE;
    struct arena_chunk *chunk = malloc(sizeof(*chunk) + room);
    CHECK(chunk);
    *chunk = (struct arena_chunk){.size = room};
    struct arena_chunk **link = &arena->chunk;
    if (room != CHUNK_SIZE && arena->chunk)
        link = &arena->chunk->next;
    chunk->next = *link;
    *link = chunk;
    return chunk;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    CHECK(size < SIZE_MAX / 2);
    size = (size + 7) & ~(size_t)7;
    struct arena_chunk *chunk = arena->chunk;
    if (!chunk || chunk->size - chunk->used < size)
        chunk = chunk_new(arena, size);
    void *room = chunk->data + chunk->used;
    chunk->used += size;
    arena->bytes += size;
    return room;
}

struct bytes arena_copy(struct arena *arena, struct bytes data)
{
    char *copy = arena_alloc(arena, data.len);
    if (data.len)
        memcpy(copy, data.data, data.len);
    return (struct bytes){copy, data.len};
}
