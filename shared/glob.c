/*
 * A star first takes nothing; when the rest does not match, the last star takes one byte more and
 * the rest is tried again. Earlier stars never need another try: whatever they could leave over,
 * the last star can take. So the cost is at most pattern times text, with no recursion.
 *
 * Redis' odd corners are kept: an unclosed [class ends with the pattern, ranges compare signed
 * bytes in either order, a lone \ at the end is itself, and of all patterns with stars only "*"
 * matches the empty text.
 */
#include "shared/glob.h"

static signed char fold(char c, bool nocase)
{
    return (signed char)(nocase && c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
}

static bool in_range(signed char from, signed char to, signed char c, bool nocase)
{
    signed char first = fold(from, nocase);
    signed char last = fold(to, nocase);
    signed char at = fold(c, nocase);
    return from <= to ? at >= first && at <= last : at >= last && at <= first;
}

/* Does `c` belong to the class whose '[' stands before *at? Moves *at behind the class. */
static bool match_class(struct bytes pattern, size_t *at, char c, bool nocase)
{
    const char *p = pattern.data;
    size_t i = *at;
    bool negated = i < pattern.len && p[i] == '^';
    bool found = false;
    if (negated)
        i++;
    for (; i < pattern.len && p[i] != ']'; i++) {
        size_t left = pattern.len - i;
        if (left >= 2 && p[i] == '\\') {
            i++;
            found |= p[i] == c;
        } else if (left >= 3 && p[i + 1] == '-') {
            found |= in_range(p[i], p[i + 2], c, nocase);
            i += 2;
        } else {
            found |= fold(p[i], nocase) == fold(c, nocase);
        }
    }
    *at = i < pattern.len ? i + 1 : i;
    return found != negated;
}

/* Matches one byte against the element at *at (not a star). Moves *at behind the element. */
static bool match_one(struct bytes pattern, size_t *at, char c, bool nocase)
{
    char element = pattern.data[(*at)++];
    if (element == '?')
        return true;
    if (element == '[')
        return match_class(pattern, at, c, nocase);
    if (element == '\\' && *at < pattern.len)
        element = pattern.data[(*at)++];
    return fold(element, nocase) == fold(c, nocase);
}

static bool match(struct bytes pattern, struct bytes text, bool nocase)
{
    if (pattern.len == 1 && pattern.data[0] == '*')
        return true;
    if (text.len == 0)
        return pattern.len == 0;

    size_t p = 0;
    size_t t = 0;
    size_t star = SIZE_MAX; /* behind the last star */
    size_t taken = 0;       /* text that the last star leaves to the rest begins here */
    while (t < text.len) {
        if (p < pattern.len && pattern.data[p] == '*') {
            star = ++p;
            taken = t;
            if (p == pattern.len)
                return true;
            continue;
        }
        if (p < pattern.len && match_one(pattern, &p, text.data[t], nocase)) {
            t++;
            continue;
        }
        if (star == SIZE_MAX)
            return false;
        p = star;
        t = ++taken;
    }
    while (p < pattern.len && pattern.data[p] == '*')
        p++;
    return p == pattern.len;
}

bool glob_match(struct bytes pattern, struct bytes text)
{
    return match(pattern, text, false);
}

bool glob_match_nocase(struct bytes pattern, struct bytes text)
{
    return match(pattern, text, true);
}

bool glob_is_literal(struct bytes pattern)
{
    for (size_t i = 0; i < pattern.len; i++)
        if (strchr("*?[\\", pattern.data[i]) && pattern.data[i] != '\0')
            return false;
    return true;
}
