/*
 * A piece has copied bytes in its own room, or points into a block to which it holds a reference. Only the last piece
 * may have free room; the first chunk of an out is small, because most replies are. Each thread caches some free
 * chunks per size, so that replies soon need no allocation; builds with AddressSanitizer do not, to find uses after
 * free.
 */
#include "shared/out.h"

#include "shared/check.h"

#include <stdio.h>
#include <stdlib.h>

struct out_piece {
    struct out_piece *next;
    struct out_piece *before; /* undefined in the first piece of an out */
    struct block *block;      /* NULL: the bytes are in room[] */
    size_t size;              /* size of room[] */
    const char *data;         /* first byte that is not consumed */
    size_t len;
    size_t left; /* free bytes of room[] after data + len */
    char room[];
};

enum {
    CHUNK_FIRST = 512 - sizeof(struct out_piece),
    CHUNK_SECOND = 4096 - sizeof(struct out_piece),
    CHUNK_LATER = 16384 - sizeof(struct out_piece),
    CHUNKS_KEPT = 64,
#ifdef __SANITIZE_ADDRESS__
    IS_KEEPING = 0,
#else
    IS_KEEPING = 1,
#endif
};

/* Free chunks, by size. */
static _Thread_local struct {
    struct out_piece *top;
    uint32_t count;
} spare[3];

void out_init(struct out *out)
{
    *out = (struct out){0};
}

/* Index of the chunk size; -1 when chunks of this size are not cached. */
static int size_class(size_t size)
{
    return size == CHUNK_FIRST ? 0 : size == CHUNK_SECOND ? 1 : size == CHUNK_LATER ? 2 : -1;
}

static struct out_piece *piece_new(size_t size)
{
    int class = size_class(size);
    struct out_piece *piece = class >= 0 ? spare[class].top : NULL;
    if (piece) {
        spare[class].top = piece->next;
        spare[class].count--;
    } else {
        piece = malloc(sizeof(*piece) + size);
        CHECK(piece);
    }
    *piece = (struct out_piece){.data = piece->room, .left = size, .size = size};
    return piece;
}

static void piece_free(struct out_piece *piece)
{
    int class = size_class(piece->size);
    block_unref(piece->block);
    if (!IS_KEEPING || class < 0 || spare[class].count >= CHUNKS_KEPT) {
        free(piece);
        return;
    }
    piece->next = spare[class].top;
    spare[class].top = piece;
    spare[class].count++;
}

static void forget_pieces(struct out *out)
{
    out->head = out->tail = NULL;
    out->run.block = NULL;
    out->bytes = 0;
}

void out_clear(struct out *out)
{
    while (out->head) {
        struct out_piece *piece = out->head;
        out->head = piece->next;
        piece_free(piece);
    }
    block_unref(out->run.block);
    forget_pieces(out);
}

void out_limit(struct out *out, size_t limit)
{
    out->limit = limit;
    out->is_over = false;
}

/* Does the limit require to drop a write of `len` bytes? */
static bool drops(struct out *out, size_t len)
{
    if (!out->limit || (!out->is_over && out->bytes + len <= out->limit))
        return false;
    out->is_over = true;
    return true;
}

static struct out_piece *add_piece(struct out *out, size_t room)
{
    struct out_piece *piece = piece_new(room);
    piece->before = out->tail;
    if (out->tail)
        out->tail->next = piece;
    else
        out->head = piece;
    out->tail = piece;
    return piece;
}

static void add_chunk(struct out *out, size_t len)
{
    size_t room = out->bytes < CHUNK_FIRST   ? CHUNK_FIRST
                  : out->bytes < CHUNK_LATER ? CHUNK_SECOND
                                             : CHUNK_LATER;
    add_piece(out, len > room ? len : room);
}

/* Copies bytes that fit into the room of the last piece. */
static void fill_tail(struct out *out, const void *data, size_t len)
{
    struct out_piece *tail = out->tail;
    memcpy((char *)tail->data + tail->len, data, len);
    tail->len += len;
    tail->left -= len;
    out->bytes += len;
}

/* Copies bytes to the end; there is no run. */
static void append(struct out *out, const void *data, size_t len)
{
    if (out->tail && out->tail->left >= len) {
        fill_tail(out, data, len);
        return;
    }
    size_t first = out->tail ? out->tail->left : 0;
    if (first)
        fill_tail(out, data, first);
    add_chunk(out, len - first);
    fill_tail(out, (const char *)data + first, len - first);
}

/* Appends a piece that takes over a reference to the block. */
static void refer(struct out *out, struct block *block, const char *data, size_t len)
{
    struct out_piece *piece = add_piece(out, 0);
    piece->block = block;
    piece->data = data;
    piece->len = len;
    out->bytes += len;
}

void out_end_run(struct out *out)
{
    struct out_run run = out->run;
    if (!run.block)
        return;
    out->run.block = NULL;
    out->bytes -= run.len;
    if (run.len > OUT_COPY_MAX) {
        refer(out, run.block, run.data, run.len);
        return;
    }
    append(out, run.data, run.len);
    block_unref(run.block);
}

void out_begin_run(struct out *out, struct block *block, const char *data, size_t len)
{
    CHECK(data >= block->data);
    CHECK(data + len <= block->data + block->size);
    if (len == 0 || drops(out, len))
        return;
    out_end_run(out);
    out->run = (struct out_run){block_ref(block), data, len};
    out->bytes += len;
}

void out_write(struct out *out, const void *data, size_t len)
{
    if (len == 0 || drops(out, len))
        return;
    out_end_run(out);
    append(out, data, len);
}

void out_write_block(struct out *out, struct block *block, const char *data, size_t len)
{
    CHECK(data >= block->data);
    CHECK(data + len <= block->data + block->size);
    if (drops(out, len))
        return;
    out_end_run(out);
    struct out_piece *tail = out->tail;
    if (tail && tail->block == block && tail->data + tail->len == data) {
        tail->len += len;
        out->bytes += len;
        return;
    }
    if (len > OUT_COPY_MAX)
        refer(out, block_ref(block), data, len);
    else if (len)
        append(out, data, len);
}

void out_truncate(struct out *out, size_t bytes)
{
    CHECK(bytes <= out->bytes);
    if (bytes == out->bytes)
        return;
    if (bytes == 0) {
        out_clear(out);
        return;
    }
    out_end_run(out);
    struct out_piece *piece = out->tail;
    size_t surplus = out->bytes - bytes;
    for (; surplus >= piece->len; piece = piece->before)
        surplus -= piece->len;
    if (!piece->block)
        piece->left += surplus;
    piece->len -= surplus;
    struct out rest = {.head = piece->next};
    piece->next = NULL;
    out->tail = piece;
    out->bytes = bytes;
    out_clear(&rest);
}

char *out_reserve(struct out *out, size_t len)
{
    static _Thread_local char dropped[OUT_COPY_MAX];
    CHECK(len <= OUT_COPY_MAX);
    if (drops(out, len))
        return dropped;
    out_end_run(out);
    if (!out->tail || out->tail->left < len || out->tail->block)
        add_chunk(out, len);
    return (char *)out->tail->data + out->tail->len;
}

void out_commit(struct out *out, size_t len)
{
    struct out_piece *tail = out->tail;
    if (out->is_over)
        return;
    CHECK(tail);
    CHECK(!tail->block);
    CHECK(len <= tail->left);
    tail->len += len;
    tail->left -= len;
    out->bytes += len;
    if (out->bytes == 0)
        out_clear(out);
}

void out_move(struct out *to, struct out *from)
{
    CHECK(to != from);
    out_end_run(from);
    struct out_piece *head = from->head;
    if (!head)
        return;
    if (drops(to, from->bytes)) {
        out_clear(from);
        return;
    }
    out_end_run(to);
    if (!to->tail) {
        to->head = head;
        to->tail = from->tail;
        to->bytes = from->bytes;
    } else if (head == from->tail && !head->block && to->tail->left >= head->len) {
        fill_tail(to, head->data, head->len);
        piece_free(head);
    } else {
        to->tail->next = head;
        head->before = to->tail;
        to->tail = from->tail;
        to->bytes += from->bytes;
    }
    forget_pieces(from);
}

void out_cut(struct out *from, size_t at, struct out *to)
{
    CHECK(from != to);
    CHECK(at <= from->bytes);
    size_t before = 0;
    if (at == from->bytes)
        return;
    if (at == 0) {
        out_move(to, from);
        return;
    }
    out_end_run(from);
    struct out_piece *piece = from->head;
    for (; before + piece->len < at; piece = piece->next)
        before += piece->len;
    size_t kept = at - before;
    struct out rest = {.head = piece->next, .tail = piece->next ? from->tail : NULL};
    rest.bytes = from->bytes - before - piece->len;
    if (piece->block)
        out_write_block(to, piece->block, piece->data + kept, piece->len - kept);
    else
        out_write(to, piece->data + kept, piece->len - kept);
    piece->next = NULL;
    from->tail = piece;
    from->bytes = before + piece->len;
    out_truncate(from, at);
    out_move(to, &rest);
}

int out_iov(const struct out *out, struct iovec *iov, int max)
{
    int count = 0;
    for (const struct out_piece *piece = out->head; piece && count < max; piece = piece->next) {
        if (piece->len == 0)
            continue;
        iov[count++] = (struct iovec){(char *)piece->data, piece->len};
    }
    if (out->run.block && count < max)
        iov[count++] = (struct iovec){(char *)out->run.data, out->run.len};
    return count;
}

struct bytes out_last(const struct out *out, size_t back)
{
    const struct out_piece *piece = out->tail;
    size_t run = out->run.block ? out->run.len : 0;
    CHECK(back <= out->bytes);
    if (back <= run)
        return (struct bytes){out->run.data + run - back, back};
    back -= run;
    while (back > piece->len) {
        back -= piece->len;
        piece = piece->before;
    }
    return (struct bytes){piece->data + piece->len - back, back};
}

void out_consume(struct out *out, size_t len)
{
    CHECK(len <= out->bytes);
    out->bytes -= len;
    if (out->bytes == 0) {
        out_clear(out);
        return;
    }
    while (out->head && len >= out->head->len) {
        struct out_piece *piece = out->head;
        len -= piece->len;
        out->head = piece->next;
        piece_free(piece);
    }
    if (out->head) {
        out->head->data += len;
        out->head->len -= len;
        return;
    }
    out->tail = NULL;
    out->run.data += len;
    out->run.len -= len;
}

void out_printf(struct out *out, const char *format, ...)
{
    va_list args;
    va_list again;
    va_start(args, format);
    va_copy(again, args);
    char *room = out_reserve(out, OUT_COPY_MAX);
    int len = vsnprintf(room, OUT_COPY_MAX, format, args);
    CHECK(len >= 0);
    if (len < OUT_COPY_MAX) {
        out_commit(out, (size_t)len);
    } else {
        char *text = malloc((size_t)len + 1);
        CHECK(text);
        CHECK(vsnprintf(text, (size_t)len + 1, format, again) == len);
        out_write(out, text, (size_t)len);
        free(text);
    }
    va_end(again);
    va_end(args);
}

struct bytes out_take(struct out *out)
{
    size_t len = out->bytes;
    char *bytes = malloc(len + 1);
    CHECK(bytes);
    out_copy(out, bytes);
    bytes[len] = '\0';
    out_clear(out);
    return (struct bytes){bytes, len};
}

void out_copy(const struct out *out, char *to)
{
    for (const struct out_piece *piece = out->head; piece; piece = piece->next) {
        if (piece->len)
            memcpy(to, piece->data, piece->len);
        to += piece->len;
    }
    if (out->run.block)
        memcpy(to, out->run.data, out->run.len);
}
