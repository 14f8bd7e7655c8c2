/*
 * glob_compiled.c - a pattern compiled into the segments between its stars.
 *
 *   a b ? * c [x-z] * d e        first: at the start of the text │ middle: leftmost match, in order │ last: at the end
 *   └first┘  └middle─┘ └last┘
 *
 * A middle segment takes its leftmost match, because the star after it can match everything that is skipped. A
 * segment of plain text is searched with memmem. Any other segment is tried at all positions at once, with one bit
 * per element (Baeza-Yates and Gonnet, "A new approach to text searching", CACM 35(10), 1992), so that a byte of the
 * text costs one step per 64 elements.
 */
#include "shared/glob.h"

#include "shared/check.h"
#include "shared/glob_class.h"

#include <stdlib.h>

enum kind { KIND_BYTE, KIND_LETTER, KIND_ANY, KIND_SET, KIND_STAR };
enum {
    WORD_BITS = 64,
    STEPWISE_MAX = 8,   /* shorter segments are tried position by position */
    ASK_BYTES = 4096,   /* of the text, between two questions whether the search goes on */
    STEPS_PER_WORK = 16 /* a step is one word of `places` */
};

struct element {
    uint8_t kind;
    uint8_t byte; /* of KIND_LETTER: the small letter, which also matches the capital one */
    const struct glob_set *set;
};

struct segment {
    const struct element *elements;
    size_t count;
    const char *plain; /* the segment's bytes; NULL when not every element is a byte */
    /* for each byte value, the set of elements that match; NULL until first used */
    uint64_t *masks;
    uint64_t *places; /* bit i: the last i + 1 bytes of the text match elements 0 to i */
};

struct glob {
    struct arena *arena;
    struct segment *segments; /* one more than the number of stars; adjacent stars count as one */
    size_t segments_count;
    size_t length_min;
    glob_goes_on_fn *goes_on; /* NULL: nothing is asked */
    void *owner;
    bool is_star; /* the pattern is "*": no other pattern with a star matches the empty text */
};

/* ---- reading a pattern ---- */

/* Reads the element at *at and advances *at. */
static struct element read_element(struct arena *arena, struct bytes pattern, size_t *at,
                                   bool nocase)
{
    char c = pattern.data[(*at)++];
    if (c == '*')
        return (struct element){.kind = KIND_STAR};
    if (c == '?')
        return (struct element){.kind = KIND_ANY};
    if (c == '[') {
        struct glob_set *set = arena_alloc(arena, sizeof *set);
        *set = glob_read_class(pattern, at, nocase);
        return (struct element){.kind = KIND_SET, .set = set};
    }
    if (c == '\\' && *at < pattern.len)
        c = pattern.data[(*at)++];
    if (!nocase || glob_fold(c, true) < 'a' || glob_fold(c, true) > 'z')
        return (struct element){.kind = KIND_BYTE, .byte = (uint8_t)c};
    return (struct element){.kind = KIND_LETTER, .byte = (uint8_t)glob_fold(c, true)};
}

static const char *plain_text(struct arena *arena, const struct element *elements, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (elements[i].kind != KIND_BYTE)
            return NULL;
    char *text = arena_alloc(arena, count + 1);
    for (size_t i = 0; i < count; i++)
        text[i] = (char)elements[i].byte;
    return text;
}

static void add_segment(struct glob *glob, const struct element *elements, size_t count)
{
    glob->segments[glob->segments_count++] = (struct segment){
        .elements = elements,
        .count = count,
        .plain = plain_text(glob->arena, elements, count),
    };
    glob->length_min += count;
}

struct glob *glob_new(struct arena *arena, struct bytes pattern, bool nocase)
{
    struct glob *glob = arena_alloc(arena, sizeof *glob);
    /* between two of them is at most one star */
    size_t most = 2 * glob_text_min(pattern, SIZE_MAX) + 1;
    struct element *elements = arena_alloc(arena, most * sizeof *elements);
    size_t count = 0;
    size_t stars = 0;
    for (size_t at = 0; at < pattern.len;) {
        struct element element = read_element(arena, pattern, &at, nocase);
        if (element.kind == KIND_STAR && count && elements[count - 1].kind == KIND_STAR)
            continue;
        stars += element.kind == KIND_STAR;
        elements[count++] = element;
    }
    *glob = (struct glob){.arena = arena, .is_star = bytes_equal(pattern, BYTES("*"))};
    glob->segments = arena_alloc(arena, (stars + 1) * sizeof *glob->segments);
    size_t begun = 0;
    for (size_t i = 0; i <= count; i++)
        if (i == count || elements[i].kind == KIND_STAR) {
            add_segment(glob, elements + begun, i - begun);
            begun = i + 1;
        }
    return glob;
}

/* ---- matching ---- */

static bool element_matches(const struct element *element, uint8_t byte)
{
    switch ((enum kind)element->kind) {
    case KIND_BYTE:
        return element->byte == byte;
    case KIND_LETTER:
        return element->byte == (uint8_t)glob_fold((char)byte, true);
    case KIND_SET:
        return glob_set_has(element->set, byte);
    default:
        return true;
    }
}

/* Does the segment match the start of the text? The text must not be shorter than the segment. */
static bool segment_fits(const struct segment *segment, const char *text)
{
    if (segment->plain)
        return memcmp(segment->plain, text, segment->count) == 0;
    for (size_t i = 0; i < segment->count; i++)
        if (!element_matches(&segment->elements[i], (uint8_t)text[i]))
            return false;
    return true;
}

static void make_masks(struct glob *glob, struct segment *segment, size_t words)
{
    segment->masks = arena_alloc(glob->arena, 256 * words * sizeof *segment->masks);
    segment->places = arena_alloc(glob->arena, words * sizeof *segment->places);
    memset(segment->masks, 0, 256 * words * sizeof *segment->masks);
    for (size_t i = 0; i < segment->count; i++)
        for (unsigned byte = 0; byte < 256; byte++)
            if (element_matches(&segment->elements[i], (uint8_t)byte))
                segment->masks[byte * words + i / WORD_BITS] |= 1ULL << i % WORD_BITS;
}

void glob_ask(struct glob *glob, glob_goes_on_fn *goes_on, void *owner)
{
    glob->goes_on = goes_on;
    glob->owner = owner;
}

/* Does the search go on at this byte of the text, of which each costs so many steps? */
static bool goes_on_at(const struct glob *glob, size_t at, size_t words)
{
    return at % ASK_BYTES || !glob->goes_on ||
           glob->goes_on(glob->owner, ASK_BYTES * words / STEPS_PER_WORK);
}

/* Tries all positions at once. Returns the end of the leftmost match; 0 when there is none. */
static size_t find_by_bits(struct glob *glob, struct segment *segment, struct bytes text)
{
    size_t words = (segment->count + WORD_BITS - 1) / WORD_BITS;
    size_t last = (segment->count - 1) % WORD_BITS;
    if (!segment->masks)
        make_masks(glob, segment, words);
    uint64_t *places = segment->places;
    memset(places, 0, words * sizeof *places);
    for (size_t t = 0; t < text.len && goes_on_at(glob, t, words); t++) {
        const uint64_t *mask = segment->masks + (uint8_t)text.data[t] * words;
        for (size_t i = words - 1; i > 0; i--)
            places[i] = (places[i] << 1 | places[i - 1] >> (WORD_BITS - 1)) & mask[i];
        places[0] = (places[0] << 1 | 1) & mask[0];
        if (places[words - 1] >> last & 1)
            return t + 1;
    }
    return 0;
}

/* The end of the segment's leftmost match in the text; 0 when there is none. The segment must not be empty. */
static size_t segment_find(struct glob *glob, struct segment *segment, struct bytes text)
{
    if (segment->plain) {
        const char *at = memmem(text.data, text.len, segment->plain, segment->count);
        return at ? (size_t)(at - text.data) + segment->count : 0;
    }
    if (segment->count > STEPWISE_MAX)
        return find_by_bits(glob, segment, text);
    for (size_t t = 0; t + segment->count <= text.len; t++)
        if (segment_fits(segment, text.data + t))
            return t + segment->count;
    return 0;
}

bool glob_fits(struct glob *glob, struct bytes text)
{
    struct segment *first = &glob->segments[0];
    struct segment *last = &glob->segments[glob->segments_count - 1];
    if (text.len == 0)
        return glob->is_star || (glob->segments_count == 1 && first->count == 0);
    if (text.len < glob->length_min || !segment_fits(first, text.data))
        return false;
    if (first == last)
        return text.len == first->count;
    if (!segment_fits(last, text.data + text.len - last->count))
        return false;
    struct bytes rest = {text.data + first->count, text.len - first->count - last->count};
    for (struct segment *segment = first + 1; segment < last; segment++) {
        size_t used = segment_find(glob, segment, rest);
        if (!used)
            return false;
        rest.data += used;
        rest.len -= used;
    }
    return true;
}

/* ---- several patterns ---- */

struct globs {
    uint32_t count;
    struct glob *items[];
};

struct globs *globs_new(struct arena *arena, const struct bytes *patterns, uint32_t count,
                        bool nocase)
{
    struct globs *globs = arena_alloc(arena, sizeof *globs + count * sizeof *globs->items);
    globs->count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (glob_text_min(patterns[i], GLOB_NAME_MAX + 1) <= GLOB_NAME_MAX)
            globs->items[globs->count++] = glob_new(arena, patterns[i], nocase);
    return globs;
}

bool globs_fit(struct globs *globs, struct bytes name)
{
    CHECK(name.len <= GLOB_NAME_MAX);
    for (uint32_t i = 0; i < globs->count; i++)
        if (glob_fits(globs->items[i], name))
            return true;
    return false;
}
