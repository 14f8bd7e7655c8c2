/*
 * out.h - an output buffer: an ordered chain of pieces.
 *
 *   out ─► [copied bytes........] ─► [ref into a block] ─► [copied bytes...]
 *          small writes share a       large runs are
 *          tail chunk                 referenced, not copied
 *
 * Up to OUT_COPY_MAX bytes are copied (cheaper than an iovec and a reference); adjacent references into one block
 * become one piece. An empty out owns no memory.
 *
 * A run (out_write_run) is the exception: frames that follow each other in one block are neither copied nor referenced one
 * by one. The out keeps where the run began and how long it is, and decides when something else is written after it: then a
 * short run is copied, and a long one becomes a piece. Most runs are written to the socket before that.
 */
#pragma once

#include "shared/block.h"
#include "shared/bytes.h"

#include <stdarg.h>
#include <stdbool.h>
#include <sys/uio.h>

enum { OUT_COPY_MAX = 1024 };

struct out_piece;

/* The last bytes of an out, if they lie in a block and are in no piece yet. */
struct out_run {
    struct block *block; /* a reference; NULL: there is no run */
    const char *data;
    size_t len;
};

struct out {
    struct out_piece *head;
    struct out_piece *tail;
    struct out_run run; /* after the pieces */
    size_t bytes;       /* not yet consumed */
    size_t limit;       /* see out_limit; 0: none */
    bool is_over;
};

void out_init(struct out *out);
/* Drops all bytes; the out can be used again. */
void out_clear(struct out *out);
/* Copies `len` bytes in. */
void out_write(struct out *out, const void *data, size_t len);
/* Appends bytes that lie in `block`: copied when few, otherwise referenced (the out takes its own reference). */
void out_write_block(struct out *out, struct block *block, const char *data, size_t len);
/* Appends bytes that lie in `block`, for an out that is written to a socket soon: until something else is appended, also few
 * bytes keep the block alive. */
void out_begin_run(struct out *out, struct block *block, const char *data, size_t len);
static inline void out_write_run(struct out *out, struct block *block, const char *data, size_t len)
{
    if (out->run.block != block || out->run.data + out->run.len != data || out->limit) {
        out_begin_run(out, block, data, len);
        return;
    }
    out->run.len += len;
    out->bytes += len;
}
/* Ends the run: copies it if it is short, so that few bytes do not keep a block alive. */
void out_end_run(struct out *out);
/* Limits the content to `limit` bytes (0: no limit). The first write that would exceed it and all later ones are
 * dropped, and out_is_over() is true. out_clear() and out_move() keep the limit and this state. */
void out_limit(struct out *out, size_t limit);
static inline bool out_is_over(const struct out *out)
{
    return out->is_over;
}
/* Memory for up to `len` (<= OUT_COPY_MAX) bytes at the end; out_commit sets how many were written. */
char *out_reserve(struct out *out, size_t len);
void out_commit(struct out *out, size_t len);
/* Drops bytes from the end until `bytes` are left. */
void out_truncate(struct out *out, size_t bytes);
/* Moves everything from `from` to the end of `to`; `from` is empty afterwards. */
void out_move(struct out *to, struct out *from);
/* Moves the bytes after the first `at` bytes of `from` to the end of `to`. */
void out_cut(struct out *from, size_t at, struct out *to);
/* Fills at most `max` iovecs from the front; returns their number. The bytes stay valid until consumed. */
int out_iov(const struct out *out, struct iovec *iov, int max);
/* The last `back` bytes that were written, or as many of them as lie together. Valid until the next write. */
struct bytes out_last(const struct out *out, size_t back);
/* Drops `len` bytes from the front. */
void out_consume(struct out *out, size_t len);
void out_printf(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Everything as one piece of memory from malloc, which the caller frees, with a zero byte behind it. The out is empty afterwards. */
struct bytes out_take(struct out *out);
/* Copies everything to `to`, which has out->bytes bytes; for tests and rare small texts. */
void out_copy(const struct out *out, char *to);
