/*
 * snapshot_source.h - gives the files of a shard to another copy.
 *
 *   the other copy      SNAPSHOT_BEGIN ──►  IDLE ─► MAKING ─► SERVING ─┐            (snapshot_message.h)
 *                       SNAPSHOT_READ  ──►  ▲       a cut     pieces   │ SNAPSHOT_END, or its connection has ended
 *                                           └──── REMOVING ◄───────────┘
 *
 * A cut is a directory of files that do not change, made by the owner of the data. There is one at a time, for one connection: another one
 * is refused until the first has ended. Disk work is done on a worker's thread. The bytes in memory are bounded by the limits of the
 * connection (incoming.h) and by PIECES_MAX; the rate is bounded by snapshot_source_set_rate.
 */
#pragma once

#include "backend/peer/incoming.h"
#include "backend/replica/snapshot_message.h"

struct snapshot_source;

struct snapshot_cut {
    /* Makes the cut at `path`, which does not exist, on a worker's thread, and sets all of *list but the files. OK, or an error code and a
     * reason. */
    int (*make)(void *owner, const char *path, struct snapshot_list *list, char *error,
                size_t size);
    /* The cut is not used any more: the other copy has fetched it as of `index`; 0: it has not. NULL is allowed. */
    void (*on_end)(void *owner, uint64_t index);
    void *owner;
};

/* The cut will be at `path`; what is there from an earlier process is removed first. */
struct snapshot_source *snapshot_source_new(struct loop *loop, const char *path,
                                            const struct snapshot_cut *cut);
/* Waits for disk work. Connections must have been closed. NULL is allowed. */
void snapshot_source_free(struct snapshot_source *source);
/* At most so many bytes a second; 0: no limit. */
void snapshot_source_set_rate(struct snapshot_source *source, uint64_t rate);
/* Handles a frame of these kinds; false: it is another kind. */
bool snapshot_source_handle(struct snapshot_source *source, struct peer_incoming *incoming,
                            const struct peer_frame *frame);
/* The connection has ended. */
void snapshot_source_closed(struct snapshot_source *source, const struct peer_incoming *incoming);
/* Is there a cut, or one being made or removed? */
bool snapshot_source_is_busy(const struct snapshot_source *source);
/* Bytes that were sent of the present or the last cut, and of all its files. */
void snapshot_source_progress(const struct snapshot_source *source, uint64_t *sent,
                              uint64_t *total);
