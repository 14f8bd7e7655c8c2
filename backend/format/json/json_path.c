/*
 * json_path.c - parses a path by recursive descent, with one function for each rule of json_path.h.
 */
#include "backend/format/json/json_path.h"

#include "backend/format/json/json_segment.h"
#include "shared/number.h"

#include <stdio.h>

struct parser {
    struct arena *arena;
    struct bytes text;
    size_t at;
    unsigned depth; /* of nested filters */
    unsigned terms; /* && and || so far */
    char *error;
};

static bool path_error(struct parser *parser, const char *what)
{
    if (!*parser->error)
        (void)snprintf(parser->error, JSON_ERROR_MAX, "JSON Path error: %s at byte %zu", what,
                       parser->at + 1);
    return false;
}

/* The next character; 0 at the end of the path. */
static char peek(const struct parser *parser)
{
    return parser->at < parser->text.len ? parser->text.data[parser->at] : 0;
}

static bool accept_word(struct parser *parser, const char *word)
{
    size_t len = strlen(word);
    if (parser->text.len - parser->at < len ||
        memcmp(parser->text.data + parser->at, word, len) != 0)
        return false;
    parser->at += len;
    return true;
}

static void skip_spaces(struct parser *parser)
{
    while (peek(parser) == ' ' || peek(parser) == '\t')
        parser->at++;
}

/* ---- names, texts, integers ---- */

/* Reads a name after a dot, up to the beginning of the next segment. */
static bool read_name(struct parser *parser, struct bytes *name)
{
    size_t start = parser->at;
    while (parser->at < parser->text.len &&
           !memchr(".[]()=<>!&|,'\" \t", parser->text.data[parser->at], 17))
        parser->at++;
    *name = (struct bytes){parser->text.data + start, parser->at - start};
    return name->len || path_error(parser, "expected a name");
}

/* Finds the quote that closes the text which begins here. False: there is none. */
static bool find_closing_quote(const struct parser *parser, size_t *end)
{
    const struct bytes *text = &parser->text;
    for (*end = parser->at + 1; *end < text->len; ++*end) {
        if (text->data[*end] == text->data[parser->at])
            return true;
        *end += text->data[*end] == '\\';
    }
    return false;
}

static char unescaped(char c)
{
    static const char escapes[] = "b\bf\fn\nr\rt\t";
    for (const char *at = escapes; *at; at += 2)
        if (*at == c)
            return at[1];
    return c;
}

/* Reads a quoted text; a backslash quotes the next character, except in \n and similar escapes. */
static bool read_quoted(struct parser *parser, struct bytes *text)
{
    size_t end;
    if (!find_closing_quote(parser, &end)) {
        parser->at = parser->text.len;
        return path_error(parser, "a quote is not closed");
    }
    char *to = arena_alloc(parser->arena, end - parser->at);
    size_t len = 0;
    for (parser->at++; parser->at < end; parser->at++) {
        bool is_escaped = peek(parser) == '\\';
        parser->at += is_escaped;
        to[len++] = is_escaped ? unescaped(peek(parser)) : peek(parser);
    }
    parser->at++;
    *text = (struct bytes){to, len};
    return true;
}

static bool read_integer(struct parser *parser, int64_t *value)
{
    size_t start = parser->at;
    if (peek(parser) == '-')
        parser->at++;
    while (peek(parser) >= '0' && peek(parser) <= '9')
        parser->at++;
    struct bytes text = {parser->text.data + start, parser->at - start};
    return number_parse_int64(text, value) || path_error(parser, "expected an integer");
}

static bool starts_integer(const struct parser *parser)
{
    char c = peek(parser);
    return c == '-' || (c >= '0' && c <= '9');
}

/* ---- brackets ---- */

static bool read_filter(struct parser *parser, const struct json_filter **filter);

/* [from:to:step], of which the first number may have been read. */
static bool read_slice(struct parser *parser, struct json_selector *selector)
{
    selector->kind = SELECT_SLICE;
    selector->step = 1;
    parser->at++;
    skip_spaces(parser);
    if (starts_integer(parser)) {
        selector->has_to = true;
        if (!read_integer(parser, &selector->to))
            return false;
        skip_spaces(parser);
    }
    if (peek(parser) != ':')
        return true;
    parser->at++;
    skip_spaces(parser);
    return !starts_integer(parser) || read_integer(parser, &selector->step);
}

static bool read_selector(struct parser *parser, struct json_selector *selector)
{
    *selector = (struct json_selector){0};
    skip_spaces(parser);
    if (peek(parser) == '\'' || peek(parser) == '"') {
        selector->kind = SELECT_NAME;
        return read_quoted(parser, &selector->name);
    }
    if (accept_word(parser, "*")) {
        selector->kind = SELECT_ALL;
        return true;
    }
    if (accept_word(parser, "?")) {
        selector->kind = SELECT_FILTER;
        return read_filter(parser, &selector->filter);
    }
    if (starts_integer(parser)) {
        if (!read_integer(parser, &selector->index))
            return false;
        skip_spaces(parser);
        if (peek(parser) != ':') {
            selector->kind = SELECT_INDEX;
            return true;
        }
        selector->has_from = true;
        selector->from = selector->index;
    }
    return peek(parser) == ':' ? read_slice(parser, selector)
                               : path_error(parser, "expected a name, an index, * or a filter");
}

enum { SELECTOR_WORK = 10 };

/* False: the arena's meter is over. */
static bool append_selector(struct parser *parser, struct json_segment *segment,
                            const struct json_selector *selector)
{
    if ((segment->count & (segment->count - 1)) == 0) { /* full at each power of two */
        size_t cap = segment->count ? segment->count * 2UL : 1;
        struct json_selector *more = arena_alloc(parser->arena, cap * sizeof *more);
        if (segment->count)
            memcpy(more, segment->selectors, segment->count * sizeof *more);
        segment->selectors = more;
    }
    segment->selectors[segment->count++] = *selector;
    return arena_goes_on(parser->arena, SELECTOR_WORK) || path_error(parser, "parsing ended");
}

static bool read_bracket(struct parser *parser, struct json_segment *segment)
{
    struct json_selector selector;
    parser->at++;
    do {
        if (!read_selector(parser, &selector) || !append_selector(parser, segment, &selector))
            return false;
        skip_spaces(parser);
    } while (accept_word(parser, ","));
    return accept_word(parser, "]") || path_error(parser, "expected ]");
}

/* ---- segments ---- */

/* Reads what follows a dot: a name, * or a bracket. */
static bool read_dotted(struct parser *parser, struct json_segment *segment)
{
    struct json_selector selector = {.kind = SELECT_NAME};
    if (peek(parser) == '[')
        return read_bracket(parser, segment);
    if (accept_word(parser, "*"))
        selector.kind = SELECT_ALL;
    else if (!read_name(parser, &selector.name))
        return false;
    return append_selector(parser, segment, &selector);
}

static bool read_segment(struct parser *parser, struct json_segment *segment)
{
    *segment = (struct json_segment){.is_deep = accept_word(parser, "..")};
    if (segment->is_deep || accept_word(parser, "."))
        return read_dotted(parser, segment);
    return read_bracket(parser, segment);
}

static void append_segment(struct parser *parser, const struct json_segment *segment,
                           struct json_segment **segments, uint32_t *count)
{
    if ((*count & (*count - 1)) == 0) { /* full at each power of two */
        size_t cap = *count ? *count * 2UL : 1;
        struct json_segment *more = arena_alloc(parser->arena, cap * sizeof *more);
        if (*count)
            memcpy(more, *segments, *count * sizeof *more);
        *segments = more;
    }
    (*segments)[(*count)++] = *segment;
}

/* Reads all segments. `bare_name`: the first may be a name without a dot. */
static bool read_segments(struct parser *parser, bool bare_name, struct json_segment **segments,
                          uint32_t *count)
{
    struct json_segment segment = {0};
    *segments = NULL;
    *count = 0;
    if (bare_name) {
        if (!read_dotted(parser, &segment))
            return false;
        append_segment(parser, &segment, segments, count);
    }
    while (peek(parser) == '.' || peek(parser) == '[') {
        if (*count == JSON_SEGMENTS_MAX)
            return path_error(parser, "the path is too long");
        if (!read_segment(parser, &segment))
            return false;
        append_segment(parser, &segment, segments, count);
    }
    return true;
}

/* ---- filters ---- */

static bool read_literal(struct parser *parser, struct json_operand *operand)
{
    struct bytes text;
    char reason[JSON_ERROR_MAX];
    if (peek(parser) == '\'' || peek(parser) == '"') {
        if (!read_quoted(parser, &text))
            return false;
        operand->literal = json_new_string(text);
        return true;
    }
    size_t start = parser->at;
    while (parser->at < parser->text.len &&
           !memchr("]()=<>!&|, \t", parser->text.data[parser->at], 12))
        parser->at++;
    text = (struct bytes){parser->text.data + start, parser->at - start};
    operand->literal = text.len ? json_parse(text, reason) : NULL;
    return operand->literal || path_error(parser, "expected a path or a value");
}

static bool read_operand(struct parser *parser, struct json_operand *operand)
{
    *operand = (struct json_operand){0};
    skip_spaces(parser);
    char c = peek(parser);
    if (c != '@' && c != '$')
        return read_literal(parser, operand);
    parser->at++;
    operand->is_path = true;
    operand->from_root = c == '$';
    return read_segments(parser, false, &operand->segments, &operand->count);
}

static bool read_operator(struct parser *parser, enum filter_operator *operator)
{
    static const struct {
        const char *word;
        enum filter_operator operator;
    } words[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<=", OP_LE},
                 {">=", OP_GE}, {"<", OP_LT},  {">", OP_GT}};
    skip_spaces(parser);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (accept_word(parser, words[i].word)) {
            *operator= words[i].operator;
            return true;
        }
    return false;
}

static bool read_comparison(struct parser *parser, struct json_filter *filter)
{
    if (!read_operand(parser, &filter->left))
        return false;
    if (read_operator(parser, &filter->operator)) {
        filter->kind = FILTER_COMPARE;
        return read_operand(parser, &filter->right);
    }
    filter->kind = FILTER_EXISTS;
    return filter->left.is_path || path_error(parser, "expected a comparison");
}

static bool read_or(struct parser *parser, struct json_filter *filter);

static struct json_filter *filter_new(struct parser *parser)
{
    struct json_filter *filter = arena_alloc(parser->arena, sizeof *filter);
    *filter = (struct json_filter){0};
    return filter;
}

static bool read_not(struct parser *parser, struct json_filter *filter)
{
    bool good;
    skip_spaces(parser);
    if (parser->depth == JSON_FILTER_DEPTH_MAX)
        return path_error(parser, "the filter is nested too deeply");
    parser->depth++;
    if (accept_word(parser, "!")) {
        struct json_filter *inner = filter_new(parser);
        filter->kind = FILTER_NOT;
        filter->a = inner;
        good = read_not(parser, inner);
    } else if (accept_word(parser, "(")) {
        good = read_or(parser, filter);
        skip_spaces(parser);
        good = good && (accept_word(parser, ")") || path_error(parser, "expected )"));
    } else {
        good = read_comparison(parser, filter);
    }
    parser->depth--;
    return good;
}

/* Reads operands with `word` between them, such as a || b || c; left-associative. */
static bool read_chain(struct parser *parser, const char *word, enum filter_kind kind,
                       bool (*read)(struct parser *parser, struct json_filter *filter),
                       struct json_filter *filter)
{
    if (!read(parser, filter))
        return false;
    for (skip_spaces(parser); accept_word(parser, word); skip_spaces(parser)) {
        if (++parser->terms > JSON_FILTER_TERMS_MAX)
            return path_error(parser, "the filter has too many terms");
        struct json_filter *a = filter_new(parser);
        struct json_filter *b = filter_new(parser);
        *a = *filter;
        if (!read(parser, b))
            return false;
        *filter = (struct json_filter){.kind = kind, .a = a, .b = b};
    }
    return true;
}

static bool read_and(struct parser *parser, struct json_filter *filter)
{
    return read_chain(parser, "&&", FILTER_AND, read_not, filter);
}

static bool read_or(struct parser *parser, struct json_filter *filter)
{
    return read_chain(parser, "||", FILTER_OR, read_and, filter);
}

static bool read_filter(struct parser *parser, const struct json_filter **filter)
{
    struct json_filter *made = filter_new(parser);
    *filter = made;
    return read_or(parser, made);
}

/* ---- paths ---- */

bool json_path_parse(struct arena *arena, struct bytes text, struct json_path *path,
                     char error[JSON_ERROR_MAX])
{
    struct parser parser = {.arena = arena, .text = text, .error = error};
    *error = 0;
    *path = (struct json_path){.text = text, .is_legacy = peek(&parser) != '$'};
    if (text.len && !json_is_text(text))
        return path_error(&parser, "expected UTF-8 without NUL");
    if (!path->is_legacy)
        parser.at++;
    else if (text.len == 1 && *text.data == '.')
        return true;
    bool bare_name = path->is_legacy && peek(&parser) != '.' && peek(&parser) != '[';
    if (!read_segments(&parser, bare_name, &path->segments, &path->count))
        return false;
    return parser.at == text.len || path_error(&parser, "expected . or [");
}

bool json_path_ends_in_index(const struct json_path *path)
{
    const struct json_segment *last = path->count ? &path->segments[path->count - 1] : NULL;
    return last && !last->is_deep && last->count == 1 && last->selectors->kind == SELECT_INDEX;
}

bool json_path_split(const struct json_path *path, struct json_path *parent, struct bytes *name)
{
    if (path->count == 0)
        return false;
    const struct json_segment *last = &path->segments[path->count - 1];
    if (last->is_deep || last->count != 1 || last->selectors->kind != SELECT_NAME)
        return false;
    *name = last->selectors->name;
    *parent = *path;
    parent->count--;
    return true;
}
