/*
 * Bytes that the consumer does not consume are kept in one of three ways, cheapest first:
 *
 *   many bytes of a shared block    by reference; copied only when more bytes must be read after them
 *   few bytes of a shared block     copied to a small private block, so that they do not pin the shared one
 *   bytes of the private block      stay where they are; `start` advances
 *
 * When a private block is full, its bytes move to the front if at least half of the block is then free; otherwise it
 * is replaced by a block of 1.5 times the bytes. So each byte is copied a bounded number of times. A frame that is
 * announced but not sent costs at most TRUST bytes.
 */
#include "shared/receive.h"

#include "shared/check.h"

#include <string.h>

enum {
    PRIVATE_MIN = 2048,       /* smallest private block */
    PIN_MIN = BLOCK_SIZE / 4, /* fewer bytes are copied instead of pinning a shared block */
    TRUST = 1024 * 1024,      /* a frame announced as larger gets memory only as its bytes arrive */
    GROWTH = 4,               /* such a frame gets this many times the bytes that have arrived */
};

void receive_init(struct receive *receive)
{
    *receive = (struct receive){0};
}

void receive_fini(struct receive *receive)
{
    block_unref(receive->partial);
    receive_init(receive);
}

size_t receive_held(const struct receive *receive)
{
    return receive->end - receive->start;
}

size_t receive_room_bytes(const struct receive *receive)
{
    if (!receive->partial)
        return 0;
    return receive->is_shared ? receive_held(receive) : receive->partial->size;
}

bool receive_restore(struct receive *receive, const char *data, size_t len, size_t need)
{
    CHECK(!receive->partial);
    struct block *block = block_new_exact(len < PRIVATE_MIN ? PRIVATE_MIN : len);
    if (!block)
        return false;
    memcpy(block->data, data, len);
    block->used = len;
    *receive = (struct receive){.partial = block, .end = len, .need = need};
    return true;
}

/* Block size for the announced frame, given how many bytes have arrived. */
static size_t trusted_need(const struct receive *receive)
{
    size_t shown = receive_held(receive) * GROWTH;
    size_t most = shown > TRUST ? shown : TRUST;
    return receive->need < most ? receive->need : most;
}

/* A big frame that is the first of its block is not copied each time that its block gets bigger. */
static bool grow_private(struct receive *receive, size_t size)
{
    const struct block *old = receive->partial;
    if (receive->is_shared || receive->start || old->refs > 1 || size < old->size)
        return false;
    struct block *block = block_grow(receive->partial, size);
    if (block)
        receive->partial = block;
    return block != NULL;
}

/* Moves the kept bytes to a private block with free room. A sender that filled its last block (`is_busy`) gets at
 * least a standard block. False: out of memory for the announced frame. */
static bool move_to_private(struct receive *receive, bool is_busy)
{
    size_t held = receive_held(receive);
    size_t size = held + held / 2;
    if (size < trusted_need(receive))
        size = trusted_need(receive);
    if (size < PRIVATE_MIN)
        size = PRIVATE_MIN;
    if (grow_private(receive, size))
        return true;
    struct block *block = is_busy ? block_new(size) : block_new_exact(size);
    if (!block)
        return false;
    memcpy(block->data, receive->partial->data + receive->start, held);
    block->used = held;
    block_unref(receive->partial);
    receive->partial = block;
    receive->start = 0;
    receive->end = held;
    receive->is_shared = false;
    return true;
}

static struct block *private_room(struct receive *receive)
{
    struct block *block = receive->partial;
    bool is_full = block->used == block->size;
    if (!receive->is_shared) {
        CHECK(block->used == receive->end);
        size_t room = block->size - receive->start;
        if (!is_full && (receive->need <= room || room >= TRUST))
            return block;
        if (block->refs == 1 && receive->start >= block->size / 2 && receive->need <= block->size) {
            memmove(block->data, block->data + receive->start, receive_held(receive));
            block->used = receive->end = receive_held(receive);
            receive->start = 0;
            return block;
        }
    }
    return move_to_private(receive, is_full) ? receive->partial : NULL;
}

struct block *receive_room(struct receive *receive, struct block **shared, size_t min)
{
    CHECK(min > 0);
    CHECK(min <= BLOCK_SIZE);
    if (receive->partial)
        return private_room(receive);
    struct block *block = *shared;
    if (block && block->refs == 1)
        block->used = 0; /* the old bytes are no longer used */
    if (!block || block->size - block->used < min) {
        block_unref(block);
        block = *shared = block_new(BLOCK_SIZE);
    }
    return block;
}

/* Passes block[start..end) to the consumer and keeps the bytes that it does not consume. */
static void present(struct receive *receive, struct block *block, size_t start, size_t end,
                    receive_fn *on_data, void *owner)
{
    size_t need = 0;
    size_t consumed = on_data(owner, block, block->data + start, end - start, &need);
    CHECK(consumed <= end - start);
    start += consumed;
    if (start == end) {
        receive_fini(receive);
        return;
    }
    if (!receive->partial) {
        receive->partial = block_ref(block);
        receive->is_shared = true;
    }
    receive->start = start;
    receive->end = end;
    receive->need = need;
    if (receive->is_shared && end - start < PIN_MIN)
        /* receive_room reports the failure */
        (void)move_to_private(receive, block->used == block->size);
}

void receive_filled(struct receive *receive, struct block *block, size_t len, receive_fn *on_data,
                    void *owner)
{
    CHECK(len <= block->size - block->used);
    bool is_private = block == receive->partial;
    CHECK(is_private ? !receive->is_shared : !receive->partial);
    size_t start = is_private ? receive->start : block->used;
    block->used += len;
    present(receive, block, start, block->used, on_data, owner);
}

void receive_again(struct receive *receive, receive_fn *on_data, void *owner)
{
    if (receive->partial)
        present(receive, receive->partial, receive->start, receive->end, on_data, owner);
}
