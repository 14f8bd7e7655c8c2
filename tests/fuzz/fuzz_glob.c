/*
 * fuzz_glob.c - glob_match compared with a simple matcher, which turns the pattern into sets of bytes and fills a table
 * of all (pattern, text) positions.
 *
 * Input: 1 byte length of the pattern, the pattern, the text.
 */
#include "shared/check.h"
#include "shared/glob.h"

#include <ctype.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum { PATTERN_MAX = 64, TEXT_MAX = 128 };

struct element {
    bool is_star;
    bool takes[256];
};

static int lower(int c, bool nocase)
{
    return nocase && c >= 'A' && c <= 'Z' ? tolower(c) : c;
}

static void add_range(struct element *element, int from, int to, bool nocase)
{
    int low = lower(from < to ? from : to, nocase);
    int high = lower(from < to ? to : from, nocase);
    for (int c = -128; c < 128; c++)
        if (lower(c, nocase) >= low && lower(c, nocase) <= high)
            element->takes[(uint8_t)c] = true;
}

/* Reads the class after '['; returns the position after the class. */
static size_t read_class(const char *pattern, size_t len, size_t at, bool nocase,
                         struct element *element)
{
    bool negated = at < len && pattern[at] == '^';
    at += negated;
    while (at < len && pattern[at] != ']') {
        if (pattern[at] == '\\' && at + 1 < len) {
            element->takes[(uint8_t)pattern[at + 1]] = true;
            at += 2;
        } else if (at + 2 < len && pattern[at + 1] == '-') {
            add_range(element, (signed char)pattern[at], (signed char)pattern[at + 2], nocase);
            at += 3;
        } else {
            add_range(element, (signed char)pattern[at], (signed char)pattern[at], nocase);
            at++;
        }
    }
    for (int c = 0; c < 256; c++)
        element->takes[c] ^= negated;
    return at < len ? at + 1 : at;
}

static size_t read_elements(struct bytes pattern, bool nocase, struct element *elements)
{
    size_t count = 0;
    for (size_t at = 0; at < pattern.len; count++) {
        struct element *element = &elements[count];
        *element = (struct element){0};
        char c = pattern.data[at++];
        if (c == '*') {
            element->is_star = true;
        } else if (c == '?') {
            memset(element->takes, true, sizeof(element->takes));
        } else if (c == '[') {
            at = read_class(pattern.data, pattern.len, at, nocase, element);
        } else {
            if (c == '\\' && at < pattern.len)
                c = pattern.data[at++];
            add_range(element, (signed char)c, (signed char)c, nocase);
        }
    }
    return count;
}

static bool naive_match(struct bytes pattern, struct bytes text, bool nocase)
{
    static struct element elements[PATTERN_MAX];
    /* [p][t]: does the rest of the pattern match the rest of the text? */
    static bool table[PATTERN_MAX + 1][TEXT_MAX + 1];
    if (text.len == 0)
        return pattern.len == 0 || bytes_equal(pattern, BYTES("*"));
    size_t count = read_elements(pattern, nocase, elements);
    for (size_t p = count + 1; p-- > 0;)
        for (size_t t = text.len + 1; t-- > 0;) {
            bool left = t < text.len;
            if (p == count)
                table[p][t] = !left;
            else if (elements[p].is_star)
                table[p][t] = table[p + 1][t] || (left && table[p][t + 1]);
            else
                table[p][t] =
                    left && elements[p].takes[(uint8_t)text.data[t]] && table[p + 1][t + 1];
        }
    return table[0][0];
}

static bool fits(struct bytes pattern, struct bytes text, bool nocase)
{
    struct arena arena;
    arena_init(&arena);
    bool result = glob_fits(glob_new(&arena, pattern, nocase), text);
    arena_fini(&arena);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    if (size < 1)
        return 0;
    size_t len = input[0] % (PATTERN_MAX + 1);
    if (len > size - 1)
        len = size - 1;
    size_t rest = size - 1 - len;
    struct bytes pattern = {(const char *)input + 1, len};
    struct bytes text = {(const char *)input + 1 + len, rest < TEXT_MAX ? rest : TEXT_MAX};
    CHECK(glob_match(pattern, text) == naive_match(pattern, text, false));
    CHECK(glob_match_nocase(pattern, text) == naive_match(pattern, text, true));
    CHECK(fits(pattern, text, false) == naive_match(pattern, text, false));
    CHECK(fits(pattern, text, true) == naive_match(pattern, text, true));
    if (glob_is_literal(pattern))
        CHECK(glob_match(pattern, text) == bytes_equal(pattern, text));
    return 0;
}
