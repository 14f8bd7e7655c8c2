/*
 * bitop.c - BITOP: combines strings window by window, and skips the holes of sparse strings.
 *
 *   source a   ██░░░░░░░░░░░░██████░░░░      █ rows, ░ no rows: zeros
 *   source b   ░░░░░░░░░░░░░░░░██████░░
 *   windows    ├──┤          ├──┤├──┤        OR, XOR, ONE: begin where any source has a row
 *                                ├──┤        AND: begin where every source has one
 *
 * DIFF and ANDOR begin where the first source has a row, DIFF1 where any other source has one. NOT visits every window. A result of more than TEXT_INLINE_MAX bytes is written as fragments under a new version,
 * because the destination may be one of the sources, which are still being read.
 */
#include "backend/commands/equal_words.h"
#include "backend/context/goes_on.h"
#include "backend/dispatch/handlers.h"
#include "backend/format/bits.h"
#include "backend/keyspace/text.h"
#include "backend/session/notify.h"

enum {
    WINDOW_BYTES = 256 * FRAGMENT_BYTES,
    BYTES_PER_WORK = 64, /* combined bytes that count as a unit of work (goes_on.h) */
};

/* X: the first source, Y: the union of the others. */
enum operation {
    OPERATION_AND,
    OPERATION_OR,
    OPERATION_XOR,
    OPERATION_NOT,
    OPERATION_DIFF,   /* X and not Y */
    OPERATION_DIFF1,  /* Y and not X */
    OPERATION_AND_OR, /* X and Y */
    OPERATION_ONE,    /* in exactly one source */
    OPERATION_COUNT,
};

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
    char *twice;   /* ONE: bits that are in more than one source; otherwise NULL */
};

static bool operation_argument(struct call *call, enum operation *operation)
{
    static const struct {
        const char *name;
        uint32_t sources_min, sources_max;
    } OPERATIONS[OPERATION_COUNT] = {
        [OPERATION_AND] = {"AND", 1, UINT32_MAX},      [OPERATION_OR] = {"OR", 1, UINT32_MAX},
        [OPERATION_XOR] = {"XOR", 1, UINT32_MAX},      [OPERATION_NOT] = {"NOT", 1, 1},
        [OPERATION_DIFF] = {"DIFF", 2, UINT32_MAX},    [OPERATION_DIFF1] = {"DIFF1", 2, UINT32_MAX},
        [OPERATION_AND_OR] = {"ANDOR", 2, UINT32_MAX}, [OPERATION_ONE] = {"ONE", 1, UINT32_MAX},
    };
    uint32_t sources = call->argc - 3;
    for (size_t i = 0; i < OPERATION_COUNT; i++) {
        if (!bytes_is(call->argv[1], OPERATIONS[i].name))
            continue;
        *operation = (enum operation)i;
        if (sources > OPERATIONS[i].sources_max)
            call_errorf(call, "ERR BITOP %s must be called with a single source key.",
                        OPERATIONS[i].name);
        else if (sources < OPERATIONS[i].sources_min)
            call_errorf(call, "ERR BITOP %s must be called with at least two source keys.",
                        OPERATIONS[i].name);
        return !call->failed;
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
    uint64_t first = bitop->sources[0].next; /* of X */
    uint64_t any = UINT64_MAX;               /* of Y, the first of the others */
    uint64_t all = first;                    /* the last of all */
    for (uint32_t i = 1; i < bitop->count; i++) {
        uint64_t next = bitop->sources[i].next;
        any = next < any ? next : any;
        all = next > all ? next : all;
    }
    uint64_t start = first < any ? first : any;
    if (bitop->operation == OPERATION_AND)
        start = all;
    else if (bitop->operation == OPERATION_DIFF)
        start = first;
    else if (bitop->operation == OPERATION_DIFF1)
        start = any;
    else if (bitop->operation == OPERATION_AND_OR)
        start = first > any ? first : any;
    if (start < from)
        start = from;
    return start == UINT64_MAX ? start : start - start % FRAGMENT_BYTES;
}

/* Copies bytes [start, start + len) of source `i`. */
static bool window_load(struct bitop *bitop, uint32_t i, uint64_t start, size_t len, char *to)
{
    struct source *source = &bitop->sources[i];
    if (!call_goes_on(bitop->call, len / BYTES_PER_WORK))
        return false;
    if (source->next < start + len)
        return source_load(bitop->call, source, start, len, to);
    memset(to, 0, len);
    return true;
}

/* result = result (operation) source `i`. */
static bool window_add(struct bitop *bitop, uint32_t i, enum bits_operation operation,
                       uint64_t start, size_t len)
{
    if (!window_load(bitop, i, start, len, bitop->operand))
        return false;
    if (bitop->twice) { /* twice |= result & operand */
        char *both = bitop->twice + WINDOW_BYTES;
        memcpy(both, bitop->result, len);
        bits_combine(BITS_AND, both, bitop->operand, len);
        bits_combine(BITS_OR, bitop->twice, both, len);
    }
    bits_combine(operation, bitop->result, bitop->operand, len);
    return true;
}

/* Is the first source combined in another way than the others? */
static bool is_first_special(enum operation operation)
{
    return operation == OPERATION_DIFF || operation == OPERATION_DIFF1 ||
           operation == OPERATION_AND_OR;
}

/* The operations with X and Y: the result is the union of the sources Y, then it is combined with X. */
static bool window_fill_xy(struct bitop *bitop, uint64_t start, size_t len)
{
    if (!window_load(bitop, 1, start, len, bitop->result))
        return false;
    for (uint32_t i = 2; i < bitop->count; i++)
        if (!window_add(bitop, i, BITS_OR, start, len))
            return false;
    if (bitop->operation != OPERATION_DIFF)
        return window_add(bitop, 0, bitop->operation == OPERATION_DIFF1 ? BITS_AND_NOT : BITS_AND,
                          start, len);
    char *y = bitop->result;
    bitop->result = bitop->operand;
    bitop->operand = y;
    if (!window_load(bitop, 0, start, len, bitop->result))
        return false;
    bits_combine(BITS_AND_NOT, bitop->result, y, len);
    return true;
}

/* Computes bytes [start, start + len) of the result. */
static bool window_fill(struct bitop *bitop, uint64_t start, size_t len)
{
    enum operation operation = bitop->operation;
    if (is_first_special(operation))
        return window_fill_xy(bitop, start, len);
    enum bits_operation combine = operation == OPERATION_AND   ? BITS_AND
                                  : operation == OPERATION_XOR ? BITS_XOR
                                                               : BITS_OR;
    if (bitop->twice)
        memset(bitop->twice, 0, len);
    if (!window_load(bitop, 0, start, len, bitop->result))
        return false;
    for (uint32_t i = 1; i < bitop->count; i++)
        if (!window_add(bitop, i, combine, start, len))
            return false;
    if (operation == OPERATION_NOT)
        bits_invert(bitop->result, len);
    else if (operation == OPERATION_ONE)
        bits_combine(BITS_AND_NOT, bitop->result, bitop->twice, len);
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
        for (size_t at = 0; at < len && !bitop->call->failed; at += FRAGMENT_BYTES) {
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
    if (bitop->operation == OPERATION_ONE)
        bitop->twice = arena_alloc(call->arena, (size_t)2 * WINDOW_BYTES);
    if (bitop->len > TEXT_INLINE_MAX)
        return store_fragments(bitop, entry);
    if (!window_fill(bitop, 0, (size_t)bitop->len))
        return false;
    entry_set_payload(call, entry, TYPE_STRING, (struct bytes){bitop->result, (size_t)bitop->len},
                      0);
    return true;
}

/* How many of `count` equal sources give the same result as all of them: one; for ONE two, whose bits are then in none; for XOR an odd
 * number like one, and an even number like two. */
static uint32_t copies_needed(enum operation operation, uint32_t count)
{
    if (operation == OPERATION_XOR)
        return count % 2 ? 1 : 2;
    return operation == OPERATION_ONE && count > 1 ? 2 : 1;
}

/* How often each key is needed that is equal to none before it; 0 for the others. The first `special` keys are sources of their own. */
static uint32_t *count_copies(const struct bitop *bitop, uint32_t special)
{
    struct call *call = bitop->call;
    uint32_t count = call->argc - 3;
    const uint32_t *first = first_of_equal(call->arena, call->argv + 3 + special, count - special);
    uint32_t *copies = arena_alloc(call->arena, count * sizeof *copies);
    memset(copies, 0, count * sizeof *copies);
    for (uint32_t i = 0; i < special; i++)
        copies[i] = 1;
    for (uint32_t i = special; i < count; i++)
        copies[special + first[i - special]]++;
    for (uint32_t i = special; i < count; i++)
        copies[i] = copies[i] ? copies_needed(bitop->operation, copies[i]) : 0;
    return copies;
}

/* Opens a key, once for each time that it is given, because Redis counts each as a hit or miss. Adds `copies` sources. */
static bool add_sources(struct bitop *bitop, struct bytes key, uint32_t copies)
{
    struct call *call = bitop->call;
    struct call_mark mark = keyspace_mark(call);
    struct source source;
    if (!keyspace_open_type(call, key, TYPE_STRING, OPEN_READ, &source.entry))
        return false;
    if (!copies) {
        keyspace_release(call, &mark);
        return true;
    }
    uint64_t len = text_len(&source.entry);
    source.next = len ? 0 : UINT64_MAX;
    if (len > bitop->len)
        bitop->len = len;
    while (copies--)
        bitop->sources[bitop->count++] = source;
    return true;
}

static bool open_operands(struct call *call, struct bitop *bitop)
{
    uint32_t count = call->argc - 3;
    const uint32_t *copies = count_copies(bitop, is_first_special(bitop->operation));
    uint32_t sources = 0;
    for (uint32_t i = 0; i < count; i++)
        sources += copies[i];
    bitop->sources = arena_alloc(call->arena, sources * sizeof *bitop->sources);
    for (uint32_t i = 0; i < count; i++)
        if (!add_sources(bitop, call->argv[3 + i], copies[i]))
            return false;
    return true;
}

void cmd_bitop(struct call *call)
{
    struct bitop bitop = {.call = call};
    struct entry entry;
    if (!operation_argument(call, &bitop.operation))
        return;
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
