/*
 * out.h - an output buffer: an ordered chain of pieces.
 *
 *   out ─► [copied bytes........] ─► [ref into a block] ─► [copied bytes...]
 *          small writes share a       large runs are
 *          tail chunk                 referenced, not copied
 *
 * Up to OUT_COPY_MAX bytes are copied (cheaper than an iovec and a reference); adjacent references into one block
 * become one piece. An empty out owns no memory.
 */
#pragma once

#include "shared/block.h"
#include "shared/bytes.h"

#include <stdarg.h>
#include <stdbool.h>
#include <sys/uio.h>

enum { OUT_COPY_MAX = 1024 };

struct out_piece;

struct out {
    struct out_piece *head;
    struct out_piece *tail;
    size_t bytes; /* not yet consumed */
    size_t limit; /* see out_limit; 0: none */
    bool is_over;
};

void out_init(struct out *out);
/* Drops all bytes; the out can be used again. */
void out_clear(struct out *out);
/* Copies `len` bytes in. */
void out_write(struct out *out, const void *data, size_t len);
/* Appends bytes that lie in `block`: copied when few, otherwise referenced (the out takes its own reference). */
void out_write_block(struct out *out, struct block *block, const char *data, size_t len);
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
/* Drops `len` bytes from the front. */
void out_consume(struct out *out, size_t len);
void out_printf(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Copies everything to `to`, which has out->bytes bytes; for tests and rare small texts. */
void out_copy(const struct out *out, char *to);
