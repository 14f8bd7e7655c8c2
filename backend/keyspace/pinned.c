/*
 * pinned.c - values that a command has borrowed from the store, and that stay in memory until it ends or releases them.
 *
 *   row_get ─┬► slice of RocksDB ─► running.pins ─┬─ the command ends ─────► released
 *            │                                    └─ a reply refers to it ─► a block has it; released with the last reply
 *            └► big value of a write buffer, or of a fetch ─ a reply refers to it ─► likewise
 */
#include "backend/keyspace/keyspace_inner.h"

#include "backend/context/partition.h"
#include "backend/storage/overlay.h"

#include <stdlib.h>

void pin_value(struct partition *partition, const struct slice *slice)
{
    if (partition->running.pins_count == partition->running.pins_cap) {
        partition->running.pins_cap =
            partition->running.pins_cap ? partition->running.pins_cap * 2 : 16;
        partition->running.pins = realloc(
            partition->running.pins, partition->running.pins_cap * sizeof *partition->running.pins);
        CHECK(partition->running.pins);
    }
    partition->running.pins[partition->running.pins_count++] = *slice;
    budget_hold(&partition->running.budget, slice->len);
}

static void release_shared(void *owner)
{
    struct slice *slice = owner;
    slice_release(slice);
    free(slice);
}

/* A block of these bytes, which the command holds until it ends. */
static struct block *add_block(struct partition *partition, struct bytes bytes,
                               block_release_fn *release, void *owner)
{
    struct block *block = block_new_borrowed((char *)bytes.data, bytes.len, release, owner);
    block->next = partition->running.blocks;
    partition->running.blocks = block;
    return block;
}

/* Creates a block that refers to a pinned value of RocksDB; freeing the block releases the pin. */
static struct block *share(struct partition *partition, struct slice *pin)
{
    struct slice *owner = malloc(sizeof *owner);
    CHECK(owner);
    *owner = *pin;
    pin->pin = NULL;
    return add_block(partition, slice_bytes(owner), release_shared, owner);
}

/* The same for a value that has no pin; NULL: it is not big enough to be worth it. */
static struct block *share_big(struct partition *partition, struct bytes value)
{
    const struct overlay_share share = overlay_share(partition->overlay, value);
    return share.release ? add_block(partition, value, share.release, share.owner) : NULL;
}

struct block *keyspace_block(struct call *call, struct bytes value)
{
    struct partition *partition = call->partition;
    for (struct block *block = partition->running.blocks; block; block = block->next)
        if (slice_covers(&(struct slice){block->data, block->size, NULL}, value))
            return block;
    for (size_t i = 0; i < partition->running.pins_count; i++) {
        struct slice *pin = &partition->running.pins[i];
        if (pin->pin && slice_covers(pin, value))
            return pin->len / 2 > value.len ? NULL : share(partition, pin);
    }
    return share_big(partition, value);
}

/* Releases the pins from this one on. */
static void release_pins(struct partition *partition, size_t from)
{
    struct partition_running *running = &partition->running;
    size_t bytes = 0;
    for (size_t i = from; i < running->pins_count; i++) {
        bytes += running->pins[i].len;
        slice_release(&running->pins[i]);
    }
    running->pins_count = from;
    budget_give_back(&running->budget, bytes);
}

struct call_mark keyspace_mark(const struct call *call)
{
    return (struct call_mark){.arena = arena_mark(call->arena),
                              .pins = call->partition->running.pins_count};
}

void keyspace_release(struct call *call, const struct call_mark *mark)
{
    release_pins(call->partition, mark->pins);
    arena_release(call->arena, &mark->arena);
}

void keyspace_end(struct partition *partition)
{
    if (partition->running.pins_count)
        release_pins(partition, 0);
    while (partition->running.blocks) {
        struct block *block = partition->running.blocks;
        partition->running.blocks = block->next;
        block_unref(block);
    }
}
