/*
 * bitop.c - BITOP: combines strings window by window, and skips the holes of sparse strings.
 *
 *   source a   ██░░░░░░░░░░░░██████░░░░      █ rows, ░ no rows: zeros
 *   source b   ░░░░░░░░░░░░░░░░██████░░
 *   windows    ├──┤          ├──┤├──┤        OR, XOR: begin where any source has a row
 *                                ├──┤        AND: begin where every source has one
 *
 * NOT visits every window. A result of more than TEXT_INLINE_MAX bytes is written as fragments under a new version,
 * because the destination may be one of the sources, which are still being read.
 */
#include "backend/format/bits.h"
#include "backend/keyspace/text.h"
#include "backend/partition/handlers.h"
#include "backend/partition/notify.h"

enum { WINDOW_BYTES = 256 * FRAGMENT_BYTES };

enum operation { OPERATION_AND, OPERATION_OR, OPERATION_XOR, OPERATION_NOT };

struct source {
    struct entry entry;
    uint64_t next; /* the next byte of a row at or after the window; UINT64_MAX: none follows */
};

struct bitop {
    struct call *call;
    enum operation operation;
    struct source *sources;
    uint32_t count;
    uint64_t len;  /* length of the result */
    char *result;  /* current window of the result */
    char *operand; /* current window of a source */
};

static bool operation_argument(struct call *call, enum operation *operation)
{
    static const char *const NAMES[] = {"and", "or", "xor", "not"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (bytes_is(call->argv[1], NAMES[i])) {
            *operation = (enum operation)i;
            return true;
        }
    call_error(call, ERR_SYNTAX);
    return false;
}

/* Copies the source's bytes [start, start + len) and sets source->next. */
static bool source_load(struct call *call, struct source *source, uint64_t start, size_t len,
                        char *to)
{
    struct text_iter iter;
    uint64_t end = start + len;
    source->next = UINT64_MAX;
    memset(to, 0, len);
    text_iter_init(call, &source->entry, start, UINT64_MAX, &iter);
    while (source->next == UINT64_MAX && text_iter_next(&iter)) {
        uint64_t piece_end = iter.at + iter.piece.len;
        if (iter.at < end)
            memcpy(to + (iter.at - start), iter.piece.data,
                   (size_t)((piece_end < end ? piece_end : end) - iter.at));
        if (piece_end > end)
            source->next = iter.at > end ? iter.at : end;
    }
    return text_iter_fini(&iter);
}

/* Start of the next window whose result may have ones; UINT64_MAX: there is none. */
static uint64_t window_start(const struct bitop *bitop, uint64_t from)
{
    if (bitop->operation == OPERATION_NOT)
        return from;
    uint64_t start = bitop->sources[0].next;
    for (uint32_t i = 1; i < bitop->count; i++) {
        uint64_t next = bitop->sources[i].next;
        if (bitop->operation == OPERATION_AND ? next > start : next < start)
            start = next;
    }
    if (start < from)
        start = from;
    return start == UINT64_MAX ? start : start - start % FRAGMENT_BYTES;
}

/* Computes bytes [start, start + len) of the result. */
static bool window_fill(struct bitop *bitop, uint64_t start, size_t len)
{
    static const enum bits_operation COMBINE[] = {BITS_AND, BITS_OR, BITS_XOR};
    for (uint32_t i = 0; i < bitop->count; i++) {
        struct source *source = &bitop->sources[i];
        bool has_bytes = source->next < start + len;
        char *to = i == 0 ? bitop->result : bitop->operand;
        if (!has_bytes)
            memset(to, 0, len);
        else if (!source_load(bitop->call, source, start, len, to))
            return false;
        if (i > 0)
            bits_combine(COMBINE[bitop->operation], bitop->result, to, len);
    }
    if (bitop->operation == OPERATION_NOT)
        bits_invert(bitop->result, len);
    return true;
}

static bool store_fragments(struct bitop *bitop, struct entry *entry)
{
    uint64_t from = 0;
    text_create(bitop->call, entry, bitop->len);
    while (from < bitop->len) {
        uint64_t start = window_start(bitop, from);
        if (start >= bitop->len)
            break;
        uint64_t left = bitop->len - start;
        size_t len = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
        if (!window_fill(bitop, start, len))
            return false;
        for (size_t at = 0; at < len; at += FRAGMENT_BYTES) {
            size_t size = len - at < FRAGMENT_BYTES ? len - at : FRAGMENT_BYTES;
            text_put_fragment(bitop->call, entry, (uint32_t)((start + at) / FRAGMENT_BYTES),
                              (struct bytes){bitop->result + at, size});
        }
        from = start + len;
    }
    text_save(bitop->call, entry);
    return true;
}

/* Stores the result as the value of the destination. */
static bool store_bits(struct bitop *bitop, struct entry *entry)
{
    struct call *call = bitop->call;
    bitop->result = arena_alloc(call->arena, WINDOW_BYTES);
    bitop->operand = arena_alloc(call->arena, WINDOW_BYTES);
    if (bitop->len > TEXT_INLINE_MAX)
        return store_fragments(bitop, entry);
    if (!window_fill(bitop, 0, (size_t)bitop->len))
        return false;
    entry_set_payload(call, entry, TYPE_STRING, (struct bytes){bitop->result, (size_t)bitop->len},
                      0);
    return true;
}

static bool open_operands(struct call *call, struct bitop *bitop)
{
    bitop->count = call->argc - 3;
    bitop->sources = arena_alloc(call->arena, bitop->count * sizeof *bitop->sources);
    for (uint32_t i = 0; i < bitop->count; i++) {
        struct source *source = &bitop->sources[i];
        if (!keyspace_open_type(call, call->argv[3 + i], TYPE_STRING, OPEN_READ, &source->entry))
            return false;
        uint64_t len = text_len(&source->entry);
        source->next = len ? 0 : UINT64_MAX;
        if (len > bitop->len)
            bitop->len = len;
    }
    return true;
}

void cmd_bitop(struct call *call)
{
    struct bitop bitop = {.call = call};
    struct entry entry;
    if (!operation_argument(call, &bitop.operation))
        return;
    if (bitop.operation == OPERATION_NOT && call->argc != 4) {
        call_error_text(call, "ERR BITOP NOT must be called with a single source key.");
        return;
    }
    if (!open_operands(call, &bitop) || !keyspace_open(call, call->argv[2], OPEN_WRITE, &entry))
        return;
    if (bitop.len > 0) {
        if (!store_bits(&bitop, &entry))
            return;
        notify(call, NOTIFY_STRING, "set", entry.key);
    } else if (entry.exists) {
        entry_delete(call, &entry);
        notify(call, NOTIFY_GENERIC, "del", entry.key);
    }
    reply_int(&call->reply, (int64_t)bitop.len);
}
