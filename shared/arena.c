#include "shared/arena.h"

#include "shared/big_memory.h"
#include "shared/check.h"

#include <stdlib.h>

enum { CHUNK_SIZE = 16 * 1024 }; /* room of a standard chunk */

struct arena_chunk {
    struct arena_chunk *next;
    size_t size; /* bytes of data[] */
    size_t used;
    uint64_t number; /* arena->chunks when it was made */
    uint32_t shares; /* arena_share */
    bool is_left;    /* the arena has forgotten it: freed with the last share */
    _Alignas(8) char data[];
};

void arena_init(struct arena *arena)
{
    *arena = (struct arena){0};
}

static void chunk_free(struct arena_chunk *chunk)
{
    big_free(chunk, sizeof *chunk + chunk->size);
}

/* Frees a chunk and the chunks behind it, up to `end`. */
static void free_chunks(struct arena *arena, struct arena_chunk *chunk,
                        const struct arena_chunk *end)
{
    size_t freed = 0;
    while (chunk != end) {
        struct arena_chunk *next = chunk->next;
        freed += chunk->size;
        if (chunk->shares)
            chunk->is_left = true;
        else
            chunk_free(chunk);
        chunk = next;
    }
    if (arena->meter) /* chunks that are older than the meter's count do not count */
        arena->meter->held -= freed < arena->meter->held ? freed : arena->meter->held;
}

void arena_fini(struct arena *arena)
{
    free_chunks(arena, arena->chunk, NULL);
    arena_init(arena);
}

void arena_reset(struct arena *arena)
{
    struct arena_chunk *keep = arena->chunk;
    struct arena_chunk **link = &arena->chunk;
    if (arena->chunks <= 1 && keep && keep->size == CHUNK_SIZE && !keep->next) { /* nearly always */
        keep->used = 0;
        keep->number = 0;
        arena->bytes = 0;
        arena->chunks = 0;
        return;
    }
    keep = NULL;
    while (*link && (*link)->size != CHUNK_SIZE)
        link = &(*link)->next;
    if (*link) {
        keep = *link;
        *link = keep->next;
        keep->next = NULL;
        keep->used = 0;
        keep->number = 0;
    }
    free_chunks(arena, arena->chunk, NULL);
    arena->chunk = keep;
    arena->bytes = 0;
    arena->chunks = 0;
}

struct arena_mark arena_mark(const struct arena *arena)
{
    return (struct arena_mark){.chunk = arena->chunk,
                               .used = arena->chunk ? arena->chunk->used : 0,
                               .bytes = arena->bytes,
                               .chunks = arena->chunks};
}

void arena_release(struct arena *arena, const struct arena_mark *mark)
{
    struct arena_chunk *old = mark->chunk;
    CHECK(mark->chunks <= arena->chunks);
    free_chunks(arena, arena->chunk, old);
    if (old) {
        struct arena_chunk *end = old->next; /* big chunks may have come behind it */
        while (end && end->number > mark->chunks)
            end = end->next;
        free_chunks(arena, old->next, end);
        old->next = end;
        old->used = mark->used;
    }
    arena->chunk = old;
    arena->bytes = mark->bytes;
    arena->chunks = mark->chunks;
}

static void meter_add(struct arena_meter *meter, size_t bytes)
{
    meter->held += bytes;
    if (meter->held > meter->max)
        meter->on_max(meter);
}

/* Adds a chunk with room for `size` bytes. A big chunk is inserted after the newest one, so that the newest stays in
 * use. */
static struct arena_chunk *chunk_new(struct arena *arena, size_t size)
{
    size_t room = size > CHUNK_SIZE / 4 ? size : CHUNK_SIZE;
    if (arena->meter)
        meter_add(arena->meter, room);
    struct arena_chunk *chunk = big_alloc(sizeof *chunk + room);
    CHECK(chunk);
    *chunk = (struct arena_chunk){.size = room, .number = ++arena->chunks};
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

static bool has_byte(const struct arena_chunk *chunk, const char *byte)
{
    return byte >= chunk->data && byte < chunk->data + chunk->used;
}

struct arena_chunk *arena_share(const struct arena *arena, struct bytes part)
{
    struct arena_chunk *chunk = arena->chunk;
    while (chunk && !has_byte(chunk, part.data))
        chunk = chunk->next;
    if (!chunk || chunk->size == CHUNK_SIZE || chunk->size / 2 > part.len)
        return NULL;
    chunk->shares++;
    return chunk;
}

void arena_unshare(struct arena_chunk *chunk)
{
    CHECK(chunk->shares > 0);
    if (--chunk->shares == 0 && chunk->is_left)
        chunk_free(chunk);
}

struct bytes arena_copy(struct arena *arena, struct bytes data)
{
    char *copy = arena_alloc(arena, data.len);
    if (data.len)
        memcpy(copy, data.data, data.len);
    return (struct bytes){copy, data.len};
}
