/*
 * receive.h - turns reads into contiguous frames without copying a pipeline's tail.
 *
 * Complete frames stay where the kernel put them. Bytes of an incomplete frame move once into a
 * private block that has room for the rest of it, so an idle connection owns no memory and a slow
 * one owns exactly its own partial frame.
 *
 *   shared block   [frame][frame][fra|          ← lent by the loop, filled by one client after another
 *                                 │ moved once
 *   private block                [fra|me....]   ← next read goes here
 *
 * A consumer may also stop between frames (a pause). A long rest then stays where it is, by reference
 * and offset; a short one moves, so that a client that waits does not pin a shared block.
 */
#pragma once

#include "shared/block.h"

#include <stdbool.h>

struct receive {
    struct block *partial; /* the block that holds what was not consumed, or NULL */
    size_t start;          /* the kept bytes are partial->data[start..end) */
    size_t end;
    size_t need;    /* total bytes the incomplete frame is known to need; 0 = unknown */
    bool is_shared; /* partial is a shared block, kept by reference: nothing may be read into it */
};

/* Consumes complete frames of data[0..len) in `block` and returns how many bytes it used.
 * May set *need to the size the remaining incomplete frame is known to have. */
typedef size_t receive_fn(void *owner, struct block *block, const char *data, size_t len,
                          size_t *need);

void receive_init(struct receive *receive);
void receive_fini(struct receive *receive);
/* Where the next read goes. `shared` is the loop's current shared block (replaced by a new one when it
 * has less than `min` bytes left); the room starts at the returned block's data + used. NULL: a frame
 * bigger than memory allows. */
struct block *receive_room(struct receive *receive, struct block **shared, size_t min);
/* `len` bytes were read into the room that receive_room gave: hands frames to `on_data`.
 * `block` is that block. When `on_data` destroys its owner it must make the caller see it; the struct
 * receive itself lives on, and is not emptied, until this returns. */
void receive_filled(struct receive *receive, struct block *block, size_t len, receive_fn *on_data,
                    void *owner);
/* Presents the kept partial bytes again without new ones (after a pause); nothing kept: no call. */
void receive_again(struct receive *receive, receive_fn *on_data, void *owner);
/* Bytes of an incomplete frame held now. */
size_t receive_held(const struct receive *receive);
/* Size of the buffer that holds them, with its free space. */
size_t receive_room_bytes(const struct receive *receive);
