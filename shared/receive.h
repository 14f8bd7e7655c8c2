/*
 * receive.h - turns reads into contiguous frames, without copying the complete frames of a pipeline.
 *
 * Complete frames stay where the kernel put them. The bytes of an incomplete frame are moved once into a private block
 * with room for the whole frame, so that an idle connection has no buffer, and a slow one only that of its own frame.
 *
 *   shared block   [frame][frame][fra|          ← lent by the loop, filled by one client after another
 *                                 │ moved once
 *   private block                [fra|me....]   ← next read goes here
 *
 * A consumer may also stop between frames (pause). Many remaining bytes are then kept by reference; few are moved, so
 * that a paused client does not pin a shared block.
 */
#pragma once

#include "shared/block.h"

#include <stdbool.h>

struct receive {
    struct block *partial; /* the block that holds the kept bytes, or NULL */
    size_t start;          /* the kept bytes are partial->data[start..end) */
    size_t end;
    size_t need;    /* total size of the incomplete frame; 0 = unknown */
    bool is_shared; /* partial is a shared block, kept by reference: nothing may be read into it */
};

/* Consumes complete frames of data[0..len) in `block` and returns how many bytes it used. May set *need to the total
 * size of the remaining incomplete frame, when known. */
typedef size_t receive_fn(void *owner, struct block *block, const char *data, size_t len,
                          size_t *need);

void receive_init(struct receive *receive);
void receive_fini(struct receive *receive);
/* The block for the next read, with free room at data + used. `shared` is the loop's current shared block; it is
 * replaced by a new one when it has less than `min` bytes left. NULL: out of memory for the frame. */
struct block *receive_room(struct receive *receive, struct block **shared, size_t min);
/* Call after `len` bytes were read into `block`, the result of receive_room: passes frames to `on_data`. `on_data`
 * may destroy its owner, but the struct receive must stay valid until this returns; the caller must notice the
 * destruction itself. */
void receive_filled(struct receive *receive, struct block *block, size_t len, receive_fn *on_data,
                    void *owner);
/* Passes the kept bytes to `on_data` again without new ones (after a pause); does nothing without kept bytes. */
void receive_again(struct receive *receive, receive_fn *on_data, void *owner);
/* Keeps these bytes, as if they had been received and not consumed; nothing is kept yet. `need` as in receive_fn. False: out of
 * memory. */
bool receive_restore(struct receive *receive, const char *data, size_t len, size_t need);
/* Number of kept bytes. */
size_t receive_held(const struct receive *receive);
/* Size of the buffer that holds the kept bytes, including its free room. */
size_t receive_room_bytes(const struct receive *receive);
