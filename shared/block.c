/*
 * The cache is a stack, because the block that was used last is most likely still in the CPU's caches. It holds at most
 * CACHE_MAX blocks; they are freed when the thread ends.
 */
#include "shared/block.h"

#include "shared/big_memory.h"
#include "shared/check.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, size)   ((void)(data), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(data, size) ((void)(data), (void)(size))
#endif

enum { CACHE_MAX = 256 };

static _Thread_local struct {
    struct block *top;
    uint32_t count;
    bool registered; /* the cache is freed when this thread ends */
} cache;
/* Bytes of the blocks that this thread has allocated, minus those it has freed. Negative if it has freed blocks that a
 * thread allocated which has ended. */
static _Thread_local int64_t bytes_total;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end;

struct block *block_new_exact(size_t size)
{
    if (size > SIZE_MAX - sizeof(struct block))
        return NULL;
    struct block *block = big_alloc(sizeof(*block) + size);
    if (!block)
        return NULL;
    *block = (struct block){.refs = 1, .size = size, .data = block->room};
    bytes_total += (int64_t)size;
    return block;
}

struct block *block_new_borrowed(char *data, size_t size, block_release_fn *release, void *owner)
{
    struct block *block = block_new_exact(0);
    CHECK(block);
    block->data = data;
    block->size = block->used = size;
    block->release = release;
    block->owner = owner;
    bytes_total += (int64_t)size;
    return block;
}

static void block_free(struct block *block)
{
    size_t own = block->release ? 0 : block->size;
    bytes_total -= (int64_t)block->size;
    if (block->release)
        block->release(block->owner);
    big_free(block, sizeof *block + own);
}

struct block *block_grow(struct block *block, size_t size)
{
    size_t before = block->size;
    CHECK(block->refs == 1 && size >= before && size <= SIZE_MAX - sizeof *block);
    if (block->release)
        return NULL;
    block = big_grow(block, sizeof *block + before, sizeof *block + size);
    if (!block)
        return NULL;
    block->data = block->room;
    block->size = size;
    bytes_total += (int64_t)(size - before);
    return block;
}

static struct block *cache_pop(void)
{
    struct block *block = cache.top;
    CHECK(block->refs == 0);
    cache.top = block->next;
    cache.count--;
    ASAN_UNPOISON_MEMORY_REGION(block->data, block->size);
    block->refs = 1;
    block->used = 0;
    block->next = NULL;
    return block;
}

static void cache_drop(uint32_t keep)
{
    while (cache.count > keep)
        block_free(cache_pop());
}

static void on_thread_end(void *unused)
{
    (void)unused;
    cache_drop(0);
}

static void make_key(void)
{
    CHECK(pthread_key_create(&thread_end, on_thread_end) == 0);
}

static void cache_register(void)
{
    CHECK(pthread_once(&once, make_key) == 0);
    CHECK(pthread_setspecific(thread_end, &cache) == 0);
    cache.registered = true;
}

static void cache_push(struct block *block)
{
    if (!cache.registered)
        cache_register();
    block->next = cache.top;
    cache.top = block;
    cache.count++;
    ASAN_POISON_MEMORY_REGION(block->data, block->size);
}

struct block *block_new(size_t size)
{
    if (size > BLOCK_SIZE)
        return block_new_exact(size);
    if (cache.top)
        return cache_pop();
    struct block *block = block_new_exact(BLOCK_SIZE);
    CHECK(block);
    return block;
}

struct block *block_ref(struct block *block)
{
    CHECK(block->refs > 0 && block->refs < UINT32_MAX);
    block->refs++;
    return block;
}

void block_unref(struct block *block)
{
    if (!block)
        return;
    CHECK(block->refs > 0);
    if (--block->refs > 0)
        return;
    if (block->size == BLOCK_SIZE && !block->release && cache.count < CACHE_MAX)
        cache_push(block);
    else
        block_free(block);
}

void block_cache_decay(void)
{
    cache_drop(cache.count / 2);
}

size_t block_bytes_total(void)
{
    return bytes_total > 0 ? (size_t)bytes_total : 0;
}

size_t block_bytes_used(void)
{
    size_t cached = (size_t)cache.count * BLOCK_SIZE;
    size_t total = block_bytes_total();
    return total > cached ? total - cached : 0;
}
