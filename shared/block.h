/*
 * block.h - reference-counted memory that received bytes, or borrowed ones, live in.
 *
 *   stream reads into ──► block ◄── segments of requests and replies (block_ref)
 *   somebody's big value ◄── block_new_borrowed ◄── segments of replies: nothing is copied
 *
 * A block belongs to one thread: references are plain integers. Blocks of BLOCK_SIZE come from a
 * thread-local cache that shrinks again when it is not used (block_cache_decay).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { BLOCK_SIZE = 64 * 1024 }; /* data bytes of a standard block */

typedef void block_release_fn(void *owner);

struct block {
    uint32_t refs;
    size_t size;        /* bytes at data */
    size_t used;        /* bytes already filled; a reader fills from here on */
    struct block *next; /* in the cache, or in an owner's list */
    char *data;
    block_release_fn *release; /* of borrowed bytes; NULL: they are the block's own */
    void *owner;
    char room[];
};

/* A block with one reference and at least `size` data bytes. A size of up to BLOCK_SIZE gives a
 * standard block. NULL only when a size beyond BLOCK_SIZE cannot be allocated. */
struct block *block_new(size_t size);
/* A block with one reference and exactly `size` data bytes, never a cached one: for bytes that may stay
 * long. NULL when it cannot be allocated. */
struct block *block_new_exact(size_t size);
/* A block with one reference for bytes that are somebody else's. They are only read, and stay as they are until the
 * last reference is dropped, which calls release(owner). */
struct block *block_new_borrowed(char *data, size_t size, block_release_fn *release, void *owner);
struct block *block_ref(struct block *block);
/* Drops one reference; the last one gives the memory back. NULL is allowed. */
void block_unref(struct block *block);
/* Gives back half of this thread's unused cached blocks; called by a slow timer. */
void block_cache_decay(void);
/* Bytes of all live blocks of this thread, cached ones included. */
size_t block_bytes_total(void);
