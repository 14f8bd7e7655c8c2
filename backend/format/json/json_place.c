/*
 * json_place.c - finds a value in the text of a stored document by skipping the values before it.
 *
 * Strings and containers are skipped in blocks of 16 bytes, with bit masks of one bit per byte:
 *
 *   bytes     {"a}":[1,"\"]"]}
 *   quotes    .1..1....1...1..    but not those after a backslash
 *   strings   .111.....1111...    from each quote up to the next
 *   brackets  1.....1.......11    but not those in strings; the last one closes the first
 */
#include "backend/format/json/json_place.h"

#include "backend/format/json/json_segment.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { BLOCK = 16 };

/* `at` is the next byte; no function reads beyond `end`. */
struct scan {
    const char *at;
    const char *end;
};

/* ---- blocks ---- */

/* Returns the next BLOCK bytes. At the end of the text they are copied to `room`, and zeros are added. */
static const char *block_at(const struct scan *scan, char room[BLOCK])
{
    size_t left = (size_t)(scan->end - scan->at);
    if (left >= BLOCK)
        return scan->at;
    memset(room, 0, BLOCK);
    memcpy(room, scan->at, left);
    return room;
}

/* Bit i of the result: byte i of the block, OR `set`, equals `c`. */
static unsigned where(const char *block, char c, char set)
{
#ifdef __SSE2__
    __m128i bytes = _mm_loadu_si128((const __m128i *)block);
    bytes = _mm_or_si128(bytes, _mm_set1_epi8(set));
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)));
#else
    unsigned bits = 0;
    for (unsigned i = 0; i < BLOCK; i++)
        bits |= (unsigned)((block[i] | set) == c) << i;
    return bits;
#endif
}

/* Bits of the quotes that begin or end strings. *escaped: a backslash escapes the first byte of this block, and on
 * return that of the next block. */
static unsigned quotes_in(const char *block, bool *escaped)
{
    unsigned behind = *escaped; /* bytes that a backslash escapes */
    unsigned left = where(block, '\\', 0) & ~behind;
    while (left) {
        unsigned first = left & -left;
        behind |= first << 1;
        left &= ~(first | first << 1);
    }
    *escaped = behind >> BLOCK;
    return where(block, '"', 0) & ~behind;
}

/* Bits inside of strings; `inside`: the block begins in a string. */
static unsigned strings_in(unsigned quotes, bool inside)
{
    for (unsigned i = 1; i < BLOCK; i *= 2)
        quotes ^= quotes << i;
    return inside ? ~quotes : quotes;
}

/* ---- skipping values ---- */

static bool accept(struct scan *scan, char c)
{
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

/* Moves from the opening quote to the byte after the closing one. */
static void pass_string(struct scan *scan)
{
    char room[BLOCK];
    bool escaped = false;
    for (scan->at++; scan->at < scan->end; scan->at += BLOCK) {
        unsigned quotes = quotes_in(block_at(scan, room), &escaped);
        if (quotes) {
            scan->at += __builtin_ctz(quotes) + 1;
            return;
        }
    }
    scan->at = scan->end;
}

/* Moves from the opening bracket to the byte after the closing bracket that matches. */
static void pass_container(struct scan *scan)
{
    char room[BLOCK];
    unsigned depth = 0;
    unsigned strings = 0;
    bool escaped = false;
    for (; scan->at < scan->end; scan->at += BLOCK) {
        const char *block = block_at(scan, room);
        strings = strings_in(quotes_in(block, &escaped), strings >> (BLOCK - 1) & 1);
        unsigned opening =
            where(block, '{', '{' ^ '[') & ~strings; /* and '[', which differs in one bit */
        unsigned closing = where(block, '}', '}' ^ ']') & ~strings;
        for (unsigned left = opening | closing; left; left &= left - 1) {
            depth += opening & left & -left ? 1 : -1;
            if (depth == 0) {
                scan->at += __builtin_ctz(left) + 1;
                return;
            }
        }
    }
    scan->at = scan->end;
}

static bool ends_value(char c)
{
    return c == ',' || c == ']' || c == '}';
}

static void pass_value(struct scan *scan)
{
    if (scan->at == scan->end)
        return;
    if (*scan->at == '"')
        pass_string(scan);
    else if (*scan->at == '[' || *scan->at == '{')
        pass_container(scan);
    else
        while (scan->at < scan->end && !ends_value(*scan->at))
            scan->at++;
}

/* Moves to the value of the member with this name, given as it is printed. */
static bool enter_member(struct scan *scan, struct bytes printed)
{
    if (!accept(scan, '{'))
        return false;
    while (scan->at < scan->end && *scan->at == '"') {
        const char *name = scan->at;
        pass_string(scan);
        bool is_it = bytes_equal((struct bytes){name, (size_t)(scan->at - name)}, printed);
        if (!accept(scan, ':'))
            return false;
        if (is_it)
            return true;
        pass_value(scan);
        if (!accept(scan, ','))
            return false;
    }
    return false;
}

static bool enter_element(struct scan *scan, int64_t index)
{
    if (!accept(scan, '[') || scan->at == scan->end || *scan->at == ']')
        return false;
    for (; index > 0; index--) {
        pass_value(scan);
        if (!accept(scan, ','))
            return false;
    }
    return true;
}

static bool enter_segment(struct arena *arena, struct scan *scan,
                          const struct json_segment *segment)
{
    const struct json_selector *selector = segment->selectors;
    if (segment->is_deep || segment->count != 1)
        return false;
    if (selector->kind == SELECT_INDEX)
        return selector->index >= 0 && enter_element(scan, selector->index);
    if (selector->kind != SELECT_NAME)
        return false;
    struct json_text printed;
    json_text_init(&printed, arena);
    json_print_string(&printed, selector->name);
    return enter_member(scan, json_text_bytes(&printed));
}

bool json_place_find(struct arena *arena, const struct json_path *path, struct bytes text,
                     struct bytes *place)
{
    struct scan scan = {text.data, text.data + text.len};
    for (uint32_t i = 0; i < path->count; i++)
        if (!enter_segment(arena, &scan, &path->segments[i]))
            return false;
    const char *from = scan.at;
    pass_value(&scan);
    *place = (struct bytes){from, (size_t)(scan.at - from)};
    return place->len > 0;
}

struct bytes json_place_put(struct arena *arena, struct bytes text, struct bytes place,
                            struct bytes other)
{
    struct json_text made;
    const char *behind = place.data + place.len;
    json_text_init(&made, arena);
    json_text_add(&made, (struct bytes){text.data, (size_t)(place.data - text.data)});
    json_text_add(&made, other);
    json_text_add(&made, (struct bytes){behind, (size_t)(text.data + text.len - behind)});
    return json_text_bytes(&made);
}
