/*
 * What the consumer leaves over is kept in one of three ways, cheapest first:
 *
 *   a long rest of a shared block   by reference; moved only when more bytes must be read behind it
 *   a short rest of a shared block  copied to a small private block, so that it pins nothing
 *   a rest of the private block     stays; start moves on
 *
 * A private block that is full slides its bytes to the front only when at least half of it is free
 * by then, or is replaced by one of 1.5 times the bytes: each byte is copied a bounded number of
 * times. What is announced and not sent costs no more than TRUST.
 */
#include "shared/receive.h"

#include "shared/check.h"

#include <string.h>

enum {
    PRIVATE_MIN = 2048,       /* smallest private block */
    PIN_MIN = BLOCK_SIZE / 4, /* a shorter rest does not keep a shared block */
    TRUST = 1024 * 1024,      /* an announced size beyond it gets room only as bytes really come */
    GROWTH = 4,               /* times the bytes that came */
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

/* How big a block the announced need gets, given the bytes that came so far. */
static size_t trusted_need(const struct receive *receive)
{
    size_t shown = receive_held(receive) * GROWTH;
    size_t most = shown > TRUST ? shown : TRUST;
    return receive->need < most ? receive->need : most;
}

/* Moves the kept bytes to a private block with room for more. A sender that fills what it is given
 * (`is_busy`) gets a standard block at least. False: no memory for what the frame needs. */
static bool move_to_private(struct receive *receive, bool is_busy)
{
    size_t held = receive_held(receive);
    size_t size = held + held / 2;
    if (size < trusted_need(receive))
        size = trusted_need(receive);
    if (size < PRIVATE_MIN)
        size = PRIVATE_MIN;
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
        block->used = 0; /* nobody looks at the old bytes any more */
    if (!block || block->size - block->used < min) {
        block_unref(block);
        block = *shared = block_new(BLOCK_SIZE);
    }
    return block;
}

/* Shows block[start..end) to the consumer and keeps what it leaves over. */
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
        (void)move_to_private(receive, block->used == block->size); /* else receive_room says so */
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
