/*
 * block.h - reference-counted memory for received bytes, or for borrowed ones.
 *
 *   stream reads into ──► block ◄── segments of requests and replies (block_ref)
 *   big value, owned elsewhere ◄── block_new_borrowed ◄── segments of replies: nothing is copied
 *
 * A block belongs to one thread: references are plain integers. Blocks of BLOCK_SIZE come from a thread-local cache
 * that shrinks while it is not used (block_cache_decay).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { BLOCK_SIZE = 64 * 1024 }; /* data bytes of a standard block */

typedef void block_release_fn(void *owner);

struct block {
    uint32_t refs;
    size_t size;        /* capacity of data */
    size_t used;        /* bytes filled so far; the next read continues here */
    struct block *next; /* next in the cache, or in an owner's list */
    char *data;
    block_release_fn *release; /* releases borrowed bytes; NULL: the block owns its bytes */
    void *owner;
    char room[];
};

/* A block with one reference and at least `size` data bytes. Sizes up to BLOCK_SIZE give a standard block. NULL only
 * when a size beyond BLOCK_SIZE cannot be allocated. */
struct block *block_new(size_t size);
/* A block with one reference and exactly `size` data bytes, never a cached one: for bytes that live long. NULL when
 * it cannot be allocated. */
struct block *block_new_exact(size_t size);
/* A block with one reference for borrowed bytes. They must not change until the last reference is dropped; then
 * release(owner) is called. */
struct block *block_new_borrowed(char *data, size_t size, block_release_fn *release, void *owner);
struct block *block_ref(struct block *block);
/* The block, of which the caller has the only reference, with room for `size` bytes and with its old ones; it has moved. NULL: that takes
 * a copy, which the caller makes; the block stays. */
struct block *block_grow(struct block *block, size_t size);
/* Drops one reference; the last one frees the block, or puts it into the cache. NULL is allowed. */
void block_unref(struct block *block);
/* Frees half of this thread's unused cached blocks; called by a slow timer. */
void block_cache_decay(void);
/* Bytes of all live blocks of this thread, including cached ones. */
size_t block_bytes_total(void);
/* Bytes of this thread's blocks that have references. */
size_t block_bytes_used(void);
