/*
 * A star first matches nothing; when the rest of the pattern does not match, the last star takes one more byte and
 * the rest is tried again. Earlier stars need no second try: the last star can match whatever they could give up. So
 * the cost is at most pattern length times text length, without recursion; where this product is large, the pattern
 * is compiled first (glob_compiled.c), unless it matches longer texts only.
 *
 * Details of Redis' own matcher that we keep: an unclosed [class ends with the pattern, ranges compare signed bytes in
 * either order, a single \ at the end matches itself, and of all patterns with stars only "*" matches the empty text.
 */
#include "shared/glob.h"

#include "shared/glob_class.h"

/* Length of the pattern times length of the text: above this, compiling the pattern first is faster. */
enum { WORK_MAX = 64 * 1024 };

signed char glob_fold(char c, bool nocase)
{
    return (signed char)(nocase && c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
}

/* One item of a class: a byte, a range, or an escaped byte, which is always compared with its case. */
struct item {
    signed char from;
    signed char to;
    bool is_exact;
};

/* Reads the item at *at and advances *at. False: the class ends here. */
static bool class_next(struct bytes pattern, size_t *at, struct item *item)
{
    const char *p = pattern.data + *at;
    size_t left = pattern.len - *at;
    if (left == 0 || *p == ']')
        return false;
    *item = (struct item){p[0], p[0], false};
    if (left >= 2 && p[0] == '\\') {
        *item = (struct item){p[1], p[1], true};
        *at += 2;
    } else if (left >= 3 && p[1] == '-') {
        item->to = p[2];
        *at += 3;
    } else {
        *at += 1;
    }
    return true;
}

static bool item_matches(const struct item *item, char c, bool nocase)
{
    signed char first = glob_fold(item->from, nocase);
    signed char last = glob_fold(item->to, nocase);
    signed char at = glob_fold(c, nocase);
    if (item->is_exact)
        return item->from == (signed char)c;
    return item->from <= item->to ? at >= first && at <= last : at >= last && at <= first;
}

/* Is the class that begins at *at negated? If so, advances *at to after the ^. */
static bool class_begin(struct bytes pattern, size_t *at)
{
    bool negated = *at < pattern.len && pattern.data[*at] == '^';
    *at += negated;
    return negated;
}

/* Does the class whose '[' is before *at contain `c`? Advances *at to after the class. */
static bool match_class(struct bytes pattern, size_t *at, char c, bool nocase)
{
    struct item item;
    bool found = false;
    bool negated = class_begin(pattern, at);
    while (class_next(pattern, at, &item))
        found |= item_matches(&item, c, nocase);
    *at += *at < pattern.len;
    return found != negated;
}

/* Adds the bytes of an item that compares bytes as glob_fold gives them. */
static void add_folded(struct glob_set *set, const struct item *item, bool nocase)
{
    bool is_swapped = item->from > item->to;
    signed char from = glob_fold(is_swapped ? item->to : item->from, nocase);
    signed char to = glob_fold(is_swapped ? item->from : item->to, nocase);
    if (from < 0)
        glob_set_add_range(set, (uint8_t)from, to < 0 ? (uint8_t)to : UINT8_MAX);
    if (to >= 0)
        glob_set_add_range(set, from < 0 ? 0 : (uint8_t)from, (uint8_t)to);
}

/* A capital letter is in the set if the small one is. */
static void unfold(struct glob_set *set)
{
    for (uint8_t c = 'A'; c <= 'Z'; c++)
        if (glob_set_has(set, (uint8_t)glob_fold((char)c, true)))
            glob_set_add(set, c);
        else
            glob_set_remove(set, c);
}

struct glob_set glob_read_class(struct bytes pattern, size_t *at, bool nocase)
{
    struct item item;
    struct glob_set set = {{0}};
    struct glob_set exact = {{0}};
    bool negated = class_begin(pattern, at);
    while (class_next(pattern, at, &item))
        if (item.is_exact)
            glob_set_add(&exact, (uint8_t)item.from);
        else
            add_folded(&set, &item, nocase);
    *at += *at < pattern.len;
    if (nocase)
        unfold(&set);
    for (int i = 0; i < 4; i++)
        set.bits[i] = (set.bits[i] | exact.bits[i]) ^ (negated ? ~0ULL : 0);
    return set;
}

static void skip_class(struct bytes pattern, size_t *at)
{
    struct item item;
    (void)class_begin(pattern, at);
    while (class_next(pattern, at, &item))
        continue;
    *at += *at < pattern.len;
}

size_t glob_text_min(struct bytes pattern, size_t enough)
{
    size_t count = 0;
    for (size_t at = 0; at < pattern.len && count < enough;) {
        char c = pattern.data[at++];
        count += c != '*';
        if (c == '[')
            skip_class(pattern, &at);
        else if (c == '\\' && at < pattern.len)
            at++;
    }
    return count;
}

/* Matches one byte against the element at *at, which is not a star. Advances *at to after the element. */
static bool match_one(struct bytes pattern, size_t *at, char c, bool nocase)
{
    char element = pattern.data[(*at)++];
    if (element == '?')
        return true;
    if (element == '[')
        return match_class(pattern, at, c, nocase);
    if (element == '\\' && *at < pattern.len)
        element = pattern.data[(*at)++];
    return glob_fold(element, nocase) == glob_fold(c, nocase);
}

static bool match(struct bytes pattern, struct bytes text, bool nocase)
{
    if (pattern.len == 1 && pattern.data[0] == '*')
        return true;
    if (text.len == 0)
        return pattern.len == 0;

    size_t p = 0;
    size_t t = 0;
    size_t star = SIZE_MAX; /* pattern index after the last star */
    size_t taken = 0;       /* text index at which the rest after the last star is tried */
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

/* `goes_on` NULL: nothing is asked. */
static bool match_any(struct bytes pattern, struct bytes text, bool nocase,
                      glob_goes_on_fn *goes_on, void *owner)
{
    if (text.len <= WORK_MAX / (pattern.len + 1))
        return match(pattern, text, nocase);
    if (glob_text_min(pattern, text.len + 1) > text.len)
        return false;
    struct arena arena;
    arena_init(&arena);
    struct glob *glob = glob_new(&arena, pattern, nocase);
    glob_ask(glob, goes_on, owner);
    bool fits = glob_fits(glob, text);
    arena_fini(&arena);
    return fits;
}

bool glob_match(struct bytes pattern, struct bytes text)
{
    return match_any(pattern, text, false, NULL, NULL);
}

bool glob_match_asking(struct bytes pattern, struct bytes text, glob_goes_on_fn *goes_on,
                       void *owner)
{
    return match_any(pattern, text, false, goes_on, owner);
}

bool glob_match_nocase(struct bytes pattern, struct bytes text)
{
    return match_any(pattern, text, true, NULL, NULL);
}

size_t glob_plain_length(struct bytes pattern)
{
    size_t i = 0;
    while (i < pattern.len && !(strchr("*?[\\", pattern.data[i]) && pattern.data[i] != '\0'))
        i++;
    return i;
}

bool glob_is_literal(struct bytes pattern)
{
    return glob_plain_length(pattern) == pattern.len;
}
